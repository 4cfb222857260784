//! The syntax of names, labels and similar strings. *(pure)*
//!
//! Each function returns the errors of a string with the messages of Kubernetes. Most functions
//! return the first error; those with a list return all errors.

use std::net::{IpAddr, Ipv4Addr};

/// The error of the last part of a qualified name.
const QUALIFIED: &str = "must consist of alphanumeric characters, '-', '_' or '.', and must start \
    and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex \
    used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
const LABEL_VALUE: &str = "a valid label must be an empty string or consist of alphanumeric \
    characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. \
    'MyValue',  or 'my_value',  or '12345', regex used for validation is \
    '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";
const SUBDOMAIN: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric \
    characters, '-' or '.', and must start and end with an alphanumeric character (e.g. \
    'example.com', regex used for validation is \
    '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
const WILDCARD: &str = "a wildcard DNS-1123 subdomain must start with '*.', followed by a valid DNS \
    subdomain, which must consist of lower case alphanumeric characters, '-' or '.' and end with \
    an alphanumeric character (e.g. '*.example.com', regex used for validation is \
    '\\*\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
const SEARCH_DOMAIN: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric \
    characters, '_', '-' or '.', and must start and end with an alphanumeric character (e.g. \
    'example.com', regex used for validation is \
    '_?[a-z0-9]([-_a-z0-9]*[a-z0-9])?(\\._?[a-z0-9]([-_a-z0-9]*[a-z0-9])?)*')";
const LABEL: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric \
    characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  \
    or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
const LABEL_1035: &str = "a DNS-1035 label must consist of lower case alphanumeric characters or \
    '-', start with an alphabetic character, and end with an alphanumeric character (e.g. \
    'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')";

/// Checks a qualified name, such as `example.com/name` or `name`: the keys of labels and annotations,
/// and finalizers.
pub(crate) fn qualified_name(text: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    let name = match text.split_once('/') {
        None => text,
        Some((_, name)) if name.contains('/') => {
            return vec![format!(
                "a valid label key {QUALIFIED} with an optional DNS subdomain prefix and '/' (e.g. \
                 'example.com/MyName')"
            )];
        }
        Some((prefix, name)) => {
            if prefix.is_empty() {
                wrong.push("prefix part must be non-empty".to_owned());
            } else {
                wrong.extend(subdomain(prefix).map(|why| format!("prefix part {why}")));
            }
            name
        }
    };
    if name.is_empty() {
        wrong.push("name part must be non-empty".to_owned());
    } else if name.len() > 63 {
        wrong.push("name part must be no more than 63 bytes".to_owned());
    }
    if !is_word(name) {
        wrong.push(format!("name part {QUALIFIED}"));
    }
    wrong
}

/// Checks the value of a label.
pub(crate) fn label_value(text: &str) -> Option<String> {
    if text.len() > 63 {
        Some("must be no more than 63 bytes".to_owned())
    } else if text.is_empty() || is_word(text) {
        None
    } else {
        Some(LABEL_VALUE.to_owned())
    }
}

/// Checks a DNS subdomain, such as `example.com`: the name of most objects.
pub(crate) fn subdomain(text: &str) -> Option<String> {
    if text.len() > 253 {
        Some("must be no more than 253 characters".to_owned())
    } else if text.split('.').all(is_label) {
        None
    } else {
        Some(SUBDOMAIN.to_owned())
    }
}

/// Checks a wildcard DNS subdomain, such as `*.example.com`: the hosts of an ingress.
pub(crate) fn wildcard(text: &str) -> Option<String> {
    let rest = text.strip_prefix("*.");
    let is_right = rest.is_some_and(|rest| subdomain(rest).is_none());
    (!is_right).then(|| WILDCARD.to_owned())
}

/// Checks a DNS search domain, such as `_tcp.example.com`.
pub(crate) fn search_domain(text: &str) -> Option<String> {
    let is_part = |part: &str| {
        let part = part.strip_prefix('_').unwrap_or(part);
        is_label(&part.replace('_', "-")) && !part.starts_with('_') && !part.ends_with('_')
    };
    (!text.split('.').all(is_part)).then(|| SEARCH_DOMAIN.to_owned())
}

/// Checks a DNS label, such as `my-name`: the name of a namespace.
pub(crate) fn label(text: &str) -> Option<String> {
    if text.len() > 63 {
        Some("must be no more than 63 characters".to_owned())
    } else if is_label(text) {
        None
    } else if subdomain(text).is_none() {
        Some("must not contain dots".to_owned())
    } else {
        Some(LABEL.to_owned())
    }
}

/// Checks a DNS label that does not begin with a digit: the names of kinds and versions.
pub(crate) fn label_1035(text: &str) -> Option<String> {
    if text.len() > 63 {
        Some("must be no more than 63 characters".to_owned())
    } else if is_label(text) && text.starts_with(|c: char| c.is_ascii_lowercase()) {
        None
    } else {
        Some(LABEL_1035.to_owned())
    }
}

/// Checks an identifier of C: the name of an attribute of a device.
pub(crate) fn identifier(text: &str) -> Option<String> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let is_identifier = !text.is_empty()
        && text.chars().all(is_part)
        && !text.starts_with(|c: char| c.is_ascii_digit());
    (!is_identifier).then(|| {
        "a valid C identifier must start with alphabetic character or '_', followed by a string of \
         alphanumeric characters or '_' (e.g. 'my_name',  or 'MY_NAME',  or 'MyName', regex used \
         for validation is '[A-Za-z_][A-Za-z0-9_]*')"
            .to_owned()
    })
}

/// Checks the name of an environment variable.
pub(crate) fn variable(text: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    if text.is_empty() {
        wrong.push("environment variable name must be non-empty".to_owned());
    }
    if !text.chars().all(|c| matches!(c, ' '..='~') && c != '=') {
        let why = "a valid environment variable name must consist only of printable ASCII \
                   characters other than '='";
        wrong.push(why.to_owned());
    }
    wrong
}

/// Checks the key of a config map or secret.
pub(crate) fn config_key(text: &str) -> Option<String> {
    let is_known = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
    let why = if text.is_empty() || !text.bytes().all(is_known) {
        "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. \
         'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is \
         '[-._a-zA-Z0-9]+')"
    } else if text == "." {
        "must not be '.'"
    } else if text == ".." {
        "must not be '..'"
    } else if text.starts_with("..") {
        "must not start with '..'"
    } else if text.len() > 253 {
        "must be no more than 253 characters"
    } else {
        return None;
    };
    Some(why.to_owned())
}

/// Checks the name of an HTTP header.
pub(crate) fn header(text: &str) -> Option<String> {
    const WHY: &str = "a valid HTTP header must consist of alphanumeric characters or '-' (e.g. \
        'X-Header-Name', regex used for validation is '[-A-Za-z0-9]+')";
    let is_known = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
    let is_right = !text.is_empty() && text.bytes().all(is_known);
    (!is_right).then(|| WHY.to_owned())
}

/// Checks the name of a port.
pub(crate) fn port_name(text: &str) -> Vec<String> {
    let is_known = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    let rules = [
        (text.len() > 15, "must be no more than 15 characters"),
        (
            text.is_empty() || !text.bytes().all(is_known),
            "must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)",
        ),
        (
            !text.bytes().any(|byte| byte.is_ascii_lowercase()),
            "must contain at least one letter (a-z)",
        ),
        (text.contains("--"), "must not contain consecutive hyphens"),
        (
            text.starts_with('-') || text.ends_with('-'),
            "must not begin or end with a hyphen",
        ),
    ];
    let broken = rules.into_iter().filter(|(is_broken, _)| *is_broken);
    broken.map(|(_, why)| why.to_owned()).collect()
}

/// Checks a relative path that must not leave its directory.
pub(crate) fn relative_path(text: &str) -> Vec<String> {
    let absolute = text.starts_with('/').then_some("must be a relative path");
    let reasons = absolute.map(str::to_owned).into_iter();
    reasons.chain(no_steps_back(text)).collect()
}

/// Checks the path of a file in a volume.
pub(crate) fn file_path(text: &str) -> Vec<String> {
    let mut wrong = relative_path(text);
    if text.starts_with("..") && !text.starts_with("../") {
        wrong.push("must not start with '..'".to_owned());
    }
    wrong
}

/// Checks that a path has no segment `..`.
pub(crate) fn no_steps_back(text: &str) -> Option<String> {
    let has_step = text.split('/').any(|part| part == "..");
    has_step.then(|| "must not contain '..'".to_owned())
}

/// Checks the `apiVersion` of an object, with or without a group.
pub(crate) fn api_version(text: &str) -> Option<String> {
    (text.matches('/').count() > 1).then(|| format!("unexpected GroupVersion string: {text}"))
}

/// Checks a segment of a URL path: the name of a role.
pub(crate) fn path_segment(text: &str) -> Option<String> {
    match text {
        "." | ".." => Some(format!("may not be '{text}'")),
        text => ['/', '%']
            .into_iter()
            .find(|c| text.contains(*c))
            .map(|c| format!("may not contain '{c}'")),
    }
}

/// Returns whether a text has only letters and digits, with `-`, `_` and `.` between them.
fn is_word(text: &str) -> bool {
    let bytes = text.as_bytes();
    bytes.first().is_some_and(u8::is_ascii_alphanumeric)
        && bytes.last().is_some_and(u8::is_ascii_alphanumeric)
        && bytes
            .iter()
            .all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(b))
}

/// Returns whether a text has only lower-case letters and digits, with `-` between them.
fn is_label(text: &str) -> bool {
    let plain = |b: &u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    let bytes = text.as_bytes();
    bytes.first().is_some_and(plain)
        && bytes.last().is_some_and(plain)
        && bytes.iter().all(|b| plain(b) || *b == b'-')
}

/// Returns why `text` is not an IP address in canonical form.
pub(crate) fn address(text: &str) -> Option<String> {
    let address = match text.parse::<IpAddr>() {
        Ok(IpAddr::V6(address)) if address.to_ipv4_mapped().is_some() => {
            return Some("must not be an IPv4-mapped IPv6 address".to_owned());
        }
        Ok(address) => address.to_string(),
        Err(_) => {
            // An address without the leading zeros of its numbers.
            let parts = text
                .split('.')
                .map(|part| match part.trim_start_matches('0') {
                    "" => &part[part.len().saturating_sub(1)..],
                    part => part,
                });
            let parts: Vec<_> = parts.collect();
            let has_zeros = parts.join(".").parse::<Ipv4Addr>().is_ok();
            return Some(if has_zeros {
                "must not have leading 0s".to_owned()
            } else {
                "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)".to_owned()
            });
        }
    };
    (address != text).then(|| format!("must be in canonical form ({address:?})"))
}

#[cfg(test)]
mod tests {
    use super::{
        label, label_1035, label_value, path_segment, qualified_name, search_domain, subdomain,
    };

    /// Asserts which texts a rule accepts and rejects.
    #[track_caller]
    fn check<R>(rule: fn(&str) -> R, good: &[&str], bad: &[&str])
    where
        R: IntoIterator<Item = String>,
    {
        for text in good {
            assert_eq!(rule(text).into_iter().next(), None, "{text:?}");
        }
        for text in bad {
            assert!(rule(text).into_iter().next().is_some(), "{text:?}");
        }
    }

    #[test]
    fn names_follow_the_syntax_rules() {
        let bad = ["", "/a", "a/", "a/b/c", "-a", "A_/b", "a b", "EX.io/a"];
        check(qualified_name, &["a", "A.b_c-9", "ex.io/A"], &bad);
        check(
            label_value,
            &["", "a", "A.b"],
            &["-", "a b", "a-", "\u{e4}"],
        );
        check(
            subdomain,
            &["a", "a.b-c.9"],
            &["", "A", "a..b", ".a", "a.", "a_b"],
        );
        let bad = ["", "_", "a_", "__a", "A", "a..b", "-a", "a-_"];
        check(search_domain, &["a", "_a.b", "a_-b.c"], &bad);
        check(label, &["a", "9-a"], &["", "a.b", "-a", "A"]);
        check(label_1035, &["a", "a-9"], &["", "9a", "a.b"]);
        check(
            path_segment,
            &["a:b", "A_", "a b"],
            &[".", "..", "a/b", "a%b"],
        );
        assert!(label(&"a".repeat(64)).is_some());
        assert!(subdomain(&"a".repeat(254)).is_some());
    }
}
