//! The facts that rules are checked against: what is known at a point of a log.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use crate::{
    Action, Began, CallId, Entry, Handler, HandlerId, InformerId, Outcome, Record, Settings, Shown,
    Snapshot,
};

mod server;
mod sight;
mod work;

pub(crate) use self::{
    server::OnServer,
    sight::{Absence, Moment, Sighted},
    work::{Pending, Work},
};

/// A uid.
pub(crate) type Uid = Arc<str>;

/// What is known at a point of a log.
#[derive(Debug)]
pub(crate) struct Facts {
    pub(crate) settings: Settings,
    /// The number of the entry that is read.
    pub(crate) at: usize,
    pub(crate) now: Duration,
    pub(crate) is_quiet: bool,
    pub(crate) is_settled: bool,

    /// The server's objects, those that are erased too.
    pub(crate) server: BTreeMap<Uid, OnServer>,
    /// What each wrapper has cleaned up, in whichever process.
    pub(crate) cleaned: BTreeMap<(HandlerId, Uid), usize>,

    /// Everything below is of one process.
    pub(crate) started: Option<usize>,
    pub(crate) informers: BTreeMap<InformerId, Showing>,
    pub(crate) handlers: BTreeMap<HandlerId, Handling>,
    pub(crate) sighted: BTreeMap<Uid, Sighted>,
    pub(crate) work: BTreeMap<(HandlerId, Uid), Work>,
    pub(crate) open: BTreeMap<CallId, Open>,
    /// How many patches have no answer yet.
    pub(crate) patches: usize,
}

/// An informer of the controller.
#[derive(Debug)]
pub(crate) struct Showing {
    pub(crate) kind: Arc<str>,
    pub(crate) synced: bool,
    /// Whether it was added before the controller ran.
    pub(crate) initial: bool,
    /// Whether the server was restored since its first list, and it has not noticed.
    behind: bool,
    /// When it last noticed that.
    noticed: Option<Duration>,
}

/// A handler of the controller.
#[derive(Debug)]
pub(crate) struct Handling {
    pub(crate) handler: Handler,
    pub(crate) added: usize,
    pub(crate) removed: Option<usize>,
    /// Whether a wrapper waited for the answer to a patch when it was removed: it goes on.
    pub(crate) goes_on: bool,
    /// Its place in add order.
    pub(crate) place: usize,
    /// How many patches of its wrapper failed.
    pub(crate) failed_patches: u32,
}

/// A call that has not ended.
#[derive(Debug)]
pub(crate) struct Open {
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
            server: BTreeMap::new(),
            cleaned: BTreeMap::new(),
            started: None,
            informers: BTreeMap::new(),
            handlers: BTreeMap::new(),
            sighted: BTreeMap::new(),
            work: BTreeMap::new(),
            open: BTreeMap::new(),
            patches: 0,
        }
    }

    /// Takes note of an entry, after the rules have been checked at it.
    pub(crate) fn note(&mut self, record: &Record) {
        match &record.entry {
            Entry::Started => self.started = Some(self.at),
            Entry::Stopped => {
                self.started = None;
                self.informers.clear();
                self.handlers.clear();
                self.sighted.clear();
                self.work.clear();
                self.open.clear();
                self.patches = 0;
            }
            Entry::HandlerAdded(handler) => {
                let handling = Handling {
                    handler: handler.clone(),
                    added: self.at,
                    removed: None,
                    goes_on: false,
                    place: self.handlers.len(),
                    failed_patches: 0,
                };
                self.handlers.insert(handler.id, handling);
            }
            Entry::HandlerRemoved(handler) => {
                if let Some(handling) = self.handlers.get_mut(handler) {
                    handling.removed = Some(self.at);
                    handling.goes_on = handling.is_wrapped() && self.patches > 0;
                }
            }
            Entry::InformerAdded { informer, kind } => {
                let showing = Showing {
                    kind: Arc::clone(kind),
                    synced: false,
                    initial: self.started.is_none(),
                    behind: false,
                    noticed: None,
                };
                self.informers.insert(*informer, showing);
            }
            Entry::InformerRemoved(informer) => {
                let now = self.moment();
                self.informers.remove(informer);
                for (uid, sighted) in &mut self.sighted {
                    if sighted.forget(*informer, now) {
                        let works = self.work.iter_mut().filter(|((_, its), _)| its == uid);
                        works.for_each(|(_, work)| work.forget());
                    }
                }
            }
            Entry::Synced(informer) => {
                if let Some(showing) = self.informers.get_mut(informer) {
                    showing.synced = true;
                }
            }
            Entry::WentBack(informer) => {
                let now = self.now;
                if let Some(showing) = self.informers.get_mut(informer) {
                    showing.behind = false;
                    showing.noticed = Some(now);
                }
                // What the others showed in this instant may be read after that.
                for sighted in self.sighted.values_mut() {
                    sighted.doubtful |= sighted.was_shown_by_others(*informer, now);
                }
            }
            Entry::Shown { informer, shown } => self.shown(*informer, shown),
            Entry::Committed { by, object } => {
                let on_server = self.server.entry(Arc::clone(&object.uid)).or_default();
                on_server.commit(*by, object);
            }
            Entry::Erased { by, object } => {
                let on_server = self.server.entry(Arc::clone(&object.uid)).or_default();
                on_server.erase(*by, object, self.at);
            }
            Entry::Restored => {
                self.server.clear();
                self.cleaned.clear();
                let synced = self.informers.values_mut().filter(|it| it.synced);
                synced.for_each(|it| it.behind = true);
            }
            Entry::PatchBegan(_) => self.patches += 1,
            Entry::PatchEnded(_) => self.patches = self.patches.saturating_sub(1),
            Entry::PatchFailed(handler) => {
                if let Some(handling) = self.handlers.get_mut(handler) {
                    handling.failed_patches += 1;
                }
            }
            Entry::Began(began) => self.began(began),
            Entry::Ended { call, outcome } => self.ended(*call, outcome),
            Entry::Quiet => self.is_quiet = true,
            Entry::Settled => self.is_settled = true,
        }
    }

    fn shown(&mut self, informer: InformerId, shown: &Shown) {
        let Some(kind) = self.informers.get(&informer).map(|it| Arc::clone(&it.kind)) else {
            return;
        };
        let now = self.moment();
        let doubtful = self.informers.iter().any(|(other, it)| {
            *other != informer && it.kind == kind && (it.behind || it.noticed == Some(now.time))
        });
        let uid = Arc::clone(&shown.object().uid);
        let sighted = (self.sighted.entry(uid)).or_insert_with(|| Sighted::new(kind, shown));
        sighted.doubtful |= doubtful;
        sighted.show(informer, shown, now);
    }

    fn began(&mut self, began: &Began) {
        let key = (began.handler, Arc::clone(&began.object.uid));
        // A wrapper calls for a clean-up before the object is gone.
        let wrapped = self
            .handler(began.handler)
            .is_some_and(Handling::is_wrapped);
        if began.action == Action::Deleted && !wrapped {
            self.cancel_filtered(&key.1);
        }
        let sighted = self.sighted.get(&key.1);
        let handling = self.handlers.get(&began.handler);
        let work = self.work.entry(key).or_default();
        work.wrapped = handling.is_some_and(Handling::is_wrapped);
        let now = Moment {
            at: self.at,
            time: self.now,
        };
        work.begin(began, sighted, &self.settings, now);
        let open = Open {
            began: began.clone(),
            at: self.now,
        };
        self.open.insert(began.call, open);
    }

    /// A delete cancels the pending calls of handlers that are not given it, too.
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

    // --- questions ---

    /// The work of a handler for an object.
    pub(crate) fn work(&self, handler: HandlerId, uid: &Uid) -> Option<&Work> {
        self.work.get(&(handler, Arc::clone(uid)))
    }

    /// The handler, if it was added.
    pub(crate) fn handler(&self, id: HandlerId) -> Option<&Handling> {
        self.handlers.get(&id)
    }

    /// Whether calls of this handler's wrapper are kept and repeated as they were: whatever it has
    /// done since.
    pub(crate) fn repeats_as_it_was(&self, handler: HandlerId) -> bool {
        let wrapped = self.handler(handler).is_some_and(Handling::is_wrapped);
        let kept = self.settings.dequeue != crate::Dequeue::Always;
        wrapped && kept && self.settings.retry_as_received
    }

    /// The handlers of a kind that were not removed, in the order in which they are called.
    pub(crate) fn chain<'a>(&'a self, kind: &'a str) -> impl Iterator<Item = &'a Handling> {
        let mut chain: Vec<_> = (self.handlers.values())
            .filter(|it| &*it.handler.kind == kind && it.removed.is_none())
            .collect();
        chain.sort_by_key(|it| (it.handler.role, it.place));
        chain.into_iter()
    }

    /// The object as the server has it; none if it is erased.
    pub(crate) fn live(&self, uid: &Uid) -> Option<&Arc<Snapshot>> {
        self.server.get(uid)?.live()
    }
}

// === impl Handling ===

impl Handling {
    /// Whether it is given every event.
    pub(crate) const fn is_plain(&self) -> bool {
        self.handler.finalizers.is_empty() && !self.handler.filtered
    }

    /// Whether a wrapper with a finalizer is around it.
    pub(crate) fn is_wrapped(&self) -> bool {
        !self.handler.finalizers.is_empty()
    }
}
