//! The scripted source of an informer: a position in the history of the server.

use std::{
    collections::BTreeMap,
    mem,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use k8s_openapi::api::coordination::v1::Lease;
use tokio::sync::mpsc::{self, error::TrySendError};
use windlass_informer::{
    Change as SourceChange, Changes, HistoryWentBack, Identity, ObjectKey, Scripted, Source, Uid,
    WatchError,
};
use windlass_model::{AddedBy, Entry, InformerEvent, InformerId};

use crate::{
    script::Selector,
    stage::{Change, Detected, Stage, label_of, snapshot},
};

/// The source of an informer, which counts the requests for a relist.
pub(crate) struct RelistCounter {
    source: Scripted<Lease>,
    started: bool,
    stage: Stage,
    requests: Arc<AtomicUsize>,
}

/// The capacity of the queue of changes: more than a history has.
const AHEAD: usize = 8_192;

/// The scripted source of an informer: a position in the history of the server.
pub(crate) struct InformerSource {
    id: u32,
    selector: Selector,
    stage: Stage,
    /// The number of changes of the history that it has delivered.
    place: usize,
    /// The number of restores of the server at that position.
    restores: u64,
    has: BTreeMap<String, Lease>,
    pub(crate) synced: bool,
    /// Whether it has listed in any run.
    has_listed: bool,
    changes: mpsc::Sender<SourceChange<Lease>>,
    /// The number of requested relists, and the number of those that were delivered.
    requests: Arc<AtomicUsize>,
    listed: usize,
}

// === impl InformerSource ===

impl InformerSource {
    pub(crate) fn new(id: u32, selector: Selector, stage: Stage) -> (Self, RelistCounter) {
        let (script, source) = Scripted::new();
        let requests = Arc::<AtomicUsize>::default();
        let source = RelistCounter {
            source,
            started: false,
            stage: stage.clone(),
            requests: Arc::clone(&requests),
        };
        let (changes, mut coming) = mpsc::channel(AHEAD);
        // The queue holds changes while the informer lags, so that the history can continue.
        tokio::spawn(async move {
            while let Some(change) = coming.recv().await {
                if script.change(change).await.is_err() {
                    return;
                }
            }
        });
        let sight = Self {
            id,
            selector,
            stage,
            place: 0,
            restores: 0,
            has: BTreeMap::new(),
            synced: false,
            has_listed: false,
            changes,
            requests,
            listed: 0,
        };
        (sight, source)
    }

    /// Delivers the next change that it selects. Returns whether there was one.
    pub(crate) fn show(&mut self) -> bool {
        let restored = self.restores != self.stage.with(|state| state.server.restores);
        let requested = self.listed < self.requests.load(Ordering::Relaxed);
        if !self.synced || restored || requested {
            return self.list(usize::MAX);
        }
        loop {
            let next = self
                .stage
                .with(|state| state.server.history.get(self.place).cloned());
            let Some(change) = next else {
                return false;
            };
            self.place += 1;
            let Change {
                version,
                before,
                after,
            } = change;
            if let Some(after) = after.filter(|it| self.selects(it)) {
                self.apply(&after, AddedBy::Watch);
                return true;
            }
            if let Some(mut last) = before.filter(|it| self.selects(it)) {
                last.metadata.resource_version = Some(version.to_string());
                self.delete(last);
                return true;
            }
        }
    }

    /// Resets the source. A controller that adds the informer again receives all objects as new,
    /// also if the informer continued to run.
    pub(crate) fn begin_again(&mut self) {
        self.has.clear();
        self.synced = false;
        self.list(usize::MAX);
    }

    pub(crate) const fn selector(&self) -> Selector {
        self.selector
    }

    /// Delivers all changes up to now.
    pub(crate) fn catch_up(&mut self) {
        // Ends: the history is finite.
        while self.show() {}
    }

    /// Lists the objects at a position in the history, but not before its own position.
    pub(crate) fn list(&mut self, place: usize) -> bool {
        let restores = self.stage.with(|state| state.server.restores);
        if mem::replace(&mut self.restores, restores) != restores {
            let seen = self.version();
            self.place = 0;
            if self.has_listed {
                self.stage
                    .with(|state| state.restored = Some(Detected(true)));
                self.send(SourceChange::HistoryWentBack(HistoryWentBack {
                    seen,
                    listed: "0".to_owned(),
                }));
            }
        }
        self.has_listed = true;
        self.listed = self.requests.load(Ordering::Relaxed);
        let (end, objects) = self.stage.with(|state| {
            let history = &state.server.history;
            let end = place.clamp(self.place, history.len().max(self.place));
            let mut objects = BTreeMap::new();
            for change in &history[..end] {
                match (&change.before, &change.after) {
                    (_, Some(after)) => objects.insert(name(after), after.clone()),
                    (Some(before), None) => objects.remove(&name(before)),
                    (None, None) => None,
                };
            }
            (end, objects)
        });
        self.place = end;
        self.stage.log(Entry::Listed(InformerId(self.id)));
        self.send(SourceChange::ListStarted);
        let listed: Vec<_> = objects
            .into_values()
            .filter(|it| self.selects(it))
            .collect();
        for object in &listed {
            let from = if self.synced {
                AddedBy::List
            } else {
                AddedBy::FirstList
            };
            self.apply(object, from);
        }
        let gone: Vec<_> = self
            .has
            .values()
            .filter(|it| !listed.iter().any(|l| name(l) == name(it)))
            .cloned()
            .collect();
        for last in gone {
            self.has.remove(&name(&last));
            self.log(InformerEvent::Deleted(snapshot(&last)));
        }
        if !self.synced {
            self.synced = true;
            self.stage.log(Entry::Synced(InformerId(self.id)));
        }
        let resource_version = self.version();
        self.send(SourceChange::ListEnded {
            resource_version: Some(resource_version),
        });
        true
    }

    /// Lists from a lagging server: without half of the changes that it has not delivered yet.
    pub(crate) fn list_old(&mut self) {
        let end = self.stage.with(|state| state.server.history.len());
        self.list(self.place.midpoint(end));
    }

    pub(crate) fn bookmark(&mut self) {
        if self.synced {
            let resource_version = self.version();
            self.send(SourceChange::Progress { resource_version });
        }
    }

    /// The resource version of the server at its position.
    fn version(&self) -> String {
        let version = self.stage.with(|state| {
            let last = self.place.checked_sub(1)?;
            Some(state.server.history.get(last)?.version)
        });
        version.unwrap_or_default().to_string()
    }

    fn selects(&self, object: &Lease) -> bool {
        match self.selector {
            Selector::All => true,
            Selector::Label(label) => label_of(object) == Some(label.to_string().as_str()),
        }
    }

    fn apply(&mut self, object: &Lease, from: AddedBy) {
        let had = self.has.insert(name(object), object.clone());
        let same = had
            .as_ref()
            .filter(|it| it.metadata.uid == object.metadata.uid);
        match same {
            Some(had) if snapshot(had).version == snapshot(object).version => {}
            Some(_) => self.log(InformerEvent::Updated(snapshot(object))),
            None => {
                if let Some(last) = &had {
                    self.log(InformerEvent::Deleted(snapshot(last)));
                }
                self.log(InformerEvent::Added {
                    object: snapshot(object),
                    from,
                });
            }
        }
        self.send(SourceChange::Applied(object.clone().into()));
    }

    fn delete(&mut self, last: Lease) {
        let had = self.has.get(&name(&last));
        if had.is_some_and(|it| it.metadata.uid == last.metadata.uid) {
            self.has.remove(&name(&last));
            self.log(InformerEvent::Deleted(snapshot(&last)));
        }
        let identity = Identity {
            key: ObjectKey::of(&last),
            uid: Uid::of(&last),
            resource_version: last.metadata.resource_version.clone(),
        };
        self.send(SourceChange::Deleted {
            identity,
            last: Some(last.into()),
        });
    }

    fn log(&self, shown: InformerEvent) {
        self.stage.log(Entry::InformerEvent {
            informer: InformerId(self.id),
            shown,
        });
    }

    fn send(&self, change: SourceChange<Lease>) {
        // A removed informer does not receive changes any more.
        if let Err(TrySendError::Full(_)) = self.changes.try_send(change) {
            panic!("a history has fewer changes than {AHEAD}");
        }
    }
}

// === impl RelistCounter ===

impl Source<Lease> for RelistCounter {
    /// The resource in the paths of requests, by which a controller knows its own writes.
    fn resource(&self) -> String {
        "leases.coordination.k8s.io".to_owned()
    }

    async fn run(&mut self, changes: Changes<Lease>) -> Result<(), WatchError> {
        if mem::replace(&mut self.started, true) {
            self.requests.fetch_add(1, Ordering::Relaxed);
            self.stage.written.notify_one();
        }
        self.source.run(changes).await
    }
}

fn name(lease: &Lease) -> String {
    lease.metadata.name.clone().unwrap_or_default()
}
