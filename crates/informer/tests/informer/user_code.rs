//! Panics of user code: those of functions do not end the informer, and those of index values end it
//! with an error that names their type.

use std::{
    hash::{Hash, Hasher},
    num::NonZeroUsize,
    panic::panic_any,
    sync::{
        Arc, Mutex, OnceLock,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use k8s_openapi::api::core::v1::ConfigMap;
use kube::ResourceExt as _;
use tokio_util::sync::CancellationToken;
use windlass_informer::{
    Index, Informer, InformerError, Scripted, Verb, WatchError, WatchErrorCause,
};

use crate::running::{config, receive, run, within_a_day};

/// A payload that panics again when it is dropped.
struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        panic!("dropped");
    }
}

#[tokio::test(start_paused = true)]
async fn a_panic_in_the_error_handler_does_not_stop_the_informer() {
    let handlers: [fn(); 2] = [|| panic!("no"), || panic_any(Bomb)];
    for handler in handlers {
        let (script, source) = Scripted::<ConfigMap>::new();
        let informer = Informer::builder(source).on_error(move |_| handler());
        let mut running = run(informer.build());
        let silent = WatchError::new(
            "configmaps",
            Verb::Watch,
            WatchErrorCause::Silent {
                limit: Duration::from_secs(1),
            },
        );
        let wait = Duration::from_secs(1);
        within_a_day(script.interrupt(silent, wait))
            .await
            .expect("runs");
        let list = [config("a", "1")];
        within_a_day(script.list(list)).await.expect("runs");
        assert_eq!(
            receive(&mut running.events, 2).await,
            ["added a 1", "synced"]
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_panic_in_an_index_function_does_not_stop_the_informer() {
    let by_name = Index::new(|config: &ConfigMap| {
        if config.name_any() == "bomb" {
            panic_any(Bomb);
        }
        assert_ne!(config.name_any(), "bad");
        Some(config.name_any())
    });
    let (script, source) = Scripted::new();
    let informer = Informer::builder(source).index(&by_name).build();
    let store = informer.store();
    let mut running = run(informer);
    let list = ["bad", "bomb", "good"].map(|name| config(name, "1"));
    within_a_day(script.list(list)).await.expect("runs");
    receive(&mut running.events, 4).await;
    for (name, found) in [("bad", 0), ("bomb", 0), ("good", 1)] {
        assert_eq!(store.by(&by_name, name).expect("declared").len(), found);
    }
    assert_eq!(store.len(), 3);
}

/// An index value that cannot be hashed.
#[derive(Clone, PartialEq, Eq)]
struct Unhashable;

impl Hash for Unhashable {
    fn hash<H: Hasher>(&self, _: &mut H) {
        panic!("no hash");
    }
}

#[tokio::test(start_paused = true)]
async fn an_index_value_whose_hash_panics_ends_the_informer_with_its_type() {
    let index = Index::new(|_: &ConfigMap| Some(Unhashable));
    let (script, source) = Scripted::new();
    let informer = Informer::builder(source).index(&index).build();
    let running = tokio::spawn(async move { informer.run(CancellationToken::new()).await });
    // Fails if the informer has ended before it has taken everything.
    _ = script.list([config("a", "1")]).await;
    let ended = running.await.expect("no panic");
    let error = ended.expect_err("it cannot continue");
    assert!(matches!(error, InformerError::Panicked { .. }));
    let text = error.to_string();
    let type_name = std::any::type_name::<Unhashable>();
    assert!(text.contains(type_name), "{text}");
    assert!(text.contains("no hash"), "{text}");
}

/// An index value that cannot be hashed while `CANNOT_HASH` is set.
#[derive(Clone, PartialEq, Eq)]
struct SometimesUnhashable;

static CANNOT_HASH: AtomicBool = AtomicBool::new(true);

impl Hash for SometimesUnhashable {
    fn hash<H: Hasher>(&self, _: &mut H) {
        assert!(!CANNOT_HASH.load(Ordering::SeqCst), "no hash");
    }
}

/// The store has the object at which the index failed.
#[tokio::test(start_paused = true)]
async fn an_informer_that_is_run_again_after_a_panic_has_complete_indexes() {
    let index = Index::new(|_: &ConfigMap| Some(SometimesUnhashable));
    let (script, source) = Scripted::new();
    let informer = Informer::builder(source).index(&index).build();
    let running = tokio::spawn(informer.run(CancellationToken::new()));
    // Fails if the informer has ended before it has taken everything.
    _ = script.list([config("a", "1")]).await;
    running
        .await
        .expect("no panic")
        .expect_err("it cannot continue");
    CANNOT_HASH.store(false, Ordering::SeqCst);

    let mut again = run(informer.clone());
    let list = [config("a", "1")];
    within_a_day(script.list(list)).await.expect("runs");
    assert_eq!(receive(&mut again.events, 2).await, ["added a 1", "synced"]);
    let found = informer.store().by(&index, &SometimesUnhashable);
    assert_eq!(found.expect("declared").len(), 1);
}

/// A reader of the version finds the change in the store: the version is that of the change before,
/// while the store takes the change. The function of an index is called then.
#[tokio::test(start_paused = true)]
async fn the_version_advances_after_the_store() {
    let informer = Arc::new(OnceLock::<Informer<ConfigMap>>::new());
    let versions = Arc::new(Mutex::new(Vec::new()));
    let (of, seen) = (Arc::clone(&informer), Arc::clone(&versions));
    let index = Index::new(move |_: &ConfigMap| {
        let version = of.get()?.last_sync_resource_version();
        seen.lock().expect("no panic").push(version);
        None::<String>
    });
    let (script, source) = Scripted::new();
    let built = Informer::builder(source).index(&index).build();
    informer.set(built.clone()).expect("set once");
    let mut events = built.subscribe();
    let stop = CancellationToken::new();
    let running = tokio::spawn({
        let (informer, stop) = (built.clone(), stop.clone());
        async move { informer.run(stop).await }
    });
    script.list([]).await.expect("it runs");
    script.apply(config("a", "7")).await.expect("it runs");
    script.apply(config("a", "8")).await.expect("it runs");
    for _ in ["synced", "added", "updated"] {
        events.next().await.expect("it runs");
    }
    assert_eq!(built.last_sync_resource_version().as_deref(), Some("8"));
    let seen = std::mem::take(&mut *versions.lock().expect("no panic"));
    assert!(!seen.contains(&Some("8".to_owned())), "{seen:?}");
    stop.cancel();
    running.await.expect("no panic").expect("it stops");
}

#[test]
fn a_buffer_can_have_any_size() {
    let (_script, source) = Scripted::<ConfigMap>::new();
    let informer = Informer::builder(source).buffer(NonZeroUsize::MAX).build();
    drop(informer.subscribe());
}
