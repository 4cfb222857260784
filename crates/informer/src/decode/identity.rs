//! Whom a piece of JSON concerns, read without reading the rest. *(pure)*

use std::borrow::Cow;

use serde::Deserialize;

use super::DecodeError;
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

#[derive(Deserialize)]
struct Head<'a> {
    #[serde(borrow, default)]
    kind: Option<Cow<'a, str>>,
    #[serde(borrow)]
    metadata: Meta<'a>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Meta<'a> {
    #[serde(borrow, default)]
    name: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    namespace: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    uid: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    resource_version: Option<Cow<'a, str>>,
}

// === impl Identity ===

impl Identity {
    /// Reads the identity of the object in `json`, which must be of kind `kind` if it says
    /// of which it is; objects in lists of built-in kinds don't.
    pub(super) fn read(json: &str, kind: &str) -> Result<Self, DecodeError> {
        let head: Head<'_> =
            serde_json::from_str(json).map_err(|error| DecodeError::at("metadata", &error))?;
        if let Some(found) = head.kind
            && found != kind
        {
            return Err(DecodeError::Kind {
                expected: kind.to_owned(),
                found: found.into_owned(),
            });
        }
        let meta = head.metadata;
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
