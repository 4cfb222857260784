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
        let mut kept = cuts.apply(json)?;
        let length = kept.len();
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

    /// Copies `json` without the removed ranges.
    pub(super) fn apply(&self, json: &[u8]) -> Result<String, DecodeError> {
        let mut kept = String::with_capacity(json.len() - self.len_before(json.len()));
        let mut at = 0;
        for cut in self.all() {
            kept.push_str(piece(json, at..cut.start)?);
            at = cut.end;
        }
        kept.push_str(piece(json, at..json.len())?);
        Ok(kept)
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
mod tests;
