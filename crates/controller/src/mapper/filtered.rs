//! A mapper with a predicate.

use windlass_informer::{DecodeError, LazyObject, ObjectKey};

use super::Mapper;
use crate::{Filtered, Predicate};

// === impl Filtered ===

impl<K, M: Mapper<K>, P: Predicate<K>> Mapper<K> for Filtered<M, P> {
    fn keys(&self, object: &K) -> impl IntoIterator<Item = ObjectKey> {
        self.handler.keys(object)
    }

    fn keys_before(&self, old: &LazyObject<K>) -> Result<Vec<ObjectKey>, DecodeError>
    where
        K: Send + Sync + 'static,
    {
        self.handler.keys_before(old)
    }

    fn predicates(&self) -> Vec<&dyn Predicate<K>> {
        self.all(self.handler.predicates())
    }
}
