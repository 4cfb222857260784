//! A log that cannot be written, and errors that cannot be displayed.

use std::{
    fmt,
    fs::File,
    io,
    process::Stdio,
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use futures::{FutureExt as _, future::BoxFuture};
use k8s_openapi::api::core::v1::ConfigMap;
use libtest_mimic::Trial;
use tokio::{sync::mpsc, time::timeout};
use tokio_util::sync::CancellationToken;
use tracing_subscriber::fmt::format::FmtSpan;
use windlass_controller::{InformerController, Outcome, Request, Runnable};
use windlass_informer::{
    Change, DecodeError, Identity, Informer, ObjectKey, Scripted, Verb, WatchError, WatchErrorCause,
};
use windlass_operator::{LeaderElection, Operator, OperatorError};

use crate::{
    child::{Child, Kind, LIMIT, is_child, on_both_servers, say},
    cluster::Cluster,
};

/// A handler's error whose text may panic.
#[derive(Debug)]
struct Refused {
    panics: bool,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        assert!(!self.panics, "no text");
        f.write_str("refused")
    }
}

impl std::error::Error for Refused {}

fn config(name: &str) -> ConfigMap {
    let mut config = ConfigMap::default();
    config.metadata.name = Some(name.to_owned());
    config.metadata.uid = Some(name.to_owned());
    config
}

const EVENTS: &str = "log::a_leader_whose_log_cannot_be_written_keeps_its_controllers";

const SPANS: &str = "log::a_leader_whose_spans_cannot_be_written_keeps_its_controllers";

const ENDS: &str = "log::a_controller_that_ends_in_any_way_ends_the_operator_with_its_name";

pub(crate) fn trials() -> Vec<Trial> {
    let mut trials = on_both_servers(
        EVENTS,
        a_leader_whose_log_cannot_be_written_keeps_its_controllers,
    );
    trials.extend(on_both_servers(
        SPANS,
        a_leader_whose_spans_cannot_be_written_keeps_its_controllers,
    ));
    trials.extend(on_both_servers(
        ENDS,
        a_controller_that_ends_in_any_way_ends_the_operator_with_its_name,
    ));
    trials
}

fn a_leader_whose_log_cannot_be_written_keeps_its_controllers(kind: Kind) {
    leads_without_a_log(kind, EVENTS, FmtSpan::NONE);
}

/// Each span is a line of such a log too, when it begins, is entered and left, and ends.
fn a_leader_whose_spans_cannot_be_written_keeps_its_controllers(kind: Kind) {
    leads_without_a_log(kind, SPANS, FmtSpan::FULL);
}

fn leads_without_a_log(kind: Kind, name: &str, spans: FmtSpan) {
    if is_child() {
        return logs(&Cluster::start(kind), spans);
    }
    // Each write fails with ENOSPC.
    let full = File::options().write(true).open("/dev/full");
    for stderr in [Stdio::piped(), full.expect("a device").into()] {
        let mut child = Child::with_stderr(stderr, kind, name);
        assert_eq!(child.line(), "leads");
        // The reader of the log ends. A write then fails with EPIPE.
        drop(child.process.stderr.take());
        assert_eq!(child.line(), "called after 30 failed reports");
        assert_eq!(child.line(), "ended Ok(()), held by None");
        assert!(child.ended().success());
    }
}

/// An operator that logs to stderr, as `tracing_subscriber::fmt` does without other settings.
fn logs(cluster: &Cluster, spans: FmtSpan) {
    tracing_subscriber::fmt()
        .with_span_events(spans)
        .with_writer(io::stderr)
        .try_init()
        .expect("the only subscriber");
    let election = cluster.election().build().expect("valid settings");
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let ended = runtime.block_on(leads(election));
    say(&format!("ended {ended:?}, held by {:?}", cluster.holder()));
}

/// A leader whose reports fail, until it is stopped.
async fn leads(election: LeaderElection) -> Result<(), OperatorError> {
    let controller = InformerController::builder().build().expect("settings");
    let (script, source) = Scripted::<ConfigMap>::new();
    let configs = controller.kind("configs").expect("a new kind");
    controller
        .add_informer(&configs, &Informer::new(source))
        .expect("new");
    let (called, mut calls) = mpsc::channel(1000);
    let reconciler = move |request: Request<ConfigMap>| {
        let called = called.clone();
        async move {
            _ = called.send(request.key().name().to_owned()).await;
            Err::<Outcome, _>(Refused {
                panics: request.key().name().ends_with('0'),
            })
        }
    };
    controller
        .add_reconciler(&configs, reconciler)
        .expect("a name");
    let operator = Operator::builder().leader_election(election).build();
    operator.add_controller(controller).expect("not running");
    let stop = CancellationToken::new();
    let run = tokio::spawn({
        let (operator, stop) = (operator.clone(), stop.clone());
        async move { operator.run_until(stop).await }
    });
    script.list([config("first")]).await.expect("an informer");
    let next = async |calls: &mut mpsc::Receiver<String>, name: &str| {
        let until = async {
            // Ends: the channel has a call of this name, or the timeout passes.
            while calls.recv().await.as_deref() != Some(name) {}
        };
        timeout(LIMIT, until).await.expect("a call");
    };
    next(&mut calls, "first").await;
    say("leads");
    // Until the parent has closed its end of the pipe.
    let closed = async {
        // Ends: the parent closes it, or the timeout passes.
        while io::Write::write_all(&mut io::stderr(), b".\n").is_ok() {
            // The end of a pipe is only noticed by a write.
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(LIMIT, closed).await.expect("closed");
    for number in 0..10 {
        let key = ObjectKey::new(format!("broken{number}"));
        let undecodable = Change::Undecodable {
            identity: Identity {
                key,
                uid: None,
                resource_version: None,
            },
            error: DecodeError::Syntax { line: 1, column: 1 },
            finalizers: vec![],
        };
        script.change(undecodable).await.expect("an informer");
        let broken = WatchErrorCause::Silent {
            limit: Duration::from_secs(1),
        };
        let interrupted = Change::Interrupted {
            error: WatchError::new("configmaps", Verb::Watch, broken),
            retry_in: Duration::from_millis(1),
        };
        script.change(interrupted).await.expect("an informer");
        let name = format!("config{number}");
        script.apply(config(&name)).await.expect("an informer");
        next(&mut calls, &name).await;
    }
    say("called after 30 failed reports");
    stop.cancel();
    run.await.expect("no panic")
}

/// A controller that ends in this way.
struct Ends(fn() -> BoxFuture<'static, Result<(), Refused>>);

impl Runnable for Ends {
    type Error = Refused;

    fn name(&self) -> &'static str {
        "websites"
    }

    async fn run(&self, _: CancellationToken) -> Result<(), Refused> {
        (self.0)().await
    }
}

/// However a controller ends, its lease is released, and the error has its name.
fn a_controller_that_ends_in_any_way_ends_the_operator_with_its_name(kind: Kind) {
    type End = fn() -> BoxFuture<'static, Result<(), Refused>>;

    if !is_child() {
        let mut child = Child::start(kind, ENDS);
        assert_eq!(child.line(), "each lease is released");
        return;
    }
    let ends: [End; 4] = [
        || async { Ok(()) }.boxed(),
        || async { Err(Refused { panics: true }) }.boxed(),
        || async { panic!("broken") }.boxed(),
        || async { std::panic::panic_any(DropPanics) }.boxed(),
    ];
    let cluster = Cluster::start(kind);
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    for end in ends {
        let election = cluster.election().build().expect("valid settings");
        let operator = Operator::builder().leader_election(election).build();
        operator.add_controller(Ends(end)).expect("not running");
        let ended = runtime
            .block_on(async { timeout(LIMIT, operator.run_until(CancellationToken::new())).await });
        let ended = ended.expect("it ends");
        let error = ended.expect_err("it failed");
        assert!(error.to_string().contains("\"websites\""), "{error}");
        assert!(
            matches!(
                error,
                OperatorError::Controller { .. }
                    | OperatorError::Ended { .. }
                    | OperatorError::Panicked { .. }
            ),
            "{error}"
        );
        assert_eq!(cluster.holder(), None, "the lease is released");
    }
    say("each lease is released");
}

/// The payload of a panic that panics again when it is dropped.
struct DropPanics;

impl Drop for DropPanics {
    fn drop(&mut self) {
        static PANICS: AtomicBool = AtomicBool::new(true);
        assert!(!PANICS.swap(false, Ordering::SeqCst), "again");
    }
}
