//! The page `/debug/windlass`: what each informer has done so far, and who holds the lease, as JSON.
//!
//! The path begins with `/debug/`, like the pages of Go's servers for people, and the rest is the
//! name of this library, so that a program can have pages such as `/debug/pprof` of its own.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use bytes::Bytes;
use jiff::Timestamp;
use serde::Serialize;
use windlass_controller::{ErasedRunnable, InformerDiagnostics};
use windlass_informer::HealthState;

use super::Subject;
use crate::LeaderElection;
use crate::blocking_call::BlockingCall;

/// The highest age of the page: it reads the identities of all objects.
const MAX_AGE: Duration = Duration::from_secs(1);

/// How long a response waits: far longer than a million objects take.
const MAX_WAIT: Duration = Duration::from_secs(5);

/// Reads the diagnostics of an operator.
pub(super) struct DiagnosticsPage {
    controllers: Vec<Arc<dyn ErasedRunnable>>,
    election: Option<LeaderElection>,
    reading: BlockingCall<Result<Bytes, String>>,
}

#[derive(Serialize)]
struct Diagnostics<'a> {
    lease: Option<Lease<'a>>,
    controllers: Vec<Controller<'a>>,
}

#[derive(Serialize)]
struct Lease<'a> {
    name: String,
    holder: Option<String>,
    /// What this replica writes as the holder.
    identity: &'a str,
}

#[derive(Serialize)]
struct Controller<'a> {
    name: &'a str,
    informers: Vec<Informer>,
}

#[derive(Serialize)]
struct Informer {
    kind: String,
    resource: String,
    namespaces: Option<Vec<String>>,
    state: &'static str,
    /// Why it is down: not the text of a server, which can be long.
    error: Option<&'static str>,
    synced: bool,
    undecodable: usize,
    lists: u64,
    restarts: BTreeMap<&'static str, u64>,
    last_event: Option<String>,
    objects: usize,
    /// Hexadecimal, because numbers in JSON are often read with 53 bits.
    checksum: String,
}

// === impl DiagnosticsPage ===

impl DiagnosticsPage {
    pub(super) fn new(subject: &Subject) -> Self {
        Self {
            controllers: [&*subject.controllers, &*subject.each_replica].concat(),
            election: subject.election.clone(),
            reading: BlockingCall::new(MAX_AGE),
        }
    }

    /// The page, at most a second old, or why there is none.
    pub(super) async fn get(&self) -> Result<Bytes, String> {
        let (controllers, election) = (self.controllers.clone(), self.election.clone());
        let read = move || render(&controllers, election.as_ref());
        match self.reading.get(MAX_WAIT, read).await {
            Some(Ok(page)) => page,
            Some(Err(panic)) => Err(format!("a controller panicked: {panic}")),
            None => {
                let seconds = MAX_WAIT.as_secs();
                Err(format!("the controllers did not return within {seconds} s"))
            }
        }
    }
}

fn render(
    controllers: &[Arc<dyn ErasedRunnable>],
    election: Option<&LeaderElection>,
) -> Result<Bytes, String> {
    let controllers = controllers.iter().map(|controller| Controller {
        name: controller.name(),
        informers: (controller.diagnostics().into_iter())
            .map(Informer::new)
            .collect(),
    });
    let diagnostics = Diagnostics {
        lease: election.map(|election| Lease {
            name: election.lease(),
            holder: election.holder(),
            identity: election.identity(),
        }),
        controllers: controllers.collect(),
    };
    let mut page = serde_json::to_vec_pretty(&diagnostics)
        .map_err(|error| format!("cannot encode the diagnostics: {error}"))?;
    page.push(b'\n');
    Ok(Bytes::from(page))
}

// === impl Informer ===

impl Informer {
    fn new(diagnostics: InformerDiagnostics) -> Self {
        let InformerDiagnostics { kind, informer, .. } = diagnostics;
        let (state, error) = match &informer.health.state {
            HealthState::NotStarted => ("not started", None),
            HealthState::Listing => ("listing", None),
            HealthState::Watching => ("watching", None),
            HealthState::Down { error } => ("down", Some(error.reason())),
            HealthState::Stopped => ("stopped", None),
            _ => ("unknown", None),
        };
        let last_event = informer.last_event.and_then(|at| {
            let at = Timestamp::try_from(at).ok()?;
            Some(format!("{at:.3}"))
        });
        Self {
            kind: kind.to_string(),
            resource: informer.health.resource.to_string(),
            namespaces: informer.namespaces,
            state,
            error,
            synced: informer.health.synced,
            undecodable: informer.health.undecodable.len(),
            lists: informer.lists,
            restarts: informer.restarts,
            last_event,
            objects: informer.objects,
            checksum: format!("{:016x}", informer.checksum),
        }
    }
}
