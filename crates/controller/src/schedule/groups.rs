//! Groups of lanes that share turns: the lanes of one kind and namespace.
//!
//! A group is the interned kind and namespace of its lanes: a lane stores four bytes for both. Empty
//! groups are removed, except the last few, so that memory is bounded by the namespaces with work.

use std::{collections::VecDeque, hash::BuildHasher, sync::Arc};

use hashbrown::{DefaultHashBuilder, HashTable};

use super::{
    ready::GroupId,
    slab::{Slab, SlabKey},
};
use crate::route::KindId;

/// The groups with lanes, and some that recently had lanes.
#[derive(Debug, Default)]
pub(super) struct Groups {
    known: Slab<Group>,
    index: HashTable<GroupId>,
    hasher: DefaultHashBuilder,

    /// Groups without lanes. Kept, because with one event at a time each event would otherwise
    /// create its group.
    empty: VecDeque<GroupId>,
}

/// A kind and a namespace, which its lanes share.
#[derive(Debug)]
pub(super) struct Group {
    pub(super) kind: KindId,
    pub(super) namespace: Option<Arc<str>>,
    lanes: u32,
    /// Whether it is in the list of groups without lanes.
    is_in_empty: bool,
}

// === impl Groups ===

impl Groups {
    /// The number of groups without lanes that are kept.
    const MAX_EMPTY: usize = 64;

    /// Returns the group of this kind and namespace, which is created if necessary. It exists until
    /// the next [`trim`](Self::trim), or as long as a lane that has [entered](Self::enter) it.
    pub(super) fn of(&mut self, kind: KindId, namespace: Option<Arc<str>>) -> GroupId {
        let hash = self.hasher.hash_one((kind, namespace.as_deref()));
        let known = self.index.find(hash, |&group| {
            let group = &self.known[group];
            group.kind == kind && group.namespace == namespace
        });
        if let Some(&group) = known {
            return group;
        }
        let group = self.known.insert(Group {
            kind,
            namespace,
            lanes: 0,
            is_in_empty: false,
        });
        self.index.insert_unique(hash, group, |&group| {
            hash_of(&self.hasher, &self.known[group])
        });
        group
    }

    /// All groups, with the kind of each.
    pub(super) fn kinds(&self) -> impl Iterator<Item = (GroupId, KindId)> {
        self.known.iter().map(|(id, group)| (id, group.kind))
    }

    /// Adds a lane to `group`.
    pub(super) fn enter(&mut self, group: GroupId) {
        self.known[group].lanes += 1;
    }

    /// Removes a lane from `group`.
    pub(super) fn leave(&mut self, group: GroupId) {
        let it = &mut self.known[group];
        it.lanes -= 1;
        if it.lanes > 0 || it.is_in_empty {
            return;
        }
        it.is_in_empty = true;
        self.empty.push_back(group);
    }

    /// Removes groups without lanes, oldest first, until [`MAX_EMPTY`](Self::MAX_EMPTY) are left.
    pub(super) fn trim(&mut self) {
        while self.empty.len() > Self::MAX_EMPTY
            && let Some(oldest) = self.empty.pop_front()
        {
            self.known[oldest].is_in_empty = false;
            if self.known[oldest].lanes == 0 {
                self.remove(oldest);
            }
        }
    }

    fn remove(&mut self, group: GroupId) {
        let hash = hash_of(&self.hasher, &self.known[group]);
        if let Ok(entry) = self.index.find_entry(hash, |&it| it == group) {
            entry.remove();
        }
        self.known.remove(group);
    }
}

impl std::ops::Index<SlabKey> for Groups {
    type Output = Group;

    fn index(&self, group: GroupId) -> &Group {
        &self.known[group]
    }
}

fn hash_of(hasher: &DefaultHashBuilder, group: &Group) -> u64 {
    hasher.hash_one((group.kind, group.namespace.as_deref()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_is_a_kind_and_a_namespace() {
        let mut groups = Groups::default();
        let shop = join(&mut groups, 1, "shop");
        assert_eq!(join(&mut groups, 1, "shop"), shop);
        assert_ne!(join(&mut groups, 2, "shop"), shop);
        assert_ne!(join(&mut groups, 1, "web"), shop);
        assert_eq!(groups[shop].namespace.as_deref(), Some("shop"));
    }

    #[test]
    fn each_of_many_namespaces_has_a_group() {
        let mut groups = Groups::default();
        let names: Vec<_> = (0..1_000).map(|at| format!("namespace-{at}")).collect();
        for kind in [1, 2] {
            for name in &names {
                let group = join(&mut groups, kind, name);
                let Group {
                    kind: its,
                    namespace,
                    ..
                } = &groups[group];
                assert_eq!((its.0, namespace.as_deref()), (kind, Some(&**name)));
            }
        }
        assert_eq!(groups.known.len(), 2_000);
    }

    /// A group with lanes does not take the place of an empty one that is kept.
    #[test]
    fn a_group_that_still_has_lanes_is_not_counted_as_empty() {
        let mut groups = Groups::default();
        let empty = join(&mut groups, 1, "empty");
        groups.leave(empty);
        for at in 0..2 * Groups::MAX_EMPTY {
            let name = format!("namespace-{at}");
            let group = join(&mut groups, 1, &name);
            join(&mut groups, 1, &name);
            groups.leave(group);
        }
        groups.trim();
        assert_eq!(groups.known.len(), 2 * Groups::MAX_EMPTY + 1);
    }

    #[test]
    fn a_group_whose_last_lane_has_left_is_found_again() {
        let mut groups = Groups::default();
        let shop = join(&mut groups, 1, "shop");
        for _ in 0..3 {
            groups.leave(shop);
            assert_eq!(join(&mut groups, 1, "shop"), shop);
        }
        assert_eq!(groups.empty.len(), 1);
    }

    #[test]
    fn few_groups_are_kept_without_a_lane() {
        let mut groups = Groups::default();
        let stays = join(&mut groups, 1, "stays");
        for _ in 0..2 {
            for round in 0..1_000 {
                let group = join(&mut groups, 1, &format!("namespace-{round}"));
                groups.leave(group);
                groups.trim();
            }
            let kept = Groups::MAX_EMPTY + 1;
            assert_eq!((groups.known.len(), groups.index.len()), (kept, kept));
        }
        assert_eq!(groups.of(KindId(1), Some(Arc::from("stays"))), stays);
    }

    /// Several events are offered at once: the groups of all are looked up before a lane is made.
    #[test]
    fn a_group_that_was_looked_up_stays_while_others_lose_their_lanes() {
        let mut groups = Groups::default();
        let oldest = join(&mut groups, 1, "oldest");
        groups.leave(oldest);
        let others = (0..2 * Groups::MAX_EMPTY).map(|round| format!("namespace-{round}"));
        let others: Vec<_> = others.map(|it| join(&mut groups, 1, &it)).collect();
        assert_eq!(groups.of(KindId(1), Some(Arc::from("oldest"))), oldest);
        for other in others {
            groups.leave(other);
        }
        groups.enter(oldest);
        groups.trim();
        assert_eq!(groups[oldest].namespace.as_deref(), Some("oldest"));
    }

    fn join(groups: &mut Groups, kind: u32, namespace: &str) -> GroupId {
        let group = groups.of(KindId(kind), Some(Arc::from(namespace)));
        groups.enter(group);
        group
    }
}
