//! Aggregates repeated events into series, and limits the events of each object. *(pure)*

use std::{collections::HashMap, time::Duration};

use k8s_openapi::{api::core::v1::ObjectReference, jiff::Timestamp};
use tokio::time::Instant;

use super::{ObjectEvent, cut};
use crate::gcra::Rate;

/// What events of one series have in common.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct SeriesKey {
    pub(super) regarding: ObjectReference,
    pub(super) related: Option<ObjectReference>,
    pub(super) type_: &'static str,
    pub(super) reason: String,
    pub(super) action: String,
}

/// The series of recent events, and the limits of their objects.
#[derive(Debug)]
pub(super) struct SeriesTable {
    series: HashMap<String, Series>,
    /// The theoretical arrival times of the limits of objects.
    objects: HashMap<String, Instant>,
}

/// One Event that is to be created or updated.
#[derive(Clone, Debug)]
pub(super) struct Publication {
    pub(super) key: SeriesKey,
    pub(super) note: String,
    /// The events of this process.
    pub(super) count: u64,
    /// The events of earlier processes. `None` until it is known, from the response to a create or
    /// from the Event that exists. Each update sends the sum, so that a repeated one counts nothing
    /// twice.
    pub(super) earlier: Option<u64>,
    pub(super) first: Timestamp,
    pub(super) last: Timestamp,
}

#[derive(Debug)]
struct Series {
    publication: Publication,
    /// The count that was sent.
    sent: u64,
    seen: Instant,
}

/// The number of events of an object that are sent at once.
const BURST: u32 = 25;

/// The time in which an object earns one more event.
const EARNED: Duration = Duration::from_secs(300);

/// The limit of the events of an object.
const LIMIT: Rate = Rate::with_burst(EARNED, BURST);

/// A series that has not repeated for this time is forgotten. Its Event is updated again if it
/// repeats later, because it has the same name.
const FORGOTTEN: Duration = Duration::from_secs(3600);

/// The most series that are remembered.
const MAX_SERIES: usize = 4096;

// === impl SeriesKey ===

impl SeriesKey {
    /// The series of `event` about `regarding`. Words are cut to `max_word` bytes.
    pub(super) fn new(regarding: ObjectReference, event: &ObjectEvent, max_word: usize) -> Self {
        Self {
            // The version of the object differs in each event.
            regarding: ObjectReference {
                resource_version: None,
                ..regarding
            },
            related: event.related.clone(),
            type_: event.type_,
            reason: cut(&event.reason, max_word).to_owned(),
            action: cut(&event.action, max_word).to_owned(),
        }
    }

    fn object(&self) -> String {
        let regarding = &self.regarding;
        match &regarding.uid {
            Some(uid) => uid.clone(),
            None => format!("{regarding:?}"),
        }
    }

    fn text(&self) -> String {
        format!("{self:?}")
    }
}

// === impl Publication ===

impl Publication {
    /// The events of this process and of earlier ones.
    pub(super) fn total(&self) -> u64 {
        self.count.saturating_add(self.earlier.unwrap_or_default())
    }
}

// === impl SeriesTable ===

impl SeriesTable {
    pub(super) fn new() -> Self {
        Self {
            series: HashMap::new(),
            objects: HashMap::new(),
        }
    }

    /// Counts an event. Returns the publication to send; `None` while its object is over its limit.
    pub(super) fn add(
        &mut self,
        key: SeriesKey,
        note: String,
        time: Timestamp,
        now: Instant,
    ) -> Option<Publication> {
        self.forget_old(now);
        let object = key.object();
        let series = self.series.entry(key.text()).or_insert_with(|| Series {
            publication: Publication {
                key,
                note: String::new(),
                count: 0,
                earlier: None,
                first: time,
                last: time,
            },
            sent: 0,
            seen: now,
        });
        series.seen = now;
        let publication = &mut series.publication;
        publication.note = note;
        publication.count = publication.count.saturating_add(1);
        publication.last = time;
        let publication = publication.clone();
        let arrival = self.objects.entry(object).or_insert(now);
        let ahead = LIMIT.admit(arrival.saturating_duration_since(now)).ok()?;
        *arrival = now + ahead;
        Some(publication)
    }

    /// Notes that the Event of `publication` had `earlier` events before this process.
    pub(super) fn began_at(&mut self, publication: &Publication, earlier: u64) {
        if let Some(series) = self.series.get_mut(&publication.key.text()) {
            series.publication.earlier = Some(earlier);
        }
    }

    /// Notes that the count of `publication` was sent.
    pub(super) fn sent(&mut self, publication: &Publication) {
        if let Some(series) = self.series.get_mut(&publication.key.text()) {
            series.sent = publication.count;
        }
    }

    /// The series whose last counts were not sent.
    pub(super) fn unsent(&self) -> Vec<Publication> {
        (self.series.values())
            .filter(|series| series.publication.count > series.sent)
            .map(|series| series.publication.clone())
            .collect()
    }

    fn forget_old(&mut self, now: Instant) {
        if self.series.len() >= MAX_SERIES {
            let oldest = self.series.iter().min_by_key(|(_, series)| series.seen);
            let oldest = oldest.map(|(key, _)| key.clone());
            if let Some(oldest) = oldest {
                self.series.remove(&oldest);
            }
        }
        if self.objects.len() >= MAX_SERIES {
            self.objects.retain(|_, arrival| *arrival > now);
        }
        // Each event looks at the whole table only when it is large.
        if self.series.len() >= MAX_SERIES / 2 {
            let since = |seen: Instant| now.saturating_duration_since(seen);
            self.series
                .retain(|_, series| since(series.seen) < FORGOTTEN);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(object: &str, reason: &str) -> SeriesKey {
        let regarding = ObjectReference {
            uid: Some(object.to_owned()),
            resource_version: Some("7".to_owned()),
            ..ObjectReference::default()
        };
        SeriesKey::new(regarding, &ObjectEvent::normal(reason, ""), 128)
    }

    struct Table {
        table: SeriesTable,
        now: Instant,
    }

    impl Table {
        fn new() -> Self {
            Self {
                table: SeriesTable::new(),
                now: Instant::now(),
            }
        }

        /// The count that is sent for an event.
        fn add(&mut self, object: &str, reason: &str) -> Option<u64> {
            let (note, time) = (String::new(), Timestamp::UNIX_EPOCH);
            let key = key(object, reason);
            let publication = self.table.add(key, note, time, self.now)?;
            self.table.sent(&publication);
            Some(publication.count)
        }
    }

    /// Rows: BO-29
    #[test]
    fn repeats_are_one_series_and_each_object_has_a_limit() {
        let mut table = Table::new();
        for count in 1..=20 {
            assert_eq!(table.add("a", "Failed"), Some(count));
        }
        for count in 1..=5 {
            assert_eq!(table.add("a", "Other"), Some(count));
        }
        assert_eq!(table.add("a", "Failed"), None, "25 were sent");
        assert_eq!(table.add("a", "Failed"), None);
        assert_eq!(
            table.add("b", "Failed"),
            Some(1),
            "each object has its own limit"
        );
        assert_eq!(table.table.unsent().len(), 1);

        table.now += EARNED;
        assert_eq!(
            table.add("a", "Failed"),
            Some(23),
            "with the counts that were not sent"
        );
        assert_eq!(table.add("a", "Failed"), None);
        table.now += EARNED * 100;
        for _ in 0..BURST {
            assert!(table.add("a", "Failed").is_some());
        }
        assert_eq!(table.add("a", "Failed"), None);
    }

    #[test]
    fn the_table_is_bounded() {
        let mut table = Table::new();
        for object in 0..3 * MAX_SERIES {
            table.now += Duration::from_secs(1);
            table.add(&object.to_string(), "Failed");
        }
        assert!(table.table.series.len() <= MAX_SERIES);
        assert!(table.table.objects.len() <= MAX_SERIES);
    }
}
