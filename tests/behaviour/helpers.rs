//! Helpers of reconcilers: Events and definitions of custom resources.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use http::{Method, Request};
use k8s_openapi::{
    api::{
        core::v1::{ConfigMap, ObjectReference},
        events::v1::Event,
    },
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{
    Api, Client, Resource as _,
    api::{ListParams, PostParams},
    client::Body,
};
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tower::BoxError;
use windlass_controller::{EventRecorder, InstallError, ObjectEvent, install_crds};

use crate::cluster::Cluster;

/// A recorder whose publisher runs.
struct Recording {
    recorder: EventRecorder,
    stop: CancellationToken,
    running: JoinHandle<()>,
}

impl Recording {
    fn start(client: Client) -> Self {
        let (recorder, publisher) = EventRecorder::new(client, "websites.windlass.dev", "pod-1");
        let stop = CancellationToken::new();
        let running = tokio::spawn(publisher.run(stop.clone()));
        Self {
            recorder,
            stop,
            running,
        }
    }

    async fn stop(self) {
        self.stop.cancel();
        self.running.await.expect("no panic");
    }
}

async fn blog(cluster: &Cluster) -> ObjectReference {
    let map = json!({ "metadata": { "name": "blog" } });
    let map: ConfigMap = serde_json::from_value(map).expect("a config map");
    let maps = cluster.api_aside::<ConfigMap>();
    let created = maps.create(&PostParams::default(), &map).await;
    created.expect("created").object_ref(&())
}

/// The events of the test's namespace: reason and count, sorted.
async fn events(cluster: &Cluster) -> Vec<(String, i32)> {
    let events: Api<Event> = cluster.api_aside();
    let listed = events.list(&ListParams::default()).await.expect("a list");
    let mut counts: Vec<_> = (listed.items.into_iter())
        .map(|event| {
            let count = event.series.map_or(1, |series| series.count);
            (event.reason.unwrap_or_default(), count)
        })
        .collect();
    counts.sort();
    counts
}

/// Waits until the events are these.
async fn until(cluster: &Cluster, expected: &[(&str, i32)]) {
    let expected: Vec<_> = (expected.iter())
        .map(|(reason, count)| ((*reason).to_owned(), *count))
        .collect();
    while events(cluster).await != expected {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// A client that loses the responses to the next `lost` writes.
fn losing_responses(through: Client, namespace: &str, lost: Arc<AtomicUsize>) -> Client {
    let service = tower::service_fn(move |request: Request<Body>| {
        let (through, lost) = (through.clone(), Arc::clone(&lost));
        async move {
            let is_write = *request.method() != Method::GET;
            let response = through.send(request).await?;
            let is_written = is_write && response.status().is_success();
            let less = |lost: usize| lost.checked_sub(usize::from(is_written));
            let is_lost = lost
                .fetch_update(Ordering::SeqCst, Ordering::SeqCst, less)
                .is_ok();
            if is_lost && is_written {
                let reset = std::io::Error::from(std::io::ErrorKind::ConnectionReset);
                return Err(BoxError::from(reset));
            }
            Ok(response)
        }
    });
    Client::new(service, namespace)
}

fn gears(version: &str) -> CustomResourceDefinition {
    let definition = json!({
        "metadata": {
            "name": "gears.test.windlass.dev",
            "annotations": { "windlass.dev/crd-version": version },
        },
        "spec": {
            "group": "test.windlass.dev", "scope": "Namespaced",
            "names": { "kind": "Gear", "plural": "gears", "singular": "gear" },
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": { "openAPIV3Schema": { "type": "object" } },
            }],
        },
    });
    serde_json::from_value(definition).expect("a definition")
}

on_both_servers! {
    /// Rows: BO-29
    async fn repeated_events_are_counted_also_over_a_restart(cluster: Cluster) {
        let blog = blog(&cluster).await;
        let failed = || ObjectEvent::warning("Failed", "é".repeat(2000)).action("Publish");
        let recording = Recording::start(cluster.aside());
        for _ in 0..3 {
            recording.recorder.record(blog.clone(), failed());
        }
        recording.recorder.record(blog.clone(), ObjectEvent::normal("Published", "at last"));
        until(&cluster, &[("Failed", 3), ("Published", 1)]).await;
        recording.stop().await;

        // Another process: the same Event.
        let recording = Recording::start(cluster.aside());
        recording.recorder.record(blog.clone(), failed());
        recording.recorder.record(blog.clone(), failed());
        until(&cluster, &[("Failed", 5), ("Published", 1)]).await;
        recording.stop().await;

        let api: Api<Event> = cluster.api_aside();
        let listed = api.list(&ListParams::default()).await.expect("a list");
        let failed = (listed.items.iter()).find(|it| it.reason.as_deref() == Some("Failed"));
        let failed = failed.expect("it was found above");
        assert_eq!(failed.note.as_ref().map(String::len), Some(1024));
        assert_eq!(failed.action.as_deref(), Some("Publish"));
        assert_eq!(failed.type_.as_deref(), Some("Warning"));
        assert_eq!(failed.reporting_controller.as_deref(), Some("websites.windlass.dev"));
        let regarding = failed.regarding.as_ref().expect("an object");
        assert_eq!((&regarding.uid, &regarding.name), (&blog.uid, &blog.name));
    }

    /// Within one second. A slow server has several attempts.
    ///
    /// Rows: BO-29
    async fn an_event_that_waits_at_the_stop_is_sent(cluster: Cluster) {
        let blog = blog(&cluster).await;
        for attempt in 0..5 {
            let recording = Recording::start(cluster.aside());
            let event = ObjectEvent::normal(format!("Stopped{attempt}"), "at the stop");
            recording.recorder.record(blog.clone(), event);
            recording.stop().await;
            if !events(&cluster).await.is_empty() {
                return;
            }
        }
        panic!("no event was sent");
    }

    /// A create, an update, and both again in another process, each with a lost response.
    ///
    /// Rows: BO-29
    async fn an_event_whose_response_is_lost_is_counted_once(cluster: Cluster) {
        let blog = blog(&cluster).await;
        let failed = || ObjectEvent::warning("Failed", "a note");
        let mut count = 0;
        for _ in 0..2 {
            let lost = Arc::new(AtomicUsize::new(2));
            let client = losing_responses(cluster.aside(), cluster.namespace(), Arc::clone(&lost));
            let recording = Recording::start(client);
            for _ in 0..4 {
                recording.recorder.record(blog.clone(), failed());
            }
            count += 4;
            until(&cluster, &[("Failed", count)]).await;
            recording.stop().await;
            assert_eq!(lost.load(Ordering::SeqCst), 0);
            assert_eq!(events(&cluster).await, [("Failed".into(), count)]);
        }
    }

    /// Rows: BO-29
    async fn an_event_that_cannot_be_published_fails_nothing(cluster: Cluster) {
        let blog = blog(&cluster).await;
        let recording = Recording::start(cluster.powerless().await);
        for number in 0..2000 {
            let event = ObjectEvent::normal(format!("Reason{number}"), "forbidden");
            recording.recorder.record(blog.clone(), event);
        }
        recording.stop().await;
        assert_eq!(events(&cluster).await, []);
    }

    async fn definitions_are_installed_and_never_replaced_by_older_ones(cluster: Cluster) {
        let (client, timeout) = (cluster.aside(), Duration::from_secs(60));
        install_crds(&client, [gears("2.1")], timeout).await.expect("installed");
        // They are served.
        let resource = kube::api::ApiResource {
            group: "test.windlass.dev".into(),
            version: "v1".into(),
            api_version: "test.windlass.dev/v1".into(),
            kind: "Gear".into(),
            plural: "gears".into(),
        };
        let gears_api: Api<kube::api::DynamicObject> =
            Api::namespaced_with(client.clone(), cluster.namespace(), &resource);
        gears_api.list(&ListParams::default()).await.expect("they are served");

        install_crds(&client, [gears("2.1")], Duration::MAX).await.expect("again");
        let refused = install_crds(&client, [gears("2.0.9")], timeout).await;
        match refused.expect_err("it is older") {
            InstallError::Newer { installed, given, .. } => {
                assert_eq!((&*installed, &*given), ("2.1", "2.0.9"));
            }
            other => panic!("{other}"),
        }
        let invalid = CustomResourceDefinition {
            metadata: serde_json::from_value::<Value>(json!({ "name": "wrong.test.windlass.dev" }))
                .and_then(serde_json::from_value)
                .expect("metadata"),
            ..gears("1")
        };
        let refused = install_crds(&client, [invalid], timeout).await;
        assert!(matches!(refused, Err(InstallError::Request { .. })), "{refused:?}");
    }
}
