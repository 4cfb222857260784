//! What a call writes through its context: Events, the status, and the object itself.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use http::{Method, Request, Response, StatusCode};
use k8s_openapi::api::{
    apps::v1::Deployment,
    core::v1::{ConfigMap, Secret},
    events::v1::Event,
};
use kube::{
    Api, Client, CustomResourceExt as _, ResourceExt as _,
    api::{ListParams, Patch, PatchParams},
    client::Body,
};
use serde_json::json;
use tokio::{sync::mpsc, time::Instant};
use windlass::{
    Context, Controller, Desired, Failure, Outcome, recorder::ObjectEvent,
    retry::ExponentialBackoff,
};

use super::rig::{Rig, builder, create, patch, say, watch};
use crate::{
    cluster::await_condition,
    kinds::{Gadget, GadgetSpec, GadgetStatus, config, value},
};

on_both_servers! {
    /// Rows: BO-29
    async fn a_call_publishes_events_which_are_counted_also_over_a_restart(cluster: Cluster) {
        let configs = cluster.api_aside::<ConfigMap>();
        let owner = create(&configs, config("a", "0")).await;
        let events: Api<Event> = cluster.api_aside();
        let mut is_sent_at_stop = false;
        for restart in 0..5 {
            let total = counted(&events).await;
            let (sender, receiver) = mpsc::channel(64);
            let reconciler = move |cx: Context<ConfigMap>| {
                let sender = sender.clone();
                async move {
                    if cx.key().name() == "a" {
                        cx.event(ObjectEvent::warning("Odd", "a note").action("Count"));
                        say(&sender, value(cx.object()).to_owned()).await;
                    }
                    Ok::<_, Failure>(Outcome::done())
                }
            };
            let builder = builder::<ConfigMap>(&cluster).await.name("counters");
            let mut rig = Rig::start(builder.build(reconciler).expect("good settings"), receiver);
            let first = rig.next().await;
            for number in 1..3 {
                let next = format!("{restart}-{number}");
                // Only the last Event waits at the stop.
                while counted(&events).await < total + number {
                    tokio::time::sleep(Duration::from_millis(10)).await;
                }
                patch(&configs, "a", json!({ "data": { "value": next } })).await;
                assert_eq!(rig.next().await, next, "after {first}");
            }
            rig.stop().await;
            let listed = events.list(&ListParams::default()).await.expect("a list");
            let [event] = &listed.items[..] else {
                panic!("not one Event: {:?}", listed.items);
            };
            let count = event.series.as_ref().map_or(1, |series| series.count);
            assert!(total + 2 <= count && count <= total + 3, "{count} after {total}");
            // Waiting Events are sent before the end of the run, if the server answers within 1 s.
            is_sent_at_stop |= count == total + 3;
            assert_eq!(event.reporting_controller.as_deref(), Some("counters"));
            let regarding = event.regarding.as_ref().expect("an object");
            assert_eq!((&regarding.uid, &regarding.name), (&owner.metadata.uid, &owner.metadata.name));
            assert_eq!(regarding.kind.as_deref(), Some("ConfigMap"));
            if restart > 0 && is_sent_at_stop {
                return;
            }
        }
        panic!("no Event was sent at the stop");
    }

    async fn a_status_is_written_only_if_the_newest_known_one_differs(cluster: Cluster) {
        cluster.install(&Gadget::crd()).await;
        let gadgets = cluster.api_aside::<Gadget>();
        let (sender, receiver) = mpsc::channel(64);
        let reconciler = move |cx: Context<Gadget>| {
            let sender = sender.clone();
            async move {
                let mut written = Vec::new();
                for ready in [true, true, false, true] {
                    written.push(cx.write_status(GadgetStatus { ready }).await?);
                }
                say(&sender, format!("{written:?}")).await;
                Ok::<_, Failure>(Outcome::done())
            }
        };
        let builder = builder::<Gadget>(&cluster).await;
        let mut rig = Rig::start(builder.build(reconciler).expect("good settings"), receiver);
        create(&gadgets, Gadget::new("a", GadgetSpec { size: 1 })).await;
        assert_eq!(rig.next().await, "[true, false, true, true]");
        patch(&gadgets, "a", json!({ "spec": { "size": 2 } })).await;
        assert_eq!(rig.next().await, "[false, false, true, true]");
        let gadget = gadgets.get("a").await.expect("there");
        assert_eq!(gadget.status.map(|status| status.ready), Some(true));
        rig.stop().await;
    }

    /// Another writer has set fields of the status, and a field of ours is null.
    async fn a_status_beside_that_of_another_writer_is_written_once(cluster: Cluster) {
        let deployments = cluster.api_aside::<Deployment>();
        for takes_over in [false, true] {
            let name = if takes_over { "taken" } else { "shared" };
            let (sender, receiver) = mpsc::channel(64);
            let reconciler = move |cx: Context<Deployment>| {
                let sender = sender.clone();
                async move {
                    if cx.key().name() == name {
                        let status = json!({ "replicas": 2, "conditions": null });
                        say(&sender, cx.write_status(status).await?.to_string()).await;
                    }
                    Ok::<_, Failure>(Outcome::done())
                }
            };
            let created: Deployment = serde_json::from_value(deployment(name)).expect("a deployment");
            create(&deployments, created).await;
            let earlier = PatchParams { field_manager: Some("earlier".into()), ..PatchParams::default() };
            let status = Patch::Merge(json!({ "status": { "replicas": 1, "readyReplicas": 1 } }));
            deployments.patch_status(name, &earlier, &status).await.expect("there");
            let builder = builder::<Deployment>(&cluster).await.name(name);
            let builder = if takes_over { builder.migrate_status_from("earlier") } else { builder };
            let mut rig = Rig::start(builder.build(reconciler).expect("good settings"), receiver);
            assert_eq!(rig.next().await, "true");
            for round in ["1", "2"] {
                patch(&deployments, name, json!({ "metadata": { "labels": { "round": round } } })).await;
                assert_eq!(rig.next().await, "false");
            }
            let status = deployments.get(name).await.expect("there").status.expect("written");
            let ready = (!takes_over).then_some(1);
            assert_eq!((status.replicas, status.ready_replicas), (Some(2), ready));
            // The status of another writer is written again.
            let status = Patch::Merge(json!({ "status": { "replicas": 3 } }));
            deployments.patch_status(name, &earlier, &status).await.expect("there");
            patch(&deployments, name, json!({ "metadata": { "labels": { "round": "3" } } })).await;
            assert_eq!(rig.next().await, "true");
            rig.stop().await;
        }
    }

    /// The status of the earlier program is as desired already, and the object is paused at first.
    async fn the_status_of_an_earlier_program_is_taken_over_once_after_a_start(cluster: Cluster) {
        let deployments = cluster.api_aside::<Deployment>();
        let mut created: Deployment = serde_json::from_value(deployment("a")).expect("a deployment");
        created.annotations_mut().insert("windlass.dev/paused".to_owned(), "true".to_owned());
        create(&deployments, created).await;
        let earlier = PatchParams { field_manager: Some("earlier".into()), ..PatchParams::default() };
        let status = Patch::Merge(json!({ "status": { "replicas": 2 } }));
        deployments.patch_status("a", &earlier, &status).await.expect("there");
        let (sender, receiver) = mpsc::channel(64);
        let reconciler = move |cx: Context<Deployment>| {
            let sender = sender.clone();
            async move {
                let written = cx.write_status(json!({ "replicas": 2 })).await?;
                say(&sender, written.to_string()).await;
                Ok::<_, Failure>(Outcome::done())
            }
        };
        let builder = builder::<Deployment>(&cluster).await.migrate_status_from("earlier");
        let mut rig = Rig::start(builder.build(reconciler).expect("good settings"), receiver);
        assert_eq!(rig.next().await, "false", "a pause allows no write of its metadata");
        let continued = json!({ "metadata": { "annotations": { "windlass.dev/paused": null } } });
        patch(&deployments, "a", continued).await;
        assert_eq!(rig.next().await, "true");
        let fields = deployments.get("a").await.expect("there").metadata.managed_fields;
        let managers: Vec<_> = fields.into_iter().flatten().filter_map(|it| it.manager).collect();
        assert!(!managers.contains(&"earlier".to_owned()), "{managers:?}");
        patch(&deployments, "a", json!({ "metadata": { "labels": { "round": "2" } } })).await;
        assert_eq!(rig.next().await, "false");
        rig.stop().await;
    }

    async fn a_status_of_a_kind_without_the_subresource_is_an_error(cluster: Cluster) {
        let (sender, receiver) = mpsc::channel(64);
        let reconciler = move |cx: Context<ConfigMap>| {
            let sender = sender.clone();
            async move {
                if cx.key().name() == "a" {
                    let refused = cx.write_status(json!({ "ready": true })).await;
                    say(&sender, refused.expect_err("no subresource").to_string()).await;
                }
                Ok::<_, Failure>(Outcome::done())
            }
        };
        let builder = builder::<ConfigMap>(&cluster).await;
        let mut rig = Rig::start(builder.build(reconciler).expect("good settings"), receiver);
        create(&cluster.api_aside(), config("a", "1")).await;
        let refused = rig.next().await;
        assert!(refused.contains("the kind has no status subresource; add"), "{refused}");
        rig.stop().await;
    }

    /// Rows: BO-07
    async fn a_write_of_the_object_itself_causes_no_call_and_one_of_another_writer_does(cluster: Cluster) {
        cluster.install(&Gadget::crd()).await;
        let gadgets = cluster.api_aside::<Gadget>();
        let (sender, receiver) = mpsc::channel(64);
        let reconciler = move |cx: Context<Gadget>| {
            let sender = sender.clone();
            async move {
                let (name, size) = (cx.key().name(), cx.object().spec.size);
                let body = json!({ "metadata": {
                    "resourceVersion": cx.object().resource_version(),
                    "annotations": { "seen": size.to_string() },
                } });
                let objects = Api::<Gadget>::namespaced(cx.client(), cx.key().namespace().expect("one"));
                let patched = objects.patch(name, &PatchParams::default(), &Patch::Merge(body)).await?;
                say(&sender, format!("{name} {size} {}", cx.reasons())).await;
                if size == 7 {
                    // A new generation is another call, also if the call has written it.
                    let body = json!({ "spec": { "size": 8 }, "metadata": {
                        "resourceVersion": patched.resource_version(),
                    } });
                    objects.patch(name, &PatchParams::default(), &Patch::Merge(body)).await?;
                }
                Ok::<_, Failure>(Outcome::done())
            }
        };
        let builder = builder::<Gadget>(&cluster).await;
        let mut rig = Rig::start(builder.build(reconciler).expect("good settings"), receiver);
        let gadget = |name: &str, size| Gadget::new(name, GadgetSpec { size });
        create(&gadgets, gadget("a", 1)).await;
        assert!(rig.next().await.starts_with("a 1"));
        // The annotation passes the default filter.
        let seen = |gadget: Option<&Gadget>| gadget.is_some_and(|it| it.annotations().contains_key("seen"));
        await_condition(gadgets.clone(), "a", seen).await.expect("annotated");
        patch(&gadgets, "a", json!({ "metadata": { "annotations": { "by": "another" } } })).await;
        assert_eq!(rig.next().await, "a 1 changed");
        patch(&gadgets, "a", json!({ "spec": { "size": 7 } })).await;
        assert_eq!(rig.next().await, "a 7 changed");
        assert!(rig.next().await.starts_with("a 8"));
        create(&gadgets, gadget("the-last", 1)).await;
        assert!(rig.next().await.starts_with("the-last 1"), "no other call");
        rig.stop().await;
    }

    /// Rows: BO-51
    async fn a_retry_waits_for_the_time_that_the_server_demands_of_a_child(cluster: Cluster) {
        let configs = cluster.api_aside::<ConfigMap>();
        let (sender, receiver) = mpsc::channel(64);
        let client = throttled_once(cluster.client().await, cluster.namespace());
        let mut builder = Controller::builder(client, watch::<ConfigMap>(&cluster).await)
            .retry_policy(ExponentialBackoff::new(Duration::from_millis(5), 100))
            .on_error(|_| ());
        let children = builder.owns(watch::<Secret>(&cluster).await);
        let began = Arc::new(Mutex::new(Vec::new()));
        let calls = Arc::clone(&began);
        let reconciler = move |cx: Context<ConfigMap>| {
            let (children, sender, calls) = (children.clone(), sender.clone(), Arc::clone(&calls));
            async move {
                if cx.key().name() == "kube-root-ca.crt" {
                    return Ok(Outcome::done());
                }
                calls.lock().expect("no panic").push(Instant::now());
                say(&sender, format!("attempt {}", cx.attempt())).await;
                children.apply(&cx, Desired::json(json!({}))).await?;
                Ok::<_, Failure>(Outcome::done())
            }
        };
        let mut rig = Rig::start(builder.build(reconciler).expect("good settings"), receiver);
        create(&configs, config("a", "1")).await;
        assert_eq!(rig.next().await, "attempt 0");
        assert_eq!(rig.next().await, "attempt 1");
        let began = began.lock().expect("no panic").clone();
        let waited = began[1] - began[0];
        assert!(waited > Duration::from_millis(1500), "{waited:?}");
        let secrets = cluster.api_aside::<Secret>();
        await_condition(secrets, "a", |it: Option<&Secret>| it.is_some()).await.expect("applied");
        rig.stop().await;
    }
}

/// The count of the only Event, zero if there is none.
async fn counted(events: &Api<Event>) -> i32 {
    let listed = events.list(&ListParams::default()).await.expect("a list");
    let count = |it: &Event| it.series.as_ref().map_or(1, |series| series.count);
    listed.items.first().map_or(0, count)
}

/// A client whose first write of a Secret is answered by 429 with a delay of 2 seconds.
fn throttled_once(through: Client, namespace: &str) -> Client {
    let is_throttled = Arc::new(AtomicBool::new(false));
    let service = tower::service_fn(move |request: Request<Body>| {
        let (through, is_throttled) = (through.clone(), Arc::clone(&is_throttled));
        async move {
            let is_write =
                *request.method() == Method::PATCH && request.uri().path().contains("secrets");
            if !is_write || is_throttled.swap(true, Ordering::SeqCst) {
                return through.send(request).await;
            }
            let status = json!({
                "kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 429,
                "reason": "TooManyRequests", "message": "slow down",
                "details": { "retryAfterSeconds": 2 },
            });
            let response = Response::builder()
                .status(StatusCode::TOO_MANY_REQUESTS)
                .header("retry-after", "2")
                .header("content-type", "application/json")
                .body(Body::from(status.to_string().into_bytes()));
            Ok(response.expect("a response"))
        }
    });
    Client::new(service, namespace)
}

fn deployment(name: &str) -> serde_json::Value {
    let labels = json!({ "app": name });
    let container = json!({ "name": "main", "image": "app" });
    json!({
        "metadata": { "name": name },
        "spec": {
            "selector": { "matchLabels": labels },
            "template": { "metadata": { "labels": labels }, "spec": { "containers": [container] } },
        },
    })
}
