//! A replica, in its own process.

use std::{
    cell::Cell,
    env,
    io::{self, Read as _},
    thread,
    time::Duration,
};

use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api, Client, Config,
    api::{Patch, PatchParams},
};
use serde_json::json;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use windlass::{
    Action, FinalizerName, Finalizers, OpinionatedReconciler,
    leader::{Fence, FenceClosed, LeaseClient},
    operator::OperatorError,
    prelude::*,
};

use crate::{CLEAN_UP, CONCURRENCY, FINALIZER, LEASE, RENEW, REQUEUE, RETRY, THREADS, now};

/// Environment variables of child processes: the URL of the server, and the name of the replica.
pub(crate) const URL: &str = "WINDLASS_FREEZE_URL";
pub(crate) const NAME: &str = "WINDLASS_FREEZE_NAME";

/// Why the first call of some clean-ups fails.
#[derive(Debug, thiserror::Error)]
#[error("not yet")]
struct NotYet;

thread_local! {
    /// The time of the last check of the fence on this thread.
    static CHECKED: Cell<Option<Duration>> = const { Cell::new(None) };
}

/// Whether this process is a replica: a child of the test.
pub(crate) fn is_replica() -> bool {
    env::var_os(URL).is_some()
}

/// The main function of a child process.
pub(crate) fn replica() -> ! {
    let variable = |name| env::var(name).expect("set by the test");
    let (url, name) = (variable(URL), variable(NAME));
    thread::spawn(|| {
        _ = io::stdin().read_to_end(&mut Vec::new());
        // Not started by a test.
        std::process::exit(1);
    });
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(THREADS)
        .enable_all()
        .build()
        .expect("a runtime");
    let ended = runtime.block_on(run_replica(&url, &name));
    match ended {
        Err(OperatorError::LeadershipLost { .. }) => println!("\nlost"),
        other => println!("\nended {other:?}"),
    }
    // Exit directly: calls that are still running must not delay the end.
    std::process::exit(0);
}

async fn run_replica(url: &str, name: &str) -> Result<(), OperatorError> {
    let config = Config::new(url.parse().expect("a URL"));
    // Half of the replicas renew on a separate thread, the others on the runtime of the handlers.
    let lease = if name.ends_with(['1', '3', '5', '7', '9']) {
        LeaseClient::from(config.clone())
    } else {
        LeaseClient::from(Client::try_from(config.clone()).expect("a client"))
    };
    let election = LeaderElection::builder(lease, "default", "frozen")
        .identity(name)
        .lease_duration(LEASE)
        .renew_deadline(RENEW)
        .retry_period(RETRY)
        .fence(noted_fence())
        .build()
        .expect("valid settings");
    let client = election.fence().connect(config).expect("a client");
    let read: Api<ConfigMap> = Api::namespaced(client.clone(), "default");
    let write: Api<ConfigMap> = Api::namespaced(client.clone(), name);
    let finalized: Api<ConfigMap> = Api::namespaced(client, name);
    let controller = InformerController::builder()
        .concurrency(CONCURRENCY)
        .build();
    let controller = controller.expect("valid settings");
    let watched = ListWatch::new(read)
        .labels("freeze=yes")
        .expect("a selector");
    let configs = controller.kind("configs").expect("a new kind");
    controller
        .add_informer(&configs, &Informer::new(watched))
        .expect("new");
    let reconciler = move |request: Request<ConfigMap>| {
        print_call("call");
        let write = write.clone();
        async move {
            let patch = Patch::Merge(json!({ "data": { "at": now().as_nanos().to_string() } }));
            let params = PatchParams::default();
            match write.patch(request.key().name(), &params, &patch).await {
                Err(error) if FenceClosed::find(&error).is_some() => println!("\nrefused"),
                _ => {}
            }
            Ok::<_, Failure>(Outcome::requeue_after(REQUEUE))
        }
    };
    controller
        .add_reconciler(&configs, reconciler)
        .expect("a name");
    add_finalized(&controller, finalized);
    let operator = Operator::builder().leader_election(election).build();
    operator
        .add_controller(controller)
        .expect("the operator is not running");
    operator.run_until(CancellationToken::new()).await
}

/// Adds a reconciler with a finalizer, for objects that the test deletes. A clean-up takes longer
/// than the time until the freeze, and every second one fails at first, so that in a leader that
/// continues all of them, their retries, and the removals of their finalizers are overdue.
fn add_finalized(controller: &InformerController, configs: Api<ConfigMap>) {
    let watched = ListWatch::new(configs.clone())
        .labels("finalized=yes")
        .expect("a selector");
    let finalized = controller.kind("finalized").expect("a new kind");
    controller
        .add_informer(&finalized, &Informer::new(watched))
        .expect("new");
    let name = FinalizerName::new(FINALIZER).expect("a name");
    let finalizers = Finalizers::new(configs, name).expect("valid");
    let reconciler = move |request: Request<ConfigMap>| {
        let is_delete = request.action() == Action::Deleted;
        print_call(if is_delete { "delete" } else { "call" });
        async move {
            if !is_delete {
                return Ok(Outcome::done());
            }
            sleep(CLEAN_UP).await;
            let name = request.key().name();
            if request.attempt() == 0 && name.ends_with(['1', '3', '5', '7', '9']) {
                return Err(NotYet);
            }
            Ok(Outcome::done())
        }
    };
    let reconciler = OpinionatedReconciler::new(finalizers, reconciler);
    controller
        .add_reconciler(&finalized, reconciler)
        .expect("a name");
}

/// Prints the time of a call that begins now, and of the check of the fence for it.
fn print_call(kind: &str) {
    // The last check on this thread was the check for this call.
    let (begun, checked) = (now(), CHECKED.take());
    let checked = checked.map_or(u128::MAX, |it| it.as_nanos());
    println!("\n{kind} {checked} {}", begun.as_nanos());
}

/// A fence with the usual clock, which records the time of each check by thread.
fn noted_fence() -> Fence {
    let clock = Fence::new();
    Fence::with_clock(move || {
        let now = clock.now();
        CHECKED.set(Some(now));
        now
    })
}
