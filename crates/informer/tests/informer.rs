//! An informer as its user sees it: what it is made of, how it lives, what it tells.

use std::{
    num::NonZeroUsize,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use http::{Request, Response};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{Api, Client, ResourceExt as _, client::Body};
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};
use windlass_informer::{
    Change, Changes, DecodeError, Event, HealthState, Identity, Index, Informer, InformerError,
    ListWatch, ObjectKey, Script, Scripted, Source, Subscription, Uid, WatchError,
};

/// An informer of [`ConfigMap`] takes watchers of its events, more than one, and runs until
/// it is told to stop.
///
/// Rows: GA-19, GA-45, GA-46, CK-10
#[tokio::test(start_paused = true)]
async fn every_handler_is_told_and_the_informer_runs_until_it_is_stopped() {
    let (script, source) = Scripted::new();
    let informer = Informer::new(source);
    let (mut first, mut second) = (informer.subscribe(), informer.subscribe());
    let stop = CancellationToken::new();
    let mut running = tokio::spawn({
        let (informer, stop) = (informer.clone(), stop.clone());
        async move { informer.run(stop).await }
    });
    script.list([config("a", "1")]).await.expect("runs");
    script.apply(config("a", "2")).await.expect("runs");
    script.delete(config("a", "3")).await.expect("runs");
    for events in [&mut first, &mut second] {
        assert_eq!(
            told(events, 4).await,
            ["added a 1", "synced", "updated a 1>2", "deleted a 3"]
        );
    }
    let still = tokio::time::timeout(Duration::from_secs(3600), &mut running).await;
    assert!(still.is_err(), "it ended of itself");
    stop.cancel();
    running.await.expect("no panic").expect("told to stop");
    assert!(first.next().await.is_none(), "nothing comes after the end");
}

/// Rows: CK-08, CK-09
#[tokio::test(start_paused = true)]
async fn synced_is_said_after_the_first_whole_list_and_not_before() {
    let (script, mut running) = start();
    assert!(!running.informer.has_synced());
    assert_eq!(running.informer.last_sync_resource_version(), None);
    script.change(Change::ListStarted).await.expect("runs");
    script.apply(config("a", "1")).await.expect("runs");
    assert_eq!(told(&mut running.events, 1).await, ["added a 1"]);
    assert!(!running.informer.has_synced(), "half a list is no list");
    let ended = Change::ListEnded {
        resource_version: Some("7".to_owned()),
    };
    script.change(ended).await.expect("runs");
    running.informer.synced().await;
    assert!(running.informer.has_synced());
    assert!(
        !running.events.has_synced(),
        "the handler has not heard of it yet"
    );
    assert_eq!(told(&mut running.events, 1).await, ["synced"]);
    assert!(running.events.has_synced());
    let version = running.informer.last_sync_resource_version();
    assert_eq!(version.as_deref(), Some("7"));
}

/// Rows: GA-44, CK-16, CK-23, BO-08
#[tokio::test(start_paused = true)]
async fn the_store_and_its_indexes_can_be_read_by_anybody() {
    let by_value = Index::new(|config: &ConfigMap| config.data.clone()?.remove("value"));
    let (script, source) = Scripted::new();
    let informer = Informer::builder(source).index(&by_value).build();
    let store = informer.store();
    let mut running = run(informer);
    script
        .list([config("a", "1"), config("b", "1"), config("c", "2")])
        .await
        .expect("runs");
    told(&mut running.events, 4).await;
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
    told(&mut running.events, 2).await;
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
async fn an_index_that_panics_files_nothing_and_stops_nobody() {
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
    told(&mut running.events, 3).await;
    assert!(store.by(&fussy, "bad").expect("declared").is_empty());
    assert_eq!(store.by(&fussy, "good").expect("declared").len(), 1);
    assert_eq!(store.len(), 2);
}

/// Rows: GA-22, GA-43, BO-27
#[tokio::test(start_paused = true)]
async fn whatever_goes_wrong_is_told_to_the_error_handler_and_shown_by_the_health() {
    let problems = Arc::new(Mutex::new(Vec::new()));
    let (script, source) = Scripted::<ConfigMap>::new();
    let informer = Informer::builder(source)
        .on_error({
            let problems = Arc::clone(&problems);
            move |problem| problems.lock().expect("no panic").push(problem.to_string())
        })
        .build();
    let mut running = run(informer);
    script.list([config("a", "1")]).await.expect("runs");
    told(&mut running.events, 2).await;
    assert!(running.informer.health().is_well());

    let error = DecodeError::Syntax { line: 1, column: 2 };
    let identity = Identity {
        key: ObjectKey::new("bad").within("shop"),
        uid: Some(Uid::from("u")),
        resource_version: Some("9".to_owned()),
    };
    let bad = Change::Undecodable { identity, error };
    script.change(bad).await.expect("runs");
    let forbidden = WatchError::Forbidden {
        resource: Arc::from("configmaps"),
        verb: windlass_informer::Verb::Watch,
        message: "no".to_owned(),
    };
    script
        .interrupt(forbidden, Duration::from_secs(3))
        .await
        .expect("runs");
    let health = running
        .informer
        .until(|state| matches!(state, HealthState::Down { .. }))
        .await;
    assert_eq!(health.undecodable, [ObjectKey::new("bad").within("shop")]);
    assert!(!health.is_well());
    let text = health.to_string();
    assert!(
        text.starts_with("scripted: down, cannot watch configmaps: forbidden"),
        "{text}"
    );
    let problems = problems.lock().expect("no panic").clone();
    assert_eq!(
        problems,
        [
            "scripted shop/bad is set aside, it does not decode: not valid JSON at line 1, column 2",
            "cannot watch configmaps: forbidden (no); a Role or ClusterRole must grant `list` and \
             `watch` on configmaps; trying again in 3.0s",
        ]
    );

    // It heals.
    script.list([config("a", "1")]).await.expect("runs");
    let watching = |state: &HealthState| matches!(state, HealthState::Watching);
    assert!(running.informer.until(watching).await.is_well());
}

/// Any source of changes will do: a client of one's own lists and watches with its options.
///
/// Rows: GA-61
#[tokio::test(start_paused = true)]
async fn a_source_of_ones_own_is_as_good_as_an_api() {
    struct Fixed(Vec<ConfigMap>);

    impl Source<ConfigMap> for Fixed {
        fn resource(&self) -> String {
            "fixed".to_owned()
        }

        async fn run(self, changes: Changes<ConfigMap>) -> Result<(), WatchError> {
            let mut list = vec![Change::ListStarted];
            list.extend(self.0.into_iter().map(Arc::new).map(Change::Applied));
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
    assert_eq!(told(&mut running.events, 2).await, ["added a 1", "synced"]);
}

/// No selector is no filter, and whoever lists sees one namespace if the `Api` does.
///
/// Rows: GA-04, GA-41, GA-47
#[tokio::test(start_paused = true)]
async fn an_informer_lists_what_its_api_reaches_and_filters_nothing_unasked() {
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

#[tokio::test(start_paused = true)]
async fn an_informer_runs_once() {
    let (_script, running) = start();
    tokio::task::yield_now().await;
    let error = running.informer.run(CancellationToken::new()).await;
    assert!(
        matches!(error, Err(InformerError::AlreadyRan { .. })),
        "{error:?}"
    );
}

/// Clones are one informer; two of the same kind are two.
#[tokio::test(start_paused = true)]
async fn an_informer_is_told_apart_from_others_of_its_kind() {
    let (_script, source) = Scripted::<ConfigMap>::new();
    let (_other_script, other) = Scripted::<ConfigMap>::new();
    let informer = Informer::new(source);
    assert_eq!(informer.id(), informer.clone().id());
    assert_ne!(informer.id(), Informer::new(other).id());
}

/// A subscriber that is dropped is told nothing, and keeps nobody waiting.
#[tokio::test(start_paused = true)]
async fn what_is_asked_for_is_told_once_and_to_whom_it_is_asked_for() {
    let (script, mut running) = start();
    let mut other = running.informer.subscribe();
    let recall = running.events.recall();
    let list = [config("a", "1"), config("b", "1")];
    script.list(list).await.expect("runs");
    let there = ["added a 1", "added b 1", "synced"];
    assert_eq!(told(&mut running.events, 3).await, there);
    assert_eq!(told(&mut other, 3).await, there);

    recall.ask(["b", "gone", "a", "b"].map(ObjectKey::new));
    let again = running.events.told().await.expect("runs");
    assert!(again.recalled);
    assert_eq!(told(&mut running.events, 1).await, ["resynced a"]);
    script.apply(config("a", "2")).await.expect("runs");
    let next = running.events.told().await.expect("runs");
    assert!(!next.recalled);
    assert_eq!(told(&mut other, 1).await, ["updated a 1>2"]);
}

/// Whoever comes late is told what is there in runs, and may take it so; a run is no longer than
/// what was asked for, and nothing is told out of turn.
#[tokio::test(start_paused = true)]
async fn what_is_there_can_be_taken_in_runs() {
    for (buffer, runs) in [(1, 101), (4, 26), (256, 15)] {
        let (script, source) = Scripted::new();
        let buffer = NonZeroUsize::new(buffer).expect("not zero");
        let informer = Informer::builder(source).buffer(buffer).build();
        let mut running = run(informer);
        let names = (0..100).map(|at| format!("map-{at}"));
        let list: Vec<_> = names.map(|name| config(&name, "1")).collect();
        let tell = script.list(list);
        let take = told(&mut running.events, 101);
        let (listed, mut there) = tokio::join!(tell, take);
        listed.expect("runs");

        let mut late = running.informer.subscribe();
        let (mut run, mut taken) = (Vec::new(), Vec::new());
        while !late.has_synced() {
            assert!((1..=7).contains(&late.told_many(&mut run, 7).await));
            taken.push(run.len());
        }
        assert_eq!(*taken.last().expect("some"), 101);
        assert!(
            taken.len() >= runs,
            "{} runs of a buffer of {buffer}",
            taken.len()
        );
        let end = run.pop().expect("some").event;
        assert!(matches!(end, Event::Synced));
        let mut names: Vec<_> = (run.iter().filter_map(|told| told.event.object()))
            .map(|object| format!("added {} 1", object.name_any()))
            .collect();
        there.pop();
        there.sort();
        names.sort();
        assert_eq!(names, there);
    }
}

/// What is asked for comes after all that has happened to it, however much waits.
#[tokio::test(start_paused = true)]
async fn what_is_asked_for_is_told_in_its_turn() {
    let (script, source) = Scripted::new();
    let informer = Informer::builder(source).buffer(NonZeroUsize::MIN).build();
    let mut running = run(informer);
    let recall = running.events.recall();
    let tell = async {
        script.list([config("a", "0")]).await.expect("runs");
        for version in 1..100 {
            script
                .apply(config("a", &version.to_string()))
                .await
                .expect("runs");
        }
    };
    let take = async {
        let (mut known, mut again) = (None, 0);
        while known.as_deref() != Some("99") {
            let event = running.events.next().await.expect("runs");
            let Some(object) = event.object() else {
                continue;
            };
            let version = object.resource_version();
            if let Event::Resynced(_) = event {
                assert_eq!(version, known, "it was told before it was there");
                again += 1;
            }
            known = version;
            recall.ask([ObjectKey::new("a")]);
        }
        again
    };
    let ((), again) = tokio::join!(tell, take);
    assert!(again > 10, "changes starve what is asked for: {again}");
}

#[tokio::test(start_paused = true)]
async fn a_handler_that_leaves_keeps_nobody_waiting() {
    let (script, source) = Scripted::new();
    let informer = Informer::builder(source).buffer(NonZeroUsize::MIN).build();
    let leaver = informer.subscribe();
    let mut running = run(informer);
    let taken = AtomicUsize::new(0);
    let tell = async {
        script
            .list((0..10).map(|i| config(&format!("c{i}"), "1")))
            .await
            .expect("runs");
    };
    let take = async {
        drop(leaver);
        while taken.load(Ordering::Relaxed) < 11 {
            running.events.next().await.expect("runs");
            taken.fetch_add(1, Ordering::Relaxed);
        }
    };
    tokio::join!(tell, take);
}

/// An informer that runs, and one handler's view of it.
struct Running {
    informer: Informer<ConfigMap>,
    events: Subscription<ConfigMap>,
    _task: AbortOnDropHandle<Result<(), InformerError>>,
}

fn start() -> (Script<ConfigMap>, Running) {
    let (script, source) = Scripted::new();
    (script, run(Informer::new(source)))
}

fn run(informer: Informer<ConfigMap>) -> Running {
    let events = informer.subscribe();
    let task = tokio::spawn({
        let informer = informer.clone();
        async move { informer.run(CancellationToken::new()).await }
    });
    Running {
        informer,
        events,
        _task: AbortOnDropHandle::new(task),
    }
}

/// The next events, in words.
async fn told(events: &mut Subscription<ConfigMap>, count: usize) -> Vec<String> {
    let version = |config: &ConfigMap| config.resource_version().unwrap_or_default();
    let mut told = Vec::new();
    while told.len() < count {
        told.push(match events.next().await.expect("the informer runs") {
            Event::Added(object) => format!("added {} {}", object.name_any(), version(&object)),
            Event::Updated { old, new } => {
                format!(
                    "updated {} {}>{}",
                    new.name_any(),
                    version(&old),
                    version(&new)
                )
            }
            Event::Deleted { last, missed } => {
                let how = if missed { "missed" } else { "deleted" };
                format!("{how} {} {}", last.name_any(), version(&last))
            }
            Event::Resynced(object) => format!("resynced {}", object.name_any()),
            _ => "synced".to_owned(),
        });
    }
    told
}

fn config(name: &str, version: &str) -> ConfigMap {
    let mut config = ConfigMap::default();
    config.metadata.name = Some(name.to_owned());
    config.metadata.uid = Some(format!("uid-{name}"));
    config.metadata.resource_version = Some(version.to_owned());
    config.data = Some([("value".to_owned(), version.to_owned())].into());
    config
}
