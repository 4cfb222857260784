//! `Informed`: the store of an informer of any type.

use std::sync::Arc;

use windlass_informer::{ObjectIdentity as _, ObjectKey, Stored};

/// The store of an informer of any type.
pub(super) trait Informed<K>: Send + Sync {
    fn get(&self, key: &ObjectKey) -> Option<Arc<K>>;

    /// The stored object, if it is another object or version than `object`, and `object` otherwise.
    fn newest(&self, key: &ObjectKey, object: Arc<K>) -> Option<Arc<K>>;

    fn list(&self) -> Vec<Arc<K>>;

    fn find(&self, wanted: &dyn Fn(&K) -> bool) -> Option<Arc<K>>;

    fn keys(&self) -> Vec<ObjectKey>;

    fn len(&self) -> usize;
}

// === impl Informed ===

impl<K: Stored> Informed<K> for windlass_informer::Store<K> {
    fn get(&self, key: &ObjectKey) -> Option<Arc<K>> {
        Self::get(self, key)
    }

    fn newest(&self, key: &ObjectKey, object: Arc<K>) -> Option<Arc<K>> {
        let stored = self.get_lazy(key)?;
        let is_same = match stored.resource_version() {
            // Of two objects of one name, no version is equal.
            Some(version) => Some(version) == object.resource_version(),
            None => stored.uid() == object.uid(),
        };
        if is_same {
            return Some(object);
        }
        Self::get(self, key)
    }

    fn list(&self) -> Vec<Arc<K>> {
        Self::list(self)
    }

    fn find(&self, wanted: &dyn Fn(&K) -> bool) -> Option<Arc<K>> {
        let objects = self.list_lazy().into_iter();
        objects.filter_map(|it| it.get().ok()).find(|it| wanted(it))
    }

    fn keys(&self) -> Vec<ObjectKey> {
        Self::keys(self)
    }

    fn len(&self) -> usize {
        Self::len(self)
    }
}
