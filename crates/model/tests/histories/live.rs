//! An informer of the embedded server, whose events are recorded.

use k8s_openapi::api::coordination::v1::Lease;
use kube::Api;
use tokio::task::{JoinHandle, unconstrained};
use windlass_informer::{Event, Informer, ListWatch, Subscription};
use windlass_model::{AddedBy, Entry, InformerEvent, InformerId};

use crate::{
    informer_source::InformerSource,
    script::Selector,
    server::{Embedded, Gate},
    stage::{NAMESPACE, Stage, snapshot},
};

/// An informer of a history: with a scripted source, or of the embedded server.
pub(crate) enum View {
    Scripted(InformerSource),
    Live(Live),
}

/// An informer of the embedded server. A separate subscription, created before that of the
/// controller, records its events.
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
    /// Delivers the next change.
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

    /// Lists from a server that lags. On the embedded server, all informers list again.
    pub(crate) fn list_old(&mut self) {
        match self {
            Self::Scripted(sight) => sight.list_old(),
            Self::Live(live) => live.embedded.compact(),
        }
    }

    /// Delivers a bookmark. On the embedded server, disconnects the informer until its next change.
    pub(crate) fn bookmark(&mut self) {
        match self {
            Self::Scripted(sight) => sight.bookmark(),
            Self::Live(live) => {
                live.gate.set(false);
                live.embedded.interrupt();
            }
        }
    }

    /// Delivers all changes up to now.
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
        let mut live = Self {
            id,
            selector,
            stage: stage.clone(),
            embedded: embedded.clone(),
            gate,
            informer: Informer::new(source),
            recorder: tokio::spawn(async {}),
        };
        live.record();
        live
    }

    pub(crate) fn informer(&self) -> Informer<Lease> {
        self.informer.clone()
    }

    /// Starts to record the events of the informer.
    fn record(&mut self) {
        self.recorder.abort();
        let recorded = record(self.id, self.stage.clone(), self.informer.subscribe());
        // Without tokio's cooperative budget, which would let other tasks run first.
        self.recorder = tokio::spawn(unconstrained(recorded));
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        self.recorder.abort();
    }
}

/// Records the events of a subscription, before any other subscriber receives them.
async fn record(id: u32, stage: Stage, mut shown: Subscription<Lease>) {
    let informer = InformerId(id);
    let mut synced = false;
    while let Some(envelope) = shown.next_envelope().await {
        let from = match (envelope.from_list, synced) {
            (false, _) => AddedBy::Watch,
            (true, false) => AddedBy::FirstList,
            (true, true) => AddedBy::List,
        };
        let shown = match envelope.event {
            Event::Added(new) => InformerEvent::Added {
                object: snapshot(&new),
                from,
            },
            Event::Updated { new, .. } => InformerEvent::Updated(snapshot(&new)),
            Event::Deleted { last, .. } => InformerEvent::Deleted(snapshot(&last)),
            Event::Resynced(object) => InformerEvent::Resynced(snapshot(&object)),
            _ => {
                synced = true;
                stage.log(Entry::Synced(informer));
                continue;
            }
        };
        stage.log(Entry::InformerEvent { informer, shown });
    }
}
