//! Hostnames: which of a route's are also a listener's. *(pure)*

/// The hostnames that a route gets at a listener: none where the two have none in common.
///
/// A listener without a hostname takes all, and a route without hostnames wants all, which
/// shows as `*`.
pub(super) fn common(listener: Option<&str>, route: &[String]) -> Vec<String> {
    if route.is_empty() {
        return vec![listener.unwrap_or("*").to_owned()];
    }
    let hostnames = route.iter().filter_map(|wanted| match listener {
        Some(offered) => narrower(offered, wanted),
        None => Some(wanted.as_str()),
    });
    hostnames.map(str::to_owned).collect()
}

/// Whether two listeners hear a hostname in common.
pub(super) fn overlap(one: Option<&str>, other: Option<&str>) -> bool {
    match (one, other) {
        (Some(one), Some(other)) => narrower(one, other).is_some(),
        _ => true,
    }
}

/// The narrower of two hostnames, if it is part of the other.
fn narrower<'h>(one: &'h str, other: &'h str) -> Option<&'h str> {
    if covers(one, other) {
        Some(other)
    } else {
        covers(other, one).then_some(one)
    }
}

/// Whether `wide` is `narrow`, or a wildcard for it: `*.shop.io` is for everything below
/// `shop.io`, however deep, and not for `shop.io`.
fn covers(wide: &str, narrow: &str) -> bool {
    match wide.strip_prefix('*') {
        Some(suffix) => narrow.ends_with(suffix),
        None => wide == narrow,
    }
}

#[cfg(test)]
mod tests {
    use super::common;

    #[test]
    fn common_hostnames_of_route_and_listener() {
        for (listener, route, expected) in [
            // Without hostnames, everything.
            ("", "", "*"),
            ("", "a.io b.io", "a.io b.io"),
            ("a.io", "", "a.io"),
            ("*.a.io", "", "*.a.io"),
            // An exact name is itself.
            ("a.io", "a.io b.io", "a.io"),
            ("a.io", "b.io", ""),
            // A wildcard is for what is below it, however deep, and not for its top.
            ("*.a.io", "x.a.io", "x.a.io"),
            ("*.a.io", "x.y.a.io", "x.y.a.io"),
            ("*.a.io", "a.io", ""),
            ("*.a.io", "xa.io", ""),
            ("x.a.io", "*.a.io", "x.a.io"),
            // Of two wildcards, the narrower.
            ("*.a.io", "*.a.io", "*.a.io"),
            ("*.a.io", "*.x.a.io", "*.x.a.io"),
            ("*.x.a.io", "*.a.io", "*.x.a.io"),
            ("*.a.io", "*.b.io", ""),
            ("*.a.io", "*.ba.io", ""),
        ] {
            let route: Vec<String> = route.split_whitespace().map(str::to_owned).collect();
            let listener = Some(listener).filter(|listener| !listener.is_empty());
            let common = common(listener, &route).join(" ");
            assert_eq!(common, expected, "{listener:?} and {route:?}");
        }
    }
}
