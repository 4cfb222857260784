//! An existing child: as the store has it, or as the API server returned it.

use std::sync::Arc;

use bytes::Bytes;
use kube::{Resource, api::ObjectMeta};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;
use windlass_informer::{LazyObject, Stored, api_request};

use super::{
    ChildError, ChildKind,
    desired::Prepared,
    digest::{self, Digest},
    memory::AnswerDigests,
    plan::DigestForm,
};

/// An object that can be a child: every Kubernetes object that converts from and to JSON.
pub trait ChildObject: Resource + Serialize + DeserializeOwned + Send + Sync + 'static {}

impl<C: Resource + Serialize + DeserializeOwned + Send + Sync + 'static> ChildObject for C {}

/// An existing child.
pub(super) struct Observed<C> {
    object: LazyObject<C>,
    /// The complete response of the API server, if this is one.
    answer: Option<Value>,
}

// === impl Observed ===

impl<C: ChildObject> Observed<C> {
    pub(super) const fn stored(object: LazyObject<C>) -> Self {
        Self {
            object,
            answer: None,
        }
    }

    /// Decodes a response.
    pub(super) fn answer(body: &Bytes) -> Result<Self, kube::Error>
    where
        C: Stored,
    {
        let object: C = api_request::decode(body)?;
        Ok(Self {
            object: LazyObject::from(Arc::new(object)),
            answer: Some(api_request::decode(body)?),
        })
    }

    pub(super) fn metadata(&self) -> ObjectMeta {
        self.object.metadata().into_owned()
    }

    /// Returns the decoded object.
    pub(super) fn get(&self, kind: &ChildKind) -> Result<Arc<C>, ChildError> {
        use windlass_informer::ObjectIdentity as _;

        (self.object.get()).map_err(|source| ChildError::Undecodable {
            resource: kind.resource(),
            key: self.object.key(),
            source,
        })
    }

    /// The digest of the object, cut to the fields of `desired`.
    pub(super) fn digest(
        &self,
        kind: &ChildKind,
        desired: &Prepared,
    ) -> Result<(DigestForm, Digest), ChildError> {
        let (form, value) = self.value(kind)?;
        if kind.is_metadata_only {
            let digest = digest::of_metadata(&value, &desired.body);
            return Ok((DigestForm::Metadata, digest));
        }
        Ok((form, digest::of_fields(&value, &desired.body)))
    }

    /// The digests of a response, for each form in which a store may have the object.
    pub(super) fn digests(
        &self,
        kind: &ChildKind,
        desired: &Prepared,
    ) -> Result<AnswerDigests, ChildError> {
        let (_, json) = self.value(kind)?;
        let decoded = to_value(&*self.get(kind)?);
        Ok(AnswerDigests {
            json: digest::of_fields(&json, &desired.body),
            decoded: digest::of_fields(&decoded, &desired.body),
            metadata: digest::of_metadata(&json, &desired.body),
        })
    }

    /// The object as JSON. An object of a store that keeps objects decoded has only the fields of
    /// its type.
    pub(super) fn value(&self, kind: &ChildKind) -> Result<(DigestForm, Value), ChildError> {
        if let Some(answer) = &self.answer {
            return Ok((DigestForm::Json, answer.clone()));
        }
        let json = self.object.as_erased().json();
        let parsed = json.and_then(|json| serde_json::from_str(json).ok());
        match parsed {
            Some(value) => Ok((DigestForm::Json, value)),
            None => Ok((DigestForm::Decoded, to_value(&*self.get(kind)?))),
        }
    }
}

/// The JSON of an object that was decoded from JSON. Null if it cannot be converted back, which
/// equals no object.
fn to_value<C: Serialize>(object: &C) -> Value {
    serde_json::to_value(object).unwrap_or_default()
}
