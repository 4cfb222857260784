//! `SameName`: maps an object to the object with the same key.

use kube::Resource;
use windlass_informer::{DecodeError, LazyObject, ObjectIdentity as _, ObjectKey};

use super::Mapper;

/// Returns the key of the object itself, for a kind whose objects have the same namespaces and
/// names.
///
/// # Example
///
/// ```
/// use k8s_openapi::api::core::v1::Secret;
/// use windlass_controller::{Mapper, SameName};
/// use windlass_informer::ObjectKey;
///
/// let mut secret = Secret::default();
/// secret.metadata.name = Some("web".into());
/// assert!(SameName.keys(&secret).into_iter().eq([ObjectKey::new("web")]));
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct SameName;

// === impl SameName ===

impl<K: Resource> Mapper<K> for SameName {
    fn keys(&self, object: &K) -> impl IntoIterator<Item = ObjectKey> {
        [ObjectKey::of(object)]
    }

    fn keys_before(&self, old: &LazyObject<K>) -> Result<Vec<ObjectKey>, DecodeError>
    where
        K: Send + Sync + 'static,
    {
        Ok(vec![old.key()])
    }
}
