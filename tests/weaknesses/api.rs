//! Typed APIs, effective settings, and reads of other kinds.

use std::{
    sync::{Arc, Mutex},
    task::{Context, Poll},
};

use http::Request as HttpRequest;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::{
    Api, Client,
    api::{ObjectMeta, PostParams},
    client::Body,
};
use tokio_util::sync::CancellationToken;
use tower::Service;
use windlass::{
    GenerationChanged, Informer, ListWatch, ObjectKey, Outcome, Reconciler, Request,
    controller::AddError,
    handler::{State, TypedReconciler},
    informer::HealthState,
    source::Scripted,
};
use windlass_apiserver::ApiServer;

use crate::rig::{KIND, Log, Refused, Rig, config, describe, pass, quiet, settle, show, value};

/// A service that records the URLs of its requests.
#[derive(Clone)]
struct Recorder<S> {
    inner: S,
    urls: Arc<Mutex<Vec<String>>>,
}

impl<S: Service<HttpRequest<Body>>> Service<HttpRequest<Body>> for Recorder<S> {
    type Response = S::Response;
    type Error = S::Error;
    type Future = S::Future;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: HttpRequest<Body>) -> S::Future {
        let url = request.uri().to_string();
        self.urls.lock().expect("not poisoned").push(url);
        self.inner.call(request)
    }
}

#[tokio::test]
async fn w39_list_settings_are_sent_to_the_server() {
    let paged = requests_of(|api| {
        ListWatch::new(api)
            .streamed_lists(false)
            .page_size(2.try_into().expect("not zero"))
            .labels("app=web")
            .expect("a selector")
    });
    let paged = paged.await;
    let (lists, watches): (Vec<_>, Vec<_>) =
        (paged.iter()).partition(|url| !url.contains("watch=true"));
    assert_eq!(lists.len(), 3, "5 objects, 2 a page: {paged:?}");
    assert!(lists.iter().all(|url| url.contains("limit=2")), "{paged:?}");
    assert!(!watches.is_empty(), "{paged:?}");
    assert!(paged.iter().all(|url| url.contains("labelSelector=app")));

    let streamed = requests_of(|api| ListWatch::new(api).streamed_lists(true)).await;
    assert!(
        (streamed.iter()).any(|url| url.contains("sendInitialEvents=true")),
        "{streamed:?}"
    );
    assert!(!streamed.iter().any(|url| url.contains("limit=")));
}

/// The URLs that an informer with `settings` requests until its watch runs.
async fn requests_of(settings: impl FnOnce(Api<ConfigMap>) -> ListWatch<ConfigMap>) -> Vec<String> {
    let server = ApiServer::new();
    let configs: Api<ConfigMap> = Api::namespaced(server.client(), "default");
    for number in 0..5 {
        let mut object = config(&format!("c{number}"), 1);
        object.metadata = ObjectMeta {
            name: object.metadata.name,
            labels: Some([("app".to_owned(), "web".to_owned())].into()),
            ..ObjectMeta::default()
        };
        let created = configs.create(&PostParams::default(), &object).await;
        created.expect("a new object");
    }
    let urls: Arc<Mutex<Vec<String>>> = Arc::default();
    let recorder = Recorder {
        inner: server.service(),
        urls: Arc::clone(&urls),
    };
    let client = Client::new(recorder, "default");
    let informer = Informer::new(settings(Api::namespaced(client, "default")));
    let stop = CancellationToken::new();
    let run = {
        let (informer, stop) = (informer.clone(), stop.clone());
        tokio::spawn(async move { informer.run(stop).await })
    };
    informer
        .until(|state| matches!(state, HealthState::Watching))
        .await;
    stop.cancel();
    run.await.expect("no panic").expect("no error");
    std::mem::take(&mut *urls.lock().expect("not poisoned"))
}

/// A handler or state of a wrong type is an error when it is added or read.
#[tokio::test(start_paused = true)]
async fn w40_handlers_kinds_and_states_are_typed() {
    let mut rig = Rig::new(quiet());
    // A handler of another type does not compile: the documentation of `Kind` has the test. A name
    // belongs to one kind.
    let other = rig.controller.kind::<Secret>(KIND);
    assert!(matches!(other, Err(AddError::KindExists { .. })));
    // A state has one type.
    let state = State::new(7_u32);
    assert_eq!(state.get::<u32>(), Some(&7));
    assert_eq!(state.get::<String>(), None);

    // A typed reconciler of dynamic objects fails only for the objects that are not of its type.
    let (script, source) = Scripted::new();
    let (controller, log) = (&rig.controller, rig.log.clone());
    let dynamic_kind = controller.kind("dynamic").expect("a new kind");
    controller
        .add_informer(&dynamic_kind, &Informer::new(source))
        .expect("added");
    controller
        .add_reconciler(
            &dynamic_kind,
            TypedReconciler::new(move |request: Request<ConfigMap>| {
                log.push(show(request.object()));
                async { Ok::<_, Refused>(Outcome::done()) }
            }),
        )
        .expect("added");
    rig.start().await;
    let dynamic = |name: &str, data: serde_json::Value| {
        let kind = kube::api::ApiResource::erase::<ConfigMap>(&());
        kube::api::DynamicObject::new(name, &kind).data(serde_json::json!({ "data": data }))
    };
    let good = serde_json::json!({ "value": "1" });
    script
        .list([dynamic("bad", 7.into()), dynamic("web", good)])
        .await
        .expect("it runs");
    assert_eq!(rig.logged().await, "web=1");
    assert_eq!(
        rig.counted("reconciler_errors_total", &[r#"kind="dynamic""#]),
        1
    );
    rig.stop().await;
}

/// A read of the store makes no copy, sends no request and starts no watch.
#[tokio::test(start_paused = true)]
async fn w43_a_reconciler_reads_the_store_of_another_kind() {
    let mut rig = Rig::new(quiet());
    let (script, source) = Scripted::<Secret>::new();
    let secrets = Informer::new(source);
    let secrets_kind = rig.controller.kind("secrets").expect("a new kind");
    rig.controller
        .add_informer(&secrets_kind, &secrets)
        .expect("added");
    let (log, store) = (rig.log.clone(), secrets.store());
    rig.reconcile(move |request: Request<ConfigMap>| {
        let key = ObjectKey::new(value(request.object())).within("shop");
        log.push(store.get(&key).is_some());
        async { Ok::<_, Refused>(Outcome::done()) }
    });
    rig.start().await;
    let secret = Secret {
        metadata: config("7", 1).metadata,
        ..Secret::default()
    };
    script.list([secret]).await.expect("it runs");
    settle().await;
    rig.apply(config("web", 7)).await;
    rig.apply(config("api", 8)).await;
    assert_eq!(rig.logged().await, "true, false");
    rig.stop().await;
}

/// Each secret names a config map. When this reference changes, both the old and the new config map
/// are dispatched once. A name without an object has no effect.
#[tokio::test(start_paused = true)]
async fn w43_a_change_of_one_kind_reconciles_the_old_and_the_new_referenced_object() {
    let mut rig = Rig::new(quiet());
    let (script, source) = Scripted::<Secret>::new();
    let secrets = rig.controller.kind("secrets").expect("a new kind");
    rig.controller
        .add_informer(&secrets, &Informer::new(source))
        .expect("added");
    rig.controller
        .add_mapper(&secrets, &rig.kind, |secret: &Secret| {
            let user = secret.metadata.annotations.as_ref()?.get("for")?;
            Some(ObjectKey::new(user.as_str()).within("shop"))
        })
        .expect("both are there");
    rig.reconcile(logging(&rig.log));
    rig.start().await;
    script.list([]).await.expect("it runs");
    for name in ["web", "api"] {
        rig.apply(config(name, 1)).await;
    }
    rig.logged().await;

    for (version, user, expected) in [
        (1, "web", "resynced web=1"),
        (2, "api", "resynced api=1, resynced web=1"),
        (3, "absent", "resynced api=1"),
    ] {
        let mut secret = Secret {
            metadata: config("key", version).metadata,
            ..Secret::default()
        };
        secret.metadata.annotations = Some([("for".to_owned(), user.to_owned())].into());
        script.apply(secret).await.expect("it runs");
        let logged = rig.logged().await;
        let mut lines: Vec<_> = logged.split(", ").collect();
        lines.sort_unstable();
        assert_eq!(lines.join(", "), expected);
    }
    rig.stop().await;
}

/// An update that the predicate rejects neither calls the handler nor drops its pending call.
#[tokio::test(start_paused = true)]
async fn w43_a_predicate_filters_status_updates() {
    let mut rig = Rig::new(quiet());
    let log = rig.log.clone();
    let fails = move |request: Request<ConfigMap>| {
        log.push(describe(&request));
        let first = request.attempt() == 0;
        async move {
            if first {
                return Err(Refused("not yet"));
            }
            Ok(Outcome::done())
        }
    };
    rig.reconcile(fails.filter(GenerationChanged));
    rig.start().await;
    rig.apply(config("web", 1)).await;
    assert_eq!(rig.logged().await, "created web=1");
    // An update with the same generation. It would drop the pending call without the predicate.
    let mut status = config("web", 2);
    status.metadata.generation = Some(1);
    rig.apply(status).await;
    assert_eq!(rig.logged().await, "");
    assert_eq!(rig.pending(), 1);
    pass(60).await;
    assert_eq!(
        rig.logged().await,
        "created web=2",
        "with the newest object"
    );
    rig.apply(config("web", 3)).await;
    assert_eq!(rig.logged().await, "updated web=3");
    rig.stop().await;
}

/// A reconciler that logs its requests.
fn logging(log: &Log) -> impl Reconciler<ConfigMap> + use<> {
    let log = log.clone();
    move |request: Request<ConfigMap>| {
        log.push(describe(&request));
        async { Ok::<_, Refused>(Outcome::done()) }
    }
}
