//! Decodes objects from JSON, without the trimmed fields.
//!
//! An object is read in two steps. First its [`Identity`], which is cheap: with it the watch knows
//! the object of a line even if the rest does not decode, and a relist detects unchanged objects.
//! Then, only if necessary, the object itself: the fields that a [`Trim`] removes are cut out of its
//! JSON, which `serde_json` decodes and the store keeps.
//!
//! Why the ends of objects are found by our own code and not by a parser: most bytes of a relist
//! belong to objects that have not changed. `docs/performance.md` has the numbers.

// Finds the ends of values, without parsing them.
mod block;
mod fields;
mod nesting;
mod value_scanner;

// Splits responses.
mod line;
mod lines;
mod page;

// The identity and the content of an object.
mod cache;
mod content;
mod deletion;
mod error;
mod identity;
mod raw_json;
mod trim;

use std::fmt;

use kube::{Resource, api::ObjectMeta};
use serde::de::DeserializeOwned;

use self::{cache::DecodeCache, fields::Fields};
pub use self::{content::IGNORED_METADATA, error::DecodeError, identity::Identity, trim::Trim};
pub(crate) use self::{
    content::content_hash,
    deletion::pending_finalizers,
    identity::BorrowedIdentity,
    line::Line,
    lines::{LineTooLong, Lines},
    page::{Page, PageError, PageMeta},
    raw_json::RawJson,
    trim::{TrimmedJson, TypeMeta},
};
use crate::panics;

/// Decodes the objects of one kind. Each [`ListWatch`](crate::ListWatch) has one.
#[doc(hidden)]
pub struct Decoder<K> {
    types: TypeMeta,
    trim: Trim,

    /// Whether objects are kept decoded instead of as JSON.
    pub(crate) keep_decoded: bool,

    /// The decoded objects that were read last.
    pub(crate) cache: DecodeCache<K>,
}

// === impl Decoder ===

impl<K> Decoder<K>
where
    K: Resource + DeserializeOwned,
{
    /// Creates a decoder whose cache of decoded objects has at most `max_bytes`.
    pub(crate) fn new(
        types: &K::DynamicType,
        trim: Trim,
        keep_decoded: bool,
        max_bytes: usize,
    ) -> Self {
        let types = if K::metadata_api() {
            TypeMeta::new("meta.k8s.io/v1", "PartialObjectMetadata")
        } else {
            TypeMeta::new(&K::api_version(types), &K::kind(types))
        };
        Self {
            types,
            trim,
            keep_decoded,
            cache: DecodeCache::new(max_bytes),
        }
    }

    /// Reads the identity of `json`. An object of another kind is an error.
    pub(crate) fn borrowed_identity<'a>(
        &self,
        json: &'a [u8],
    ) -> Result<BorrowedIdentity<'a>, DecodeError> {
        BorrowedIdentity::read(json, &self.types.kind)
    }

    /// Like [`borrowed_identity`](Self::borrowed_identity), but owned.
    pub(crate) fn identity(&self, json: &[u8]) -> Result<Identity, DecodeError> {
        self.borrowed_identity(json)
            .map(|identity| Identity::from(&identity))
    }

    /// Decodes an object from trimmed JSON.
    pub(crate) fn decode(&self, trimmed: &TrimmedJson) -> Result<K, DecodeError> {
        let json = trimmed.json();
        // `Deserialize` is user code: its panic is an error of this object.
        let decode = || {
            let mut reader = serde_json::Deserializer::from_str(json);
            let object = K::deserialize(self.types.with_type_meta(&mut reader));
            let object = object.and_then(|object| reader.end().map(|()| object));
            object.map_err(|error| self.explain(json, &error))
        };
        panics::catch(decode).unwrap_or_else(|message| Err(DecodeError::Panicked { message }))
    }

    /// Reads the identity, and removes the trimmed fields from the JSON.
    pub(crate) fn trimmed(&self, raw: RawJson<'_>) -> Result<TrimmedJson, DecodeError> {
        self.trim.apply(raw, &self.types.kind)
    }

    /// Decodes only the metadata, of an object that may not decode.
    pub(crate) fn metadata(json: &str) -> Option<ObjectMeta> {
        let mut fields = Fields::of(json.as_bytes());
        if !fields.enter() {
            return None;
        }
        while let Some(name) = fields.next().ok()? {
            let value = fields.value().ok()?;
            if &*name == b"metadata" {
                return serde_json::from_slice(value).ok();
            }
        }
        None
    }

    /// Finds the path of an error. Tracking paths costs time for every field, so the object is
    /// decoded again after an error.
    fn explain(&self, json: &str, error: &serde_json::Error) -> DecodeError {
        let mut track = serde_path_to_error::Track::new();
        let mut reader = serde_json::Deserializer::from_str(json);
        let whole = self.types.with_type_meta(&mut reader);
        let again = K::deserialize(serde_path_to_error::Deserializer::new(whole, &mut track));
        match again {
            Ok(_) => DecodeError::of(error, "object"),
            Err(_) => DecodeError::of(error, &track.path().to_string()),
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

fn utf8(json: &[u8]) -> Result<&str, DecodeError> {
    simdutf8::basic::from_utf8(json).map_err(|_| {
        // The slower function reports the position.
        let valid = std::str::from_utf8(json).map_or_else(|error| error.valid_up_to(), str::len);
        let mut fields = Fields::of(&json[..valid]);
        fields.skip_to_end();
        fields.malformed()
    })
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::{ConfigMap, Pod};
    use kube::{Resource, ResourceExt as _, api::PartialObjectMeta};
    use serde::de::DeserializeOwned;

    use super::{DecodeError, Decoder, RawJson, Trim};

    #[test]
    fn an_error_shows_the_position_and_never_the_value() {
        let decoder = Decoder::<ConfigMap>::new(&(), Trim::default(), false, 0);
        let json = r#"{"metadata":{"name":"a","uid":"u"},"data":{"password":["hunter2"]}}"#;
        let error = read(&decoder, json.as_bytes()).expect_err("a list is not a string");
        assert_eq!(
            error.to_string(),
            "data.password: invalid type, expected a string"
        );
        let json = r#"{"metadata":{"name":"a"},"immutable":"hunter2"}"#;
        let error = read(&decoder, json.as_bytes()).expect_err("not a boolean");
        assert_eq!(
            error.to_string(),
            "immutable: invalid type, expected a boolean"
        );
    }

    #[test]
    fn an_object_of_another_kind_is_refused_by_its_identity() {
        let decoder = Decoder::<ConfigMap>::new(&(), Trim::default(), false, 0);
        let error = decoder
            .identity(br#"{"kind":"Secret","metadata":{"name":"a"}}"#)
            .expect_err("a secret is no config map");
        assert!(error.to_string().contains("Secret"), "{error}");
    }

    #[test]
    fn partial_object_metadata_is_its_own_kind() {
        let decoder = Decoder::<PartialObjectMeta<Pod>>::new(&(), Trim::default(), false, 0);
        let json = r#"{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":{"name":"a"}}"#;
        decoder
            .identity(json.as_bytes())
            .expect("the kind that was asked for");
        assert_eq!(
            read(&decoder, json.as_bytes()).expect("decodes").name_any(),
            "a"
        );
    }

    #[test]
    fn an_error_about_invalid_json_has_its_position() {
        let decoder = Decoder::<ConfigMap>::new(&(), Trim::default(), false, 0);
        let json = "{\"metadata\":{\"name\":\"a\"},\n\"data\":{\"a\":\"b\",}}";
        let error = read(&decoder, json.as_bytes()).expect_err("a comma");
        assert_eq!(error.to_string(), "not valid JSON at line 2, column 17");
        let error = read(&decoder, b"{}]").expect_err("more than an object");
        assert_eq!(error.to_string(), "not valid JSON at line 1, column 3");
    }

    #[test]
    fn an_error_about_invalid_utf_8_has_its_position() {
        let decoder = Decoder::<ConfigMap>::new(&(), Trim::default(), false, 0);
        let error = read(&decoder, b"{\"metadata\":{\"name\":\"\xff\"}}").expect_err("no UTF-8");
        assert_eq!(error.to_string(), "not valid JSON at line 1, column 22");
    }

    fn read<K>(decoder: &Decoder<K>, json: &[u8]) -> Result<K, DecodeError>
    where
        K: Resource + DeserializeOwned,
    {
        let object = decoder.decode(&decoder.trimmed(RawJson::of(json))?);
        object.map_err(|error| error.in_received(json))
    }
}
