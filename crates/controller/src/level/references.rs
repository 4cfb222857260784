//! References: the objects of another kind that a primary object names.

use std::sync::Arc;

use windlass_informer::{DecodeError, Index, LazyObject, ObjectKey};

use super::{Informers, Watchable};
use crate::{Mapper, work::call_user_code};

/// Returns the keys of the objects to which an object refers.
pub(super) type References<K> = dyn Fn(&K) -> Vec<ObjectKey> + Send + Sync;

/// Maps an object to the primary objects that refer to it.
pub(super) struct Referrers<K: Watchable> {
    primaries: Informers<K>,
    index: Index<K, ObjectKey>,
}

/// Converts user code to [`References`]. If it panics, there are none, and the panic is logged.
pub(super) fn references<K, F, I>(of: F) -> Arc<References<K>>
where
    F: Fn(&K) -> I + Send + Sync + 'static,
    I: IntoIterator<Item = ObjectKey>,
{
    Arc::new(move |object| {
        let keys = || of(object).into_iter().collect();
        call_user_code("references", keys).unwrap_or_default()
    })
}

// === impl Referrers ===

impl<K: Watchable> Referrers<K> {
    /// Indexes `primaries` by the keys to which they refer.
    pub(super) fn new(primaries: &Informers<K>, keys: Arc<References<K>>) -> Self {
        let index = Index::new(move |object: &K| keys(object));
        primaries.declare(&index);
        Self {
            primaries: primaries.clone(),
            index,
        }
    }
}

impl<K: Watchable, O: Watchable> Mapper<O> for Referrers<K> {
    fn keys(&self, object: &O) -> impl IntoIterator<Item = ObjectKey> {
        let key = ObjectKey::of(object);
        // The index is declared in all informers of the primary kind.
        self.primaries
            .keys_by(&self.index, &key)
            .unwrap_or_default()
    }

    fn keys_before(&self, _: &LazyObject<O>) -> Result<Vec<ObjectKey>, DecodeError> {
        // An update does not change the key.
        Ok(Vec::new())
    }
}
