//! The formats of strings that Kubernetes checks.
//!
//! A format that is unknown for the type is ignored, as on the real server. These formats are not
//! checked although Kubernetes checks them: `bsonobjectid`, `creditcard`, `isbn*`, `ssn`.
//!
//! Source: apiextensions-apiserver `pkg/apiserver/validation/formats.go` and kube-openapi
//! `pkg/validation/strfmt`, Kubernetes 1.36.

use super::node::{Type, Types};

mod network;

/// A format, with its name as in the schema.
#[derive(Clone, Debug)]
pub(super) struct StringFormat {
    pub(super) name: String,
    pub(super) check: Check,
}

/// The check of a format.
#[derive(Clone, Copy, Debug)]
pub(super) enum Check {
    Text(fn(&str) -> bool),
    Int32,
    Int64,
    Float,
    Double,
}

// === impl StringFormat ===

impl StringFormat {
    /// Returns the format `name` for a value of `types`; `None` if it is not checked.
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
    // Dashes are ignored: `date-time` is `datetime`.
    Some(match name.replace('-', "").as_str() {
        "byte" => is_base64,
        "cidr" => network::is_cidr,
        "date" => is_date,
        "datetime" => is_date_time,
        "duration" => is_duration,
        "email" => network::is_email,
        "hexcolor" => is_hex_color,
        "hostname" => network::is_hostname,
        "ipv4" => network::is_ipv4,
        "ipv6" => network::is_ipv6,
        "k8slongname" => is_long_name,
        "k8sshortname" => is_short_name,
        "mac" => network::is_mac,
        "password" => |_| true,
        "rgbcolor" => is_rgb_color,
        "uri" => network::is_uri,
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

fn is_date(text: &str) -> bool {
    let shape = text.len() == 10
        && text.bytes().enumerate().all(|(i, b)| match i {
            4 | 7 => b == b'-',
            _ => b.is_ascii_digit(),
        });
    shape && text.parse::<jiff::civil::Date>().is_ok()
}

/// A date-time of RFC 3339: a date, `T`, a time and an offset, in upper or lower case.
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

/// A duration of Go (`1h30m`), or a text that contains a duration of Scala (`3 days`).
fn is_duration(text: &str) -> bool {
    // Exact units, and beginnings of units, as of `nanoseconds`.
    const UNITS: [&str; 11] = ["ns", "us", "µs", "ms", "s", "m", "h", "hr", "d", "w", "wk"];
    const BEGINNINGS: [&str; 8] = [
        "nano", "micro", "milli", "sec", "min", "hour", "day", "week",
    ];
    let is_letter = |c: char| c.is_ascii_alphabetic() || c == 'µ';
    // A unit follows digits, perhaps after spaces.
    let mut parts = text.split_inclusive(|c: char| !c.is_ascii_digit());
    let mut at = 0;
    is_go_duration(text)
        || parts.any(|part| {
            at += part.len();
            let number = part.trim_end_matches(|c: char| !c.is_ascii_digit());
            let rest = text[at - (part.len() - number.len())..].trim_start();
            let unit = rest.split(|c| !is_letter(c)).next().unwrap_or_default();
            let unit = unit.to_lowercase();
            !number.is_empty()
                && (UNITS.contains(&unit.as_str())
                    || BEGINNINGS
                        .iter()
                        .any(|beginning| unit.starts_with(beginning)))
        })
}

/// A duration of Go, such as `1h30m` and `-1.5s`.
pub(crate) fn is_go_duration(text: &str) -> bool {
    let mut rest = text.strip_prefix(['+', '-']).unwrap_or(text);
    if rest == "0" {
        return true;
    }
    let is_some = !rest.is_empty();
    while !rest.is_empty() {
        let is_number = |c: char| c.is_ascii_digit() || c == '.';
        let (number, tail) = rest.split_at(rest.find(|c| !is_number(c)).unwrap_or(rest.len()));
        let (unit, after) = tail.split_at(tail.find(is_number).unwrap_or(tail.len()));
        let points = number.matches('.').count();
        let is_unit = ["ns", "us", "µs", "μs", "ms", "s", "m", "h"].contains(&unit);
        if !is_unit || points > 1 || number.len() == points {
            return false;
        }
        rest = after;
    }
    is_some
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

fn is_uuid(text: &str, version: Option<char>) -> bool {
    let digits: Vec<_> = text.chars().filter(|c| *c != '-').collect();
    let dashes_are_right = {
        // Each dash is optional.
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
    use super::{Check, StringFormat, Type, Types};

    #[test]
    fn formats_accept_the_same_values_as_kubernetes() {
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
    fn unknown_formats_and_formats_of_other_types_are_dropped() {
        assert!(StringFormat::named("int32", Types::One(Type::String)).is_none());
        assert!(StringFormat::named("date-time", Types::One(Type::Integer)).is_none());
        assert!(StringFormat::named("my-format", Types::One(Type::String)).is_none());
        assert!(StringFormat::named("int32", Types::One(Type::Integer)).is_some());
    }

    #[track_caller]
    fn check(name: &str, good: &str, bad: &str) {
        let format =
            StringFormat::named(name, Types::One(Type::String)).expect("the format is known");
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
