//! Whom a piece of JSON concerns, read without reading the rest. *(pure)*

use std::borrow::Cow;

use super::{
    DecodeError,
    fields::{Fields, shape, text},
};
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

/// What an object says of who it is, as it stands.
#[derive(Default)]
pub(super) struct Head<'a> {
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
    pub(super) fn read(json: &[u8], kind: &str) -> Result<Self, DecodeError> {
        Head::read(json)?.identity(kind)
    }
}

// === impl Head ===

impl<'a> Head<'a> {
    /// Reads as far as the metadata, and in it no further than what is asked for; in what the
    /// API server writes that is before the managed fields.
    fn read(json: &'a [u8]) -> Result<Self, DecodeError> {
        let mut head = Self::default();
        let mut fields = Fields::of(json);
        if !fields.enter() {
            return Err(fields.malformed());
        }
        while let Some(name) = fields.next()? {
            if &*name == b"metadata" && fields.enter() {
                head.enter_metadata();
                while !head.is_whole()
                    && let Some(name) = fields.next()?
                {
                    head.metadata_field(&name, fields.value()?)?;
                }
                if head.is_whole() {
                    break;
                }
                continue;
            }
            head.field(&name, fields.value()?)?;
        }
        Ok(head)
    }

    /// Takes notice of a field of the object.
    pub(super) fn field(&mut self, name: &[u8], value: &'a [u8]) -> Result<(), DecodeError> {
        if name == b"kind" {
            self.kind = text(value, "kind")?;
        }
        Ok(())
    }

    /// There are metadata.
    pub(super) fn enter_metadata(&mut self) {
        self.metadata.get_or_insert_default();
    }

    /// Takes notice of a field of the metadata.
    pub(super) fn metadata_field(
        &mut self,
        name: &[u8],
        value: &'a [u8],
    ) -> Result<(), DecodeError> {
        let metadata = self.metadata.get_or_insert_default();
        match name {
            b"name" => metadata.name = text(value, "metadata.name")?,
            b"namespace" => metadata.namespace = text(value, "metadata.namespace")?,
            b"uid" => metadata.uid = text(value, "metadata.uid")?,
            b"resourceVersion" => {
                metadata.resource_version = text(value, "metadata.resourceVersion")?;
            }
            _ => {}
        }
        Ok(())
    }

    /// Whose head it is, which must be of kind `kind` if it says of which it is.
    pub(super) fn identity(self, kind: &str) -> Result<Identity, DecodeError> {
        if let Some(found) = self.kind
            && found != kind
        {
            return Err(DecodeError::Kind {
                expected: kind.to_owned(),
                found: found.into_owned(),
            });
        }
        let Some(meta) = self.metadata else {
            return Err(shape("metadata", "missing field `metadata`"));
        };
        let Some(name) = meta.name else {
            return Err(shape("metadata.name", "missing field `name`"));
        };
        let key = ObjectKey::new(&*name);
        Ok(Identity {
            key: match meta.namespace {
                Some(namespace) => key.within(&*namespace),
                None => key,
            },
            uid: meta.uid.map(|uid| Uid::from(&*uid)),
            resource_version: meta.resource_version.map(Cow::into_owned),
        })
    }

    fn is_whole(&self) -> bool {
        let is_whole = |meta: &Meta<'_>| {
            meta.name.is_some()
                && meta.namespace.is_some()
                && meta.uid.is_some()
                && meta.resource_version.is_some()
        };
        self.metadata.as_ref().is_some_and(is_whole)
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
        let error = Identity::read(br#"{"kind":"Pod"}"#, "Pod").expect_err("no metadata");
        assert!(error.to_string().contains("metadata"), "{error}");
    }

    #[track_caller]
    fn check(json: &str) {
        let identity = Identity::read(json.as_bytes(), "Pod").expect(json);
        assert_eq!(identity.key.to_string(), "shop/web", "{json}");
        assert_eq!(
            identity.uid.as_ref().map(crate::Uid::as_str),
            Some("u"),
            "{json}"
        );
        assert_eq!(identity.resource_version.as_deref(), Some("7"), "{json}");
    }
}
