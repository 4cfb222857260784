//! From bytes to objects, trimmed before they are kept.
//!
//! An object is read in two steps. Its [`Identity`] comes first, and is cheap: with it the
//! watch knows whom a line concerns even when the rest does not decode, and a relist
//! recognises what it has already. The object itself follows only where somebody needs it,
//! straight into the `K` that is kept, without the fields that nobody will read
//! ([`Trim`]).

mod event;
mod identity;
mod lines;
mod page;
mod trim;

use std::{fmt, marker::PhantomData};

use kube::Resource;
use serde::{
    Deserialize,
    de::{DeserializeOwned, DeserializeSeed as _},
};
use serde_json::value::RawValue;

use self::event::There;
pub use self::{identity::Identity, trim::Trim};
pub(crate) use self::{lines::Lines, page::Page, trim::Types};

/// Why bytes are not the object they should be.
///
/// The message says where and what was expected, and never what stood there, which may be
/// a secret.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DecodeError {
    /// The bytes are not JSON.
    #[error("not valid JSON at line {line}, column {column}")]
    Syntax {
        /// The line of the first byte that does not fit.
        line: usize,
        /// The column of that byte.
        column: usize,
    },

    /// The JSON is not of the type that is asked for.
    #[error("{path}: {expected}")]
    Shape {
        /// Where in the object.
        path: String,
        /// What was expected there.
        expected: String,
    },

    /// The object is of another kind.
    #[error("an object of kind {found:?} where {expected:?} was asked for")]
    Kind {
        /// The kind that was asked for.
        expected: String,
        /// The kind that came.
        found: String,
    },
}

/// Reads identities, objects, pages and watch lines of one kind.
pub(crate) struct Decoder<K> {
    types: Types,
    trim: Trim,
    kind: PhantomData<fn() -> K>,
}

/// One line of a watch, its object not yet decoded.
#[derive(Debug, Deserialize)]
pub(crate) struct Line<'a> {
    /// `ADDED`, `MODIFIED`, `DELETED`, `BOOKMARK` or `ERROR`.
    #[serde(rename = "type", borrow)]
    pub(crate) kind: std::borrow::Cow<'a, str>,

    #[serde(borrow)]
    pub(crate) object: &'a RawValue,
}

// === impl DecodeError ===

impl DecodeError {
    /// Drops everything of serde's message that could quote the object.
    fn at(path: &str, error: &serde_json::Error) -> Self {
        use serde_json::error::Category;
        if !matches!(error.classify(), Category::Data) {
            return Self::Syntax {
                line: error.line(),
                column: error.column(),
            };
        }
        let message = error.to_string();
        let message = message
            .rsplit_once(" at line ")
            .map_or(message.as_str(), |(message, _)| message);
        let expected = match (message.split_once(": "), message.split_once(", expected ")) {
            (Some((class, _)), Some((_, expected))) if class.starts_with("invalid ") => {
                format!("{class}, expected {expected}")
            }
            (_, Some((_, expected))) => format!("expected {expected}"),
            _ if message.starts_with("missing field") => message.to_owned(),
            _ => "not of the expected form".to_owned(),
        };
        Self::Shape {
            path: path.to_owned(),
            expected,
        }
    }
}

// === impl Decoder ===

impl<K> Decoder<K>
where
    K: Resource + DeserializeOwned,
{
    pub(crate) fn new(types: &K::DynamicType, trim: Trim) -> Self {
        let types = if K::metadata_api() {
            Types::new("meta.k8s.io/v1", "PartialObjectMetadata")
        } else {
            Types::new(&K::api_version(types), &K::kind(types))
        };
        Self {
            types,
            trim,
            kind: PhantomData,
        }
    }

    /// Reads whom `json` concerns, and refuses an object of another kind.
    pub(crate) fn identity(&self, json: &str) -> Result<Identity, DecodeError> {
        Identity::read(json, &self.types.kind)
    }

    /// Reads the whole object.
    pub(crate) fn object(&self, json: &str) -> Result<K, DecodeError> {
        let mut json_de = serde_json::Deserializer::from_str(json);
        let object = self
            .trim
            .decode(&mut json_de, &self.types)
            .and_then(|object: K| json_de.end().map(|()| object));
        // The way to the failure costs time on every field, so it is walked only after one.
        object.map_err(|error| self.explain(json, &error))
    }

    /// Reads the object of a watch line that says that it is there, in one go. None if the
    /// line says something else, or is wrong in any way: then it is read step by step, which
    /// finds out what.
    pub(crate) fn there(&self, line: &[u8]) -> Option<K> {
        let mut json = serde_json::Deserializer::from_slice(line);
        let there = There {
            trim: &self.trim,
            types: &self.types,
            object: PhantomData,
        };
        let object = there.deserialize(&mut json).ok()?;
        json.end().ok()?;
        Self::named(object)
    }

    /// Reads an object that nobody knows yet, without a look at its identity. None if it is
    /// wrong in any way, as above.
    pub(crate) fn fresh(&self, json: &str) -> Option<K> {
        self.object(json).ok().and_then(Self::named)
    }

    fn named(object: K) -> Option<K> {
        object.meta().name.is_some().then_some(object)
    }

    /// Reads one page of a list.
    pub(crate) fn page(body: &[u8]) -> Result<Page<'_>, DecodeError> {
        serde_json::from_slice(body).map_err(|error| DecodeError::at("list", &error))
    }

    /// Reads one line of a watch.
    pub(crate) fn line(line: &[u8]) -> Result<Line<'_>, DecodeError> {
        serde_json::from_slice(line).map_err(|error| DecodeError::at("event", &error))
    }

    fn explain(&self, json: &str, error: &serde_json::Error) -> DecodeError {
        let mut track = serde_path_to_error::Track::new();
        let mut json = serde_json::Deserializer::from_str(json);
        let tracked = serde_path_to_error::Deserializer::new(&mut json, &mut track);
        let again: Result<K, _> = self.trim.decode(tracked, &self.types);
        match again {
            Ok(_) => DecodeError::at("object", error),
            Err(error) => DecodeError::at(&track.path().to_string(), &error),
        }
    }
}

impl<K> fmt::Debug for Decoder<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Decoder")
            .field("types", &self.types)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::{ConfigMap, Pod};
    use kube::{ResourceExt as _, api::PartialObjectMeta};

    use super::{Decoder, Trim};

    #[test]
    fn a_failure_names_the_place_and_never_the_value() {
        let decoder = Decoder::<ConfigMap>::new(&(), Trim::default());
        let json = r#"{"metadata":{"name":"a","uid":"u"},"data":{"password":["hunter2"]}}"#;
        let error = decoder.object(json).expect_err("a list is not a string");
        assert_eq!(
            error.to_string(),
            "data.password: invalid type, expected a string"
        );
        let json = r#"{"metadata":{"name":"a"},"immutable":"hunter2"}"#;
        let error = decoder.object(json).expect_err("not a boolean");
        assert_eq!(
            error.to_string(),
            "immutable: invalid type, expected a boolean"
        );
    }

    #[test]
    fn an_object_of_another_kind_is_refused_by_its_identity() {
        let decoder = Decoder::<ConfigMap>::new(&(), Trim::default());
        let error = decoder
            .identity(r#"{"kind":"Secret","metadata":{"name":"a"}}"#)
            .expect_err("a secret is no config map");
        assert!(error.to_string().contains("Secret"), "{error}");
    }

    #[test]
    fn metadata_alone_is_a_kind_of_its_own() {
        let decoder = Decoder::<PartialObjectMeta<Pod>>::new(&(), Trim::default());
        let json = r#"{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":{"name":"a"}}"#;
        decoder.identity(json).expect("the kind that was asked for");
        assert_eq!(decoder.object(json).expect("decodes").name_any(), "a");
    }

    #[test]
    fn a_line_that_is_no_json_says_so() {
        let error = Decoder::<ConfigMap>::line(b"<html>").expect_err("not JSON");
        assert_eq!(error.to_string(), "not valid JSON at line 1, column 1");
    }
}
