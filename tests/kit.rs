//! The test kit: a user's test of a `Website` operator, and what the kit reports.

use std::{panic::AssertUnwindSafe, time::Duration};

use k8s_openapi::api::{apps::v1::Deployment, core::v1::ConfigMap};
use kube::{
    Api, Client, CustomResource, CustomResourceExt as _, Resource as _, ResourceExt as _,
    api::{Patch, PatchParams},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio_util::sync::CancellationToken;
use windlass::{
    kit::{self, Kit, Verb},
    prelude::*,
};

type Error = Box<dyn std::error::Error + Send + Sync>;

#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema, CustomResource)]
#[kube(
    group = "kit.windlass.dev",
    version = "v1",
    kind = "Website",
    namespaced
)]
#[kube(status = "WebsiteStatus")]
struct WebsiteSpec {
    replicas: i32,
}

#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct WebsiteStatus {
    ready: bool,
    observed_generation: i64,
}

fn website(name: &str, replicas: i32) -> Website {
    Website::new(name, WebsiteSpec { replicas })
}

/// Each website owns a deployment, and is ready when its deployment has all replicas.
fn website_operator(client: Client) -> Result<Operator, Error> {
    let controller = InformerController::new();
    let websites = controller.kind::<Website>("websites")?;
    let deployments = controller.kind::<Deployment>("deployments")?;
    let informer = Informer::new(Api::<Deployment>::all(client.clone()));
    controller.add_informer(&websites, &Informer::new(Api::all(client.clone())))?;
    controller.add_informer(&deployments, &informer)?;
    controller.add_mapper(&deployments, &websites, Owners::of::<Website>(&()))?;
    let store = informer.store();
    let reconcile = move |request| reconcile(client.clone(), store.clone(), request);
    let reconcile = Reconciler::<Website>::filter(reconcile, GenerationChanged);
    controller.add_reconciler(&websites, reconcile)?;
    let operator = Operator::new();
    operator.add_controller(controller)?;
    Ok(operator)
}

async fn reconcile(
    client: Client,
    deployments: Store<Deployment>,
    request: Request<Website>,
) -> Result<Outcome, Failure> {
    let site = request.object();
    if request.action() == Action::Deleted {
        return Ok(Outcome::done());
    }
    let (name, namespace) = (site.name_any(), site.namespace().unwrap_or_default());
    let labels = json!({ "website": name });
    let deployment = json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": { "name": name, "ownerReferences": [site.controller_owner_ref(&())] },
        "spec": {
            "replicas": site.spec.replicas,
            "selector": { "matchLabels": labels },
            "template": {
                "metadata": { "labels": labels },
                "spec": { "containers": [{ "name": "server", "image": "nginx:1" }] },
            },
        },
    });
    let known = deployments.get(request.key());
    let ready = known.and_then(|it| it.status.clone()?.ready_replicas);
    let status = json!({
        "apiVersion": "kit.windlass.dev/v1",
        "kind": "Website",
        "status": {
            "ready": ready.unwrap_or_default() >= site.spec.replicas,
            "observedGeneration": site.metadata.generation,
        },
    });
    let apply = PatchParams::apply("website-operator").force();
    let api = Api::<Deployment>::namespaced(client.clone(), &namespace);
    api.patch(&name, &apply, &Patch::Apply(deployment)).await?;
    let api = Api::<Website>::namespaced(client, &namespace);
    api.patch_status(&name, &apply, &Patch::Apply(status))
        .await?;
    Ok(Outcome::done())
}

async fn run(client: Client, stop: CancellationToken) -> Result<(), Error> {
    Ok(website_operator(client)?.run_until(stop).await?)
}

/// Rows: RO-35
#[test]
fn a_website_keeps_its_deployment() {
    kit::run(async |kit: Kit| {
        kit.install(&Website::crd()).await;
        let operator = kit.start(run);
        kit.create(&website("blog", 1)).await;
        kit.quiet().await;
        kit.expect::<Deployment>("blog")
            .matches(json!({ "spec": { "replicas": 1 } }))
            .await;

        // Drift.
        kit.edit::<Deployment>("blog", |it| {
            it.spec.as_mut().expect("a spec").replicas = Some(0);
        })
        .await;
        kit.expect::<Deployment>("blog")
            .becomes(|it| it.spec.as_ref().expect("a spec").replicas == Some(1))
            .await;
        // The kit plays the controller of deployments.
        kit.set_status::<Deployment>("blog", json!({ "replicas": 1, "readyReplicas": 1 }))
            .await;
        kit.expect::<Website>("blog")
            .matches(json!({ "status": { "ready": true, "observedGeneration": 1 } }))
            .await;

        kit.quiet().await;
        let since = kit.mark();
        kit.advance(Duration::from_secs(3600)).await;
        assert_eq!(kit.writes(since), []);
        kit.refuse_next(Verb::Patch, "deployments", 500);
        kit.edit::<Website>("blog", |it| it.spec.replicas = 2).await;
        kit.quiet().await;
        let calls = kit.calls(since).of("default/blog");
        assert_eq!(calls.failed(), 1, "{calls:?}");
        assert_eq!(calls[0].attempt, 0);
        let refused = &kit.writes(since)[0];
        assert_eq!((refused.code, &*refused.manager), (500, "website-operator"));
        let changed = kit.writes(since)[1].change.clone();
        assert_eq!(changed, ".spec.replicas: 1 -> 2");

        operator.crash();
        kit.delete::<Website>("blog").await;
        kit.start(run);
        // The embedded server collects garbage.
        kit.expect_gone::<Deployment>("blog").await;
    });
}

/// Rows: BO-31
#[test]
fn requests_are_held_operators_crash_restart_and_stop_and_calls_are_abandoned() {
    kit::run(async |kit: Kit| {
        kit.install(&Website::crd()).await;
        let operator = kit.start(run);
        kit.create(&website("blog", 1)).await;
        kit.quiet().await;
        let since = kit.mark();
        let mut held = kit.hold(Verb::Patch, "deployments.apps");
        kit.edit::<Website>("blog", |it| it.spec.replicas = 2).await;
        held.reached().await;
        // Everything else is idle.
        kit.quiet().await;
        kit.expect_never::<Deployment>("default/blog", Duration::from_secs(5), |it| {
            it.spec.as_ref().and_then(|it| it.replicas) == Some(2)
        })
        .await;
        operator.crash();
        held.release();
        kit.quiet().await;
        assert_eq!(kit.calls(since).of("default/blog").abandoned(), 1);
        assert_eq!(
            kit.writes(since),
            [],
            "its requests do not reach the server"
        );

        operator.restart();
        kit.expect::<Deployment>("blog")
            .matches(json!({ "spec": { "replicas": 2 } }))
            .await;
        assert_eq!(operator.ended(), None);
        assert_eq!(operator.stop().await, "Ok(())");
        kit.apply(&website("docs", 1)).await;
        kit.quiet().await;
        let names: Vec<_> = kit.list::<Website>().await;
        let names: Vec<_> = names.iter().map(kube::ResourceExt::name_any).collect();
        assert_eq!(names, ["blog", "docs"]);
        assert!(
            kit.get::<Deployment>("docs").await.is_none(),
            "it has stopped"
        );
    });
}

/// Rows: RO-35
#[test]
fn a_failed_expectation_shows_the_difference_and_what_happened_to_the_object() {
    let message = failure(async |kit: Kit| {
        kit.install(&Website::crd()).await;
        kit.start(run);
        kit.create(&website("blog", 1)).await;
        kit.expect::<Deployment>("blog")
            .matches(json!({ "spec": { "replicas": 3, "paused": true } }))
            .await;
    });
    for part in [
        "tests/kit.rs:",
        "Deployment default/blog",
        ".spec.paused: expected true, actual absent",
        ".spec.replicas: expected 3, actual 1",
        "last calls of default/blog:",
        "websites default/blog CREATE attempt 0: done",
        "patch deployments.apps default/blog by website-operator: 201, created",
        "last events of default/blog:\n",
        "ADDED version",
        "operator 1 runs",
        "WINDLASS_KIT_SEED=1",
    ] {
        assert!(message.contains(part), "{part:?} is missing:\n{message}");
    }
}

/// An operator that writes in each call, which its write causes.
async fn writes_for_ever(client: Client, stop: CancellationToken) -> Result<(), Error> {
    let controller = InformerController::new();
    let configs = controller.kind::<ConfigMap>("configs")?;
    controller.add_informer(&configs, &Informer::new(Api::all(client.clone())))?;
    controller.add_reconciler(&configs, move |request: Request<ConfigMap>| {
        let api = Api::<ConfigMap>::namespaced(client.clone(), "default");
        async move {
            let version = request.object().metadata.resource_version.clone();
            let patch = json!({ "data": { "seen": version } });
            let params = PatchParams {
                field_manager: Some("looper".into()),
                ..Default::default()
            };
            api.patch(request.key().name(), &params, &Patch::Merge(patch))
                .await?;
            Ok::<_, Failure>(Outcome::done())
        }
    })?;
    Ok(controller.run(stop).await?)
}

#[test]
fn a_hot_loop_is_not_quiet_and_the_failure_names_the_writer() {
    let message = failure(async |kit: Kit| {
        kit.start(writes_for_ever);
        let mut config = ConfigMap::default();
        config.metadata.name = Some("loop".to_owned());
        kit.create(&config).await;
        kit.quiet().await;
    });
    assert!(message.contains("the operators are not quiet"), "{message}");
    assert!(
        message.contains("patch configmaps default/loop by looper"),
        "{message}"
    );
    assert!(
        message.contains("calls of configs default/loop"),
        "{message}"
    );
}

#[test]
fn an_operator_that_ends_by_itself_fails_the_test_unless_it_asks() {
    let ends = |_: Client, _: CancellationToken| async { Err::<(), _>("no configuration") };
    let message = failure(async |kit: Kit| {
        kit.start(ends);
        kit.advance(Duration::from_secs(1)).await;
    });
    assert_eq!(
        message,
        "an operator ended by itself: Err(\"no configuration\")"
    );
    let message = failure(async |kit: Kit| {
        kit.start(async |_, _| -> () { std::panic::resume_unwind(Box::new("out of order")) });
        kit.quiet().await;
    });
    assert_eq!(
        message,
        "an operator ended by itself: a panic: out of order"
    );
    kit::run(async |kit: Kit| {
        let operator = kit.start(ends);
        kit.quiet().await;
        assert_eq!(
            operator.ended().as_deref(),
            Some("Err(\"no configuration\")")
        );
    });
    let message = failure(async |kit: Kit| kit.create(&website("blog", 1)).await);
    assert!(message.contains("does not serve websites"), "{message}");
}

/// Two executions of one test record the same writes at the same times.
#[test]
fn a_test_is_repeatable() {
    let record = || {
        let mut writes = Vec::new();
        kit::run(async |kit: Kit| {
            kit.install(&Website::crd()).await;
            let since = kit.mark();
            kit.start(run);
            kit.create(&website("blog", 1)).await;
            kit.create(&website("shop", 2)).await;
            kit.quiet().await;
            writes = kit.writes(since);
        });
        writes
    };
    let writes = record();
    assert!(writes.len() >= 4, "{writes:?}");
    assert_eq!(record(), writes);
}

#[tokio::test]
async fn on_a_cluster_time_is_real() {
    let kit = Kit::connect(windlass_apiserver::ApiServer::new().client());
    kit.install(&Website::crd()).await;
    let operator = kit.start(run);
    let since = kit.mark();
    kit.create(&website("blog", 1)).await;
    kit.expect::<Deployment>("blog")
        .matches(json!({ "spec": { "replicas": 1 } }))
        .await;
    kit.quiet().await;
    assert!(!kit.calls(since).of("default/blog").is_empty());
    assert_eq!(operator.stop().await, "Ok(())");
}

/// The message with which a test fails.
fn failure(test: impl AsyncFnOnce(Kit)) -> String {
    let panic = std::panic::catch_unwind(AssertUnwindSafe(|| kit::run(test)));
    let panic = panic.expect_err("the test fails");
    match panic.downcast::<String>() {
        Ok(message) => *message,
        Err(panic) => (*panic.downcast::<&str>().expect("a text")).to_owned(),
    }
}

#[test]
fn the_page_about_testing_shows_the_first_test() {
    let page = include_str!("../docs/testing.md");
    let (_, after) = page.split_once("```rust\n").expect("a block of Rust");
    let (shown, _) = after.split_once("```").expect("the end of the block");
    assert!(include_str!("kit.rs").contains(shown), "{shown}");
    assert!(shown.contains("a_website_keeps_its_deployment"), "{shown}");
}
