//! The pending deletes of each kind, oldest first, with a bound. *(pure)*
//!
//! Other pending calls belong to existing objects, so their number is bounded by the number of
//! objects. A delete outlives its object: without a bound, a handler that always fails would keep
//! all objects that were ever deleted.

use std::collections::{BTreeMap, HashMap, VecDeque};

use super::ready::LaneId;
use crate::{HandlerId, route::KindId};

/// The pending deletes of all kinds.
#[derive(Debug, Default)]
pub(super) struct PendingDeletes {
    kinds: HashMap<KindId, KindDeletes>,
    next: u64,
}

/// The pending deletes of one kind.
#[derive(Debug, Default)]
struct KindDeletes {
    /// In the order in which they became pending.
    order: BTreeMap<u64, (LaneId, HandlerId)>,
    /// Several, because objects with one name can be deleted faster than the deletes succeed.
    numbers: HashMap<(LaneId, HandlerId), VecDeque<u64>>,
}

// === impl PendingDeletes ===

impl PendingDeletes {
    /// The maximum number of pending deletes of one kind. Each holds the last state of an object,
    /// so this bounds memory to some tens of megabytes.
    pub(super) const LIMIT: usize = 10_000;

    /// Adds a pending delete. Returns the oldest one if there are too many.
    pub(super) fn insert(
        &mut self,
        kind: KindId,
        lane: LaneId,
        handler: HandlerId,
    ) -> Option<(LaneId, HandlerId)> {
        self.next += 1;
        let known = self.kinds.entry(kind).or_default();
        let numbers = known.numbers.entry((lane, handler)).or_default();
        numbers.push_back(self.next);
        known.order.insert(self.next, (lane, handler));
        if known.order.len() <= Self::LIMIT {
            return None;
        }
        let (_, (lane, handler)) = known.order.first_key_value()?;
        let oldest = (*lane, *handler);
        self.remove(kind, oldest.0, oldest.1);
        Some(oldest)
    }

    /// Removes a pending delete.
    pub(super) fn remove(&mut self, kind: KindId, lane: LaneId, handler: HandlerId) {
        let Some(known) = self.kinds.get_mut(&kind) else {
            return;
        };
        let Some(numbers) = known.numbers.get_mut(&(lane, handler)) else {
            return;
        };
        if let Some(number) = numbers.pop_front() {
            known.order.remove(&number);
        }
        if numbers.is_empty() {
            known.numbers.remove(&(lane, handler));
        }
        if known.order.is_empty() {
            self.kinds.remove(&kind);
        }
    }

    /// Removes all pending deletes of `handler` in `lane`.
    pub(super) fn remove_all(&mut self, kind: KindId, lane: LaneId, handler: HandlerId) {
        let known = self.kinds.get(&kind);
        let numbers = known.and_then(|known| known.numbers.get(&(lane, handler)));
        for _ in 0..numbers.map_or(0, VecDeque::len) {
            self.remove(kind, lane, handler);
        }
    }

    /// The number of pending deletes of all kinds.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.kinds.values().map(|known| known.order.len()).sum()
    }

    /// Removes all pending deletes of `kind`.
    pub(super) fn forget(&mut self, kind: KindId) {
        self.kinds.remove(&kind);
    }
}

#[cfg(test)]
mod tests {
    use super::{super::slab::SlabKey, *};

    #[test]
    fn the_oldest_delete_of_a_kind_is_dropped_above_the_limit() {
        let (pods, nodes, handler) = (KindId(1), KindId(2), HandlerId(0));
        let mut deletes = PendingDeletes::default();
        for lane in 0..PendingDeletes::LIMIT {
            assert_eq!(deletes.insert(pods, SlabKey::at(lane), handler), None);
        }
        assert_eq!(deletes.insert(nodes, SlabKey::at(0), handler), None);
        // One that is tried again waits anew.
        deletes.remove(pods, SlabKey::at(0), handler);
        assert_eq!(deletes.insert(pods, SlabKey::at(0), handler), None);
        let oldest = deletes.insert(pods, SlabKey::at(PendingDeletes::LIMIT), handler);
        assert_eq!(oldest, Some((SlabKey::at(1), handler)));
        deletes.remove(pods, SlabKey::at(2), handler);
        assert_eq!(deletes.insert(pods, SlabKey::at(1), handler), None);
    }

    #[test]
    fn each_delete_of_a_name_is_counted() {
        let (pods, lane, handler) = (KindId(1), SlabKey::at(0), HandlerId(0));
        let mut deletes = PendingDeletes::default();
        for _ in 0..PendingDeletes::LIMIT {
            assert_eq!(deletes.insert(pods, lane, handler), None);
        }
        assert_eq!(deletes.insert(pods, lane, handler), Some((lane, handler)));
        deletes.remove_all(pods, lane, handler);
        assert!(deletes.kinds.is_empty());
    }

    #[test]
    fn a_kind_without_pending_deletes_is_forgotten() {
        let mut deletes = PendingDeletes::default();
        deletes.insert(KindId(1), SlabKey::at(0), HandlerId(0));
        deletes.remove(KindId(1), SlabKey::at(0), HandlerId(1));
        assert_eq!(deletes.kinds.len(), 1);
        deletes.remove(KindId(1), SlabKey::at(0), HandlerId(0));
        assert!(deletes.kinds.is_empty());
    }
}
