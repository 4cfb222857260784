//! Mistakes in settings, and settings that must have an effect.

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

use crate::rig::{KIND, Log, Refused, Rig, ask, config, pass, quiet, settle, show, value};

/// A service that writes down what it is asked.
#[derive(Clone)]
struct Listening<S> {
    inner: S,
    heard: Arc<Mutex<Vec<String>>>,
}

impl<S: Service<HttpRequest<Body>>> Service<HttpRequest<Body>> for Listening<S> {
    type Response = S::Response;
    type Error = S::Error;
    type Future = S::Future;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: HttpRequest<Body>) -> S::Future {
        let url = request.uri().to_string();
        self.heard.lock().expect("not poisoned").push(url);
        self.inner.call(request)
    }
}

#[tokio::test]
async fn w39_whether_and_how_a_list_is_streamed_or_paged_is_asked_of_the_server() {
    let paged = ask_for(|api| {
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

    let streamed = ask_for(|api| ListWatch::new(api).streamed_lists(true)).await;
    assert!(
        (streamed.iter()).any(|url| url.contains("sendInitialEvents=true")),
        "{streamed:?}"
    );
    assert!(!streamed.iter().any(|url| url.contains("limit=")));
}

/// What an informer over `how` asks for until its watch runs.
async fn ask_for(how: impl FnOnce(Api<ConfigMap>) -> ListWatch<ConfigMap>) -> Vec<String> {
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
    let heard: Arc<Mutex<Vec<String>>> = Arc::default();
    let listening = Listening {
        inner: server.service(),
        heard: Arc::clone(&heard),
    };
    let client = Client::new(listening, "default");
    let informer = Informer::new(how(Api::namespaced(client, "default")));
    let stop = CancellationToken::new();
    let run = {
        let (informer, stop) = (informer.clone(), stop.clone());
        tokio::spawn(async move { informer.run(stop).await })
    };
    informer
        .until(|state| matches!(state, HealthState::Watching))
        .await;
    stop.cancel();
    run.await.expect("no panic").expect("it ends well");
    std::mem::take(&mut *heard.lock().expect("not poisoned"))
}

/// What is not there cannot be called, and what is of another type cannot be added.
#[tokio::test(start_paused = true)]
async fn w40_handlers_kinds_and_states_have_types() {
    let mut rig = Rig::new(quiet());
    // No cast in any handler: a handler of other objects is refused when it is added, with
    // both types in the error.
    let other = rig
        .controller
        .add_reconciler(KIND, |_: Request<Secret>| async {
            Ok::<_, Refused>(Outcome::done())
        });
    match other {
        Err(AddError::OtherType { known, given, .. }) => {
            assert!(known.ends_with("ConfigMap") && given.ends_with("Secret"));
        }
        other => panic!("{other:?}"),
    }
    // A state is one value of its handler's own type.
    let state = State::new(7_u32);
    assert_eq!(state.get::<u32>(), Some(&7));
    assert_eq!(state.get::<String>(), None);

    // A typed reconciler over dynamic objects tells what is not one of its type, and lives.
    let (script, source) = Scripted::new();
    let (controller, log) = (&rig.controller, rig.log.clone());
    controller
        .add_informer("dynamic", &Informer::new(source))
        .expect("added");
    controller
        .add_reconciler(
            "dynamic",
            TypedReconciler::new(move |request: Request<ConfigMap>| {
                log.say(show(request.object()));
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
    assert_eq!(rig.said().await, "web=1");
    assert_eq!(
        rig.counted("reconciler_errors_total", &[r#"kind="dynamic""#]),
        1
    );
    rig.stop().await;
}

/// The cache is read as it is: no copy, no request, and no hidden watch.
#[tokio::test(start_paused = true)]
async fn w43_a_reconciler_reads_the_store_of_another_kind() {
    let mut rig = Rig::new(quiet());
    let (script, source) = Scripted::<Secret>::new();
    let secrets = Informer::new(source);
    rig.controller
        .add_informer("secrets", &secrets)
        .expect("added");
    let (log, store) = (rig.log.clone(), secrets.store());
    rig.reconcile(move |request: Request<ConfigMap>| {
        let key = ObjectKey::new(value(request.object())).within("shop");
        log.say(store.get(&key).is_some());
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
    assert_eq!(rig.said().await, "true, false");
    rig.stop().await;
}

/// A secret names the config that uses it. Each end of a reference that moves is dispatched again,
/// in its turn and once for all that woke it; a name without an object wakes nothing.
#[tokio::test(start_paused = true)]
async fn w43_a_change_of_one_kind_reconciles_another_and_a_moved_reference_wakes_both() {
    let mut rig = Rig::new(quiet());
    let (script, source) = Scripted::<Secret>::new();
    rig.controller
        .add_informer("secrets", &Informer::new(source))
        .expect("added");
    rig.controller
        .add_mapper("secrets", KIND, |secret: &Secret| {
            let user = secret.metadata.annotations.as_ref()?.get("for")?;
            Some(ObjectKey::new(user.as_str()).within("shop"))
        })
        .expect("both are there");
    rig.reconcile(says(&rig.log));
    rig.start().await;
    script.list([]).await.expect("it runs");
    for name in ["web", "api"] {
        rig.apply(config(name, 1)).await;
    }
    rig.said().await;

    for (version, user, told) in [
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
        let said = rig.said().await;
        let mut said: Vec<_> = said.split(", ").collect();
        said.sort_unstable();
        assert_eq!(said.join(", "), told);
    }
    rig.stop().await;
}

/// It neither gets the update nor loses a pending call: for a handler that does not want an update,
/// nothing has happened.
#[tokio::test(start_paused = true)]
async fn w43_a_status_update_does_not_reconcile_where_a_predicate_says_so() {
    let mut rig = Rig::new(quiet());
    let log = rig.log.clone();
    let fails = move |request: Request<ConfigMap>| {
        log.say(ask(&request));
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
    assert_eq!(rig.said().await, "created web=1");
    // Of the same generation. The default policy drops what is pending; not here.
    let mut status = config("web", 2);
    status.metadata.generation = Some(1);
    rig.apply(status).await;
    assert_eq!(rig.said().await, "");
    assert_eq!(rig.pending(), 1);
    pass(60).await;
    assert_eq!(rig.said().await, "created web=2", "with the newest object");
    rig.apply(config("web", 3)).await;
    assert_eq!(rig.said().await, "updated web=3");
    rig.stop().await;
}

/// A reconciler that says what it is asked.
fn says(log: &Log) -> impl Reconciler<ConfigMap> + use<> {
    let log = log.clone();
    move |request: Request<ConfigMap>| {
        log.say(ask(&request));
        async { Ok::<_, Refused>(Outcome::done()) }
    }
}
