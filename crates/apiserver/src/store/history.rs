//! The limits of the history: the number, the size and the age of the events that logs keep.

use std::time::Duration;

use super::{Change, Event, Store, Table};

/// The limits of the history of a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct HistoryLimits {
    /// The largest number of writes of one resource.
    pub(crate) writes: usize,
    /// The largest size of states that are not current, in bytes, for all resources together.
    pub(crate) bytes: usize,
    /// The largest age of a write.
    pub(crate) age: Duration,
}

/// The log of an event, and its time.
#[derive(Debug)]
pub(super) struct Recorded {
    table: Table,
    revision: u64,
    at: Duration,
}

/// The size of an event without its objects, in bytes: the event, its entry in the order, and its
/// share of the tables for both.
const EVENT_SIZE: usize = 256;

// === impl Event ===

impl Event {
    /// The size of the states that it keeps and that are not current, in bytes: the replaced state,
    /// or the deleted object.
    fn size(&self) -> usize {
        let replaced = self.previous.as_ref().map_or(0, |object| object.size());
        let deleted = match self.change {
            Change::Deleted => self.object.size(),
            Change::Added | Change::Modified => 0,
        };
        EVENT_SIZE.saturating_add(replaced).saturating_add(deleted)
    }
}

// === impl Store ===

impl Store {
    /// Sets the time since the start, and drops events that are too old.
    pub(crate) fn advance(&mut self, now: Duration) {
        self.now = self.now.max(now);
        self.trim();
    }

    /// The estimated size of the states in the history that are not current, in bytes.
    #[cfg(test)]
    pub(super) fn history_bytes(&self) -> usize {
        self.history
    }

    #[cfg(test)]
    pub(super) fn log_length(&self, table: &str) -> usize {
        self.stock.get(table).map_or(0, |drawer| drawer.log.len())
    }

    #[cfg(test)]
    pub(super) fn order_length(&self) -> usize {
        self.order.len()
    }

    /// Appends an event to the log of its resource, and drops events above the limits.
    pub(super) fn record(&mut self, table: &Table, event: Event) {
        self.history = self.history.saturating_add(event.size());
        self.events += 1;
        self.order.push_back(Recorded {
            table: table.clone(),
            revision: event.revision,
            at: self.now,
        });
        let drawer = self.stock.entry(table.clone()).or_default();
        drawer.last = event.revision;
        drawer.log.push_back(event);
        let excess = drawer.log.len().saturating_sub(self.limits.writes);
        for _ in 0..excess {
            self.drop_oldest(table);
        }
        self.trim();
    }

    /// Drops the oldest events of all logs while the history is too large or too old.
    fn trim(&mut self) {
        while let Some(first) = self.order.front() {
            if !self.holds(first) {
                self.order.pop_front();
                continue;
            }
            let is_old = self.now.saturating_sub(first.at) > self.limits.age;
            if !is_old && self.history <= self.limits.bytes {
                break;
            }
            let table = first.table.clone();
            self.order.pop_front();
            self.drop_oldest(&table);
        }
        // When a log drops events because of their number, their entries stay in the order, behind
        // older events of other logs. They are removed when they are the majority.
        if self.order.len() > self.events.saturating_mul(2).saturating_add(1024) {
            let mut order = std::mem::take(&mut self.order);
            order.retain(|recorded| self.holds(recorded));
            self.order = order;
        }
    }

    fn holds(&self, recorded: &Recorded) -> bool {
        let drawer = self.stock.get(&recorded.table);
        drawer.is_some_and(|drawer| drawer.floor < recorded.revision)
    }

    fn drop_oldest(&mut self, table: &str) {
        let drawer = self.stock.get_mut(table);
        if let Some((drawer, dropped)) = drawer.and_then(|it| it.log.pop_front().map(|e| (it, e))) {
            drawer.floor = dropped.revision;
            self.history = self.history.saturating_sub(dropped.size());
            self.events = self.events.saturating_sub(1);
        }
    }
}
