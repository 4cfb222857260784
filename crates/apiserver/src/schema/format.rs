//! The formats that Kubernetes checks, and no others.
//!
//! A format that is not known for the type is dropped, as a real API server drops it.
//! Not checked although Kubernetes does: `bsonobjectid`, `creditcard`, `isbn*`, `ssn`.
//!
//! Source: apiextensions-apiserver `pkg/apiserver/validation/formats.go` and kube-openapi
//! `pkg/validation/strfmt`, Kubernetes 1.36, for what each format accepts.

use std::net::{Ipv4Addr, Ipv6Addr};

use super::node::{Type, Types};

/// A format, with the name it was written in.
#[derive(Clone, Debug)]
pub(super) struct Format {
    pub(super) name: String,
    pub(super) check: Check,
}

/// How a format is checked.
#[derive(Clone, Copy, Debug)]
pub(super) enum Check {
    Text(fn(&str) -> bool),
    Int32,
    Int64,
    Float,
    Double,
}

// === impl Format ===

impl Format {
    /// The format called `name` for a value of `types`, if it is one that is checked.
    pub(super) fn named(name: &str, types: Types) -> Option<Self> {
        let check = match types {
            Types::Any | Types::IntOrString | Types::One(Type::String) => Check::Text(text(name)?),
            Types::One(Type::Integer) => match name {
                "int32" => Check::Int32,
                "int64" => Check::Int64,
                _ => return None,
            },
            Types::One(Type::Number) => match name {
                "float" => Check::Float,
                "double" => Check::Double,
                _ => return None,
            },
            Types::One(Type::Array | Type::Boolean | Type::Object) => return None,
        };
        Some(Self {
            name: name.to_owned(),
            check,
        })
    }
}

fn text(name: &str) -> Option<fn(&str) -> bool> {
    // Dashes do not count: `date-time` is `datetime`.
    Some(match name.replace('-', "").as_str() {
        "byte" => is_base64,
        "cidr" => is_cidr,
        "date" => is_date,
        "datetime" => is_date_time,
        "duration" => is_duration,
        "email" => is_email,
        "hexcolor" => is_hex_color,
        "hostname" => is_hostname,
        "ipv4" => |text| ipv4(text).is_some() || mapped_ipv4(text),
        "ipv6" => |text| text.contains(':') && text.parse::<Ipv6Addr>().is_ok(),
        "k8slongname" => is_long_name,
        "k8sshortname" => is_short_name,
        "mac" => is_mac,
        "password" => |_| true,
        "rgbcolor" => is_rgb_color,
        "uri" => is_uri,
        "uuid" => |text| is_uuid(text, None),
        "uuid3" => |text| is_uuid(text, Some('3')),
        "uuid4" => |text| is_uuid(text, Some('4')),
        "uuid5" => |text| is_uuid(text, Some('5')),
        _ => return None,
    })
}

fn is_base64(text: &str) -> bool {
    let body = text.trim_end_matches('=');
    !text.is_empty()
        && text.len().is_multiple_of(4)
        && text.len() - body.len() <= 2
        && body
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'/'))
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

fn is_cidr(text: &str) -> bool {
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

fn is_date(text: &str) -> bool {
    let shape = text.len() == 10
        && text.bytes().enumerate().all(|(i, b)| match i {
            4 | 7 => b == b'-',
            _ => b.is_ascii_digit(),
        });
    shape && text.parse::<jiff::civil::Date>().is_ok()
}

/// RFC 3339's date-time: a date, `T`, a time and an offset, in either case.
fn is_date_time(text: &str) -> bool {
    let Some((date, time)) = text.split_once(['T', 't']) else {
        return false;
    };
    let bytes = time.as_bytes();
    if !is_date(date) || bytes.len() < 9 || !time.is_ascii() {
        return false;
    }
    let two = |at: usize, most: u8| {
        bytes[at].is_ascii_digit()
            && bytes[at + 1].is_ascii_digit()
            && (bytes[at] - b'0') * 10 + (bytes[at + 1] - b'0') <= most
    };
    if !(two(0, 23) && bytes[2] == b':' && two(3, 59) && bytes[5] == b':' && two(6, 59)) {
        return false;
    }
    let rest = &time[8..];
    let offset = match rest.strip_prefix('.') {
        Some(fraction) => {
            let offset = fraction.trim_start_matches(|c: char| c.is_ascii_digit());
            if offset.len() == fraction.len() {
                return false;
            }
            offset
        }
        None => rest,
    };
    match offset.as_bytes() {
        [b'Z' | b'z'] => true,
        [b'+' | b'-', h1, h2, b':', m1, m2] => [h1, h2, m1, m2].into_iter().all(u8::is_ascii_digit),
        _ => false,
    }
}

/// Go's `1h30m`, or Scala's `3 days`.
fn is_duration(text: &str) -> bool {
    if text == "0" {
        return true;
    }
    let mut rest = text.trim_start_matches(['+', '-']);
    let mut found = false;
    while !rest.is_empty() {
        let unit = rest.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.');
        if unit.len() == rest.len() {
            return false;
        }
        let unit = unit.trim_start();
        let end = unit
            .find(|c: char| !c.is_alphabetic())
            .unwrap_or(unit.len());
        let (name, after) = unit.split_at(end);
        let name = name.to_ascii_lowercase();
        let known = ["ns", "us", "µs", "μs", "ms", "s", "m", "h", "d", "w"]
            .contains(&name.as_str())
            || [
                "nano", "micro", "milli", "sec", "min", "hour", "hr", "day", "week", "wk",
            ]
            .iter()
            .any(|unit| name.starts_with(unit));
        if !known {
            return false;
        }
        found = true;
        rest = after.trim_start();
    }
    found
}

fn is_email(text: &str) -> bool {
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
    (quoted || atoms(local)) && atoms(domain)
}

fn is_hex_color(text: &str) -> bool {
    let digits = text.strip_prefix('#').unwrap_or(text);
    matches!(digits.len(), 3 | 6) && digits.bytes().all(|b| b.is_ascii_hexdigit())
}

fn is_rgb_color(text: &str) -> bool {
    let Some(body) = text
        .strip_prefix("rgb(")
        .and_then(|text| text.strip_suffix(')'))
    else {
        return false;
    };
    let parts: Vec<_> = body.split(',').map(str::trim).collect();
    parts.len() == 3
        && parts.iter().all(|part| {
            (*part == "0" || !part.starts_with(['0', '+'])) && part.parse::<u8>().is_ok()
        })
}

fn is_hostname(text: &str) -> bool {
    let labels: Vec<_> = text.split('.').collect();
    let plain = |c: char| c.is_ascii_alphanumeric() || (!c.is_ascii() && c.is_alphabetic());
    let label = |label: &&str| {
        (1..=63).contains(&label.len())
            && label.chars().all(|c| plain(c) || c == '-')
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    let top = labels.last().copied().unwrap_or_default();
    // A name of several labels ends in letters; one label stands for itself.
    let top_is_right =
        labels.len() == 1 || (top.chars().count() >= 2 && top.chars().all(char::is_alphabetic));
    text.len() <= 255 && labels.iter().all(label) && top_is_right
}

fn is_short_name(text: &str) -> bool {
    let inner = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    (1..=63).contains(&text.len())
        && text.bytes().all(inner)
        && !text.starts_with('-')
        && !text.ends_with('-')
}

fn is_long_name(text: &str) -> bool {
    let inner = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    let label = |label: &str| {
        !label.is_empty()
            && label.bytes().all(inner)
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    text.len() <= 253 && text.split('.').all(label)
}

fn is_mac(text: &str) -> bool {
    let hex = |part: &str, length: usize| {
        part.len() == length && part.bytes().all(|b| b.is_ascii_hexdigit())
    };
    let groups = |by: char, length: usize, counts: [usize; 3]| {
        let parts: Vec<_> = text.split(by).collect();
        counts.contains(&parts.len()) && parts.iter().all(|part| hex(part, length))
    };
    groups(':', 2, [6, 8, 20]) || groups('-', 2, [6, 8, 20]) || groups('.', 4, [3, 4, 10])
}

/// What Go's `url.ParseRequestURI` takes: an absolute URI, or an absolute path.
fn is_uri(text: &str) -> bool {
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
    let host = authority
        .rsplit_once('@')
        .map_or(authority, |(_, host)| host);
    known && is_host_and_port(host) && escapes_are_whole(path)
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

fn is_uuid(text: &str, version: Option<char>) -> bool {
    let digits: Vec<_> = text.chars().filter(|c| *c != '-').collect();
    let dashes_are_right = {
        // Each dash is optional, at its own place.
        let mut digits = 0;
        let mut last_was_dash = false;
        text.chars().all(|c| {
            let right = c != '-' || (!last_was_dash && matches!(digits, 8 | 12 | 16 | 20));
            last_was_dash = c == '-';
            digits += usize::from(c != '-');
            right
        })
    };
    let variant = match version {
        Some('4' | '5') => matches!(digits.get(16), Some('8' | '9' | 'a' | 'b' | 'A' | 'B')),
        _ => true,
    };
    digits.len() == 32
        && dashes_are_right
        && digits.iter().all(char::is_ascii_hexdigit)
        && version.is_none_or(|version| digits[12] == version)
        && variant
}

#[cfg(test)]
mod tests {
    use super::{Check, Format, Type, Types};

    #[test]
    fn formats_take_what_kubernetes_takes() {
        check("byte", "YQ== YWI=", "a YQ= Y$==");
        check(
            "cidr",
            "10.0.0.0/8 ::/0",
            "10.0.0.0 10.0.0.0/33 x/8 1.1.1.1/",
        );
        check("date", "2024-02-29", "2023-02-29 2024-2-9 now");
        check(
            "date-time",
            "2024-01-02T03:04:05Z 2024-01-02t03:04:05.123456z 2024-01-02T03:04:05+01:00",
            "2024-01-02 2024-01-02T25:00:00Z 2024-01-02T03:04:05 2024-13-02T03:04:05Z T é",
        );
        check("duration", "1h30m 15s 0 -2ms 1.5h", "1 h fast 3x");
        check("email", "a@b.c a.b+c@example.com", "a a@ @b a@b..c");
        check("hexcolor", "#fff #A0B1C2", "#ff green");
        check(
            "hostname",
            "a example.com a-b.example.com",
            "-a a..b a.1 ex_ample.com",
        );
        check("ipv4", "10.0.0.1 010.0.0.1", "10.0.0 10.0.0.256 ::1 a");
        check("ipv6", "::1 fe80::1", "10.0.0.1 :::");
        check("k8s-short-name", "a a-b 1", "A a.b -a");
        check("k8s-long-name", "a a.b", "A a..b");
        check(
            "mac",
            "01:23:45:67:89:ab 01-23-45-67-89-ab 0123.4567.89ab",
            "01:23 x",
        );
        check("rgbcolor", "rgb(0,255,7)", "rgb(0,256,0) rgb(1,2) red");
        check(
            "uri",
            "https://a.b/c?d=e /path urn:x:y http://[::1]:80/",
            "a.b a%zz /%2 :x",
        );
        check("uuid", "123e4567-e89b-12d3-a456-426614174000", "123e4567 g");
        check(
            "uuid4",
            "123e4567-e89b-42d3-a456-426614174000",
            "123e4567-e89b-12d3-a456-426614174000",
        );
    }

    #[test]
    fn a_format_of_another_type_or_of_nobody_is_dropped() {
        assert!(Format::named("int32", Types::One(Type::String)).is_none());
        assert!(Format::named("date-time", Types::One(Type::Integer)).is_none());
        assert!(Format::named("my-format", Types::One(Type::String)).is_none());
        assert!(Format::named("int32", Types::One(Type::Integer)).is_some());
    }

    #[track_caller]
    fn check(name: &str, good: &str, bad: &str) {
        let format = Format::named(name, Types::One(Type::String)).expect("the format is known");
        let Check::Text(is) = format.check else {
            panic!("{name} is a format of strings")
        };
        for text in good.split(' ') {
            assert!(is(text), "{name} takes {text}");
        }
        for text in bad.split(' ') {
            assert!(!is(text), "{name} refuses {text}");
        }
    }
}
