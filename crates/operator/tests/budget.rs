//! Request budgets, on paused time.

use std::{
    num::NonZeroU32,
    sync::{Arc, Mutex},
    time::Duration,
};

use futures::future::join_all;
use http::{Request, Response};
use http_body_util::BodyExt as _;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api, Client,
    api::{Patch, PatchParams, PostParams},
    client::{Body, retry::RetryPolicy},
};
use serde_json::json;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tower::{Layer as _, retry::RetryLayer};
use windlass_apiserver::ApiServer;
use windlass_controller::{Failure, InformerController, Outcome};
use windlass_informer::{Informer, ListWatch};
use windlass_operator::{Operator, RequestBudget};

/// Records the requests of a server and their times.
#[derive(Clone)]
struct Recorder {
    received: Arc<Mutex<Vec<(Instant, String)>>>,
}

const PER_SECOND: u32 = 10;
const BURST: u32 = 20;

// === impl Recorder ===

impl Recorder {
    fn new() -> Self {
        Self {
            received: Arc::default(),
        }
    }

    /// A client that forwards reads to `server`, and responds to writes with 503. It has kube's
    /// retries, as a client from a `Config` has.
    fn client(&self, server: &ApiServer) -> Client {
        let (received, reads) = (Arc::clone(&self.received), server.client());
        let service = tower::service_fn(move |request: Request<Body>| {
            let (received, reads) = (Arc::clone(&received), reads.clone());
            async move {
                let is_write = request.method() != http::Method::GET;
                let (parts, body) = request.into_parts();
                let bytes = body.collect().await.expect("a body").to_bytes();
                let text = String::from_utf8_lossy(&bytes).into_owned();
                received
                    .lock()
                    .expect("no panic")
                    .push((Instant::now(), text));
                if is_write {
                    let mut answer = Response::new(Body::from(b"busy".to_vec()));
                    *answer.status_mut() = http::StatusCode::SERVICE_UNAVAILABLE;
                    return Ok(answer);
                }
                reads
                    .send(Request::from_parts(parts, Body::from(bytes)))
                    .await
            }
        });
        let retries = RetryLayer::new(RetryPolicy::server_retry());
        let boxed = tower::ServiceExt::map_err(service, tower::BoxError::from);
        Client::new(retries.layer(boxed), "default")
    }

    /// The arrival times of all requests since `began`.
    fn times(&self, began: Instant) -> Vec<Duration> {
        let received = self.received.lock().expect("no panic");
        received.iter().map(|(at, _)| *at - began).collect()
    }

    /// Fails if more requests arrived in a second than the budget allows.
    #[track_caller]
    fn assert_within_budget(&self, began: Instant) {
        let times = self.times(began);
        for (index, from) in times.iter().enumerate() {
            for (count, until) in (1..).zip(&times[index..]) {
                let allowed = f64::from(BURST)
                    + until.saturating_sub(*from).as_secs_f64() * f64::from(PER_SECOND);
                // Plus one, because both ends of the interval are included.
                assert!(
                    f64::from(count) <= allowed + 1.0,
                    "{count} from {from:?} to {until:?}"
                );
            }
        }
    }
}

fn budget() -> RequestBudget {
    let number = |number| NonZeroU32::new(number).expect("not zero");
    RequestBudget::new(number(PER_SECOND), number(BURST))
}

#[tokio::test(start_paused = true)]
async fn requests_beyond_the_burst_wait_in_order_of_arrival() {
    let (server, recorder) = (ApiServer::new(), Recorder::new());
    let (budget, began) = (budget(), Instant::now());
    // Two clients with one budget.
    let clients = [(); 2].map(|()| budget.client(recorder.client(&server)));
    let requests = (0..120).map(|number: usize| {
        let configs: Api<ConfigMap> = Api::default_namespaced(clients[number % 2].clone());
        async move { configs.get_opt(&format!("object-{number}")).await }
    });
    for answer in join_all(requests).await {
        assert!(answer.expect("a response").is_none());
    }
    let times = recorder.times(began);
    assert_eq!(times.len(), 120);
    let at_once = times.iter().filter(|at| at.is_zero()).count();
    assert_eq!(at_once, 20, "the burst");
    assert_eq!(
        times.last().map(Duration::as_secs),
        Some(10),
        "100 more at 10 a second"
    );
    recorder.assert_within_budget(began);
    // The bucket is full again after a pause.
    tokio::time::sleep(Duration::from_secs(60)).await;
    let again = Instant::now();
    let configs: Api<ConfigMap> = Api::default_namespaced(clients[0].clone());
    _ = configs.get_opt("object").await.expect("a response");
    assert_eq!(again.elapsed(), Duration::ZERO);
}

/// The server may have applied a `POST` although it responds with 503 or 504.
#[tokio::test(start_paused = true)]
async fn a_request_is_sent_once_with_its_body_although_the_client_retries() {
    let (server, recorder) = (ApiServer::new(), Recorder::new());
    let configs: Api<ConfigMap> =
        Api::default_namespaced(budget().client(recorder.client(&server)));
    let mut config = ConfigMap::default();
    config.metadata.generate_name = Some("child-".to_owned());
    let created = configs.create(&PostParams::default(), &config).await;
    let error = created.expect_err("the server is busy").to_string();
    assert!(error.contains("503") || error.contains("busy"), "{error}");
    let received = recorder.received.lock().expect("no panic");
    assert_eq!(received.len(), 1);
    assert!(received[0].1.contains("child-"), "{received:?}");
}

/// Every handler fails and is retried, as during an outage of a webhook.
#[tokio::test(start_paused = true)]
async fn an_operator_whose_handlers_all_fail_stays_within_its_budget() {
    let (server, recorder) = (ApiServer::new(), Recorder::new());
    for number in 0..200 {
        let mut config = ConfigMap::default();
        config.metadata.name = Some(format!("object-{number}"));
        let configs: Api<ConfigMap> = Api::default_namespaced(server.client());
        configs
            .create(&PostParams::default(), &config)
            .await
            .expect("new");
    }
    let began = Instant::now();
    let configs: Api<ConfigMap> =
        Api::default_namespaced(budget().client(recorder.client(&server)));
    let controller = InformerController::new();
    let informer = Informer::new(ListWatch::new(configs.clone()));
    let configs_kind = controller.kind("configs").expect("a new kind");
    controller
        .add_informer(&configs_kind, &informer)
        .expect("new");
    let reconciler = move |request: windlass_controller::Request<ConfigMap>| {
        let configs = configs.clone();
        async move {
            let patch = Patch::Merge(json!({ "data": { "a": "b" } }));
            let params = PatchParams::default();
            configs.patch(request.key().name(), &params, &patch).await?;
            Ok::<_, Failure>(Outcome::done())
        }
    };
    controller
        .add_reconciler(&configs_kind, reconciler)
        .expect("a name");
    let operator = Operator::new();
    operator
        .add_controller(controller)
        .expect("the operator is not running");
    let stop = CancellationToken::new();
    let run = tokio::spawn({
        let stop = stop.clone();
        async move { operator.run_until(stop).await }
    });
    // Virtual time in which the handlers fail and are retried.
    tokio::time::sleep(Duration::from_secs(120)).await;
    recorder.assert_within_budget(began);
    let count = recorder.times(began).len();
    assert!(count > 200, "each was tried: {count}");
    println!("{count} requests in 120 s");
    stop.cancel();
    _ = run.await.expect("no panic");
}

#[test]
fn the_default_is_a_burst_of_100_and_50_per_second() {
    let shown = format!("{:?}", RequestBudget::default());
    assert_eq!(shown, "RequestBudget { interval: 20ms, burst: 100, .. }");
}
