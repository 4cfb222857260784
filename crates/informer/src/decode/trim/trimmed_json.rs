//! `TrimmedJson`: the JSON that a store keeps, without the trimmed fields. *(pure)*

use std::{collections::BTreeMap, ops::Range};

use super::Node;
use crate::{
    ObjectIdentity,
    decode::{
        DecodeError, RawJson,
        fields::{Fields, shape, text},
        identity::{IdentityFields, IdentityMeta},
        utf8,
    },
};

/// The JSON of an object without the trimmed fields, and the positions of its identity in it.
///
/// A name that is a slice of the JSON uses no further memory.
#[derive(Clone, Debug)]
pub(crate) struct TrimmedJson {
    /// The JSON, followed by the unescaped form of identity fields with escapes.
    text: Box<str>,
    /// The length of the JSON.
    json: u32,

    name: Span,
    namespace: Span,
    uid: Span,
    resource_version: Span,
}

/// A slice of a text. Empty at the start means none.
#[derive(Clone, Copy, Debug, Default)]
struct Span {
    start: u32,
    length: u32,
}

/// Reads the identity fields of `raw`, and finds the ranges of the fields that `root` removes.
pub(super) fn find_cuts<'a>(
    raw: RawJson<'a>,
    root: &Node,
) -> Result<(IdentityFields<'a>, Cuts), DecodeError> {
    let mut walk = Walk {
        fields: Fields::of(raw.json),
        is_whole: raw.is_whole,
        head: IdentityFields::default(),
        cuts: Cuts::default(),
    };
    if !walk.fields.enter() {
        return Err(walk.fields.malformed());
    }
    walk.read_object(FieldLevel::Root, below(Some(root)))?;
    if !walk.fields.is_over() {
        return Err(walk.fields.malformed());
    }
    Ok((walk.head, walk.cuts))
}

/// The ranges of the JSON to remove, in order.
#[derive(Debug, Default)]
pub(super) struct Cuts {
    /// Not in the `Vec`, because usually there is only one.
    first: Range<usize>,
    others: Vec<Range<usize>>,
}

/// Reads an object to its end, and notes its identity fields and what to remove.
struct Walk<'a> {
    fields: Fields<'a>,
    /// Whether the end of the object was found by its brackets before.
    is_whole: bool,
    head: IdentityFields<'a>,
    cuts: Cuts,
}

/// The object that contains a field.
#[derive(Clone, Copy, PartialEq, Eq)]
enum FieldLevel {
    Root,
    Metadata,
    Deeper,
}

// === impl TrimmedJson ===

impl TrimmedJson {
    /// Copies `json` without the removed ranges.
    pub(super) fn new(
        json: &[u8],
        cuts: &Cuts,
        meta: &IdentityMeta<'_>,
    ) -> Result<Self, DecodeError> {
        let length = json.len() - cuts.len_before(json.len());
        let mut kept = String::with_capacity(length);
        let mut at = 0;
        for cut in cuts.all() {
            kept.push_str(piece(json, at..cut.start)?);
            at = cut.end;
        }
        kept.push_str(piece(json, at..json.len())?);

        let mut find = |value: Option<&[u8]>, path: &str| match value {
            None | Some(b"null") => Ok(Span::default()),
            // A slice of the copied JSON, which is known to be valid UTF-8.
            Some([b'"', inner @ .., b'"']) if !inner.contains(&b'\\') => {
                let at = inner.as_ptr().addr() - json.as_ptr().addr();
                Span::new(at - cuts.len_before(at), inner.len())
            }
            Some(value) => {
                let text = text(value, path)?.unwrap_or_default();
                kept.push_str(&text);
                Span::new(kept.len() - text.len(), text.len())
            }
        };
        Ok(Self {
            name: find(meta.name, "metadata.name")?,
            namespace: find(meta.namespace, "metadata.namespace")?,
            uid: find(meta.uid, "metadata.uid")?,
            resource_version: find(meta.resource_version, "metadata.resourceVersion")?,
            json: short(length)?,
            text: kept.into_boxed_str(),
        })
    }

    pub(crate) fn json(&self) -> &str {
        &self.text[..self.json as usize]
    }

    fn at(&self, span: Span) -> Option<&str> {
        (span.start > 0).then(|| &self.text[span.start as usize..][..span.length as usize])
    }
}

impl ObjectIdentity for TrimmedJson {
    fn namespace(&self) -> Option<&str> {
        self.at(self.namespace)
    }

    fn name(&self) -> &str {
        self.at(self.name).unwrap_or_default()
    }

    fn uid(&self) -> Option<&str> {
        self.at(self.uid)
    }

    fn resource_version(&self) -> Option<&str> {
        self.at(self.resource_version)
    }
}

// === impl Span ===

impl Span {
    fn new(start: usize, length: usize) -> Result<Self, DecodeError> {
        Ok(Self {
            start: short(start)?,
            length: short(length)?,
        })
    }
}

/// A number of bytes below 4 GiB.
fn short(bytes: usize) -> Result<u32, DecodeError> {
    u32::try_from(bytes).map_err(|_| shape("object", "expected less than 4 GiB"))
}

/// A slice of `json`, which must be UTF-8.
fn piece(json: &[u8], at: Range<usize>) -> Result<&str, DecodeError> {
    // The error has the position in the whole JSON.
    simdutf8::basic::from_utf8(&json[at.clone()]).or_else(|_| Ok(&utf8(json)?[at]))
}

// === impl Cuts ===

impl Cuts {
    fn push(&mut self, cut: Range<usize>) {
        if self.first.is_empty() {
            self.first = cut;
        } else {
            self.others.push(cut);
        }
    }

    fn all(&self) -> impl Iterator<Item = &Range<usize>> {
        std::iter::once(&self.first).chain(&self.others)
    }

    /// The number of removed bytes before `at`.
    fn len_before(&self, at: usize) -> usize {
        let before = self.all().take_while(|cut| cut.end <= at);
        before.map(Range::len).sum()
    }
}

// === impl Walk ===

impl Walk<'_> {
    /// Reads the current object to its end, and notes what to remove.
    fn read_object(
        &mut self,
        level: FieldLevel,
        below: Option<&BTreeMap<String, Node>>,
    ) -> Result<(), DecodeError> {
        let mut is_first = true;
        // Usually there is only one field to remove, and each field is compared.
        let only = below.filter(|below| below.len() == 1);
        let only = only.and_then(BTreeMap::first_key_value);
        loop {
            let start = self.fields.at();
            let Some(name) = self.fields.next()? else {
                return Ok(());
            };
            let is_it = |(it, node)| (String::as_bytes(it) == &*name).then_some(node);
            let node = match only {
                Some(only) => is_it(only),
                None => below.into_iter().flatten().find_map(is_it),
            };
            if matches!(node, Some(Node::Dropped)) {
                self.fields.value()?;
                if is_first {
                    // The comma before the field is removed with it; for the first field, the comma
                    // after it.
                    self.fields.comma();
                }
                self.cuts.push(start..self.fields.at());
                continue;
            }
            is_first = false;
            let is_metadata = level == FieldLevel::Root && &*name == b"metadata";
            if is_metadata && self.fields.enter() {
                self.head.enter_metadata();
                self.read_object(FieldLevel::Metadata, self::below(node))?;
                if !below.is_some_and(|below| below.keys().any(|name| name != "metadata")) {
                    return self.rest();
                }
            } else if node.is_some() && self.fields.enter() {
                self.read_object(FieldLevel::Deeper, self::below(node))?;
            } else {
                let value = self.fields.value()?;
                match level {
                    FieldLevel::Root => self.head.field(&name, value),
                    FieldLevel::Metadata => self.head.metadata_field(&name, value),
                    FieldLevel::Deeper => {}
                }
            }
        }
    }

    /// Skips the object after its metadata. API servers write no identity there.
    fn rest(&mut self) -> Result<(), DecodeError> {
        if self.is_whole {
            self.fields.skip_to_end();
            return Ok(());
        }
        self.fields.leave()
    }
}

fn below(node: Option<&Node>) -> Option<&BTreeMap<String, Node>> {
    match node {
        Some(Node::Fields(below)) => Some(below),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Map, Value, json};

    use super::{Cuts, TrimmedJson, find_cuts};
    use crate::{DecodeError, ObjectIdentity as _, Trim, decode::RawJson};

    #[test]
    fn a_removed_field_is_removed_with_one_comma() {
        check(r#"{"a":1,"x":[{}],"b":2}"#, r#"{"a":1,"b":2}"#);
        check(r#"{"x":1,"a":1}"#, r#"{"a":1}"#);
        check(r#"{"a":1,"x":{"x":1}}"#, r#"{"a":1}"#);
        check(r#"{"x":1}"#, "{}");
        check(r#"{"x":1,"x":2,"a":1,"x":3}"#, r#"{"a":1}"#);
        check(
            r#"{ "a" : 1 , "x" : "," , "b" : 2 }"#,
            r#"{ "a" : 1 , "b" : 2 }"#,
        );
    }

    #[test]
    fn only_the_field_at_the_path_is_removed() {
        check(r#"{"m":{"y":1,"a":2},"y":3}"#, r#"{"m":{"a":2},"y":3}"#);
        check(
            r#"{"m":[{"y":1}],"l":{"x":1}}"#,
            r#"{"m":[{"y":1}],"l":{"x":1}}"#,
        );
    }

    #[test]
    fn json_that_is_not_an_object_is_an_error() {
        for json in ["", "7", "{", r#"{"a":1"#, r#"{"a":1}}"#, r#"{"a":{}"#] {
            let raw = RawJson::of(json.as_bytes());
            assert!(find_cuts(raw, &Trim::nothing().root).is_err(), "{json}");
        }
    }

    #[test]
    fn the_identity_is_in_the_remaining_json() {
        let whole = r#"{"x":[1],"metadata":{"managedFields":[{"a":"b"}],"name":"web","namespace":"shop","resourceVersion":"7","uid":"u"},"spec":{}}"#;
        let trimmed = trimmed(whole).expect("an object");
        assert_eq!(
            trimmed.json(),
            r#"{"metadata":{"name":"web","namespace":"shop","resourceVersion":"7","uid":"u"},"spec":{}}"#
        );
        assert_eq!(identity(&trimmed), "shop/web u 7");
    }

    #[test]
    fn a_name_with_escapes_is_kept_without_them() {
        let json = r#"{"metadata":{"name":"a\u003cb\"é","uid":"\u0075","x":1}}"#;
        let trimmed = trimmed(json).expect("an object");
        assert_eq!(trimmed.json(), json);
        assert_eq!(trimmed.key().to_string(), "a<b\"é");
        assert_eq!((trimmed.uid(), trimmed.namespace()), (Some("u"), None));
    }

    #[test]
    fn json_without_a_name_is_refused() {
        let check = |json: &str, error: &str| {
            let refused = trimmed(json).expect_err(json);
            assert_eq!(refused.to_string(), error, "{json}");
        };
        check(r#"{"kind":"Pod"}"#, "metadata: missing field `metadata`");
        check(r#"{"metadata":{}}"#, "metadata.name: missing field `name`");
        check(
            r#"{"metadata":{"name":null}}"#,
            "metadata.name: missing field `name`",
        );
        check(
            r#"{"metadata":{"name":"a","uid":7}}"#,
            "metadata.uid: invalid type, expected a string",
        );
        check(
            r#"{"kind":"Secret","metadata":{"name":"a"}}"#,
            r#"expected an object of kind "Pod", found "Secret""#,
        );
    }

    #[test]
    fn an_invalid_utf_8_error_has_its_position_in_the_whole_text() {
        let json = b"{\"x\":1,\"metadata\":{\"name\":\"\xff\"}}";
        let trim = Trim::nothing().field(["x"]);
        let error = trim.apply(RawJson::of(json), "Pod").expect_err("no UTF-8");
        assert_eq!(error.to_string(), "not valid JSON at line 1, column 28");
    }

    proptest! {
        #[test]
        fn the_fields_are_removed_from_any_object(
            metadata in fields(), spec in fields(), order in Just(vec![0, 1, 2, 3]).prop_shuffle(),
        ) {
            let mut metadata = metadata;
            metadata.insert("name".to_owned(), json!("web"));
            let parts = [
                ("kind", json!("Pod")),
                ("metadata", Value::from(metadata.clone())),
                ("spec", Value::from(spec)),
                ("x", json!({"x": [1]})),
            ];
            let parts: Vec<String> = order
                .iter()
                .map(|part| format!("{}:{}", Value::from(parts[*part].0), parts[*part].1))
                .collect();
            let json = format!("{{{}}}", parts.join(","));
            let trimmed = trimmed(&json).expect("an object");
            let mut left: Value = serde_json::from_str(&json).expect("JSON");
            left.as_object_mut().map(|object| object.remove("x"));
            left["metadata"].as_object_mut().map(|object| object.remove("managedFields"));
            prop_assert_eq!(serde_json::from_str::<Value>(trimmed.json()).expect("JSON"), left);
            prop_assert_eq!(trimmed.name(), "web");
            let version = metadata.get("resourceVersion").and_then(Value::as_str);
            prop_assert_eq!(trimmed.resource_version(), version);
            for end in 0..json.len() {
                prop_assert!(self::trimmed(json.get(..end).unwrap_or("{")).is_err(), "{}", &json[..end]);
            }
        }
    }

    fn fields() -> impl Strategy<Value = Map<String, Value>> {
        let name = prop_oneof![
            Just("managedFields".to_owned()),
            Just("resourceVersion".to_owned()),
            r#"[\\"{}a,é]{0,40}"#,
        ];
        let text = r#"[\\"{}a\[\],é]{0,60}"#;
        prop::collection::btree_map(name, text.prop_map(Value::from), 0..5)
            .prop_map(|fields| fields.into_iter().collect())
    }

    fn trimmed(json: &str) -> Result<TrimmedJson, DecodeError> {
        let trim = Trim::default().field(["x"]);
        trim.apply(RawJson::of(json.as_bytes()), "Pod")
    }

    fn identity(trimmed: &TrimmedJson) -> String {
        let version = trimmed.resource_version().unwrap_or_default();
        format!(
            "{} {} {version}",
            trimmed.key(),
            trimmed.uid().unwrap_or_default()
        )
    }

    #[track_caller]
    fn check(json: &str, expected: &str) {
        let trim = Trim::nothing().field(["x"]).field(["m", "y"]);
        let (_, cuts) = find_cuts(RawJson::of(json.as_bytes()), &trim.root).expect(json);
        assert_eq!(left(json, &cuts), expected, "{json}");
    }

    fn left(json: &str, cuts: &Cuts) -> String {
        let mut left = json.to_owned();
        for cut in cuts.all().collect::<Vec<_>>().into_iter().rev() {
            left.replace_range(cut.clone(), "");
        }
        left
    }
}
