//! An operator test with an API server in the process, faults, and a paused clock.

use std::time::{Duration, SystemTime};

use futures::{TryStreamExt as _, pin_mut};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api, Client, CustomResource, CustomResourceExt as _, Resource as _, ResourceExt as _,
    api::{DeleteParams, Patch, PatchParams, PostParams, WatchEvent, WatchParams},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio::{sync::mpsc, time::Instant};
use windlass_apiserver::ApiServer;
use windlass_simulate::kit::{Kit, Verb};

/// A custom resource with a status of its own.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema, CustomResource)]
#[kube(
    group = "server.windlass.dev",
    version = "v1",
    kind = "Lamp",
    namespaced,
    status = "LampStatus"
)]
struct LampSpec {
    lit: bool,
}

/// What the lamp does.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
struct LampStatus {
    hours: u32,
}

const FINALIZER: &str = "server.windlass.dev/unplug";

fn lamp(name: &str) -> Lamp {
    let mut lamp = Lamp::new(name, LampSpec { lit: false });
    lamp.metadata.namespace = Some("default".to_owned());
    lamp
}

fn code(error: kube::Error) -> u16 {
    match error {
        kube::Error::Api(status) => status.code,
        other => panic!("no response of the API server: {other}"),
    }
}

/// One test uses all of them, as a test of an operator would. The tests in `tests/behaviour/api`
/// compare the responses with those of a real kube-apiserver, but for the faults and the clock.
///
/// Rows: BO-32
#[tokio::test(start_paused = true)]
async fn a_test_has_an_api_server_in_memory_with_faults_and_a_paused_clock() {
    let start = SystemTime::UNIX_EPOCH + Duration::from_secs(1_800_000_000);
    let server = ApiServer::builder().wall_clock(start).start();
    let kit = Kit::connect(server.client());
    kit.install(&Lamp::crd()).await;
    let lamps = Api::<Lamp>::default_namespaced(server.client());
    an_update_of_an_old_version_is_a_conflict(&lamps).await;
    the_status_is_written_by_itself(&lamps).await;
    appliers_own_their_fields(&lamps).await;
    a_finalizer_keeps_an_object(&lamps).await;
    children_are_deleted_with_their_owner(&kit, &server).await;
    a_watch_has_bookmarks_and_an_hour_passes_at_once(&server).await;
    a_watch_of_a_compacted_version_has_expired(&server).await;
    a_fault_is_injected_into_one_request_of_an_operator(&kit, &lamps).await;
}

async fn an_update_of_an_old_version_is_a_conflict(lamps: &Api<Lamp>) {
    let params = PostParams::default();
    let first = lamps.create(&params, &lamp("desk")).await.expect("new");
    let mut lit = first.clone();
    lit.spec.lit = true;
    let second = lamps.replace("desk", &params, &lit).await;
    assert_eq!(
        second.expect("the newest version").metadata.generation,
        Some(2)
    );
    let stale = lamps.replace("desk", &params, &first).await;
    assert_eq!(code(stale.expect_err("an old version")), 409);
}

async fn the_status_is_written_by_itself(lamps: &Api<Lamp>) {
    let params = PostParams::default();
    let mut lamp = lamps.get("desk").await.expect("it exists");
    lamp.status = Some(LampStatus { hours: 7 });
    lamp.spec.lit = false;
    let written = lamps.replace_status("desk", &params, &lamp).await;
    let mut written = written.expect("the newest version");
    assert_eq!(written.status, Some(LampStatus { hours: 7 }));
    assert!(
        written.spec.lit,
        "a write of the status changes nothing else"
    );
    assert_eq!(written.metadata.generation, Some(2));
    written.status = None;
    let kept = lamps.replace("desk", &params, &written).await;
    assert_eq!(kept.expect("the newest version").status, lamp.status);
}

async fn appliers_own_their_fields(lamps: &Api<Lamp>) {
    let patch = |labels: serde_json::Value| {
        Patch::Apply(json!({
            "apiVersion": "server.windlass.dev/v1", "kind": "Lamp",
            "metadata": { "name": "desk", "labels": labels },
        }))
    };
    let apply = async |manager: &str, labels| {
        let params = PatchParams::apply(manager);
        let applied = lamps.patch("desk", &params, &patch(labels)).await;
        applied.map(|lamp| {
            lamp.labels()
                .iter()
                .map(|(k, v)| format!("{k}={v}"))
                .collect::<Vec<_>>()
        })
    };
    let both = apply("a", json!({ "size": "big", "team": "a" }))
        .await
        .expect("free");
    assert_eq!(both, ["size=big", "team=a"]);
    let taken = apply("b", json!({ "team": "b" })).await;
    assert_eq!(code(taken.expect_err("a field of another manager")), 409);
    let added = apply("b", json!({ "floor": "7" })).await.expect("free");
    assert_eq!(added, ["floor=7", "size=big", "team=a"]);
    let dropped = apply("a", json!({ "team": "a" })).await.expect("its own");
    assert_eq!(dropped, ["floor=7", "team=a"]);
}

async fn a_finalizer_keeps_an_object(lamps: &Api<Lamp>) {
    let mut held = lamp("held");
    held.metadata.finalizers = Some(vec![FINALIZER.to_owned()]);
    let params = PostParams::default();
    lamps.create(&params, &held).await.expect("new");
    let delete = lamps.delete("held", &DeleteParams::default()).await;
    delete.expect("it exists");
    let marked = lamps.get("held").await.expect("the finalizer keeps it");
    assert!(marked.metadata.deletion_timestamp.is_some());
    let remove = Patch::Merge(json!({ "metadata": { "finalizers": [] } }));
    let removed = lamps.patch("held", &PatchParams::default(), &remove).await;
    removed.expect("it exists");
    assert!(lamps.get_opt("held").await.expect("a response").is_none());
}

async fn children_are_deleted_with_their_owner(kit: &Kit, server: &ApiServer) {
    let owner = kit.get::<Lamp>("desk").await.expect("it exists");
    let mut bulb = ConfigMap::default();
    bulb.metadata.name = Some("bulb".to_owned());
    bulb.metadata.owner_references = Some(owner.controller_owner_ref(&()).into_iter().collect());
    let configs = Api::<ConfigMap>::default_namespaced(server.client());
    let params = PostParams::default();
    configs.create(&params, &bulb).await.expect("new");
    kit.delete::<Lamp>("desk").await;
    kit.expect_gone::<ConfigMap>("bulb").await;
}

/// Fifteen watches end at their timeouts of four minutes, in virtual time: the server has the same
/// clock.
async fn a_watch_has_bookmarks_and_an_hour_passes_at_once(server: &ApiServer) {
    let configs = Api::<ConfigMap>::default_namespaced(server.client());
    let began = Instant::now();
    let mut seen = Vec::new();
    for _ in 0..15 {
        let from = server.resource_version().to_string();
        let params = WatchParams::default().timeout(240);
        let events = configs.watch(&params, &from).await.expect("a watch");
        pin_mut!(events);
        while let Some(event) = events.try_next().await.expect("no broken stream") {
            seen.push(match event {
                WatchEvent::Bookmark(_) => "bookmark",
                _ => "other",
            });
        }
    }
    assert!(
        !seen.is_empty() && seen.iter().all(|it| *it == "bookmark"),
        "{seen:?}"
    );
    let passed = began.elapsed();
    assert!(passed >= Duration::from_secs(3600), "{passed:?}");
    let params = PostParams::default();
    let mut late = ConfigMap::default();
    late.metadata.name = Some("late".to_owned());
    let late = configs.create(&params, &late).await.expect("new");
    let created = late.creation_timestamp().expect("the server sets it").0;
    assert!(created.as_second() >= 1_800_000_000 + 3600, "{created}");
}

async fn a_watch_of_a_compacted_version_has_expired(server: &ApiServer) {
    let configs = Api::<ConfigMap>::default_namespaced(server.client());
    server.compact(server.resource_version());
    let events = configs.watch(&WatchParams::default(), "1").await;
    let events = events.expect("the error is an event");
    pin_mut!(events);
    match events.try_next().await.expect("no broken stream") {
        Some(WatchEvent::Error(status)) => assert_eq!(status.code, 410),
        other => panic!("expected 410, got {other:?}"),
    }
}

async fn a_fault_is_injected_into_one_request_of_an_operator(kit: &Kit, lamps: &Api<Lamp>) {
    kit.refuse_next(Verb::Create, "lamps", 503);
    let (sender, mut answers) = mpsc::channel(2);
    let operator = kit.start(move |client: Client, _| {
        let sender = sender.clone();
        async move {
            let lamps = Api::<Lamp>::namespaced(client, "default");
            for _ in 0..2 {
                let created = lamps.create(&PostParams::default(), &lamp("floor")).await;
                let answer = created.map_or_else(code, |_| 201);
                sender.send(answer).await.expect("the test waits for it");
            }
        }
    });
    assert_eq!(answers.recv().await, Some(503));
    assert_eq!(answers.recv().await, Some(201));
    assert!(lamps.get_opt("floor").await.expect("a response").is_some());
    operator.crash();
}
