//! The calls of handlers that are in progress.

use std::{fmt, sync::Arc, time::Duration};

use parking_lot::Mutex;
use slab::Slab;
use windlass_informer::ObjectKey;

use self::frequent::FrequentObjects;
use crate::{Action, HandlerId, Role, handler::Handler, schedule::Moment};

// Objects whose handlers are called too often.
mod frequent;

/// A call of a handler that is in progress.
///
/// Displays as one line with the handler, the object and the time.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct RunningCall {
    /// The name of the kind.
    pub kind: Arc<str>,
    /// The object's namespace and name.
    pub key: ObjectKey,
    /// The handler.
    pub handler: HandlerId,
    /// The type of that handler, as Rust names it: its path, or where its closure is.
    pub handler_type: &'static str,
    /// Whether that is a watcher or a reconciler.
    pub role: Role,
    /// The action of the call.
    pub action: Action,
    /// The time since the call began.
    pub elapsed: Duration,
}

/// The calls of one kind that are in progress.
#[derive(Default)]
pub(crate) struct RunningCalls(Mutex<Calls>);

#[derive(Default)]
struct Calls {
    running: Slab<Entry>,
    frequent: FrequentObjects,
}

struct Entry {
    key: ObjectKey,
    handler: HandlerId,
    handler_type: &'static str,
    role: Role,
    action: Action,
    began: Moment,
    /// Whether it was reported as long.
    reported: bool,
}

/// A call in progress, until this is dropped.
#[must_use = "dropping this ends the call"]
pub(crate) struct Running<'c> {
    calls: &'c RunningCalls,
    /// Its key among the calls in progress.
    entry: usize,
    is_frequent: bool,
}

// === impl RunningCalls ===

impl RunningCalls {
    /// Notes that `handler` is called for the object `key`.
    pub(crate) fn begin(
        &self,
        handler: &Handler,
        key: &ObjectKey,
        action: Action,
        began: Moment,
    ) -> Running<'_> {
        let mut calls = self.0.lock();
        // The first calls and the resyncs of an object do not follow from writes of its handlers.
        let is_frequent = action == Action::Updated && calls.frequent.count(key, began);
        let entry = calls.running.insert(Entry {
            key: key.clone(),
            handler: handler.id,
            handler_type: handler.code.type_name(),
            role: handler.role,
            action,
            began,
            reported: false,
        });
        Running {
            calls: self,
            entry,
            is_frequent,
        }
    }

    /// Whether no call is in progress.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.lock().running.is_empty()
    }

    /// The times for which the calls have run until `now`.
    pub(crate) fn elapsed(&self, now: Moment) -> Vec<Duration> {
        let calls = self.0.lock();
        let elapsed = calls.running.iter().map(|(_, it)| now - it.began);
        elapsed.collect()
    }

    /// The calls of `kind` that are in progress at `now`.
    pub(crate) fn all(&self, kind: &Arc<str>, now: Moment) -> Vec<RunningCall> {
        let calls = self.0.lock();
        let running = calls.running.iter();
        running.map(|(_, it)| it.at(kind, now)).collect()
    }

    /// The calls of `kind` that have run for `limit` at `now`, each once.
    pub(crate) fn long(&self, kind: &Arc<str>, now: Moment, limit: Duration) -> Vec<RunningCall> {
        let mut calls = self.0.lock();
        let running = calls.running.iter_mut().map(|(_, it)| it);
        let is_long = |it: &&mut Entry| !it.reported && now - it.began >= limit;
        let long = running.filter(is_long).map(|it| {
            it.reported = true;
            it.at(kind, now)
        });
        long.collect()
    }
}

// === impl Entry ===

impl Entry {
    fn at(&self, kind: &Arc<str>, now: Moment) -> RunningCall {
        RunningCall {
            kind: Arc::clone(kind),
            key: self.key.clone(),
            handler: self.handler,
            handler_type: self.handler_type,
            role: self.role,
            action: self.action,
            elapsed: now - self.began,
        }
    }
}

// === impl Running ===

impl Running<'_> {
    /// How many calls for one object began within which time, if that is too often and has to be
    /// reported.
    pub(crate) fn too_frequent(&self) -> Option<(u32, Duration)> {
        self.is_frequent
            .then_some((FrequentObjects::LIMIT, FrequentObjects::WINDOW))
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        // The entry is dropped without the lock.
        let _entry = self.calls.0.lock().running.try_remove(self.entry);
    }
}

// === impl RunningCall ===

impl fmt::Display for RunningCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} {} ({}) of {} {} on {} for {:.0?}",
            self.role.as_str(),
            self.handler,
            self.handler_type,
            self.kind,
            self.key,
            self.action.as_str(),
            self.elapsed
        )
    }
}
