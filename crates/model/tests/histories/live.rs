//! An informer of the embedded server, and what it shows as it shows it.

use k8s_openapi::api::coordination::v1::Lease;
use kube::Api;
use tokio::task::{JoinHandle, unconstrained};
use windlass_informer::{Event, Informer, ListWatch, Subscription};
use windlass_model::{Entry, InformerId, Seen, Shown};

use crate::{
    script::Selector,
    server::{Embedded, Gate},
    sight::Sight,
    stage::{NAMESPACE, Stage, snapshot},
};

/// An informer of a history, on either stage.
pub(crate) enum View {
    Scripted(Sight),
    Live(Live),
}

/// An informer of the embedded server. A subscription of its own, before that of the controller,
/// writes down what it shows.
pub(crate) struct Live {
    id: u32,
    selector: Selector,
    stage: Stage,
    embedded: Embedded,
    gate: Gate,
    informer: Informer<Lease>,
    recorder: JoinHandle<()>,
}

// === impl View ===

impl View {
    /// Shows the next change.
    pub(crate) fn show(&mut self) {
        match self {
            Self::Scripted(sight) => _ = sight.show(),
            Self::Live(live) => live.gate.set(true),
        }
    }

    /// Lists; an informer of a server that has listed resumes its watch.
    pub(crate) fn list(&mut self) {
        match self {
            Self::Scripted(sight) => _ = sight.list(usize::MAX),
            Self::Live(live) if live.gate.is_open() => live.embedded.interrupt(),
            Self::Live(live) => live.gate.set(true),
        }
    }

    /// Lists from a server that lags; all informers of the embedded server list anew.
    pub(crate) fn list_old(&mut self) {
        match self {
            Self::Scripted(sight) => sight.list_old(),
            Self::Live(live) => live.embedded.compact(),
        }
    }

    /// Shows a bookmark; an informer of a server is cut off until it is to show something.
    pub(crate) fn bookmark(&mut self) {
        match self {
            Self::Scripted(sight) => sight.bookmark(),
            Self::Live(live) => {
                live.gate.set(false);
                live.embedded.interrupt();
            }
        }
    }

    /// Shows everything up to now.
    pub(crate) fn catch_up(&mut self) {
        match self {
            Self::Scripted(sight) => sight.catch_up(),
            Self::Live(live) => live.gate.set(true),
        }
    }

    /// The informer is about to be added again.
    pub(crate) fn begin_again(&mut self) {
        match self {
            Self::Scripted(sight) => sight.begin_again(),
            Self::Live(live) => live.record(),
        }
    }

    /// The informer was removed.
    pub(crate) fn end(&self) {
        if let Self::Live(live) = self {
            live.recorder.abort();
        }
    }

    pub(crate) const fn selector(&self) -> Selector {
        match self {
            Self::Scripted(sight) => sight.selector(),
            Self::Live(live) => live.selector,
        }
    }
}

// === impl Live ===

impl Live {
    pub(crate) fn new(id: u32, selector: Selector, stage: &Stage, embedded: &Embedded) -> Self {
        let gate = Gate::new();
        let api = Api::<Lease>::namespaced(embedded.behind(&gate), NAMESPACE);
        let mut source = ListWatch::<Lease>::new(api).seed(u64::from(id));
        if let Selector::Label(label) = selector {
            source = source.labels(format!("label={label}")).expect("a selector");
        }
        let informer = Informer::new(source);
        let recorder = record(id, stage.clone(), informer.subscribe());
        Self {
            id,
            selector,
            stage: stage.clone(),
            embedded: embedded.clone(),
            gate,
            informer,
            recorder,
        }
    }

    pub(crate) fn informer(&self) -> Informer<Lease> {
        self.informer.clone()
    }

    /// Writes down what the informer shows to a new subscriber.
    fn record(&mut self) {
        self.recorder.abort();
        self.recorder = record(self.id, self.stage.clone(), self.informer.subscribe());
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        self.recorder.abort();
    }
}

/// Writes down what comes, before any other subscriber takes it.
fn record(id: u32, stage: Stage, mut shown: Subscription<Lease>) -> JoinHandle<()> {
    let informer = InformerId(id);
    // Without the budget of a task, which would let others go first.
    tokio::spawn(unconstrained(async move {
        let mut synced = false;
        while let Some(told) = shown.told().await {
            let from = match (told.from_list, synced) {
                (false, _) => Seen::Watch,
                (true, false) => Seen::FirstList,
                (true, true) => Seen::List,
            };
            let shown = match told.event {
                Event::Added(new) => Shown::Added {
                    object: snapshot(&new),
                    from,
                },
                Event::Updated { new, .. } => Shown::Updated(snapshot(&new)),
                Event::Deleted { last, .. } => Shown::Deleted(snapshot(&last)),
                Event::Resynced(object) => Shown::Resynced(snapshot(&object)),
                _ => {
                    synced = true;
                    stage.log(Entry::Synced(informer));
                    continue;
                }
            };
            stage.log(Entry::Shown { informer, shown });
        }
    }))
}
