//! The parts of an informer: source, store and indexes.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use futures::StreamExt as _;
use http::{Request, Response};
use k8s_openapi::api::{coordination::v1::Lease, core::v1::ConfigMap};
use kube::{
    Api, Client, ResourceExt as _,
    api::{ApiResource, DynamicObject},
    client::Body,
    core::GroupVersionKind,
};
use windlass_informer::{
    Change, Changes, ErasedObject, Event, IncomingObject, Index, Informer, InformerMetrics,
    InvalidListWatch, LazyObject, ListWatch, ObjectKey, Scripted, Source, Uid, WatchError,
};

use crate::running::{config, receive, run, start};

/// Rows: GA-44
#[tokio::test(start_paused = true)]
async fn a_subscription_is_also_a_stream_of_its_events() {
    let (script, running) = start();
    let events = running.events.take(3);
    let listed = script.list([config("a", "1"), config("b", "1")]);
    let (events, listed) = futures::join!(events.collect::<Vec<_>>(), listed);
    listed.expect("the informer runs");
    let events: Vec<_> = events
        .iter()
        .map(|event| match event {
            Event::Added(object) => object.name_any(),
            Event::Synced => "synced".to_owned(),
            _ => "another event".to_owned(),
        })
        .collect();
    assert_eq!(events, ["a", "b", "synced"]);
}

#[test]
fn a_uid_is_displayed_unchanged() {
    assert_eq!(Uid::from("0b2c").to_string(), "0b2c");
}

/// Rows: GA-44, CK-16, CK-23, BO-08
#[tokio::test(start_paused = true)]
async fn the_store_and_its_indexes_can_be_read_concurrently() {
    let by_value = Index::new(|config: &ConfigMap| config.data.clone()?.remove("value"));
    let (script, source) = Scripted::new();
    let informer = Informer::builder(source).index(&by_value).build();
    let store = informer.store();
    let mut running = run(informer);
    script
        .list([config("a", "1"), config("b", "1"), config("c", "2")])
        .await
        .expect("runs");
    receive(&mut running.events, 4).await;
    let found = |value: &str| {
        let found = store.by(&by_value, value).expect("declared");
        let mut names: Vec<_> = found.iter().map(|config| config.name_any()).collect();
        names.sort();
        names
    };
    assert_eq!(found("1"), ["a", "b"]);
    assert_eq!(found("2"), ["c"]);
    script.apply(config("b", "2")).await.expect("runs");
    script.delete(config("c", "3")).await.expect("runs");
    receive(&mut running.events, 2).await;
    assert_eq!(
        (found("1"), found("2")),
        (vec!["a".to_owned()], vec!["b".to_owned()])
    );
    assert!(found("3").is_empty());
    assert!(store.contains(&ObjectKey::new("a")));
    assert_eq!(store.len(), 2);

    let undeclared = Index::new(|config: &ConfigMap| config.namespace());
    let error = store.by(&undeclared, "shop").expect_err("not declared");
    assert!(error.to_string().contains("Informer::builder"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_panic_in_an_index_function_affects_only_its_entry() {
    let fussy = Index::new(|config: &ConfigMap| {
        assert_ne!(config.name_any(), "bad");
        Some(config.name_any())
    });
    let (script, source) = Scripted::new();
    let informer = Informer::builder(source).index(&fussy).build();
    let store = informer.store();
    let mut running = run(informer);
    script
        .list([config("bad", "1"), config("good", "1")])
        .await
        .expect("runs");
    receive(&mut running.events, 3).await;
    assert!(store.by(&fussy, "bad").expect("declared").is_empty());
    assert_eq!(store.by(&fussy, "good").expect("declared").len(), 1);
    assert_eq!(store.len(), 2);
}

/// Any source of changes will do: a user's client lists and watches with its options.
///
/// Rows: GA-61
#[tokio::test(start_paused = true)]
async fn a_user_defined_source_works_like_an_api() {
    struct Fixed(Vec<ConfigMap>);

    impl Source<ConfigMap> for Fixed {
        fn resource(&self) -> String {
            "fixed".to_owned()
        }

        async fn run(&mut self, changes: Changes<ConfigMap>) -> Result<(), WatchError> {
            let mut list = vec![Change::ListStarted];
            list.extend(
                self.0
                    .iter()
                    .map(|object| Change::Applied(object.clone().into())),
            );
            list.push(Change::ListEnded {
                resource_version: None,
            });
            for change in list {
                if changes.send(change).await.is_err() {
                    break;
                }
            }
            Ok(())
        }
    }

    let mut running = run(Informer::new(Fixed(vec![config("a", "1")])));
    assert_eq!(running.informer.resource(), "fixed");
    assert_eq!(
        receive(&mut running.events, 2).await,
        ["added a 1", "synced"]
    );
}

/// No selector is no filter, and a list sees one namespace if the `Api` does.
///
/// Rows: GA-04, GA-41, GA-47
#[tokio::test(start_paused = true)]
async fn an_informer_lists_the_namespaces_of_its_api_without_a_default_filter() {
    let asked = Arc::new(Mutex::new(Vec::new()));
    let service = tower::service_fn({
        let asked = Arc::clone(&asked);
        move |request: Request<Body>| {
            asked
                .lock()
                .expect("no panic")
                .push(request.uri().to_string());
            async {
                std::future::pending::<()>().await;
                Ok::<_, std::convert::Infallible>(Response::new(Body::empty()))
            }
        }
    });
    let client = Client::new(service, "default");
    let all = run(Informer::new(Api::<ConfigMap>::all(client.clone())));
    assert_eq!(all.informer.resource(), "configmaps");
    let one = run(Informer::new(Api::<ConfigMap>::namespaced(
        client.clone(),
        "shop",
    )));
    let web = ListWatch::new(Api::<ConfigMap>::all(client))
        .labels("app=web")
        .expect("a selector");
    let web = run(Informer::new(web));
    // On paused time: the clock moves when nothing else can, so all have asked by then.
    tokio::time::sleep(Duration::from_millis(1)).await;
    let mut asked = asked.lock().expect("no panic").clone();
    asked.sort();
    assert!(
        asked[0].starts_with("/api/v1/configmaps?labelSelector=app%3Dweb&"),
        "{asked:?}"
    );
    assert!(
        asked[1].starts_with("/api/v1/configmaps?watch=true"),
        "{asked:?}"
    );
    assert!(!asked[1].contains("Selector"), "{asked:?}");
    assert!(
        asked[2].starts_with("/api/v1/namespaces/shop/configmaps?watch=true"),
        "{asked:?}"
    );
    drop((one, web));
}

/// The name of an informer in its health and its errors.
///
/// Rows: GA-47
#[tokio::test]
async fn the_resource_of_an_informer_is_its_plural_and_its_group() {
    let service = tower::service_fn(|_: Request<Body>| {
        std::future::pending::<Result<Response<Body>, std::convert::Infallible>>()
    });
    let client = Client::new(service, "default");
    let leases = Informer::new(Api::<Lease>::all(client.clone()));
    assert_eq!(leases.resource(), "leases.coordination.k8s.io");
    let leases = Informer::new(ListWatch::new(Api::<Lease>::all(client.clone())).metadata());
    assert_eq!(leases.resource(), "leases.coordination.k8s.io");
    let website = GroupVersionKind::gvk("example.io", "v1", "Website");
    let website = ApiResource::from_gvk(&website);
    let websites = Api::<DynamicObject>::all_with(client.clone(), &website);
    let websites = Informer::new((websites, website));
    assert_eq!(websites.resource(), "websites.example.io");
    let maps = Informer::new(Api::<ConfigMap>::all(client));
    assert_eq!(maps.resource(), "configmaps");
}

#[tokio::test]
async fn a_selector_that_no_server_could_read_is_refused_at_once() {
    let service = tower::service_fn(|_: Request<Body>| {
        std::future::pending::<Result<Response<Body>, std::convert::Infallible>>()
    });
    let api = Api::<ConfigMap>::all(Client::new(service, "default"));
    let maps = || ListWatch::new(api.clone());
    let check = |made: Result<_, InvalidListWatch>, expected: &str| match made {
        Err(InvalidListWatch::Selector { selector, why, .. }) => {
            assert!(why.contains(expected), "{selector:?}: {why}");
        }
        Err(other) => panic!("{other}"),
        Ok::<ListWatch<ConfigMap>, _>(made) => panic!("{made:?}, and no {expected}"),
    };
    for (selector, why) in [
        ("", "empty"),
        (" ", "empty"),
        ("a\n=b", "control characters"),
        ("a in (b", "parentheses"),
    ] {
        check(maps().labels(selector), why);
    }
    for (selector, why) in [("a\n=b", "control characters"), ("a=(b", "parentheses")] {
        check(maps().fields(selector), why);
    }
    for selector in ["a=b", "a in (b, c),d", "!a"] {
        assert!(maps().labels(selector).is_ok(), "{selector}");
    }
}

/// Objects can be secrets, so that only their keys are shown.
#[tokio::test(start_paused = true)]
async fn debug_output_names_what_it_is_and_shows_no_content() {
    let object = || config("web", "canary");
    let (script, source) = Scripted::<ConfigMap>::new();
    let scripted = format!("{source:?} {script:?}");
    let builder = Informer::builder(source);
    let built = format!("{builder:?}");
    let mut running = run(builder.build());
    script.list([object()]).await.expect("runs");
    let envelope = running.events.next_envelope().await.expect("runs");
    let clone = envelope.clone();
    let erased: Arc<dyn ErasedObject> = Arc::new(object());
    let service = tower::service_fn(|_: Request<Body>| {
        std::future::pending::<Result<Response<Body>, std::convert::Infallible>>()
    });
    let api = Api::<ConfigMap>::all(Client::new(service, "default"));
    let list_watch = ListWatch::new(api).labels("app=web").expect("a selector");
    let index = Index::new(|config: &ConfigMap| config.data.clone()?.remove("value"));
    let metrics = InformerMetrics::new(None).expect("no namespace");
    let lazy = LazyObject::from(Arc::new(object()));
    for (shown, expected) in [
        (scripted, "Scripted { .. } Script { .. }"),
        (built, r#"InformerBuilder { resource: "scripted", resync: "#),
        (
            format!("{:?}", running.informer),
            r#"resource: "scripted", store: Store { len: 1, "#,
        ),
        (
            format!("{:?}", running.events),
            "Subscription { has_synced: false, ",
        ),
        (
            format!("{:?}", running.events.resync_handle()),
            "ResyncHandle { ",
        ),
        (
            format!("{clone:?}"),
            "EventEnvelope { event: CREATE web, from_list: true, ",
        ),
        (
            format!("{:?}", envelope.into_erased_pinned()),
            "EventEnvelope { event: CREATE web, from_list: true, ",
        ),
        (format!("{erased:?}"), "ErasedObject(web)"),
        (format!("{lazy:?}"), "LazyObject(web)"),
        (
            format!("{:?}", IncomingObject::from(lazy.clone())),
            "IncomingObject(web)",
        ),
        (
            format!("{list_watch:?}"),
            r#"ListWatch { requests: Requests { url: "/api/v1/configmaps", labels: Some("app=web"), "#,
        ),
        (format!("{index:?}"), "Index { .. }"),
        (format!("{metrics:?}"), "InformerMetrics { .. }"),
        (format!("{:?}", Change::Unchanged(lazy)), "Unchanged web"),
        (
            format!("{:?}", Change::Applied(IncomingObject::from(object()))),
            "Applied web",
        ),
    ] {
        assert!(shown.contains(expected), "{shown}");
        assert!(!shown.contains("canary"), "{shown}");
    }
}
