//! The syntax of names, labels and similar strings. *(pure)*
//!
//! Each function returns the errors of a string with the messages of Kubernetes.

/// What is wrong with the last part of a qualified name.
pub(crate) const QUALIFIED: &str = "must consist of alphanumeric characters, '-', '_' or '.', and must start \
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
const LABEL: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric \
    characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  \
    or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
const LABEL_1035: &str = "a DNS-1035 label must consist of lower case alphanumeric characters or \
    '-', start with an alphabetic character, and end with an alphanumeric character (e.g. \
    'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')";

/// `example.com/name` or `name`: the keys of labels and annotations, and finalizers.
pub(crate) fn qualified_name(text: &str) -> Option<String> {
    let name = match text.split_once('/') {
        None => text,
        Some(("", _)) => return Some("prefix part must be non-empty".to_owned()),
        Some((prefix, name)) => {
            if let Some(why) = subdomain(prefix) {
                return Some(format!("prefix part {why}"));
            }
            if name.contains('/') {
                return Some(format!(
                    "a qualified name {QUALIFIED} with an optional DNS subdomain prefix and '/' \
                     (e.g. 'example.com/MyName')"
                ));
            }
            name
        }
    };
    if name.is_empty() {
        Some("name part must be non-empty".to_owned())
    } else if name.len() > 63 {
        Some("name part must be no more than 63 bytes".to_owned())
    } else if is_word(name) {
        None
    } else {
        Some(format!("name part {QUALIFIED}"))
    }
}

/// The value of a label.
pub(crate) fn label_value(text: &str) -> Option<String> {
    if text.len() > 63 {
        Some("must be no more than 63 bytes".to_owned())
    } else if text.is_empty() || is_word(text) {
        None
    } else {
        Some(LABEL_VALUE.to_owned())
    }
}

/// `example.com`: the name of most objects.
pub(crate) fn subdomain(text: &str) -> Option<String> {
    if text.len() > 253 {
        Some("must be no more than 253 bytes".to_owned())
    } else if text.split('.').all(is_label) {
        None
    } else {
        Some(SUBDOMAIN.to_owned())
    }
}

/// `my-name`: the name of a namespace.
pub(crate) fn label(text: &str) -> Option<String> {
    if text.len() > 63 {
        Some("must be no more than 63 bytes".to_owned())
    } else if is_label(text) {
        None
    } else {
        Some(LABEL.to_owned())
    }
}

/// `my-name`, not beginning with a digit: the name of a service.
pub(crate) fn label_1035(text: &str) -> Option<String> {
    if text.len() > 63 {
        Some("must be no more than 63 bytes".to_owned())
    } else if is_label(text) && text.starts_with(|c: char| c.is_ascii_lowercase()) {
        None
    } else {
        Some(LABEL_1035.to_owned())
    }
}

/// Whatever can be one segment of a URL: the name of a role.
pub(crate) fn path_segment(text: &str) -> Option<String> {
    match text {
        "." | ".." => Some(format!("may not be '{text}'")),
        text => ['/', '%']
            .into_iter()
            .find(|c| text.contains(*c))
            .map(|c| format!("may not contain '{c}'")),
    }
}

/// Letters and digits, with `-`, `_` and `.` between them.
fn is_word(text: &str) -> bool {
    let bytes = text.as_bytes();
    bytes.first().is_some_and(u8::is_ascii_alphanumeric)
        && bytes.last().is_some_and(u8::is_ascii_alphanumeric)
        && bytes
            .iter()
            .all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(b))
}

/// Lower case letters and digits, with `-` between them.
fn is_label(text: &str) -> bool {
    let plain = |b: &u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    let bytes = text.as_bytes();
    bytes.first().is_some_and(plain)
        && bytes.last().is_some_and(plain)
        && bytes.iter().all(|b| plain(b) || *b == b'-')
}

#[cfg(test)]
mod tests {
    use super::{label, label_1035, label_value, path_segment, qualified_name, subdomain};

    /// What a rule takes, and what it doesn't.
    #[track_caller]
    fn check(rule: fn(&str) -> Option<String>, good: &[&str], bad: &[&str]) {
        for text in good {
            assert_eq!(rule(text), None, "{text:?}");
        }
        for text in bad {
            assert!(rule(text).is_some(), "{text:?}");
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
