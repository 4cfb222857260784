//! An operator through its public API, on paused time.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use k8s_openapi::api::core::v1::ConfigMap;
use kube::{Api, Config, api::PostParams};
use prometheus::{IntCounter, Registry, core::Collector};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpListener,
    time::{Instant, sleep, timeout},
};
use tokio_util::sync::CancellationToken;
use windlass_controller::{InformerController, Runnable};
use windlass_operator::{AddControllerError, Operator, OperatorError};

/// A controller that follows a plan, and counts the running controllers.
struct Fake {
    name: &'static str,
    plan: Plan,
    running: Arc<AtomicUsize>,
}

#[derive(Clone, Copy)]
enum Plan {
    /// Runs until it is stopped, and then for this time.
    Linger(Duration),
    FailAfter(Duration),
    PanicAfter(Duration),
    EndAfter(Duration),
}

#[derive(Debug, thiserror::Error)]
#[error("{0} is broken")]
struct Broken(&'static str);

impl Runnable for Fake {
    type Error = Broken;

    fn name(&self) -> &str {
        self.name
    }

    async fn run(&self, stop: CancellationToken) -> Result<(), Broken> {
        self.running.fetch_add(1, Ordering::SeqCst);
        let ended = match self.plan {
            Plan::Linger(time) => {
                stop.cancelled().await;
                sleep(time).await;
                Ok(())
            }
            Plan::FailAfter(time) => {
                sleep(time).await;
                Err(Broken(self.name))
            }
            Plan::PanicAfter(time) => {
                sleep(time).await;
                self.running.fetch_sub(1, Ordering::SeqCst);
                panic!("test panic");
            }
            Plan::EndAfter(time) => {
                sleep(time).await;
                Ok(())
            }
        };
        self.running.fetch_sub(1, Ordering::SeqCst);
        ended
    }

    fn prometheus_collectors(&self) -> Vec<Box<dyn Collector>> {
        let name = format!("{}_total", self.name);
        let counter = IntCounter::new(name, "A counter.").expect("a name");
        vec![Box::new(counter)]
    }
}

/// An operator with these controllers, and the number of running ones.
fn operator<const N: usize>(plans: [(&'static str, Plan); N]) -> (Operator, Arc<AtomicUsize>) {
    let running = Arc::new(AtomicUsize::new(0));
    let operator = Operator::new();
    for (name, plan) in plans {
        let running = Arc::clone(&running);
        let added = operator.add_controller(Fake {
            name,
            plan,
            running,
        });
        added.expect("the operator is not running");
    }
    (operator, running)
}

const LONG: Duration = Duration::from_secs(3600);
const SHORT: Duration = Duration::from_secs(7);

/// Rows: GA-16, GA-62, GA-64
#[tokio::test(start_paused = true)]
async fn controllers_run_until_the_stop_and_are_awaited() {
    let plans = [("a", Plan::Linger(SHORT)), ("b", Plan::Linger(SHORT))];
    let (operator, running) = operator(plans);
    let stop = CancellationToken::new();
    let run = tokio::spawn({
        let (operator, stop) = (operator.clone(), stop.clone());
        async move { operator.run_until(stop).await }
    });
    sleep(LONG).await;
    assert_eq!(running.load(Ordering::SeqCst), 2);

    let asked = Instant::now();
    stop.cancel();
    run.await.expect("no panic").expect("no error");
    assert_eq!(running.load(Ordering::SeqCst), 0);
    assert!(asked.elapsed() >= SHORT, "they were waited for");
}

/// Adds a task for each replica.
fn add_task(operator: &Operator, plan: Plan, running: &Arc<AtomicUsize>) {
    let running = Arc::clone(running);
    let name = "task";
    let task = Fake {
        name,
        plan,
        running,
    };
    operator.add_to_each_replica(task).expect("a new name");
}

#[tokio::test(start_paused = true)]
async fn a_task_of_each_replica_is_stopped_after_the_controllers_and_has_the_rest_of_the_drain() {
    let drain = Duration::from_secs(25);
    // How long the controller, and the task after it, take to end.
    for (controller, task, took, error) in [
        (SHORT, SHORT, 2 * SHORT, None),
        (SHORT, LONG, drain, Some("task")),
        (LONG, Duration::ZERO, drain, Some("a")),
        (LONG, Duration::from_millis(50), drain, Some("a")),
    ] {
        let (operator, running) = operator([("a", Plan::Linger(controller))]);
        let tasks = Arc::new(AtomicUsize::new(0));
        add_task(&operator, Plan::Linger(task), &tasks);
        let stop = CancellationToken::new();
        let run = tokio::spawn({
            let stop = stop.clone();
            async move { operator.run_until(stop).await }
        });
        sleep(LONG).await;
        stop.cancel();
        let asked = Instant::now();
        sleep(SHORT / 2).await;
        assert_eq!(running.load(Ordering::SeqCst), 1);
        assert_eq!(tasks.load(Ordering::SeqCst), 1, "it is not stopped yet");
        let ended = run.await.expect("no panic");
        let over = asked.elapsed().checked_sub(took).expect("no earlier end");
        assert!(over < Duration::from_millis(200), "{over:?}");
        match (ended, error) {
            (Ok(()), None) => {}
            (Err(OperatorError::Undrained { controllers, .. }), Some(name)) => {
                assert_eq!(controllers, [name]);
            }
            (ended, error) => panic!("{ended:?}, not {error:?}"),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_task_of_each_replica_that_ends_stops_the_operator_and_its_controllers() {
    for plan in [
        Plan::FailAfter(SHORT),
        Plan::PanicAfter(SHORT),
        Plan::EndAfter(SHORT),
    ] {
        let (operator, running) = operator([("a", Plan::Linger(SHORT))]);
        add_task(&operator, plan, &running);
        let began = Instant::now();
        let error = operator.run_until(CancellationToken::new()).await;
        let error = error.expect_err("the task ended").to_string();
        assert!(error.contains("\"task\""), "{error}");
        assert_eq!(began.elapsed(), 2 * SHORT, "the controller was waited for");
    }
}

/// Rows: GA-63
#[tokio::test(start_paused = true)]
async fn a_controller_cannot_be_added_to_a_running_operator() {
    let (operator, running) = operator([("a", Plan::Linger(SHORT))]);
    let stop = CancellationToken::new();
    let run = tokio::spawn({
        let (operator, stop) = (operator.clone(), stop.clone());
        async move { operator.run_until(stop).await }
    });
    sleep(SHORT).await;
    let late = Fake {
        name: "late",
        plan: Plan::Linger(SHORT),
        running: Arc::clone(&running),
    };
    match operator.add_controller(late) {
        Err(AddControllerError::AlreadyRan { controller }) => assert_eq!(controller, "late"),
        other => panic!("{other:?}"),
    }
    sleep(LONG).await;
    assert_eq!(running.load(Ordering::SeqCst), 1);
    stop.cancel();
    run.await.expect("no panic").expect("no error");
}

/// Rows: GA-64, GA-65
#[tokio::test(start_paused = true)]
async fn the_first_controller_that_fails_stops_all_and_is_named_in_the_error() {
    let (operator, running) = operator([
        ("good", Plan::Linger(SHORT)),
        ("bad", Plan::FailAfter(SHORT)),
        // While the other controllers end.
        ("worse", Plan::FailAfter(SHORT * 2)),
    ]);
    match operator.run_until(CancellationToken::new()).await {
        Err(OperatorError::Controller { controller, source }) => {
            assert_eq!(controller, "bad");
            assert_eq!(source.to_string(), "bad is broken");
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(running.load(Ordering::SeqCst), 0, "all have ended");
}

#[tokio::test(start_paused = true)]
async fn a_panic_of_a_controller_stops_the_others_and_is_the_error() {
    let plans = [
        ("good", Plan::Linger(SHORT)),
        ("bad", Plan::PanicAfter(SHORT)),
    ];
    let (operator, running) = operator(plans);
    match operator.run_until(CancellationToken::new()).await {
        Err(OperatorError::Panicked {
            controller,
            message,
        }) => assert_eq!((&*controller, &*message), ("bad", "test panic")),
        other => panic!("{other:?}"),
    }
    assert_eq!(running.load(Ordering::SeqCst), 0);
}

#[tokio::test(start_paused = true)]
async fn a_controller_that_ends_without_an_error_stops_the_others_and_is_named() {
    let plans = [
        ("brief", Plan::EndAfter(SHORT)),
        ("long", Plan::Linger(SHORT)),
    ];
    let (operator, running) = operator(plans);
    let ended = timeout(LONG, operator.run_until(CancellationToken::new()));
    match ended.await.expect("it ends") {
        Err(OperatorError::Ended { controller }) => assert_eq!(controller, "brief"),
        other => panic!("{other:?}"),
    }
    assert_eq!(running.load(Ordering::SeqCst), 0);
}

#[tokio::test(start_paused = true)]
async fn a_second_run_of_an_operator_is_an_error() {
    let (operator, _) = operator([("a", Plan::EndAfter(SHORT))]);
    let stop = CancellationToken::new();
    stop.cancel();
    operator.run_until(stop.clone()).await.expect("no error");
    let again = operator.run_until(stop).await;
    let again = again.expect_err("it ran before");
    assert!(matches!(again, OperatorError::AlreadyRan), "{again:?}");
}

/// Rows: GA-66
#[test]
fn the_collectors_are_those_of_all_controllers() {
    let (operator, _) = operator([
        ("first", Plan::Linger(SHORT)),
        ("second", Plan::Linger(SHORT)),
    ]);
    for name in ["websites", "gateways"] {
        let controller = InformerController::builder().name(name).build();
        let added = operator.add_controller(controller.expect("valid settings"));
        added.expect("the operator is not running");
    }
    let registry = Registry::new();
    for collector in operator.prometheus_collectors() {
        registry.register(collector).expect("no name twice");
    }
    let families = registry.gather();
    let has = |name: &str| families.iter().any(|family| family.name() == name);
    assert!(has("first_total") && has("second_total"));
    let workers = "controller_runtime_max_concurrent_reconciles";
    let workers = families.iter().find(|family| family.name() == workers);
    assert_eq!(workers.map(|family| family.get_metric().len()), Some(2));
}

/// D27. Rows: GA-62
#[tokio::test]
async fn two_controllers_cannot_have_the_same_name() {
    let (operator, _) = operator([("shop", Plan::Linger(SHORT))]);
    let again = operator.add_controller(Fake {
        name: "shop",
        plan: Plan::Linger(SHORT),
        running: Arc::default(),
    });
    let refused = again.expect_err("the name is taken");
    assert!(
        matches!(&refused, AddControllerError::NameTaken { controller } if controller == "shop")
    );
    assert!(
        refused.to_string().contains("a different name"),
        "{refused}"
    );

    // Controllers without a name get unique names.
    let unnamed = windlass_controller::InformerController::new;
    operator.add_controller(unnamed()).expect("the first");
    operator.add_controller(unnamed()).expect("the second");
    let one = unnamed();
    operator.add_controller(one.clone()).expect("a third");
    operator
        .add_controller(one)
        .expect_err("the same one again");
}

/// kube's own retries would wait for as long as the server asks for, within the handler's call.
#[tokio::test]
async fn a_client_without_an_election_sends_each_request_once() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    // Refuses the first request; a second one would succeed.
    let server = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.expect("a connection");
        for response in [
            "503 Service Unavailable\r\nretry-after: 1\r\ncontent-length: 0",
            "201 Created\r\ncontent-type: application/json\r\ncontent-length: 2",
        ] {
            let mut head = Vec::new();
            while !head.ends_with(b"}") {
                match stream.read_u8().await {
                    Ok(byte) => head.push(byte),
                    Err(_) => return,
                }
            }
            let response = format!("HTTP/1.1 {response}\r\n\r\n");
            let body = if response.contains("201") { "{}" } else { "" };
            let sent = stream
                .write_all(format!("{response}{body}").as_bytes())
                .await;
            sent.expect("it is read");
        }
    });
    let mut config = Config::new(format!("http://{address}").parse().expect("a URL"));
    config.default_retry = true;
    let client = Operator::new().connect(config).expect("a client");
    let configs: Api<ConfigMap> = Api::default_namespaced(client);
    let created = configs
        .create(&PostParams::default(), &ConfigMap::default())
        .await;
    match created {
        Err(kube::Error::Api(status)) => assert_eq!(status.code, 503),
        other => panic!("it was sent again: {other:?}"),
    }
    drop(configs);
    server.abort();
}
