//! Whom a piece of JSON concerns, read without reading the rest. *(pure)*

use std::borrow::Cow;

use super::{DecodeError, fields::Fields};
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
    pub(super) fn read(json: &[u8], kind: &str) -> Result<Self, DecodeError> {
        let head = Head::read(json)?;
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
            return Err(missing("metadata.name", "name"));
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
    fn read(json: &'a [u8]) -> Result<Self, DecodeError> {
        let mut head = Self::default();
        let mut fields = Fields::of(json);
        if !fields.enter() {
            return Err(fields.malformed());
        }
        while let Some(name) = fields.next()? {
            match &*name {
                "kind" => head.kind = fields.text("kind")?,
                "metadata" if fields.enter() => {
                    let metadata = head.metadata.insert(Meta::default());
                    metadata.read(&mut fields)?;
                    if metadata.is_whole() {
                        break;
                    }
                }
                _ => _ = fields.value()?,
            }
        }
        if head.metadata.is_none() {
            return Err(missing("metadata", "metadata"));
        }
        Ok(head)
    }
}

// === impl Meta ===

impl<'a> Meta<'a> {
    /// Reads on until nothing is missing any more, or there is no more.
    fn read(&mut self, fields: &mut Fields<'a>) -> Result<(), DecodeError> {
        while !self.is_whole()
            && let Some(name) = fields.next()?
        {
            match &*name {
                "name" => self.name = fields.text("metadata.name")?,
                "namespace" => self.namespace = fields.text("metadata.namespace")?,
                "uid" => self.uid = fields.text("metadata.uid")?,
                "resourceVersion" => {
                    self.resource_version = fields.text("metadata.resourceVersion")?;
                }
                _ => _ = fields.value()?,
            }
        }
        Ok(())
    }

    const fn is_whole(&self) -> bool {
        self.name.is_some()
            && self.namespace.is_some()
            && self.uid.is_some()
            && self.resource_version.is_some()
    }
}

fn missing(path: &str, field: &str) -> DecodeError {
    DecodeError::Shape {
        path: path.to_owned(),
        expected: format!("missing field `{field}`"),
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
