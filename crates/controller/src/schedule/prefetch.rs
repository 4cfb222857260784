//! Reads the data of the next lanes before they are needed. *(pure)*
//!
//! With many lanes, their data is usually not in the CPU cache. Reads of several lanes in a loop
//! overlap. Without this, the benchmark scenario P5-50k falls by 22 % (from 728,000 to 565,000
//! reconciles per second).

use std::{hint::black_box, sync::Arc};

use super::{
    Schedule,
    lane::{Lane, Offer, ScheduleItem},
    lanes::LocatedLane,
};

// === impl Schedule ===

impl<E: ScheduleItem, P: ScheduleItem> Schedule<E, P> {
    /// Finds the lanes of the offers, and prefetches them, one part of all lanes after the other.
    pub(super) fn find_likely(&self, located: &mut [(LocatedLane, Offer<E>)]) {
        for (it, _) in &mut *located {
            self.lanes.note_likely(it);
        }
        let lanes = || located.iter().filter_map(|(it, _)| it.likely);
        black_box(lanes().map(|id| self.lanes[id].hash).max());
        black_box((lanes().map(|id| self.later.look_ahead(self.lanes[id].pendings()))).max());
    }

    /// Prefetches the data of the next turns.
    pub(super) fn look_ahead(&mut self) {
        /// About as many as a processor can load concurrently, with three or four loads for each.
        const TURNS: usize = 8;
        if let Some(left) = self.prefetched.checked_sub(1) {
            self.prefetched = left;
            return;
        }
        // The data of a single lane was just written.
        if self.ready.len() < 2 {
            return;
        }
        let mut located = [None; TURNS];
        for (at, id) in located.iter_mut().zip(self.ready.upcoming(TURNS)) {
            *at = Some(id);
        }
        let ids = || located.iter().flatten().copied();
        let lanes = || ids().map(|id| &self.lanes[id]);
        black_box(lanes().map(|lane| lane.hash).max());
        let event = |lane: &Lane<E>| lane.first().map(ScheduleItem::owners);
        black_box(
            lanes()
                .map(|lane| (Arc::strong_count(&lane.name), event(lane)))
                .max(),
        );
        self.lanes.prefetch_index(ids());
        // This turn is one of them.
        self.prefetched = ids().count().saturating_sub(1);
    }
}
