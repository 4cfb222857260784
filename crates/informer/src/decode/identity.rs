//! The identity of an object in JSON, read without reading the rest. *(pure)*

use std::borrow::Cow;

use super::{
    DecodeError,
    fields::{Fields, shape, text},
};
use crate::{ObjectIdentity, ObjectKey, Uid, message::one_line};

/// The identity of an object, and the version of this state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The namespace and the name.
    pub key: ObjectKey,

    /// The uid, which distinguishes it from other objects with this name.
    pub uid: Option<Uid>,

    /// The `resourceVersion` of this state.
    pub resource_version: Option<String>,
}

/// The identity of an object, borrowed from its JSON.
#[derive(Clone, Debug)]
pub(crate) struct BorrowedIdentity<'a> {
    name: Cow<'a, str>,
    namespace: Option<Cow<'a, str>>,
    uid: Option<Cow<'a, str>>,
    resource_version: Option<Cow<'a, str>>,
}

/// The identity fields of an object, as raw JSON.
#[derive(Debug, Default)]
pub(super) struct IdentityFields<'a> {
    kind: Option<&'a [u8]>,
    metadata: Option<IdentityMeta<'a>>,
}

/// The identity fields of the metadata, as raw JSON.
#[derive(Debug, Default)]
pub(super) struct IdentityMeta<'a> {
    pub(super) name: Option<&'a [u8]>,
    pub(super) namespace: Option<&'a [u8]>,
    pub(super) uid: Option<&'a [u8]>,
    pub(super) resource_version: Option<&'a [u8]>,
}

// === impl Identity ===

impl From<&BorrowedIdentity<'_>> for Identity {
    fn from(borrowed: &BorrowedIdentity<'_>) -> Self {
        Self {
            key: borrowed.key(),
            uid: Uid::of(borrowed),
            resource_version: borrowed.resource_version().map(str::to_owned),
        }
    }
}

impl ObjectIdentity for Identity {
    fn namespace(&self) -> Option<&str> {
        self.key.namespace()
    }

    fn name(&self) -> &str {
        self.key.name()
    }

    fn uid(&self) -> Option<&str> {
        self.uid.as_ref().map(Uid::as_str)
    }

    fn resource_version(&self) -> Option<&str> {
        self.resource_version.as_deref()
    }

    fn key(&self) -> ObjectKey {
        self.key.clone()
    }
}

// === impl BorrowedIdentity ===

impl<'a> BorrowedIdentity<'a> {
    /// Reads the identity from `json`. An object of another kind than `kind` is an error. Objects
    /// in lists of built-in kinds have no kind.
    pub(super) fn read(json: &'a [u8], kind: &str) -> Result<Self, DecodeError> {
        let head = IdentityFields::read(json)?;
        let meta = head.meta(kind)?;
        let text = |value: Option<&'a [u8]>, path| match value {
            Some(value) => text(value, path),
            None => Ok(None),
        };
        Ok(Self {
            name: text(meta.name, "metadata.name")?
                .ok_or_else(|| shape("metadata.name", "missing field `name`"))?,
            namespace: text(meta.namespace, "metadata.namespace")?,
            uid: text(meta.uid, "metadata.uid")?,
            resource_version: text(meta.resource_version, "metadata.resourceVersion")?,
        })
    }
}

impl ObjectIdentity for BorrowedIdentity<'_> {
    fn namespace(&self) -> Option<&str> {
        self.namespace.as_deref()
    }

    fn name(&self) -> &str {
        &self.name
    }

    fn uid(&self) -> Option<&str> {
        self.uid.as_deref()
    }

    fn resource_version(&self) -> Option<&str> {
        self.resource_version.as_deref()
    }
}

// === impl IdentityFields ===

impl<'a> IdentityFields<'a> {
    /// Reads up to the metadata, and in the metadata until all identity fields are found. The API
    /// server writes them before the managed fields, and writes none after the metadata.
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
                    head.metadata_field(&name, fields.value()?);
                }
                break;
            }
            head.field(&name, fields.value()?);
        }
        Ok(head)
    }

    /// Notes a field of the object.
    pub(super) fn field(&mut self, name: &[u8], value: &'a [u8]) {
        if name == b"kind" {
            self.kind = Some(value);
        }
    }

    /// Notes that the object has metadata.
    pub(super) fn enter_metadata(&mut self) {
        self.metadata.get_or_insert_default();
    }

    /// Notes a field of the metadata.
    pub(super) fn metadata_field(&mut self, name: &[u8], value: &'a [u8]) {
        let metadata = self.metadata.get_or_insert_default();
        match name {
            b"name" => metadata.name = Some(value),
            b"namespace" => metadata.namespace = Some(value),
            b"uid" => metadata.uid = Some(value),
            b"resourceVersion" => metadata.resource_version = Some(value),
            _ => {}
        }
    }

    /// Returns the metadata fields. The object must have a name, and the kind `kind` if it has a
    /// kind.
    pub(super) fn meta(self, kind: &str) -> Result<IdentityMeta<'a>, DecodeError> {
        if let Some(found) = self.kind
            && let Some(found) = text(found, "kind")?
            && found != kind
        {
            return Err(DecodeError::Kind {
                expected: kind.to_owned(),
                found: one_line(&found).into_owned(),
            });
        }
        let Some(meta) = self.metadata else {
            return Err(shape("metadata", "missing field `metadata`"));
        };
        if meta.name.is_none_or(|name| name == b"null") {
            return Err(shape("metadata.name", "missing field `name`"));
        }
        Ok(meta)
    }

    fn is_whole(&self) -> bool {
        let is_whole = |meta: &IdentityMeta<'_>| {
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
    use super::{BorrowedIdentity, Identity};

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
    fn an_object_without_metadata_has_no_identity() {
        let error = BorrowedIdentity::read(br#"{"kind":"Pod"}"#, "Pod").expect_err("no metadata");
        assert!(error.to_string().contains("metadata"), "{error}");
    }

    #[track_caller]
    fn check(json: &str) {
        let borrowed = BorrowedIdentity::read(json.as_bytes(), "Pod").expect(json);
        let identity = Identity::from(&borrowed);
        assert_eq!(identity.key.to_string(), "shop/web", "{json}");
        assert_eq!(
            identity.uid.as_ref().map(crate::Uid::as_str),
            Some("u"),
            "{json}"
        );
        assert_eq!(identity.resource_version.as_deref(), Some("7"), "{json}");
    }
}
