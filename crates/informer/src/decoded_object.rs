//! Decoded objects without a generation, with a hash of their content.
//!
//! A controller ends the backoff of a failed call when the object changes. Without a generation it
//! compares the content, which a decoded object does not show: the type may not serialize.

use std::{borrow::Cow, sync::Arc};

use kube::{Resource, api::ObjectMeta};

use crate::{DecodeError, ObjectIdentity, ObjectKey, Stored, key::identity_of};

/// A decoded `K`, and a hash of the JSON from which it was decoded.
pub(crate) struct DecodedObject<K> {
    pub(crate) object: Arc<K>,
    pub(crate) content_hash: u64,
}

// === impl DecodedObject ===

identity_of!([K: Resource + Send + Sync + 'static] DecodedObject<K>, object);

impl<K: Resource + Send + Sync + 'static> Stored for DecodedObject<K> {
    type Object = K;

    fn metadata(&self) -> Cow<'_, ObjectMeta> {
        Cow::Borrowed(self.object.meta())
    }

    fn object(self: Arc<Self>) -> Result<Arc<K>, DecodeError> {
        Ok(Arc::clone(&self.object))
    }

    fn content_hash(&self) -> Option<u64> {
        Some(self.content_hash)
    }
}
