//! Kinds that are not served as most are, and servers without features: no failures, and errors that
//! say what to do.

use std::{
    convert::Infallible,
    sync::{Arc, Mutex},
    time::Duration,
};

use http_body_util::Full;
use k8s_openapi::api::core::v1::{ComponentStatus, ConfigMap};
use kube::{
    Api, Client, CustomResourceExt as _, Resource,
    api::{DeleteParams, DynamicObject, Patch, PatchParams, PostParams},
    core::{ApiResource, NamespaceResourceScope, ObjectMeta},
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tower::Layer as _;
use windlass::{Informer, InformerController, ListWatch, ObjectKey, Outcome, Request};
use windlass_apiserver::{ApiServer, Profile};

use crate::{
    cluster::{Cluster, create_namespace},
    kinds::{Gadget, Gizmo, config, loose_gizmo},
    real::RealServer,
    running::Running,
    watched::{Watched, quick},
};

/// The kind `Gadget` with a plural that its definition does not have.
#[derive(Clone, Debug, Deserialize, Serialize)]
struct Gadgetry {
    metadata: ObjectMeta,
}

impl Resource for Gadgetry {
    type DynamicType = ();
    type Scope = NamespaceResourceScope;

    fn kind((): &()) -> std::borrow::Cow<'_, str> {
        "Gadget".into()
    }

    fn group((): &()) -> std::borrow::Cow<'_, str> {
        "test.windlass.dev".into()
    }

    fn version((): &()) -> std::borrow::Cow<'_, str> {
        "v1".into()
    }

    fn plural((): &()) -> std::borrow::Cow<'_, str> {
        "gadgetries".into()
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

/// A client for `ComponentStatus`, whose lists have no version and which cannot be watched. The
/// embedded server does not serve it: an aggregated server answers, as for the metrics of Pods.
async fn components(cluster: &Cluster) -> Client {
    if !cluster.is_embedded() {
        return cluster.client().await;
    }
    let aggregated = tower::service_fn(|request: http::Request<kube::client::Body>| async move {
        let (code, body) = if request
            .uri()
            .query()
            .is_some_and(|it| it.contains("watch=true"))
        {
            let status = json!({ "kind": "Status", "code": 405, "reason": "MethodNotAllowed" });
            (405, status)
        } else {
            let items = json!([{ "metadata": { "name": "etcd-0" }, "conditions": [] }]);
            (
                200,
                json!({ "kind": "ComponentStatusList", "apiVersion": "v1", "metadata": {}, "items": items }),
            )
        };
        let body = Full::from(body.to_string());
        let response = http::Response::builder().status(code).body(body);
        Ok::<_, tower::BoxError>(response.expect("a response"))
    });
    Client::new(cluster.connection().layer(aggregated), "default")
}

/// Waits until the problems of an informer contain a text; returns all of them.
async fn problem<K: windlass::store::Stored>(watched: &Watched<K>, part: &str) -> String {
    loop {
        let problems = watched.problems.lock().expect("no panic").join("\n");
        if problems.contains(part) {
            return problems;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

on_both_servers! {
    async fn a_kind_without_versions_and_watches_is_polled_without_a_problem(cluster: Cluster) {
        let api: Api<ComponentStatus> = Api::all(components(&cluster).await);
        let mut watched = Watched::start(quick(api).poll_interval(Duration::from_secs(1)));
        let listed = watched.first_list().await;
        assert!(listed.contains(&"added etcd-0".to_owned()), "{listed:?}");
        // Ends: it is polled, or the time of the test is over.
        while cluster.connection().count("/componentstatuses") < 4 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        let problems = watched.problems.lock().expect("no panic").clone();
        assert_eq!(problems, [""; 0]);
        // Ends: no list is in progress, or the time of the test is over.
        while !watched.informer.health().is_healthy() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        assert!(cluster.connection().count("watch=true") <= 2, "the watch is not tried at each poll");
        watched.stop().await;
    }

    async fn a_controller_of_a_kind_without_versions_and_watches_starts(cluster: Cluster) {
        let api: Api<ComponentStatus> = Api::all(components(&cluster).await);
        let controller = InformerController::new();
        let kind = controller.kind("components").expect("a new name");
        let informer = Informer::new(ListWatch::new(api));
        controller.add_informer(&kind, &informer).expect("a new informer");
        let (called, mut calls) = tokio::sync::mpsc::channel(100);
        let reconcile = move |request: Request<ComponentStatus>| {
            let called = called.clone();
            async move {
                _ = called.send(request.key().to_string()).await;
                Ok::<_, Infallible>(Outcome::done())
            }
        };
        controller.add_reconciler(&kind, reconcile).expect("a reconciler");
        let running = Running::start(&controller);
        // Ends: the component is reconciled, or the time of the test is over.
        while calls.recv().await.expect("it runs") != "etcd-0" {}
        running.stop().await.expect("it is stopped");
    }

    async fn a_server_without_streamed_lists_is_no_problem(cluster: Cluster) {
        let real = (!cluster.is_embedded()).then(|| RealServer::own(&["--feature-gates=WatchList=false"]));
        let profiles = [Profile::V1_31, Profile::V1_33];
        let mut clients = Vec::new();
        match &real {
            Some(real) => clients.push(Client::try_from(real.config().await).expect("a client")),
            None => for profile in profiles {
                let server = ApiServer::builder().profile(profile).start();
                clients.push(Client::new(server.service(), "default"));
            },
        }
        for client in clients {
            create_namespace(client.clone(), cluster.namespace()).await;
            let configs: Api<ConfigMap> = Api::namespaced(client, cluster.namespace());
            let mut watched = Watched::start(quick(configs.clone()));
            watched.first_list().await;
            configs.create(&PostParams::default(), &config("a", "1")).await.expect("new");
            assert_eq!(watched.next().await, "added a");
            let problems = watched.problems.lock().expect("no panic").clone();
            assert_eq!(problems, [""; 0]);
            watched.stop().await;
        }
        if let Some(real) = real {
            real.stop();
        }
    }

    async fn an_undecodable_object_that_is_being_deleted_is_reported_with_the_command_that_releases_it(cluster: Cluster) {
        cluster.install(&loose_gizmo()).await;
        let others: Api<DynamicObject> = Api::namespaced_with(
            cluster.aside(),
            cluster.namespace(),
            &ApiResource::erase::<Gizmo>(&()),
        );
        let mut bad = DynamicObject::new("bad", &ApiResource::erase::<Gizmo>(&()))
            .data(json!({ "spec": { "size": "large" } }));
        bad.metadata.finalizers = Some(vec!["others.io/x".to_owned(), "example.io/cleanup".to_owned()]);
        others.create(&PostParams::default(), &bad).await.expect("loose");
        others.delete("bad", &DeleteParams::default()).await.expect("it waits");

        let mut watched = Watched::start(quick(cluster.api::<Gizmo>().await));
        watched.first_list().await;
        let reported = problem(&watched, "it is being deleted").await;
        let ours = "/metadata/finalizers/1";
        let patch = json!([
            { "op": "test", "path": ours, "value": "example.io/cleanup" },
            { "op": "remove", "path": ours },
        ]);
        let command = format!(
            "`kubectl patch gizmos.test.windlass.dev bad -n {} --type=json -p '",
            cluster.namespace(),
        );
        let commands = reported.split(&command).skip(1).filter_map(|it| it.split_once("'`"));
        let mut commands = commands.filter_map(|(it, _)| serde_json::from_str::<Value>(it).ok());
        assert!(commands.any(|it| it == patch), "{reported}");
        // The command leaves the finalizers of others.
        let patch: Patch<()> = Patch::Json(serde_json::from_value(patch).expect("a patch"));
        let left = others.patch("bad", &PatchParams::default(), &patch).await.expect("released");
        assert_eq!(left.metadata.finalizers, Some(vec!["others.io/x".to_owned()]));
        others.patch("bad", &PatchParams::default(), &Patch::Merge(json!({
            "metadata": { "finalizers": null },
        }))).await.expect("there");
        let bad = ObjectKey::new("bad").within(cluster.namespace());
        // Ends: the informer receives the deletion, or the time of the test is over.
        while watched.informer.health().undecodable.contains(&bad) {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        watched.stop().await;
    }

    async fn a_wrong_plural_is_reported_with_the_one_that_the_server_serves(cluster: Cluster) {
        cluster.install(&Gadget::crd()).await;
        let watched = Watched::start(quick(cluster.api::<Gadgetry>().await));
        let reported = problem(&watched, "not as `gadgetries`").await;
        let line = "the API server serves the kind Gadget as `gadgets`, not as `gadgetries`; correct the plural";
        assert!(reported.contains(line), "{reported}");
        watched.stop().await;
    }

    async fn a_kind_that_is_not_installed_is_reported_with_the_advice_to_install_it(cluster: Cluster) {
        let missing = ApiResource {
            group: "missing.windlass.dev".to_owned(),
            version: "v1".to_owned(),
            api_version: "missing.windlass.dev/v1".to_owned(),
            kind: "Missing".to_owned(),
            plural: "missings".to_owned(),
        };
        let api: Api<DynamicObject> =
            Api::namespaced_with(cluster.client().await, cluster.namespace(), &missing);
        let problems = Arc::new(Mutex::new(Vec::new()));
        let reported = Arc::clone(&problems);
        let informer = Informer::builder(ListWatch::new((api, missing))).on_error(move |problem| {
            reported.lock().expect("no panic").push(problem.to_string());
        });
        let informer = informer.build();
        let stop = tokio_util::sync::CancellationToken::new();
        let run = tokio::spawn({
            let (informer, stop) = (informer.clone(), stop.clone());
            async move { informer.run(stop).await }
        });
        // Ends: the list fails, or the time of the test is over.
        while problems.lock().expect("no panic").is_empty() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        let reported = problems.lock().expect("no panic").join("\n");
        assert!(reported.contains("install its CustomResourceDefinition"), "{reported}");
        stop.cancel();
        run.await.expect("no panic").expect("stopped");
    }

    async fn a_client_with_a_short_read_timeout_misses_and_delays_no_event(cluster: Cluster) {
        let _history = cluster.remember_history().await;
        let (mut config_of_client, listening) = cluster.config().await;
        config_of_client.read_timeout = Some(Duration::from_secs(2));
        let client = Client::try_from(config_of_client).expect("a client");
        let mut failures = Vec::new();
        // A pause of the machine that is longer than the read timeout is a problem too.
        for attempt in 0..3 {
            let configs: Api<ConfigMap> = Api::namespaced(client.clone(), cluster.namespace());
            let mut watched = Watched::start(ListWatch::new(configs));
            watched.first_list().await;
            // Real time: several read timeouts of the client pass, each of which would double a backoff.
            tokio::time::sleep(Duration::from_secs(7)).await;
            let began = tokio::time::Instant::now();
            let late = config(&format!("late-{attempt}"), "1");
            cluster.api_aside().create(&PostParams::default(), &late).await.expect("new");
            assert_eq!(watched.next().await, format!("added late-{attempt}"));
            let took = began.elapsed();
            let problems = watched.problems.lock().expect("no panic").clone();
            watched.stop().await;
            if problems.is_empty() && took < Duration::from_secs(2) {
                drop(listening);
                return;
            }
            failures.push((took, problems));
        }
        panic!("{failures:?}");
    }
}
