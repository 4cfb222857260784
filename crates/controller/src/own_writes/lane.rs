//! `LaneWrites`: the writes of the calls for one object. *(pure)*

use std::{cmp::Reverse, mem, sync::Arc, time::Duration};

use hashbrown::HashSet;
use tokio::time::Instant;

use super::{EventMark, OwnWrite, Scope, Shown, ShownByAll, WriteEffect};
use crate::Reasons;

/// The writes of the calls for one object.
#[derive(Debug, Default)]
pub(super) struct LaneWrites {
    pub(super) writes: Vec<OwnWrite>,
    pub(super) unknown: Vec<UnknownWrite>,
    /// When the last stale call began. Events of the writes before it are no echoes.
    stale_at: Option<Instant>,
    pub(super) call: Option<RunningCall>,
    /// Whether `expiring` has this lane.
    pub(super) is_expiring: bool,
    /// Whether the next call waits for the stores.
    pub(super) is_waiting: bool,
    /// Why the lane would have been called for events that wait for the retry of a failed call.
    pub(super) for_retry: Option<Reasons>,
}

/// A write whose result is not known. It is settled when the informers have passed the version that
/// the server has after it.
#[derive(Debug)]
pub(super) struct UnknownWrite {
    pub(super) scope: Scope,
    pub(super) at: Instant,
    /// The version of the server after the write, once it is known.
    pub(super) version: Option<u64>,
    /// When the server was asked for it.
    pub(super) asked: Option<Instant>,
}

/// A call in progress.
#[derive(Debug, Default)]
pub(super) struct RunningCall {
    pub(super) has_written: bool,
    pub(super) marks: Vec<EventMark>,
    /// More events arrived than are kept.
    pub(super) has_overflowed: bool,
}

/// The most objects of a lane whose writes are kept when a stale call begins.
pub(super) const MAX_OVERDUE: usize = 256;

/// The longest time after the timeout for which a write that no store shows is remembered: twice the
/// time after which a silent watch is opened again.
pub(super) const LONGEST_LAG: Duration = Duration::from_secs(360);

/// The longest time for which a write that the stores show is remembered, because its event may follow.
const LONGEST_ECHO: Duration = Duration::from_secs(30);

/// How long after a question that the server did not answer it is asked again.
const ASK_AGAIN: Duration = Duration::from_secs(10);

/// How long the event of a write that the stores show can follow.
pub(super) fn echo_age(timeout: Duration) -> Duration {
    timeout.min(LONGEST_ECHO)
}

// === impl UnknownWrite ===

impl UnknownWrite {
    /// Whether all informers show the server after this write, or can never show it.
    fn is_settled(&self, by_all: &ShownByAll<'_>) -> bool {
        by_all(
            &self.scope.resource,
            &self.scope.key(),
            &|shown| match shown {
                Shown::Unwatched => true,
                Shown::Watched { passed, .. } => {
                    (self.version).is_some_and(|version| passed.is_some_and(|it| it >= version))
                }
            },
        )
    }
}

// === impl LaneWrites ===

impl LaneWrites {
    pub(super) fn is_empty(&self) -> bool {
        self.has_no_records() && self.call.is_none() && self.for_retry.is_none()
    }

    pub(super) fn has_no_records(&self) -> bool {
        self.writes.is_empty() && self.unknown.is_empty()
    }

    /// Drops the writes that are settled and not young: the events of young ones are echoes. Drops those
    /// that no store has shown for too long after the timeout.
    pub(super) fn drop_finished(
        &mut self,
        now: Instant,
        timeout: Duration,
        by_all: &ShownByAll<'_>,
    ) {
        let age = |at: Instant| now.saturating_duration_since(at);
        let is_late = |at: Instant| age(at) >= timeout.saturating_add(LONGEST_LAG);
        self.writes.retain(|write| {
            age(write.at) < echo_age(timeout) || !(is_late(write.at) || write.is_settled(by_all))
        });
        (self.unknown).retain(|write| !is_late(write.at) && !write.is_settled(by_all));
    }

    /// The scopes of the unknown writes after which the version of the server is not known, and is
    /// asked for at `now`. `is_first`: only those for which it was never asked.
    pub(super) fn missing_versions(&self, now: Instant, is_first: bool) -> Vec<Scope> {
        let is_asked = |at: Instant| is_first || now.saturating_duration_since(at) < ASK_AGAIN;
        let missing = self
            .unknown
            .iter()
            .filter(|write| write.version.is_none() && !write.asked.is_some_and(is_asked));
        let mut scopes: Vec<_> = missing.map(|write| write.scope.clone()).collect();
        scopes.sort_unstable();
        scopes.dedup();
        scopes
    }

    /// The time of the newest write that is not settled.
    pub(super) fn newest_unsettled(&self, by_all: &ShownByAll<'_>) -> Option<Instant> {
        let writes = self.writes.iter();
        let unsettled = writes.filter(|write| !write.is_settled(by_all));
        let unsettled = unsettled.map(|write| write.at);
        unsettled
            .chain(self.unknown.iter().map(|write| write.at))
            .max()
    }

    /// A call begins without the writes that are not settled. Of those of one object the last one is
    /// kept, and of many only the version, so that a long lag of a watch does not add them up. After an
    /// unknown result the stores must pass the version of the server: if it did not tell it, nothing
    /// follows from this write any more.
    pub(super) fn begin_stale(&mut self, now: Instant, by_all: &ShownByAll<'_>) {
        self.stale_at = Some(now);
        let mut objects = HashSet::new();
        for write in mem::take(&mut self.writes).into_iter().rev() {
            if write.is_settled(by_all)
                || !objects.insert((Arc::clone(&write.resource), write.key.clone()))
            {
                continue;
            }
            match write.effect {
                WriteEffect::Version(version) if objects.len() > MAX_OVERDUE => {
                    self.unknown.push(UnknownWrite {
                        scope: Scope {
                            resource: write.resource,
                            namespace: write.key.namespace().map(Arc::from),
                        },
                        at: write.at,
                        version: Some(version),
                        asked: None,
                    });
                }
                _ => self.writes.push(write),
            }
        }
        self.writes.reverse();

        let mut scopes = HashSet::new();
        self.unknown.sort_by_key(|write| Reverse(write.version));
        (self.unknown)
            .retain(|write| write.version.is_some() && scopes.insert(write.scope.clone()));
    }

    /// Whether `event` shows a write of this lane and nothing else, or waits for the retry of the lane.
    pub(super) fn takes(&mut self, event: &EventMark, is_in_backoff: bool) -> bool {
        if self.is_echo(event, false) {
            return true;
        }
        let waits = is_in_backoff && self.is_echo(event, true);
        if waits {
            let earlier = self.for_retry.unwrap_or(event.reason);
            self.for_retry = Some(earlier | event.reason);
        }
        waits
    }

    /// Whether `event` shows a write of this lane and nothing else. Before a retry, which follows it, it
    /// may show a change of others too.
    fn is_echo(&self, event: &EventMark, is_in_backoff: bool) -> bool {
        if !self.unknown.is_empty() || event.is_new_generation {
            return false;
        }
        let mut writes = self.writes.iter();
        writes.any(|write| {
            let is_seen = self.stale_at.is_none_or(|stale_at| write.at > stale_at);
            let is_same = event.uid.as_deref() == Some(&*write.uid)
                && event.resource == write.resource
                && match write.effect {
                    WriteEffect::Version(version) => event.version == Some(version),
                    WriteEffect::Gone => event.version.is_none(),
                };
            is_seen && is_same && event.is_from_watch && (write.is_proven || is_in_backoff)
        })
    }
}
