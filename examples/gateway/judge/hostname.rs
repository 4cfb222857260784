//! The common hostnames of routes and listeners. *(pure)*

/// The common hostnames of a route and a listener.
///
/// A listener without a hostname, and a route without hostnames, match all hostnames, printed as
/// `*`.
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

/// Whether two listeners have a hostname in common.
pub(super) fn overlap(one: Option<&str>, other: Option<&str>) -> bool {
    match (one, other) {
        (Some(one), Some(other)) => narrower(one, other).is_some(),
        _ => true,
    }
}

/// The more specific of two hostnames, if the other one covers it.
fn narrower<'h>(one: &'h str, other: &'h str) -> Option<&'h str> {
    if covers(one, other) {
        Some(other)
    } else {
        covers(other, one).then_some(one)
    }
}

/// Whether `wide` equals `narrow` or is a wildcard that covers it: `*.shop.io` covers all levels
/// below `shop.io`, but not `shop.io`.
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
            // An exact name matches itself.
            ("a.io", "a.io b.io", "a.io"),
            ("a.io", "b.io", ""),
            // A wildcard matches all levels below it, but not its parent.
            ("*.a.io", "x.a.io", "x.a.io"),
            ("*.a.io", "x.y.a.io", "x.y.a.io"),
            ("*.a.io", "a.io", ""),
            ("*.a.io", "xa.io", ""),
            ("x.a.io", "*.a.io", "x.a.io"),
            // Of two wildcards, the more specific one.
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
