//! Functions that a program of kube-runtime calls directly: each does what that of kube-runtime does.

use std::{
    convert::Infallible,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use futures::{FutureExt as _, Stream, StreamExt as _, stream};
use http::{Request, Response};
use k8s_openapi::api::{core::v1::ConfigMap, rbac::v1::ClusterRole};
use kube::{Api, Client, ResourceExt as _, client::Body, runtime as kube_runtime};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::{sync::Notify, time::timeout};
use windlass_runtime::{
    Controller, WatchStreamExt as _,
    controller::{Action, Error},
    finalizer::{Event, finalizer},
    reflector::{ObjectRef, Store, reflector, store, store::Writer, store_shared},
    watcher,
};

const LIMIT: Duration = Duration::from_secs(60);

const OURS: &str = "example.com/ours";

/// A config map with these finalizers, which is being deleted if it has ours.
fn map(finalizers: &[&str], uid: Option<&str>) -> ConfigMap {
    let deleted = finalizers.contains(&OURS).then_some("2026-01-01T00:00:00Z");
    let map = json!({ "metadata": {
        "name": "a", "namespace": "shop", "uid": uid, "finalizers": finalizers,
        "deletionTimestamp": deleted,
    }});
    serde_json::from_value(map).expect("a config map")
}

/// A client that records the bodies of its requests, and has no object.
fn recording(bodies: &Arc<Mutex<Vec<Value>>>) -> Client {
    let bodies = Arc::clone(bodies);
    let service = tower::service_fn(move |request: Request<Body>| {
        let bodies = Arc::clone(&bodies);
        async move {
            let body = request.into_body().collect_bytes().await.expect("a body");
            (bodies.lock()).push(serde_json::from_slice(&body).expect("JSON"));
            let answer = json!({ "metadata": { "name": "a" } }).to_string();
            Ok::<_, Infallible>(Response::new(Body::from(answer.into_bytes())))
        }
    });
    Client::new(service, "shop")
}

/// Both functions send the same patch for an object without a uid, as tests of programs have. With a
/// uid ours begins with a test of it.
#[tokio::test]
async fn a_finalizer_is_added_and_removed_by_the_same_patch() {
    for finalizers in [&[][..], &["other"], &[OURS], &["other", OURS, "third"]] {
        for uid in [None, Some("u-1")] {
            let object = Arc::new(map(finalizers, uid));
            let (ours, theirs) = (Arc::default(), Arc::default());
            let api = Api::<ConfigMap>::namespaced(recording(&ours), "shop");
            let call = |_: Event<ConfigMap>| async { Ok::<_, Infallible>(Action::await_change()) };
            let done = finalizer(&api, OURS, Arc::clone(&object), call).await;
            done.expect("patched");
            let api = Api::<ConfigMap>::namespaced(recording(&theirs), "shop");
            let call = |_: kube_runtime::finalizer::Event<ConfigMap>| async {
                Ok::<_, Infallible>(kube_runtime::controller::Action::await_change())
            };
            let done = kube_runtime::finalizer(&api, OURS, object, call).await;
            done.expect("patched");
            let mut expected = theirs.lock().clone();
            assert_eq!(expected.len(), 1);
            if let (Some(uid), Some(operations)) = (uid, expected[0].as_array_mut()) {
                let test = json!({ "op": "test", "path": "/metadata/uid", "value": uid });
                operations.insert(0, test);
            }
            assert_eq!(*ours.lock(), expected, "{finalizers:?} {uid:?}");
        }
    }
}

fn named(name: &str) -> ConfigMap {
    let mut map = map(&[], None);
    map.metadata.name = Some(name.to_owned());
    map
}

/// The events of a first list with these objects.
fn listed(names: &[&str]) -> Vec<watcher::Result<watcher::Event<ConfigMap>>> {
    let objects = names
        .iter()
        .map(|name| watcher::Event::InitApply(named(name)));
    let events = std::iter::once(watcher::Event::Init).chain(objects);
    events.chain([watcher::Event::InitDone]).map(Ok).collect()
}

#[tokio::test]
async fn a_clone_of_a_subscription_has_what_waits_in_it() {
    let (_store, writer) = store_shared::<ConfigMap>(8);
    let first = writer.subscribe().expect("a shared store");
    let events = stream::iter(listed(&["a", "b"])).reflect_shared(writer);
    assert_eq!(events.count().await, 4);
    let second = first.clone();
    for subscription in [first, second] {
        let names = subscription.map(|it| it.name_any()).collect::<Vec<_>>();
        let mut names = timeout(LIMIT, names).await.expect("the writer is dropped");
        names.sort();
        assert_eq!(names, ["a", "b"]);
    }
}

#[tokio::test]
async fn a_reflector_that_has_ended_can_be_polled() {
    let (_store, writer) = store::<ConfigMap>();
    let mut events = std::pin::pin!(reflector(writer, stream::iter(listed(&[]))));
    assert_eq!(events.by_ref().count().await, 2);
    assert!(events.next().await.is_none());
}

/// Runs a controller of the objects of `events`, and returns the names of its calls.
fn names<'a>(
    controller: Controller<ClusterRole>,
    call: impl Fn(Arc<ClusterRole>) -> futures::future::BoxFuture<'static, ()> + Send + 'a,
) -> impl Stream<Item = Result<String, String>> + 'a {
    let items = controller.run(
        move |role, _| {
            call(role)
                .map(|()| Ok::<_, Infallible>(Action::await_change()))
                .boxed()
        },
        |_, _, _| Action::await_change(),
        Arc::new(()),
    );
    items.map(|item| match item {
        Ok((target, _)) => Ok(target.name),
        Err(Error::QueueError(error)) => Err(format!("{error}: {error:?}")),
        Err(error) => Err(error.to_string()),
    })
}

fn role(name: &str) -> ClusterRole {
    serde_json::from_value(json!({ "metadata": { "name": name } })).expect("a role")
}

/// A complete store of these roles.
fn store_of(names: &[&str]) -> (Store<ClusterRole>, Writer<ClusterRole>) {
    let (store, mut writer) = store::<ClusterRole>();
    let roles = names
        .iter()
        .map(|name| watcher::Event::InitApply(role(name)));
    let events = std::iter::once(watcher::Event::Init).chain(roles);
    for event in events.chain([watcher::Event::InitDone]) {
        writer.apply_watcher_event(&event);
    }
    (store, writer)
}

/// A mapper that names a cluster-scoped object with a namespace, as that of an owner does.
#[tokio::test(start_paused = true)]
async fn a_cluster_scoped_object_of_a_stream_is_called_once_at_a_time() {
    let (store, _writer) = store_of(&["a"]);
    let (running, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let begun = Arc::new(Notify::new());
    let call = {
        let (running, most, begun) = (running, Arc::clone(&most), Arc::clone(&begun));
        move |_: Arc<ClusterRole>| {
            let (running, most, begun) =
                (Arc::clone(&running), Arc::clone(&most), Arc::clone(&begun));
            async move {
                most.fetch_max(running.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                begun.notify_one();
                // Virtual time passes when nothing else can happen: a second call would have begun.
                tokio::time::sleep(Duration::from_millis(200)).await;
                running.fetch_sub(1, Ordering::SeqCst);
            }
            .boxed()
        }
    };
    let targets = stream::iter([ObjectRef::new("a").within("shop")]).chain(stream::pending());
    let controller = Controller::for_stream(stream::pending(), store).reconcile_on(targets);
    let mut items = Box::pin(names(controller, call));
    let first = timeout(LIMIT, items.next()).await.expect("a call");
    assert_eq!(first, Some(Ok("a".to_owned())));
    let second = timeout(Duration::from_millis(500), items.next()).await;
    assert!(second.is_err(), "{second:?}");
    assert_eq!(most.load(Ordering::SeqCst), 1);
}

/// kube-runtime unwinds through the poll of the stream.
#[tokio::test]
async fn a_stream_of_a_controller_that_panics_ends_the_controller() {
    let (store, _writer) = store_of(&[]);
    let broken = stream::iter([role("a")])
        .map(|role| -> Result<ClusterRole, watcher::Error> { panic!("no {}", role.name_any()) });
    let items = names(Controller::for_stream(broken, store), |_| {
        futures::future::ready(()).boxed()
    });
    let items = timeout(LIMIT, items.collect::<Vec<_>>())
        .await
        .expect("it ends");
    let [Err(error)] = &items[..] else {
        panic!("{items:?}");
    };
    assert!(
        error.contains("a stream of the controller panicked: no a"),
        "{error}"
    );
}
