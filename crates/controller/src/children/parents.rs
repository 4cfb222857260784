//! `ParentOf`: maps a child to its owners and its parent.

use kube::{Resource, api::ObjectMeta};
use windlass_informer::{DecodeError, LazyObject, ObjectKey, Stored};

use super::{ChildKind, identity::parent_key};
use crate::{Mapper, Owners};

/// Returns the owners of a child, and the parent that its annotation names.
///
/// An owner reference is not possible in all cases (`Desired::untracked_owner`), and the annotation
/// may have been removed.
#[derive(Clone, Debug)]
#[must_use = "a mapper does nothing until it is added to a controller"]
pub struct ParentOf {
    child: ChildKind,
    owners: Owners,
    group: String,
    kind: String,
}

// === impl ParentOf ===

impl ParentOf {
    /// Maps children of the kind `child` to parents that are `P`s. `types` is `&()`, except for
    /// kinds that are known only at run time.
    pub fn of<P: Resource>(types: &P::DynamicType, child: ChildKind) -> Self {
        Self {
            child,
            owners: Owners::of::<P>(types),
            group: P::group(types).into_owned(),
            kind: P::kind(types).into_owned(),
        }
    }

    fn named_in(&self, metadata: &ObjectMeta) -> Vec<ObjectKey> {
        let mut keys: Vec<_> = self.owners.named_in(metadata).collect();
        let named = parent_key(&self.child, metadata, &self.kind, &self.group);
        keys.extend(named.filter(|named| !keys.contains(named)));
        keys
    }
}

impl<C: Stored> Mapper<C> for ParentOf {
    fn keys(&self, object: &C) -> impl IntoIterator<Item = ObjectKey> {
        self.named_in(&object.metadata())
    }

    fn keys_before(&self, old: &LazyObject<C>) -> Result<Vec<ObjectKey>, DecodeError> {
        Ok(self.named_in(&old.metadata()))
    }
}
