//! Values from the events of a YAML parser. *(pure)*

use std::borrow::Cow;
use std::collections::HashMap;

use granit_parser::{Event, Options, Parser, ScalarStyle, StrInput, Tag};
use serde_json::{Map, Value};

use super::scalar::{self, Scalar};
use super::{DUPLICATES, MAX_DEPTH, YamlError};
use crate::wire::document::{Document, MAX_DUPLICATES};

/// The key that merges objects, and its tag.
const MERGE: (&str, &str) = ("<<", "tag:yaml.org,2002:merge");

/// Reads the events of one document.
pub(super) struct Reader<'a> {
    parser: Parser<'a, StrInput<'a>>,
    text: &'a str,
    /// The number of bytes and values that are left for the document.
    left: usize,
    /// The number of bytes and values that are left for copies of values for aliases.
    left_for_anchors: usize,
    /// Values by the number of their anchor. Empty if the document has no alias.
    anchors: HashMap<usize, Anchor<'a>>,
    has_aliases: bool,
    duplicates: String,
}

/// A value that aliases can repeat.
struct Anchor<'a> {
    node: Node<'a>,
    size: usize,
}

/// A value, and its type as a key, which can differ from its type in JSON.
#[derive(Clone)]
enum Node<'a> {
    Scalar(Scalar<'a>),
    Collection(Value),
}

/// An event, and the line on which it starts.
type EventLine<'a> = (Event<'a>, usize);

/// The members of the current object.
#[derive(Default)]
struct Members {
    map: Map<String, Value>,
    /// The types of the keys that are not text, by their names in JSON.
    types: HashMap<String, &'static str>,
}

// === impl Reader ===

impl<'a> Reader<'a> {
    /// Returns a reader of the first document of `text`, whose value takes at most `limit` bytes and
    /// values.
    pub(super) fn new(text: &'a str, limit: usize) -> Self {
        Self {
            parser: Parser::new_from_str_with_options(text, like_libyaml()),
            text,
            left: limit,
            left_for_anchors: limit,
            anchors: HashMap::new(),
            has_aliases: text.contains('*'),
            duplicates: String::new(),
        }
    }

    /// Reads the document. A text without a document is `null`.
    pub(super) fn read(mut self) -> Result<Document, YamlError> {
        let value = loop {
            match self.step()? {
                (Event::DocumentStart(_, Some(version)), _)
                    if (version.major, version.minor) != (1, 1) =>
                {
                    return Err(YamlError::Version);
                }
                (Event::StreamStart | Event::DocumentStart(..), _) => {}
                (Event::StreamEnd, _) => break Value::Null,
                step => {
                    let value = self.node(step, 0)?.into_value()?;
                    // Fails if the document does not end here.
                    self.step()?;
                    break value;
                }
            }
        };
        let duplicates = if self.duplicates.is_empty() {
            Vec::new()
        } else {
            vec![[DUPLICATES, &self.duplicates].concat()]
        };
        Ok(Document { value, duplicates })
    }

    fn step(&mut self) -> Result<EventLine<'a>, YamlError> {
        let (event, span) = self.parser.next().ok_or(YamlError::End)??;
        let line = span.start.line();
        if let Event::Scalar(_, ScalarStyle::DoubleQuoted, ..) = &event
            && span.slice(self.text).is_some_and(has_unknown_escape)
        {
            return Err(YamlError::Escape { line });
        }
        Ok((event, line))
    }

    /// Takes `size` from the rest of the document.
    fn take(&mut self, size: usize) -> Result<(), YamlError> {
        self.left = self.left.checked_sub(size).ok_or(YamlError::Aliases)?;
        Ok(())
    }

    /// Reads the value that starts with `step`, `depth` levels below the document.
    fn node(&mut self, step: EventLine<'a>, depth: usize) -> Result<Node<'a>, YamlError> {
        let before = self.left;
        let (event, line) = step;
        let (node, anchor) = match event {
            Event::Scalar(text, style, anchor, tag) => {
                self.take(text.len().saturating_add(1))?;
                let scalar = if tag.is_none() && style != ScalarStyle::Plain {
                    Scalar::Text(text)
                } else {
                    scalar::resolve(text, &full_name(tag.as_deref()))?
                };
                (Node::Scalar(scalar), anchor)
            }
            Event::Alias(anchor) => {
                let anchor = self
                    .anchors
                    .get(&anchor)
                    .ok_or(YamlError::Anchor { line })?;
                let left = self.left.checked_sub(anchor.size);
                self.left = left.ok_or(YamlError::Aliases)?;
                (anchor.node.clone(), 0)
            }
            Event::SequenceStart(_, anchor, _) => {
                (Node::Collection(self.sequence(depth + 1)?), anchor)
            }
            Event::MappingStart(_, anchor, _) => {
                (Node::Collection(self.mapping(depth + 1)?), anchor)
            }
            _ => return Err(YamlError::End),
        };
        if anchor != 0 && self.has_aliases {
            let size = before.saturating_sub(self.left);
            let left = self.left_for_anchors.checked_sub(size);
            self.left_for_anchors = left.ok_or(YamlError::Aliases)?;
            let node = node.clone();
            self.anchors.insert(anchor, Anchor { node, size });
        }
        Ok(node)
    }

    fn sequence(&mut self, depth: usize) -> Result<Value, YamlError> {
        self.enter(depth)?;
        let mut list = Vec::new();
        loop {
            match self.step()? {
                (Event::SequenceEnd, _) => return Ok(list.into()),
                step => list.push(self.node(step, depth)?.into_value()?),
            }
        }
    }

    fn mapping(&mut self, depth: usize) -> Result<Value, YamlError> {
        self.enter(depth)?;
        let mut members = Members::default();
        loop {
            let key = match self.step()? {
                (Event::MappingEnd, _) => return Ok(members.map.into()),
                step => step,
            };
            if is_merge(&key.0) {
                self.merge(&mut members, depth)?;
                continue;
            }
            let line = key.1;
            let Node::Scalar(key) = self.node(key, depth)? else {
                return Err(YamlError::Key { line });
            };
            let step = self.step()?;
            let line = match &step.0 {
                // The line of the text, which follows that of its indicator.
                Event::Scalar(_, ScalarStyle::Literal | ScalarStyle::Folded, ..) => line,
                _ => step.1,
            };
            let value = self.node(step, depth)?.into_value()?;
            let (key_type, name) = (key.tag(), key.into_name()?);
            self.insert(&mut members, name, key_type, value, line);
        }
    }

    /// Counts a list or an object at a depth.
    fn enter(&mut self, depth: usize) -> Result<(), YamlError> {
        if depth > MAX_DEPTH {
            return Err(YamlError::Depth);
        }
        self.take(1)
    }

    /// Merges the value of a merge key into the object with the key. Of members with the same name, the
    /// last one is used, merged or not; of the objects in a list, the first one.
    fn merge(&mut self, members: &mut Members, depth: usize) -> Result<(), YamlError> {
        let step = self.step()?;
        let line = step.1;
        let is_alias = matches!(step.0, Event::Alias(_));
        let Node::Collection(merged) = self.node(step, depth)? else {
            return Err(YamlError::Merge);
        };
        let maps = match merged {
            Value::Array(list) if !is_alias => list,
            merged => vec![merged],
        };
        for map in maps.into_iter().rev() {
            let Value::Object(map) = map else {
                return Err(YamlError::Merge);
            };
            for (name, value) in map {
                self.insert(members, name, Scalar::TEXT_TAG, value, line);
            }
        }
        Ok(())
    }

    fn insert(
        &mut self,
        members: &mut Members,
        name: String,
        key_type: &'static str,
        value: Value,
        line: usize,
    ) {
        let is_text = key_type == Scalar::TEXT_TAG;
        let before = if is_text && members.types.is_empty() {
            Scalar::TEXT_TAG
        } else if is_text {
            members.types.remove(&name).unwrap_or(Scalar::TEXT_TAG)
        } else {
            let before = members.types.insert(name.clone(), key_type);
            before.unwrap_or(Scalar::TEXT_TAG)
        };
        if before == key_type
            && members.map.contains_key(&name)
            && self.duplicates.len() < MAX_DUPLICATES
        {
            let key = if is_text {
                format!("{name:?}")
            } else {
                name.clone()
            };
            let report = format!("\n  line {line}: key {key} already set in map");
            self.duplicates.push_str(&report);
        }
        members.map.insert(name, value);
    }
}

/// Returns the options of a parser that accepts the same syntax as the real server.
fn like_libyaml() -> Options {
    granit_parser::options! {
        emit_comments: false,
        block_scalar_eof_without_line_feed: true,
        bom_inside_document_as_content: true,
    }
}

/// Returns whether a quoted text has an escape of JSON that YAML 1.1 does not have: `\/`, or half of
/// a surrogate pair.
fn has_unknown_escape(quoted: &str) -> bool {
    let mut rest = quoted;
    while let Some((_, escape)) = rest.split_once('\\') {
        let digits = escape.get(1..5).unwrap_or_default();
        let is_half = || matches!(u16::from_str_radix(digits, 16), Ok(0xd800..=0xdfff));
        if escape.starts_with('/') || (escape.starts_with('u') && is_half()) {
            return true;
        }
        let mut characters = escape.chars();
        characters.next();
        rest = characters.as_str();
    }
    false
}

/// Returns whether a key is the merge key.
fn is_merge(key: &Event<'_>) -> bool {
    let Event::Scalar(text, style, _, tag) = key else {
        return false;
    };
    let is_merge_tag = |tag: &Tag| {
        let name = full_name(Some(tag));
        name == MERGE.1 || name == "!"
    };
    text == MERGE.0
        && match tag {
            None => *style == ScalarStyle::Plain,
            Some(tag) => is_merge_tag(tag),
        }
}

/// Returns the full name of a tag; empty without a tag.
fn full_name(tag: Option<&Tag>) -> Cow<'_, str> {
    match tag {
        None => "".into(),
        Some(tag) => [tag.handle(), tag.suffix()].concat().into(),
    }
}

// === impl Node ===

impl Node<'_> {
    fn into_value(self) -> Result<Value, YamlError> {
        match self {
            Self::Scalar(scalar) => Ok(scalar.into_value()?),
            Self::Collection(value) => Ok(value),
        }
    }
}
