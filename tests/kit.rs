//! The test kit: a user's test of a `Website` operator, and what the kit reports.

use std::{panic::AssertUnwindSafe, time::Duration};

use k8s_openapi::{
    api::{apps::v1::Deployment, core::v1::ConfigMap},
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use kube::{
    Api, Client, CustomResourceExt as _,
    api::{Patch, PatchParams, PostParams},
};
use serde_json::json;
use tokio_util::sync::CancellationToken;
use windlass::{
    admin::Listen,
    kit::{self, Kit, NewStatus, Verb},
    prelude::*,
    simulate::Step,
    webhook::WebhookServer,
};

#[path = "support/dependents.rs"]
mod dependents;
#[path = "support/website.rs"]
mod website;

use self::website::{Error, Website, run, website};

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
        "websites.kit.windlass.dev default/blog ",
        " attempt 0: done",
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

/// The same test runs in virtual time, and in `tests/behaviour` on clusters.
#[test]
fn a_test_for_clusters_runs_in_virtual_time_too() {
    kit::run(website::keeps_its_deployment);
}

#[test]
fn an_operator_has_the_permissions_of_its_service_account() {
    kit::run(async |kit: Kit| Box::pin(website::has_the_permissions_of_its_roles(kit)).await);
    // The test does not ask for the rules.
    let message = failure(async |kit: Kit| {
        kit.install(&Website::crd()).await;
        kit.start_as("team-a/website-operator", run);
        kit.quiet().await;
    });
    for part in [
        "an operator lacks permissions",
        "system:serviceaccount:team-a:website-operator",
        r#"{ apiGroups: ["kit.windlass.dev"], resources: ["websites"], verbs: ["watch"] } in the namespace default"#,
    ] {
        assert!(message.contains(part), "{part:?} is missing:\n{message}");
    }
}

#[test]
fn the_kit_plays_the_controllers_of_the_built_in_kinds() {
    kit::run(async |kit: Kit| Box::pin(website::plays_the_controllers(kit)).await);
    let message = failure(async |kit: Kit| {
        kit.set_status::<Deployment>("none", NewStatus::Ready).await;
    });
    assert!(message.ends_with("the object does not exist"), "{message}");
    let message = failure(async |kit: Kit| {
        kit.create(&ConfigMap {
            metadata: named("a"),
            ..Default::default()
        })
        .await;
        kit.set_status::<ConfigMap>("a", NewStatus::Complete).await;
    });
    assert!(
        message.ends_with("a ConfigMap is never complete"),
        "{message}"
    );
}

#[test]
fn a_snapshot_is_the_same_in_each_execution() {
    kit::run(async |kit: Kit| Box::pin(website::has_the_same_snapshot_again(kit)).await);
    let message = failure(async |kit: Kit| _ = kit.snapshot::<ConfigMap>("none").await);
    assert!(
        message.ends_with("/api/v1/namespaces/default/configmaps/none does not exist"),
        "{message}"
    );
}

#[test]
fn a_step_without_a_namespace_is_explained() {
    let message = failure(async |kit: Kit| {
        let config = ConfigMap {
            metadata: named("a"),
            ..Default::default()
        };
        kit.step(&Step::create(&config)).await;
    });
    assert!(message.ends_with("no `metadata.namespace`?"), "{message}");
}

#[test]
fn manifests_that_cannot_be_installed_are_named() {
    let check = |manifests: &str, part: &str| {
        let message = failure(async |kit: Kit| kit.install(manifests).await);
        assert!(message.contains("tests/kit.rs:"), "{message}");
        assert!(message.contains(part), "{part:?} is missing:\n{message}");
    };
    check("a: [", "document 1 is not YAML");
    check(
        "kind: ConfigMap",
        "no `apiVersion`, `kind` or `metadata.name`: ",
    );
    let website = "apiVersion: kit.windlass.dev/v1\nkind: Website\nmetadata: { name: a }";
    check(
        website,
        "does not serve the kind Website of /apis/kit.windlass.dev/v1",
    );
    let missing = "apiVersion: v1\nkind: Secret\nmetadata: { name: a, namespace: none }";
    check(missing, r#"namespaces "none" not found"#);
}

/// Rows: BO-13
#[test]
fn days_without_a_change_have_no_write() {
    let day = Duration::from_secs(24 * 3600);
    kit::run(async |kit: Kit| Box::pin(website::stays_quiet(kit, day)).await);
}

#[test]
fn each_failed_expectation_names_the_place_and_the_object() {
    let seconds = Duration::from_secs;
    let config = |value: &str| {
        let mut config = ConfigMap::default();
        config.metadata.name = Some("a".to_owned());
        config.data = Some([("value".to_owned(), value.to_owned())].into());
        config
    };
    let is = |value: &'static str| {
        move |it: &ConfigMap| it.data.as_ref().is_some_and(|data| data["value"] == value)
    };
    let check = |message: String, parts: &[&str]| {
        for part in ["tests/kit.rs:", "ConfigMap default/a"].iter().chain(parts) {
            assert!(message.contains(part), "{part:?} is missing:\n{message}");
        }
    };
    let message = failure(async |kit: Kit| {
        kit.create(&config("1")).await;
        kit.expect::<ConfigMap>("a").becomes(is("2")).await;
    });
    check(
        message,
        &[
            "the condition is false",
            "\"value\": \"1\"",
            "last calls of default/a: none",
        ],
    );
    let message = failure(async |kit: Kit| kit.expect::<ConfigMap>("a").matches(json!({})).await);
    check(message, &["the object does not exist"]);
    let message = failure(async |kit: Kit| {
        kit.create(&config("1")).await;
        kit.expect_gone::<ConfigMap>("a").await;
    });
    check(message, &["the object still exists", "finalizers"]);
    // It is true for one moment in the middle of the time.
    let message = failure(async |kit: Kit| {
        kit.create(&config("1")).await;
        let user = kit.clone();
        let change = async {
            user.advance(seconds(5)).await;
            user.apply(&config("2")).await;
            user.advance(seconds(1)).await;
            user.apply(&config("3")).await;
        };
        let never = kit.expect_never::<ConfigMap>("a", seconds(10), is("2"));
        futures::join!(change, never);
    });
    check(message, &["the condition became true after 5"]);
    kit::run(async |kit: Kit| {
        kit.create(&config("1")).await;
        kit.expect_never::<ConfigMap>("a", seconds(10), is("2"))
            .await;
        kit.edit::<ConfigMap>("a", |it| it.data = config("2").data)
            .await;
        kit.expect::<ConfigMap>("a").becomes(is("2")).await;
    });
}

#[test]
fn a_request_is_refused_once_and_only_with_its_verb_and_resource() {
    kit::run(async |kit: Kit| {
        kit.install(&Website::crd()).await;
        kit.start(run);
        kit.quiet().await;
        let since = kit.mark();
        kit.refuse_next(Verb::Delete, "deployments", 403);
        kit.refuse_next(Verb::Patch, "configmaps", 403);
        kit.create(&website("blog", 1)).await;
        kit.quiet().await;
        let writes = kit.writes(since);
        assert!(writes.iter().all(|it| it.code < 300), "{writes:?}");
        kit.refuse_next(Verb::Patch, "deployments.apps", 409);
        kit.edit::<Website>("blog", |it| it.spec.replicas = 2).await;
        kit.quiet().await;
        let codes: Vec<_> = kit.writes(since).iter().map(|it| it.code).collect();
        assert_eq!(
            codes.iter().filter(|it| **it == 409).count(),
            1,
            "{codes:?}"
        );
        // The test itself is never refused.
        kit.refuse_next(Verb::Create, "configmaps", 500);
        let mut config = ConfigMap::default();
        config.metadata.name = Some("mine".to_owned());
        kit.create(&config).await;
        assert!(kit.get::<ConfigMap>("mine").await.is_some());
    });
}

#[test]
fn an_operator_recovers_from_an_outage_of_the_api_server() {
    kit::run(async |kit: Kit| {
        kit.install(&Website::crd()).await;
        let operator = kit.start(run);
        kit.create(&website("blog", 1)).await;
        kit.quiet().await;

        let since = kit.mark();
        let outage = kit.outage();
        kit.edit::<Website>("blog", |it| it.spec.replicas = 2).await;
        kit.create(&website("shop", 1)).await;
        kit.advance(Duration::from_secs(600)).await;
        assert_eq!(kit.writes(since), []);
        assert!(kit.get::<Deployment>("shop").await.is_none());
        // Starts without a server, too.
        operator.restart();
        kit.advance(Duration::from_secs(60)).await;
        outage.end();
        kit.expect::<Deployment>("shop").becomes(|_| true).await;
        kit.expect::<Deployment>("blog")
            .matches(json!({ "spec": { "replicas": 2 } }))
            .await;

        // Two at a time: the server is back after the last one.
        let outages = (kit.outage(), kit.outage());
        drop(outages.0);
        kit.create(&website("news", 1)).await;
        kit.advance(Duration::from_secs(60)).await;
        assert!(kit.get::<Deployment>("news").await.is_none());
        drop(outages.1);
        kit.expect::<Deployment>("news").becomes(|_| true).await;
    });
}

#[test]
fn closed_watches_are_resumed_and_lose_no_event() {
    kit::run(async |kit: Kit| {
        kit.install(&Website::crd()).await;
        kit.start(run);
        kit.create(&website("blog", 1)).await;
        kit.quiet().await;
        let mut resumed = kit.hold(Verb::Watch, "websites");
        kit.close_watches();
        resumed.reached().await;
        kit.edit::<Website>("blog", |it| it.spec.replicas = 2).await;
        kit.advance(Duration::from_secs(10)).await;
        kit.expect::<Deployment>("blog")
            .matches(json!({ "spec": { "replicas": 1 } }))
            .await;
        resumed.release();
        kit.expect::<Deployment>("blog")
            .matches(json!({ "spec": { "replicas": 2 } }))
            .await;
    });
}

/// A handler that polls is quiet, unless its calls fail or write.
#[test]
fn an_operator_that_polls_is_quiet() {
    let polls = |client: Client, stop| {
        calls(client, stop, async |_| {
            Ok(Outcome::requeue_after(Duration::from_secs(10)))
        })
    };
    kit::run(async |kit: Kit| {
        kit.start(polls);
        kit.create(&ConfigMap {
            metadata: named("a"),
            ..Default::default()
        })
        .await;
        let began = kit.now();
        kit.quiet().await;
        let waited = kit.now().duration_since(began).expect("later");
        assert!((300..330).contains(&waited.as_secs()), "{waited:?}");
        assert!(kit.calls(kit.mark()).is_empty());
    });
}

/// A process that has ended sends nothing, also from a task that it has left behind.
#[test]
fn tasks_that_an_operator_leaves_behind_reach_no_server() {
    kit::run(async |kit: Kit| {
        let operator = kit.start(|client: Client, stop: CancellationToken| async move {
            tokio::spawn(async move {
                let configs = Api::<ConfigMap>::default_namespaced(client);
                // On the paused time of the kit.
                for number in 0.. {
                    tokio::time::sleep(Duration::from_secs(5)).await;
                    let config = ConfigMap {
                        metadata: named(&number.to_string()),
                        ..Default::default()
                    };
                    _ = configs.create(&PostParams::default(), &config).await;
                }
            });
            stop.cancelled().await;
        });
        kit.advance(Duration::from_secs(12)).await;
        operator.stop().await;
        kit.advance(Duration::from_secs(60)).await;
        assert_eq!(kit.list::<ConfigMap>().await.len(), 2);
    });
}

/// Two replicas in one process have the same port, and no files of certificates.
#[test]
fn an_operator_with_servers_and_leader_election_runs_in_the_kit() {
    let replica = |client: Client, stop: CancellationToken| async move {
        let election = LeaderElection::new(client.clone(), "default", "replicas")?;
        let client = election.fence().client(client);
        let configs = Controller::<ConfigMap>::builder(client, Watch::all());
        let operator = Operator::builder()
            .leader_election(election)
            .admin_server(AdminServer::new(Listen::port(8080)).tls("/tls.crt", "/tls.key"))
            .webhook_server(WebhookServer::new(
                Listen::port(9443),
                "/tls.crt",
                "/tls.key",
            ))
            .build();
        operator.add_controller(configs.build(async |_| Ok::<_, Failure>(Outcome::done()))?)?;
        operator.run_until(stop).await?;
        Ok::<_, Error>(())
    };
    kit::run(async |kit: Kit| {
        let since = kit.mark();
        let leader = kit.start(replica);
        kit.create(&ConfigMap {
            metadata: named("a"),
            ..Default::default()
        })
        .await;
        kit.quiet().await;
        let standby = kit.start(replica);
        kit.quiet().await;
        assert_eq!(kit.calls(since).len(), 1);
        leader.crash();
        kit.quiet().await;
        assert_eq!(kit.calls(since).len(), 2, "the standby leads");
        assert_eq!(standby.stop().await, "Ok(())");
    });
}

/// A child has another name than the object for which the calls are made.
#[test]
fn a_failure_about_a_child_shows_the_calls_of_its_owner() {
    let message = failure(async |kit: Kit| {
        kit.install(&Website::crd()).await;
        kit.start(run);
        kit.refuse_next(Verb::Patch, "deployments", 422);
        kit.create(&website("blog", 1)).await;
        kit.expect::<Deployment>("blog-server")
            .becomes(|_| true)
            .await;
    });
    let (_, others) = message
        .split_once("last calls and writes of other objects:")
        .unwrap_or_else(|| panic!("{message}"));
    for part in [
        "patch deployments.apps default/blog by website-operator: 422, ",
        "websites.kit.windlass.dev default/blog CREATE attempt 0: the handler failed: ",
        " attempt 1: done",
    ] {
        assert!(others.contains(part), "{part:?} is missing:\n{message}");
    }
}

#[test]
fn a_failure_names_the_requests_that_are_held_or_were_not_refused() {
    let message = failure(async |kit: Kit| {
        kit.install(&Website::crd()).await;
        let _held = kit.hold(Verb::Patch, "deployments");
        kit.refuse_next(Verb::Create, "deployment", 403);
        kit.start(run);
        kit.create(&website("blog", 1)).await;
        kit.expect::<Deployment>("blog").becomes(|_| true).await;
    });
    for part in [
        "\nheld: patch deployments, of which 2 arrived",
        "\nnot refused yet: create deployment with 403 Forbidden",
    ] {
        assert!(message.contains(part), "{part:?} is missing:\n{message}");
    }
}

/// An operator that makes `call` for each config map.
async fn calls<F, Fut>(client: Client, stop: CancellationToken, call: F) -> Result<(), Error>
where
    F: Fn(Context<ConfigMap>) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<Outcome, Failure>> + Send + 'static,
{
    let configs = Controller::<ConfigMap>::builder(client, Watch::all());
    Ok(configs.build(call)?.run(stop).await?)
}

fn named(name: &str) -> ObjectMeta {
    ObjectMeta {
        name: Some(name.to_owned()),
        ..ObjectMeta::default()
    }
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
