//! The members of a custom resource in the order of the real server. *(pure)*

use serde_json::{Map, Value};

/// Returns a custom resource of which a member precedes `kind` in alphabetical order: Go writes it as a
/// map, whose members are sorted. `None` if the members `type_members`, which are `apiVersion` and
/// `kind`, precede all members of `body`, as in nearly all objects.
pub(super) fn sorted(type_members: &str, body: &[u8]) -> Option<Vec<u8>> {
    let first = body.strip_prefix(b"\"")?;
    if first > b"kind\"".as_slice() {
        return None;
    }
    let text = [b"{", type_members.as_bytes(), b",", body, b"}"].concat();
    // The members of a map are sorted.
    let object: Map<String, Value> = serde_json::from_slice(&text).ok()?;
    serde_json::to_vec(&object).ok()
}

#[cfg(test)]
mod tests {
    use super::sorted;

    #[track_caller]
    fn check(body: &str, object: Option<&str>) {
        let sorted = sorted(r#""apiVersion":"a/v1","kind":"A""#, body.as_bytes());
        let sorted = sorted.map(|text| String::from_utf8(text).expect("a text"));
        assert_eq!(sorted.as_deref(), object, "{body}");
    }

    #[test]
    fn members_before_the_kind_are_sorted_with_it() {
        check(r#""metadata":{"name":"a"},"spec":{}"#, None);
        check(r#""kinds":1,"metadata":{}"#, None);
        check("", None);
        let first = r#"{"alpha":1,"apiVersion":"a/v1","kind":"A","metadata":{}}"#;
        check(r#""alpha":1,"metadata":{}"#, Some(first));
        let between = r#"{"apiVersion":"a/v1","data":{"b":1.5},"kind":"A","metadata":{}}"#;
        check(r#""data":{"b":1.5},"metadata":{}"#, Some(between));
    }
}
