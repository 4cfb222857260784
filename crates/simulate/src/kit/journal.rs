//! The journal of a test: the calls, writes and events of its operators, in order.

use std::{
    collections::{BTreeMap, VecDeque},
    fmt::Write as _,
    time::Duration,
};

use parking_lot::Mutex;
use tokio::time::Instant;
use windlass_controller::{CallObserver, CallReport};
use windlass_informer::ObjectKey;

mod entries;

use self::entries::slash;
pub use self::entries::{Call, Calls, Write};

/// A point in the journal of a kit, see [`Kit::mark`](super::Kit::mark). The default is its begin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Mark(u64);

/// An event that an operator received from a watch.
#[derive(Clone)]
pub(super) struct WatchEvent {
    pub(super) at: Duration,
    pub(super) text: String,
    pub(super) resource: String,
    pub(super) object: String,
}

#[derive(Clone)]
enum Entry {
    Call(Call),
    Write(Write),
    Event(WatchEvent),
}

/// The calls, writes and events, up to a limit.
pub(super) struct Journal {
    began: Instant,
    state: Mutex<State>,
}

struct State {
    /// The number of entries that were dropped.
    dropped: u64,
    entries: VecDeque<Entry>,
    writes: u64,
    /// The calls in progress, by kind and object.
    open: BTreeMap<String, usize>,
    /// The time of the last call or write.
    active: Instant,
    /// The time of the last write, event or failed call.
    changed: Instant,
}

/// The largest number of entries: five times the writes after which a test fails.
const LONGEST: usize = 50_000;

/// How many times longer an operator has to be unchanged to be quiet while it polls.
const POLLING: u32 = 10;

/// The number of entries of each kind that a failure shows.
const SHOWN: usize = 20;

// === impl Journal ===

impl Journal {
    pub(super) fn new() -> Self {
        Self {
            began: Instant::now(),
            state: Mutex::new(State {
                dropped: 0,
                entries: VecDeque::new(),
                writes: 0,
                open: BTreeMap::new(),
                active: Instant::now(),
                changed: Instant::now(),
            }),
        }
    }

    /// The time since the start of the kit.
    pub(super) fn now(&self) -> Duration {
        self.began.elapsed()
    }

    pub(super) fn mark(&self) -> Mark {
        let state = self.state.lock();
        Mark(state.dropped + u64::try_from(state.entries.len()).unwrap_or(u64::MAX))
    }

    /// Records that something has happened that is neither a call nor a write.
    pub(super) fn touch(&self) {
        self.state.lock().touch();
    }

    pub(super) fn write(&self, write: Write) {
        let mut state = self.state.lock();
        state.writes += 1;
        state.touch();
        state.push(Entry::Write(write));
    }

    pub(super) fn event(&self, event: WatchEvent) {
        let mut state = self.state.lock();
        state.changed = Instant::now();
        state.push(Entry::Event(event));
    }

    /// The number of all writes.
    pub(super) fn count_writes(&self) -> u64 {
        self.state.lock().writes
    }

    /// The time since the last call or write; of successful calls that change nothing and follow no
    /// event, as those of a handler that polls, a tenth of their time.
    pub(super) fn idle(&self) -> Duration {
        let state = self.state.lock();
        state
            .active
            .elapsed()
            .max(state.changed.elapsed() / POLLING)
    }

    /// The last call, write or event.
    pub(super) fn last(&self) -> String {
        match self.state.lock().entries.back() {
            None => "nothing".to_owned(),
            Some(Entry::Call(it)) => format!("{it:?}"),
            Some(Entry::Write(it)) => format!("{it:?}"),
            Some(Entry::Event(it)) => {
                let at = it.at.as_secs_f64();
                format!("{at:>9.3}s {} of {} {}", it.text, it.resource, it.object)
            }
        }
    }

    /// Whether a call is in progress.
    pub(super) fn has_open_calls(&self) -> bool {
        !self.state.lock().open.is_empty()
    }

    /// The calls in progress, for a failure.
    pub(super) fn open_calls(&self) -> String {
        let state = self.state.lock();
        let open: Vec<_> = state.open.keys().map(String::as_str).collect();
        match open.as_slice() {
            [] => "none".to_owned(),
            open => open.join(", "),
        }
    }

    pub(super) fn writes(&self, since: Mark) -> Vec<Write> {
        self.since(since, |entry| match entry {
            Entry::Write(write) => Some(write.clone()),
            _ => None,
        })
    }

    pub(super) fn calls(&self, since: Mark) -> Calls {
        Calls(self.since(since, |entry| match entry {
            Entry::Call(call) => Some(call.clone()),
            _ => None,
        }))
    }

    fn since<T>(&self, since: Mark, wanted: impl Fn(&Entry) -> Option<T>) -> Vec<T> {
        let state = self.state.lock();
        let skipped = usize::try_from(since.0.saturating_sub(state.dropped)).unwrap_or(usize::MAX);
        state
            .entries
            .iter()
            .skip(skipped)
            .filter_map(wanted)
            .collect()
    }

    /// The last calls, writes and events of one object, for a failure. Also those that failed of other
    /// objects, such as its owner, and if the object has no call, all calls and writes.
    pub(super) fn history(&self, resource: &str, object: &str) -> String {
        let state = self.state.lock();
        let is_call = |it: &Entry| matches!(it, Entry::Call(call) if call.object == object);
        let has_calls = state.entries.iter().any(is_call);
        let (mut calls, mut writes, mut events) = (Vec::new(), Vec::new(), Vec::new());
        let mut others = Vec::new();
        for entry in state.entries.iter().rev() {
            match entry {
                Entry::Call(it) if it.object == object => calls.push(format!("{it:?}")),
                Entry::Write(it) if it.object == object && it.resource == resource => {
                    writes.push(format!("{it:?}"));
                }
                Entry::Event(it) if it.object == object && it.resource == resource => {
                    events.push(format!("{:>9.3}s {}", it.at.as_secs_f64(), it.text));
                }
                Entry::Call(it) if !has_calls || it.error.is_some() => {
                    others.push(format!("{it:?}"));
                }
                Entry::Write(it) if !has_calls || it.code >= 400 => others.push(format!("{it:?}")),
                _ => {}
            }
        }
        let mut text = String::new();
        for (what, mut lines) in [
            (format!("calls of {object}"), calls),
            (format!("writes of {object}"), writes),
            (format!("events of {object}"), events),
            ("calls and writes of other objects".to_owned(), others),
        ] {
            lines.truncate(SHOWN);
            _ = write!(text, "\nlast {what}:");
            if lines.is_empty() {
                text += " none";
            }
            for line in lines.iter().rev() {
                _ = write!(text, "\n  {line}");
            }
        }
        text
    }

    /// The objects and managers with the most writes since `since`, for a failure.
    pub(super) fn most_written(&self, since: Mark) -> String {
        let mut counts = BTreeMap::<String, usize>::new();
        for write in self.writes(since) {
            let manager = match write.manager.as_str() {
                "" => "no manager",
                manager => manager,
            };
            let key = format!(
                "{} {} {}{} by {manager}",
                write.verb,
                write.resource,
                write.object,
                slash(&write.subresource)
            );
            *counts.entry(key).or_default() += 1;
        }
        for call in &*self.calls(since) {
            *counts
                .entry(format!("calls of {} {}", call.kind, call.object))
                .or_default() += 1;
        }
        let mut counts: Vec<_> = counts.into_iter().collect();
        counts.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        counts.truncate(10);
        counts.iter().fold(String::new(), |text, (what, count)| {
            text + &format!("\n  {count:>6} {what}")
        })
    }
}

impl State {
    fn touch(&mut self) {
        self.active = Instant::now();
        self.changed = self.active;
    }

    fn push(&mut self, entry: Entry) {
        if self.entries.len() == LONGEST {
            self.entries.pop_front();
            self.dropped += 1;
        }
        self.entries.push_back(entry);
    }
}

impl CallObserver for Journal {
    fn began(&self, kind: &str, key: &ObjectKey) {
        let mut state = self.state.lock();
        *state.open.entry(format!("{kind} {key}")).or_default() += 1;
        state.active = Instant::now();
    }

    fn ended(&self, kind: &str, key: &ObjectKey, report: Option<&CallReport<'_>>) {
        let mut state = self.state.lock();
        let open = format!("{kind} {key}");
        if let Some(count) = state.open.get_mut(&open) {
            *count -= 1;
            if *count == 0 {
                state.open.remove(&open);
            }
        }
        state.active = Instant::now();
        if let Some(report) = report {
            let call = Call::of(self.began.elapsed(), report);
            if call.error.is_some() || call.abandoned {
                state.touch();
            }
            state.push(Entry::Call(call));
        }
    }
}
