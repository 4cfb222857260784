//! Addresses and names of networks.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// An IPv4 address, or one written as IPv6 with dots.
pub(super) fn is_ipv4(text: &str) -> bool {
    ipv4(text).is_some() || mapped_ipv4(text)
}

pub(super) fn is_ipv6(text: &str) -> bool {
    text.contains(':') && text.parse::<Ipv6Addr>().is_ok()
}

/// An IPv4 address, leading zeros forgiven, as old versions of Go did.
fn ipv4(text: &str) -> Option<Ipv4Addr> {
    let mut octets = [0; 4];
    let mut parts = text.split('.');
    for octet in &mut octets {
        let part = parts.next()?;
        if part.is_empty() || !part.bytes().all(|b| b.is_ascii_digit()) {
            return None;
        }
        let digits = part.trim_start_matches('0');
        *octet = if digits.is_empty() {
            0
        } else {
            digits.parse().ok()?
        };
    }
    parts.next().is_none().then(|| octets.into())
}

/// `::ffff:10.0.0.1`, which Kubernetes takes for IPv4 because of its dots.
fn mapped_ipv4(text: &str) -> bool {
    text.contains('.') && text.parse::<Ipv6Addr>().is_ok()
}

pub(super) fn is_cidr(text: &str) -> bool {
    let Some((address, bits)) = text.split_once('/') else {
        return false;
    };
    let most = if ipv4(address).is_some() {
        32
    } else if address.parse::<Ipv6Addr>().is_ok() {
        128
    } else {
        return false;
    };
    let digits = !bits.is_empty() && bits.bytes().all(|b| b.is_ascii_digit());
    digits && bits.parse::<u8>().is_ok_and(|bits| bits <= most)
}

pub(super) fn is_email(text: &str) -> bool {
    // `Name <address>` is an address to Go's mail parser too.
    let address = match (text.rfind('<'), text.strip_suffix('>')) {
        (Some(at), Some(open)) => &open[at + 1..],
        _ => text,
    };
    let Some((local, domain)) = address.rsplit_once('@') else {
        return false;
    };
    let atoms = |text: &str| {
        text.split('.').all(|atom| {
            !atom.is_empty()
                && atom.chars().all(|c| {
                    c.is_ascii_alphanumeric() || "!#$%&'*+-/=?^_`{|}~".contains(c) || !c.is_ascii()
                })
        })
    };
    let quoted = local.len() > 2 && local.starts_with('"') && local.ends_with('"');
    let literal = domain
        .strip_prefix('[')
        .and_then(|domain| domain.strip_suffix(']'));
    let is_domain = match literal {
        Some(address) => address.parse::<IpAddr>().is_ok(),
        None => atoms(domain),
    };
    (quoted || atoms(local)) && is_domain
}

pub(super) fn is_hostname(text: &str) -> bool {
    let labels: Vec<_> = text.split('.').collect();
    let plain = |c: char| c.is_ascii_alphanumeric() || (!c.is_ascii() && c.is_alphabetic());
    let label = |label: &&str| {
        (1..=63).contains(&label.len())
            && label.chars().all(|c| plain(c) || c == '-')
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    let top = labels.last().copied().unwrap_or_default();
    if labels.len() == 1 {
        // One dash at most, after the first letter.
        let mut letters = top.chars();
        let first = letters.next().is_some_and(plain);
        let rest = letters.as_str();
        let rest = rest.strip_prefix('-').unwrap_or(rest);
        return first && top.len() <= 63 && rest.chars().all(plain);
    }
    // A name of several labels ends in letters.
    let top_is_right = top.chars().count() >= 2 && top.chars().all(char::is_alphabetic);
    text.len() <= 255 && labels.iter().all(label) && top_is_right
}

pub(super) fn is_mac(text: &str) -> bool {
    let hex = |part: &str, length: usize| {
        part.len() == length && part.bytes().all(|b| b.is_ascii_hexdigit())
    };
    let groups = |by: char, length: usize, counts: [usize; 3]| {
        let parts: Vec<_> = text.split(by).collect();
        counts.contains(&parts.len()) && parts.iter().all(|part| hex(part, length))
    };
    groups(':', 2, [6, 8, 20]) || groups('-', 2, [6, 8, 20]) || groups('.', 4, [3, 4, 10])
}

/// Whether Go's `url.ParseRequestURI` accepts a text: an absolute URI, or an absolute path.
pub(super) fn is_uri(text: &str) -> bool {
    if text.is_empty() || text.bytes().any(|b| b.is_ascii_control()) {
        return false;
    }
    if text.starts_with('/') || text == "*" {
        return escapes_are_whole(text);
    }
    let Some((scheme, rest)) = text.split_once(':') else {
        return false;
    };
    let known = scheme.starts_with(|c: char| c.is_ascii_alphabetic())
        && scheme
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'-' | b'.'));
    let Some(rest) = rest.strip_prefix("//") else {
        return known && escapes_are_whole(rest);
    };
    let end = rest.find(['/', '?']).unwrap_or(rest.len());
    let (authority, path) = rest.split_at(end);
    let (user, host) = authority.rsplit_once('@').unwrap_or(("", authority));
    let is_user = user
        .chars()
        .all(|c| c.is_ascii_alphanumeric() || "-._:~!$&'()*+,;=%@".contains(c));
    known && is_user && escapes_are_whole(user) && is_host_and_port(host) && escapes_are_whole(path)
}

fn is_host_and_port(text: &str) -> bool {
    let (host, after) = match text.strip_prefix('[') {
        Some(rest) => match rest.split_once(']') {
            Some(parts) => parts,
            None => return false,
        },
        None => text.split_at(text.rfind(':').unwrap_or(text.len())),
    };
    let port = after.strip_prefix(':').unwrap_or(after);
    let separated = after.is_empty() || after.starts_with(':');
    separated
        && port.bytes().all(|b| b.is_ascii_digit())
        && !host.contains([' ', '"', '<', '>', '\\', '^', '`', '{', '|', '}'])
        && escapes_are_whole(host)
        // In a host, only non-ASCII characters are escaped.
        && host.split('%').skip(1).all(|after| {
            after.starts_with("25") || after.starts_with(['8', '9']) || after.starts_with(|c: char| {
                c.is_ascii_alphabetic()
            })
        })
}

/// Whether each `%` has its two digits.
fn escapes_are_whole(text: &str) -> bool {
    text.split('%').skip(1).all(|after| {
        after
            .as_bytes()
            .get(..2)
            .is_some_and(|two| two.iter().all(u8::is_ascii_hexdigit))
    })
}
