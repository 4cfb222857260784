//! The limits of the history, which bound the number, the size and the age of events in the logs.

use std::time::Duration;

use super::{Change, Event, Store, Table};

/// The limits of the history of a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct HistoryLimits {
    /// The maximum number of writes per resource.
    pub(crate) writes: usize,
    /// The maximum size of object states that are not current, in bytes, for all resources together.
    pub(crate) bytes: usize,
    /// The maximum age of a write.
    pub(crate) age: Duration,
}

/// The resource, the revision and the time of an event in a log.
#[derive(Debug)]
pub(super) struct LogEntry {
    table: Table,
    revision: u64,
    at: Duration,
}

/// The estimated size of an event without its objects, in bytes: the event, its [`LogEntry`], and
/// the unused capacity of both queues.
const EVENT_SIZE: usize = 256;

// === impl Event ===

impl Event {
    /// Returns the estimated size of the event, in bytes, with the object states that only it holds:
    /// the replaced state and the deleted object.
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
    /// Sets the time since the start of the server, and drops expired events. The time never
    /// decreases.
    pub(crate) fn advance(&mut self, now: Duration) {
        self.now = self.now.max(now);
        self.trim();
    }

    /// Returns the time since the start of the server.
    pub(crate) fn now(&self) -> Duration {
        self.now
    }

    /// Returns the estimated size of the object states in the logs that are not current, in bytes.
    #[cfg(test)]
    pub(super) fn history_bytes(&self) -> usize {
        self.history
    }

    #[cfg(test)]
    pub(super) fn log_length(&self, table: &str) -> usize {
        self.resources
            .get(table)
            .map_or(0, |resource| resource.log.len())
    }

    #[cfg(test)]
    pub(super) fn order_length(&self) -> usize {
        self.order.len()
    }

    /// Appends an event to the log of its resource, and drops the events above the limits.
    pub(super) fn record(&mut self, table: &Table, event: Event) {
        self.history = self.history.saturating_add(event.size());
        self.events += 1;
        self.order.push_back(LogEntry {
            table: table.clone(),
            revision: event.revision,
            at: self.now,
        });
        let resource = self.resources.entry(table.clone()).or_default();
        resource.last = event.revision;
        resource.log.push_back(event);
        let excess = resource.log.len().saturating_sub(self.limits.writes);
        for _ in 0..excess {
            self.drop_oldest(table);
        }
        self.trim();
    }

    /// Drops the oldest events of all logs until the history is within its limits of size and age.
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
        // Events that are dropped because of their number leave their entries in `order`. These
        // entries are removed when they are the majority, so that the cost per write is constant.
        if self.order.len() > self.events.saturating_mul(2).saturating_add(1024) {
            let mut order = std::mem::take(&mut self.order);
            order.retain(|recorded| self.holds(recorded));
            self.order = order;
        }
    }

    fn holds(&self, recorded: &LogEntry) -> bool {
        let resource = self.resources.get(&recorded.table);
        resource.is_some_and(|resource| resource.floor < recorded.revision)
    }

    fn drop_oldest(&mut self, table: &str) {
        let resource = self.resources.get_mut(table);
        if let Some((resource, dropped)) =
            resource.and_then(|it| it.log.pop_front().map(|e| (it, e)))
        {
            resource.floor = dropped.revision;
            self.history = self.history.saturating_sub(dropped.size());
            self.events = self.events.saturating_sub(1);
        }
    }
}
