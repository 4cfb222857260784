//! The facts that rules are checked against: the state after the entries of a log so far.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use crate::{
    Action, Began, CallId, Entry, Handler, HandlerId, InformerEvent, InformerId, Outcome, Record,
    SelectorExit, Settings, Snapshot, Writer,
};

mod level;
mod observed;
mod server;
mod work;

pub(crate) use self::{
    level::{Change, Lane, LaneCall, LevelFacts},
    observed::{Absence, Moment, ObservedObject},
    server::ServerObject,
    work::{Pending, Work},
};

/// A uid.
pub(crate) type Uid = Arc<str>;

/// The state after the entries of a log so far.
#[derive(Debug)]
pub(crate) struct Facts {
    pub(crate) settings: Settings,
    /// The index of the current entry.
    pub(crate) at: usize,
    pub(crate) now: Duration,
    pub(crate) is_quiet: bool,
    pub(crate) is_settled: bool,
    /// Whether the server was restored since the current process started.
    pub(crate) is_restored: bool,

    /// The objects of the server, including removed objects.
    pub(crate) server: BTreeMap<Uid, ServerObject>,
    /// The entry of the last successful clean-up of each wrapper and object, in all processes.
    pub(crate) cleaned: BTreeMap<(HandlerId, Uid), usize>,

    /// When the current process started. The fields below refer to this process.
    pub(crate) started: Option<usize>,
    pub(crate) informers: BTreeMap<InformerId, InformerState>,
    pub(crate) handlers: BTreeMap<HandlerId, HandlerState>,
    pub(crate) observed: BTreeMap<Uid, ObservedObject>,
    pub(crate) work: BTreeMap<(HandlerId, Uid), Work>,
    pub(crate) open: BTreeMap<CallId, OpenCall>,
    /// The number of patches without a response.
    pub(crate) patches: usize,
    /// The calls of a level-triggered controller.
    pub(crate) level: LevelFacts,
}

/// The state of an informer of the controller.
#[derive(Debug)]
pub(crate) struct InformerState {
    pub(crate) kind: Arc<str>,
    pub(crate) synced: bool,
    /// When it has synced.
    pub(crate) synced_at: Option<Duration>,
    /// Whether it was added before the controller ran.
    pub(crate) initial: bool,
}

/// The state of a handler of the controller.
#[derive(Debug)]
pub(crate) struct HandlerState {
    pub(crate) handler: Handler,
    pub(crate) added: usize,
    pub(crate) removed: Option<usize>,
    /// Whether a wrapper waited for the response to a patch when it was removed: it continues then.
    pub(crate) continues: bool,
    /// Its position in add order.
    pub(crate) place: usize,
    /// The entry of the last failed patch of its wrapper.
    pub(crate) failed_patch: Option<usize>,
}

/// A call that has not ended.
#[derive(Debug)]
pub(crate) struct OpenCall {
    pub(crate) began: Began,
    pub(crate) at: Duration,
}

// === impl Facts ===

impl Facts {
    pub(crate) fn new(settings: Settings) -> Self {
        Self {
            settings,
            at: 0,
            now: Duration::ZERO,
            is_quiet: false,
            is_settled: false,
            is_restored: false,
            server: BTreeMap::new(),
            cleaned: BTreeMap::new(),
            started: None,
            informers: BTreeMap::new(),
            handlers: BTreeMap::new(),
            observed: BTreeMap::new(),
            work: BTreeMap::new(),
            open: BTreeMap::new(),
            patches: 0,
            level: LevelFacts::default(),
        }
    }

    /// Applies an entry, after the rules have been checked at it.
    pub(crate) fn apply(&mut self, record: &Record) {
        if self.settings.level.is_some() {
            self.apply_level(&record.entry);
        }
        match &record.entry {
            Entry::Started => self.started = Some(self.at),
            Entry::Stopped => self.stopped(),
            Entry::HandlerAdded(handler) => {
                let handling = HandlerState {
                    handler: handler.clone(),
                    added: self.at,
                    removed: None,
                    continues: false,
                    place: self.handlers.len(),
                    failed_patch: None,
                };
                self.handlers.insert(handler.id, handling);
            }
            Entry::HandlerRemoved(handler) => {
                if let Some(handling) = self.handlers.get_mut(handler) {
                    handling.removed = Some(self.at);
                    handling.continues = handling.is_wrapped() && self.patches > 0;
                }
            }
            Entry::InformerAdded { informer, kind } => {
                let showing = InformerState {
                    kind: Arc::clone(kind),
                    synced: false,
                    synced_at: None,
                    initial: self.started.is_none(),
                };
                self.informers.insert(*informer, showing);
            }
            Entry::InformerRemoved(informer) => self.informer_removed(*informer),
            Entry::Synced(informer) => {
                if let Some(showing) = self.informers.get_mut(informer) {
                    showing.synced = true;
                    showing.synced_at = Some(self.now);
                }
            }
            Entry::InformerEvent { informer, shown } => self.shown(*informer, shown),
            Entry::Committed { by, object } => {
                let server_object = self.server.entry(Arc::clone(&object.uid)).or_default();
                server_object.commit(*by, object, self.at);
                self.released(*by, &object.uid);
            }
            Entry::Removed { by, object } => {
                let server_object = self.server.entry(Arc::clone(&object.uid)).or_default();
                server_object.erase(*by, object, self.at);
            }
            Entry::Restored => {
                self.server.clear();
                self.cleaned.clear();
                self.is_restored = self.started.is_some();
            }
            Entry::PatchBegan(_) => self.patches += 1,
            Entry::PatchEnded(_) => self.patches = self.patches.saturating_sub(1),
            Entry::PatchFailed(handler) => {
                if let Some(handling) = self.handlers.get_mut(handler) {
                    handling.failed_patch = Some(self.at);
                }
            }
            Entry::Began(began) => self.began(began),
            Entry::Ended { call, outcome } => self.ended(*call, outcome),
            Entry::Listed(_) | Entry::Read { .. } | Entry::Answered { .. } => {}
            Entry::Quiet => self.is_quiet = true,
            Entry::Settled => self.is_settled = true,
        }
    }

    fn stopped(&mut self) {
        self.started = None;
        self.is_restored = false;
        self.informers.clear();
        self.handlers.clear();
        self.observed.clear();
        self.work.clear();
        self.open.clear();
        self.patches = 0;
    }

    fn informer_removed(&mut self, informer: InformerId) {
        let now = self.moment();
        self.informers.remove(&informer);
        for (uid, observed) in &mut self.observed {
            if observed.forget(informer, now) {
                let works = self.work.iter_mut().filter(|((_, its), _)| its == uid);
                works.for_each(|(_, work)| work.forget());
            }
        }
    }

    fn shown(&mut self, informer: InformerId, shown: &InformerEvent) {
        let Some(kind) = self.informers.get(&informer).map(|it| Arc::clone(&it.kind)) else {
            return;
        };
        let now = self.moment();
        let uid = Arc::clone(&shown.object().uid);
        let observed =
            (self.observed.entry(uid)).or_insert_with(|| ObservedObject::new(kind, shown));
        observed.show(informer, shown, now);
    }

    fn began(&mut self, began: &Began) {
        let key = (began.handler, Arc::clone(&began.object.uid));
        // A wrapper calls the handler for the clean-up before the object is removed.
        let wrapped = self
            .handler(began.handler)
            .is_some_and(HandlerState::is_wrapped);
        if began.action == Action::Deleted && !wrapped {
            self.cancel_filtered(&key.1);
        }
        let observed = self.observed.get(&key.1);
        let handling = self.handlers.get(&began.handler);
        let work = self.work.entry(key).or_default();
        work.wrapped = handling.is_some_and(HandlerState::is_wrapped);
        work.filtered = handling.is_some_and(|it| it.handler.filtered);
        let now = Moment {
            at: self.at,
            time: self.now,
        };
        work.begin(began, observed, &self.settings, now);
        let open = OpenCall {
            began: began.clone(),
            at: self.now,
        };
        self.open.insert(began.call, open);
    }

    /// Notes that the wrapper has released an object that is not being deleted, because it has left
    /// the selector: what follows is a new life, with nothing of the earlier one.
    fn released(&mut self, by: Writer, uid: &Uid) {
        let Writer::Wrapper(id) = by else {
            return;
        };
        let ours = self.handler(id).map(|it| it.handler.finalizers.clone());
        let change = self.server.get(uid).and_then(|it| it.changes.last());
        let is_release = ours.zip(change).is_some_and(|(ours, change)| {
            let lives = change.after.as_ref().is_some_and(|it| !it.terminating);
            lives && change.strips(&ours)
        });
        if is_release && let Some(work) = self.work.get_mut(&(id, Arc::clone(uid))) {
            work.end_life();
        }
    }

    /// A delete also cancels the pending calls of handlers whose predicate rejects it.
    fn cancel_filtered(&mut self, uid: &Uid) {
        let filtered = self.handlers.values().filter(|it| it.handler.filtered);
        for handling in filtered {
            let work = self.work.get_mut(&(handling.handler.id, Arc::clone(uid)));
            if let Some(work) = work {
                work.pending.retain(|it| it.action == Action::Deleted);
            }
        }
    }

    fn ended(&mut self, call: CallId, outcome: &Outcome) {
        let Some(open) = self.open.remove(&call) else {
            return;
        };
        let key = (open.began.handler, Arc::clone(&open.began.object.uid));
        if *outcome == Outcome::Done && open.began.action == crate::Action::Deleted {
            self.cleaned.insert(key.clone(), self.at);
        }
        if let Some(work) = self.work.get_mut(&key) {
            let taken = self.now.saturating_sub(open.at);
            work.end(&open.began, outcome, &self.settings, self.now, taken);
        }
    }

    fn moment(&self) -> Moment {
        let (at, time) = (self.at, self.now);
        Moment { at, time }
    }

    // --- queries ---

    /// The work of a handler for an object.
    pub(crate) fn work(&self, handler: HandlerId, uid: &Uid) -> Option<&Work> {
        self.work.get(&(handler, Arc::clone(uid)))
    }

    /// The handler, if it was added.
    pub(crate) fn handler(&self, id: HandlerId) -> Option<&HandlerState> {
        self.handlers.get(&id)
    }

    /// Whether the life of the object for this wrapper may have ended without a write since the last
    /// call of its handler: the object has left the selector, and the wrapper only reports that,
    /// has found no finalizer, because another client had removed it, or has failed to remove it. The call may have been made
    /// after an informer showed that the object has left.
    pub(crate) fn may_have_left(&self, handler: HandlerId, uid: &Uid) -> bool {
        let Some((handling, work)) = self.handler(handler).zip(self.work(handler, uid)) else {
            return false;
        };
        let observed = self.observed.get(uid);
        let has_left = observed.is_some_and(|it| it.absence_after(None).is_some());
        let ours = &handling.handler.finalizers;
        let last = work.last.as_ref().map(|it| it.version);
        // The call may have been made after the finalizer was removed, for a state before that.
        let unseen = last.zip(observed).map(|(last, it)| last..it.newest.version);
        let stripped = (self.server.get(uid)).is_some_and(|it| {
            it.was_stripped_after(ours, work.began)
                || unseen.is_some_and(|range| it.was_stripped_in(&range, ours))
        });
        let reports = self.settings.selector_exit == SelectorExit::Report;
        // The wrapper does not know whether a release that failed was applied.
        let failed = handling.failed_patch.is_some_and(|at| at > work.began);
        handling.is_wrapped() && has_left && (stripped || reports || failed)
    }

    /// Whether the pending calls of this handler's wrapper are kept and repeated with their old
    /// object, independent of later calls.
    pub(crate) fn repeats_unchanged(&self, handler: HandlerId) -> bool {
        let wrapped = self.handler(handler).is_some_and(HandlerState::is_wrapped);
        let kept = self.settings.dequeue != crate::Dequeue::Always;
        wrapped && kept && self.settings.retry_as_received
    }

    /// The handlers of a kind that were not removed, in the order in which they are called.
    pub(crate) fn chain<'a>(&'a self, kind: &'a str) -> impl Iterator<Item = &'a HandlerState> {
        let mut chain: Vec<_> = (self.handlers.values())
            .filter(|it| &*it.handler.kind == kind && it.removed.is_none())
            .collect();
        chain.sort_by_key(|it| (it.handler.role, it.place));
        chain.into_iter()
    }

    /// The current object of the server. `None` if it was removed.
    pub(crate) fn live(&self, uid: &Uid) -> Option<&Arc<Snapshot>> {
        self.server.get(uid)?.live()
    }
}

// === impl HandlerState ===

impl HandlerState {
    /// Whether the handler receives every event: it has no wrapper and no predicate.
    pub(crate) const fn is_plain(&self) -> bool {
        self.handler.finalizers.is_empty() && !self.handler.filtered
    }

    /// Whether the handler has a wrapper with a finalizer.
    pub(crate) fn is_wrapped(&self) -> bool {
        !self.handler.finalizers.is_empty()
    }
}
