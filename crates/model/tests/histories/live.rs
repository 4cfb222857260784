//! An informer of the embedded server, and what it shows as it shows it.

use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use kube::Api;
use tokio::{
    task::{JoinHandle, unconstrained},
    time::sleep,
};
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

/// An informer of the embedded server. A subscription of its own writes down what it shows.
///
/// It comes before that of the controller. A controller that makes its watch wait refuses an
/// informer that has a subscription when it begins: then it comes after, and before the informer
/// reaches the server.
pub(crate) struct Live {
    id: u32,
    selector: Selector,
    stage: Stage,
    embedded: Embedded,
    gate: Gate,
    informer: Informer<Lease>,
    /// Whether the controller subscribes first.
    after: bool,
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
    pub(crate) fn new(
        id: u32,
        selector: Selector,
        stage: &Stage,
        embedded: &Embedded,
        after: bool,
    ) -> Self {
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
            after,
            recorder: tokio::spawn(async {}),
        };
        live.record();
        live
    }

    pub(crate) fn informer(&self) -> Informer<Lease> {
        self.informer.clone()
    }

    /// Writes down what the informer shows to a new subscriber.
    fn record(&mut self) {
        self.recorder.abort();
        let (id, stage) = (self.id, self.stage.clone());
        self.gate.record(!self.after);
        if !self.after {
            let recorded = record(id, stage, self.informer.subscribe());
            // Without the budget of a task, which would let others go first.
            self.recorder = tokio::spawn(unconstrained(recorded));
            return;
        }
        let (informer, gate) = (self.informer.clone(), self.gate.clone());
        self.recorder = tokio::spawn(unconstrained(async move {
            while !informer.is_subscribed() {
                sleep(Duration::from_millis(1)).await;
            }
            let shown = informer.subscribe();
            gate.record(true);
            record(id, stage, shown).await;
        }));
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        self.recorder.abort();
    }
}

/// Writes down what comes, before any other subscriber takes it.
async fn record(id: u32, stage: Stage, mut shown: Subscription<Lease>) {
    let informer = InformerId(id);
    let mut synced = false;
    while let Some(told) = shown.next_envelope().await {
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
}
