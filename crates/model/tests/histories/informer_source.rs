//! An informer's source: a place in the server's history, behind which the informer is.

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
    Change as Told, Changes, Identity, ObjectKey, Scripted, Source, Uid, WatchError,
};
use windlass_model::{Entry, InformerId, Seen, Shown};

use crate::{
    script::Selector,
    stage::{Change, Stage, label_of, snapshot},
};

/// The source of an informer, which notes that the informer is to list again.
pub(crate) struct Relisted {
    source: Scripted<Lease>,
    started: bool,
    stage: Stage,
    requests: Arc<AtomicUsize>,
}

/// How many changes may wait for an informer: more than a history has.
const AHEAD: usize = 8_192;

/// An informer's source: a place in the server's history, behind which the informer is.
pub(crate) struct Sight {
    id: u32,
    selector: Selector,
    stage: Stage,
    /// How many changes of the history it has shown.
    place: usize,
    /// In which epoch of the server that was.
    epoch: u64,
    has: BTreeMap<String, Lease>,
    pub(crate) synced: bool,
    /// Whether it has listed, in whichever run.
    has_listed: bool,
    changes: mpsc::Sender<Told<Lease>>,
    /// How often the informer was to list again, and how many of these lists were shown.
    requests: Arc<AtomicUsize>,
    listed: usize,
}

// === impl Sight ===

impl Sight {
    pub(crate) fn new(id: u32, selector: Selector, stage: Stage) -> (Self, Relisted) {
        let (script, source) = Scripted::new();
        let requests = Arc::<AtomicUsize>::default();
        let source = Relisted {
            source,
            started: false,
            stage: stage.clone(),
            requests: Arc::clone(&requests),
        };
        let (changes, mut coming) = mpsc::channel(AHEAD);
        // The script waits while the informer is behind; a history goes on.
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
            epoch: 0,
            has: BTreeMap::new(),
            synced: false,
            has_listed: false,
            changes,
            requests,
            listed: 0,
        };
        (sight, source)
    }

    /// Shows the next change that it selects. Returns whether there was one.
    pub(crate) fn show(&mut self) -> bool {
        let restored = self.epoch != self.stage.with(|state| state.server.epoch);
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
                self.apply(&after, Seen::Watch);
                return true;
            }
            if let Some(mut last) = before.filter(|it| self.selects(it)) {
                last.metadata.resource_version = Some(version.to_string());
                self.delete(last);
                return true;
            }
        }
    }

    /// Whether it goes on or runs anew, a controller that adds the informer again is shown
    /// everything as new.
    pub(crate) fn begin_again(&mut self) {
        self.has.clear();
        self.synced = false;
        self.list(usize::MAX);
    }

    pub(crate) const fn selector(&self) -> Selector {
        self.selector
    }

    /// Shows everything up to now.
    pub(crate) fn catch_up(&mut self) {
        while self.show() {}
    }

    /// Lists the objects as they were at a place in the history, but not before its own.
    pub(crate) fn list(&mut self, place: usize) -> bool {
        let epoch = self.stage.with(|state| state.server.epoch);
        if mem::replace(&mut self.epoch, epoch) != epoch {
            self.place = 0;
            if self.has_listed {
                self.stage.log(Entry::WentBack(InformerId(self.id)));
                self.send(Told::HistoryWentBack);
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
        self.send(Told::ListStarted);
        let listed: Vec<_> = objects
            .into_values()
            .filter(|it| self.selects(it))
            .collect();
        for object in &listed {
            let from = if self.synced {
                Seen::List
            } else {
                Seen::FirstList
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
            self.log(Shown::Deleted(snapshot(&last)));
        }
        if !self.synced {
            self.synced = true;
            self.stage.log(Entry::Synced(InformerId(self.id)));
        }
        let resource_version = self.version();
        self.send(Told::ListEnded {
            resource_version: Some(resource_version),
        });
        true
    }

    /// Lists from a server that lags: half of what it has not shown yet is missing.
    pub(crate) fn list_old(&mut self) {
        let end = self.stage.with(|state| state.server.history.len());
        self.list(self.place.midpoint(end));
    }

    pub(crate) fn bookmark(&mut self) {
        if self.synced {
            let resource_version = self.version();
            self.send(Told::Progress { resource_version });
        }
    }

    /// The server's version at its place.
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

    fn apply(&mut self, object: &Lease, from: Seen) {
        let had = self.has.insert(name(object), object.clone());
        let same = had
            .as_ref()
            .filter(|it| it.metadata.uid == object.metadata.uid);
        match same {
            Some(had) if snapshot(had).version == snapshot(object).version => {}
            Some(_) => self.log(Shown::Updated(snapshot(object))),
            None => {
                if let Some(last) = &had {
                    self.log(Shown::Deleted(snapshot(last)));
                }
                self.log(Shown::Added {
                    object: snapshot(object),
                    from,
                });
            }
        }
        self.send(Told::Applied(object.clone().into()));
    }

    fn delete(&mut self, last: Lease) {
        let had = self.has.get(&name(&last));
        if had.is_some_and(|it| it.metadata.uid == last.metadata.uid) {
            self.has.remove(&name(&last));
            self.log(Shown::Deleted(snapshot(&last)));
        }
        let identity = Identity {
            key: ObjectKey::of(&last),
            uid: Uid::of(&last),
            resource_version: last.metadata.resource_version.clone(),
        };
        self.send(Told::Deleted {
            identity,
            last: Some(last.into()),
        });
    }

    fn log(&self, shown: Shown) {
        self.stage.log(Entry::Shown {
            informer: InformerId(self.id),
            shown,
        });
    }

    fn send(&self, change: Told<Lease>) {
        // An informer that was removed takes nothing more.
        if let Err(TrySendError::Full(_)) = self.changes.try_send(change) {
            panic!("a history has fewer changes than {AHEAD}");
        }
    }
}

// === impl Relisted ===

impl Source<Lease> for Relisted {
    fn resource(&self) -> String {
        self.source.resource()
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
