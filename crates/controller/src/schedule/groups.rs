//! Which lanes share their turns: those of one kind and one namespace.

use std::{hash::BuildHasher, sync::Arc};

use hashbrown::{DefaultHashBuilder, HashTable};
use slab::Slab;

use super::{lane::LaneKey, ready::GroupId};
use crate::route::KindId;

/// The groups that have a lane.
#[derive(Debug, Default)]
pub(super) struct Groups {
    known: Slab<Group>,
    index: HashTable<GroupId>,
    hasher: DefaultHashBuilder,
}

#[derive(Debug)]
struct Group {
    kind: KindId,
    namespace: Option<Arc<str>>,
    lanes: usize,
}

// === impl Groups ===

impl Groups {
    /// The group of `key`, which now has one lane more.
    pub(super) fn join(&mut self, key: &LaneKey) -> GroupId {
        let namespace = key.object.namespace();
        let hash = self.hasher.hash_one((key.kind, namespace));
        let known = self.index.find(hash, |&group| {
            let group = &self.known[group as usize];
            group.kind == key.kind && group.namespace.as_deref() == namespace
        });
        if let Some(&group) = known {
            self.known[group as usize].lanes += 1;
            return group;
        }
        let group = self.known.insert(Group {
            kind: key.kind,
            namespace: namespace.map(Arc::from),
            lanes: 1,
        });
        let group = GroupId::try_from(group).expect("fewer groups than lanes, which are fewer");
        self.index.insert_unique(hash, group, |&group| {
            hash_of(&self.hasher, &self.known[group as usize])
        });
        group
    }

    /// Notes that `group` has one lane less.
    pub(super) fn leave(&mut self, group: GroupId) {
        let Some(lanes) = self.known.get_mut(group as usize) else {
            return;
        };
        lanes.lanes -= 1;
        if lanes.lanes > 0 {
            return;
        }
        let hash = hash_of(&self.hasher, lanes);
        if let Ok(entry) = self.index.find_entry(hash, |&it| it == group) {
            entry.remove();
        }
        self.known.remove(group as usize);
    }
}

fn hash_of(hasher: &DefaultHashBuilder, group: &Group) -> u64 {
    hasher.hash_one((group.kind, group.namespace.as_deref()))
}

#[cfg(test)]
mod tests {
    use windlass_informer::ObjectKey;

    use super::*;

    #[test]
    fn a_group_is_a_kind_and_a_namespace() {
        let mut groups = Groups::default();
        let shop = groups.join(&key(1, "shop"));
        assert_eq!(groups.join(&key(1, "shop")), shop);
        assert_ne!(groups.join(&key(2, "shop")), shop);
        assert_ne!(groups.join(&key(1, "web")), shop);
    }

    #[test]
    fn a_group_goes_with_its_last_lane() {
        let mut groups = Groups::default();
        for _ in 0..3 {
            let first = groups.join(&key(1, "shop"));
            let second = groups.join(&key(1, "shop"));
            groups.leave(first);
            assert_eq!(groups.known.len(), 1);
            groups.leave(second);
            assert_eq!((groups.known.len(), groups.index.len()), (0, 0));
        }
    }

    fn key(kind: u32, namespace: &str) -> LaneKey {
        LaneKey {
            kind: KindId(kind),
            object: ObjectKey::new("a").within(namespace),
        }
    }
}
