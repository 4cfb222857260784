//! Whom a piece of JSON concerns, read without reading the rest. *(pure)*

use std::{borrow::Cow, fmt};

use serde::{
    Deserializer as _,
    de::{DeserializeSeed, Error, IgnoredAny, MapAccess, Visitor},
};

use super::{DecodeError, trim::Key};
use crate::{ObjectKey, Uid};

/// Who an object is, and how new this state of it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// Namespace and name.
    pub key: ObjectKey,

    /// Which of the objects that ever bore that name.
    pub uid: Option<Uid>,

    /// The version of this state, opaque.
    pub resource_version: Option<String>,
}

#[derive(Default)]
struct Head<'a> {
    kind: Option<Cow<'a, str>>,
    metadata: Option<Meta<'a>>,
}

#[derive(Default)]
struct Meta<'a> {
    name: Option<Cow<'a, str>>,
    namespace: Option<Cow<'a, str>>,
    uid: Option<Cow<'a, str>>,
    resource_version: Option<Cow<'a, str>>,
}

// === impl Identity ===

impl Identity {
    /// Reads the identity of the object in `json`, which must be of kind `kind` if it says
    /// of which it is; objects in lists of built-in kinds don't.
    pub(super) fn read(json: &str, kind: &str) -> Result<Self, DecodeError> {
        let head = Head::read(json).map_err(|error| DecodeError::at("metadata", &error))?;
        if let Some(found) = head.kind
            && found != kind
        {
            return Err(DecodeError::Kind {
                expected: kind.to_owned(),
                found: found.into_owned(),
            });
        }
        let meta = head.metadata.unwrap_or_default();
        let Some(name) = meta.name else {
            return Err(DecodeError::Shape {
                path: "metadata.name".to_owned(),
                expected: "missing field `name`".to_owned(),
            });
        };
        let key = ObjectKey::new(&*name);
        Ok(Self {
            key: match meta.namespace {
                Some(namespace) => key.within(&*namespace),
                None => key,
            },
            uid: meta.uid.map(|uid| Uid::from(&*uid)),
            resource_version: meta.resource_version.map(Cow::into_owned),
        })
    }
}

// === impl Head ===

impl<'a> Head<'a> {
    /// Reads as far as the metadata, and in it no further than what is asked for; in what the
    /// API server writes that is before the managed fields.
    fn read(json: &'a str) -> Result<Self, serde_json::Error> {
        let mut head = Self::default();
        match serde_json::Deserializer::from_str(json).deserialize_map(&mut head) {
            // Leaving a map before its end is an error to the parser, and is what we want.
            _ if head.metadata.as_ref().is_some_and(Meta::is_whole) => Ok(head),
            Ok(()) if head.metadata.is_none() => Err(Error::missing_field("metadata")),
            Ok(()) => Ok(head),
            Err(error) => Err(error),
        }
    }
}

impl<'a> Visitor<'a> for &mut Head<'a> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'a>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(Key(key)) = map.next_key()? {
            match &*key {
                "kind" => self.kind = map.next_value::<Option<Key<'a>>>()?.map(|Key(kind)| kind),
                "metadata" => map.next_value_seed(self.metadata.insert(Meta::default()))?,
                _ => _ = map.next_value::<IgnoredAny>()?,
            }
        }
        Ok(())
    }
}

// === impl Meta ===

impl Meta<'_> {
    fn is_whole(&self) -> bool {
        [
            &self.name,
            &self.namespace,
            &self.uid,
            &self.resource_version,
        ]
        .into_iter()
        .all(Option::is_some)
    }
}

impl<'a> DeserializeSeed<'a> for &mut Meta<'a> {
    type Value = ();

    fn deserialize<D: serde::Deserializer<'a>>(self, from: D) -> Result<(), D::Error> {
        from.deserialize_map(self)
    }
}

impl<'a> Visitor<'a> for &mut Meta<'a> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("metadata")
    }

    fn visit_map<A: MapAccess<'a>>(self, mut map: A) -> Result<(), A::Error> {
        while !self.is_whole()
            && let Some(Key(key)) = map.next_key()?
        {
            let field = match &*key {
                "name" => &mut self.name,
                "namespace" => &mut self.namespace,
                "uid" => &mut self.uid,
                "resourceVersion" => &mut self.resource_version,
                _ => {
                    map.next_value::<IgnoredAny>()?;
                    continue;
                }
            };
            *field = map.next_value::<Option<Key<'a>>>()?.map(|Key(value)| value);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::Identity;

    #[test]
    fn an_identity_is_read_whatever_the_order_of_the_fields() {
        check(
            r#"{"kind":"Pod","metadata":{"name":"web","namespace":"shop","uid":"u","resourceVersion":"7","managedFields":[]},"spec":{}}"#,
        );
        check(
            r#"{"kind":"Pod","metadata":{"managedFields":[{}],"namespace":"shop","name":"web","resourceVersion":"7","uid":"u"}}"#,
        );
        check(
            r#"{"spec":{},"metadata":{"uid":"u","resourceVersion":"7","name":"web","labels":{"name":"x"},"namespace":"shop"},"kind":"Pod"}"#,
        );
    }

    #[test]
    fn an_object_without_metadata_is_none() {
        let error = Identity::read(r#"{"kind":"Pod"}"#, "Pod").expect_err("no metadata");
        assert!(error.to_string().contains("metadata"), "{error}");
    }

    #[track_caller]
    fn check(json: &str) {
        let identity = Identity::read(json, "Pod").expect(json);
        assert_eq!(identity.key.to_string(), "shop/web", "{json}");
        assert_eq!(
            identity.uid.as_ref().map(crate::Uid::as_str),
            Some("u"),
            "{json}"
        );
        assert_eq!(identity.resource_version.as_deref(), Some("7"), "{json}");
    }
}
