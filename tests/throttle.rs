//! Failed writes of finalizers: each delays its object by a backoff of its own, and uses no retry of
//! the handler.

use std::time::Duration;

use kube::{Client, CustomResource, CustomResourceExt as _};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;
use windlass::{
    kit::{self, Kit, Verb},
    prelude::*,
};

type Error = Box<dyn std::error::Error + Send + Sync>;

#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema, CustomResource)]
#[kube(
    group = "throttle.windlass.dev",
    version = "v1",
    kind = "Bucket",
    namespaced
)]
struct BucketSpec {
    /// How many calls fail before one succeeds.
    failures: u32,
}

const FINALIZER: &str = "throttle.windlass.dev/bucket";

/// One retry after a failed call, after 10 s.
const RETRIES: ExponentialBackoff = ExponentialBackoff::new(Duration::from_secs(10), 1);

struct Buckets;

impl ObjectReconciler<Bucket> for Buckets {
    type Error = Failure;

    async fn reconcile(&self, cx: Context<Bucket>) -> Result<Outcome, Failure> {
        answer(cx.object(), cx.attempt())
    }

    async fn cleanup(&self, cx: Context<Bucket>) -> Result<Outcome, Failure> {
        answer(cx.object(), cx.attempt())
    }
}

fn answer(bucket: &Bucket, attempt: u32) -> Result<Outcome, Failure> {
    if attempt < bucket.spec.failures {
        return Err(Failure::new("the cloud is down"));
    }
    Ok(Outcome::done())
}

/// The operator of a user who wants few retries, with `Controller<K>`.
async fn level_triggered(client: Client, stop: CancellationToken) -> Result<(), Error> {
    let watch = Watch::namespaced(client.default_namespace());
    let buckets = Controller::builder(client, watch)
        .finalizer(FINALIZER)
        .retry_policy(RETRIES);
    let operator = Operator::new();
    operator.add_controller(buckets.build(Buckets)?)?;
    Ok(operator.run_until(stop).await?)
}

/// The same operator with an `InformerController`.
async fn by_events(client: Client, stop: CancellationToken) -> Result<(), Error> {
    let buckets = kube::Api::<Bucket>::default_namespaced(client.clone());
    let controller = InformerController::builder()
        .retry_policy(RETRIES)
        .build()?;
    let kind = controller.kind("buckets")?;
    controller.add_informer(&kind, &Informer::new(buckets))?;
    let finalizers = Finalizers::new(client, FinalizerName::new(FINALIZER)?)?;
    let reconcile =
        |request: Request<Bucket>| async move { answer(request.object(), request.attempt()) };
    controller.add_reconciler(&kind, OpinionatedReconciler::new(finalizers, reconcile))?;
    let operator = Operator::new();
    operator.add_controller(controller)?;
    Ok(operator.run_until(stop).await?)
}

fn bucket(name: &str, failures: u32) -> Bucket {
    Bucket::new(name, BucketSpec { failures })
}

/// More failures than the policy has retries, when the finalizer is added and when it is removed:
/// the object is delayed by 1, 2, 4 seconds and so on, another object is not, and the handler has all
/// its retries.
///
/// Rows: BO-52
#[test]
fn failed_finalizer_writes_are_throttled_for_each_object_and_use_no_retry_of_the_handler() {
    kit::run(async |kit: Kit| {
        kit.install(&Bucket::crd()).await;
        for (name, operator) in [("level", 0), ("events", 1)] {
            let operator = match operator {
                0 => kit.start(level_triggered),
                _ => kit.start(by_events),
            };
            let before = kit.mark();
            (0..5).for_each(|_| kit.refuse_next(Verb::Patch, "buckets", 503));
            kit.create(&bucket(name, 1)).await;
            kit.quiet().await;
            throttled(&kit, before, name, 5);
            let calls = kit.calls(before).of(&format!("default/{name}"));
            let last = calls.last().expect("a call");
            assert_eq!((last.attempt, &last.error), (1, &None), "{calls:?}");
            let other = kit.mark();
            kit.create(&bucket("other", 0)).await;
            kit.quiet().await;
            assert!(
                kit.writes(other).iter().all(|it| it.code == 200),
                "it is not delayed"
            );

            let before = kit.mark();
            kit.delete::<Bucket>("other").await;
            kit.expect_gone::<Bucket>("other").await;
            let deleted = kit.mark();
            (0..5).for_each(|_| kit.refuse_next(Verb::Patch, "buckets", 500));
            kit.delete::<Bucket>(name).await;
            kit.expect_gone::<Bucket>(name).await;
            throttled(&kit, deleted, name, 5);
            let calls = kit.calls(before).of(&format!("default/{name}"));
            assert_eq!(calls.failed(), 1 + 5, "one of the handler: {calls:?}");
            operator.stop().await;
        }
    });
}

/// The first writes to the object were refused, with growing delays between them, and the next one
/// was not.
fn throttled(kit: &Kit, since: kit::Mark, name: &str, refused: usize) {
    let object = format!("default/{name}");
    let writes: Vec<_> = kit
        .writes(since)
        .into_iter()
        .filter(|it| it.object == object)
        .collect();
    let codes: Vec<_> = writes.iter().map(|it| it.code >= 500).collect();
    let expected: Vec<_> = (0..writes.len()).map(|number| number < refused).collect();
    assert_eq!(codes, expected, "{writes:?}");
    assert!(writes.len() > refused, "{writes:?}");
    let mut delay = 1.0;
    for pair in writes[..=refused].windows(2) {
        let between = pair[1].at.saturating_sub(pair[0].at).as_secs_f64();
        assert!(
            (between / delay - 1.0).abs() < 0.15,
            "{between} instead of {delay}: {writes:?}"
        );
        delay *= 2.0;
    }
}
