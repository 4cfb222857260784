//! The stored form of objects: JSON, and decoded objects in a bounded cache.

use std::{
    collections::HashSet,
    sync::{
        Arc, Weak,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use k8s_openapi::api::core::v1::ConfigMap;
use kube::{Api, Client};
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};
use windlass_informer::{
    Event, Index, Informer, ListWatch, ObjectIdentity as _, ObjectKey, RawObject, Store,
};

use crate::{
    server::{Answer, Server},
    text::{END, added, deleted, list, modified},
    wire::{Wire, within_a_day},
};

/// Rows: BO-45
#[tokio::test(start_paused = true)]
async fn an_object_that_was_read_stays_decoded() {
    let wire = many([]).await;
    let first = wire.read("o-0");
    wire.read_others();
    let again = first.upgrade().expect("it is in the cache");
    assert!(Arc::ptr_eq(&again, &wire.get("o-0")));
}

/// Rows: BO-45
#[tokio::test(start_paused = true)]
async fn repeated_reads_of_the_whole_store_keep_no_more_decoded_than_the_cache_allows() {
    const CACHE: usize = 16 * 1024;
    let wire = many_in(CACHE, []).await;
    let often = wire.read("o-0");
    let mut read = Vec::new();
    for _ in 0..5 {
        for number in 0..MANY {
            read.push(wire.read(&format!("o-{number}")));
            wire.read("o-0");
        }
    }
    let decoded: HashSet<_> = (read.iter().filter_map(Weak::upgrade))
        .map(|object| Arc::as_ptr(&object))
        .collect();
    let least = decoded.len() * size_of::<ConfigMap>();
    assert!(
        (1..=CACHE).contains(&least),
        "{} are decoded",
        decoded.len()
    );
    assert!(often.ptr_eq(&wire.read("o-0")), "it is read most often");
}

/// Rows: BO-45
#[tokio::test(start_paused = true)]
async fn without_a_cache_no_object_stays_decoded() {
    let wire = many_in(0, []).await;
    for _ in 0..3 {
        assert!(wire.read("o-0").upgrade().is_none());
    }
    assert_eq!(value(&wire.get("o-0")), "1");
}

/// Rows: BO-45
#[tokio::test(start_paused = true)]
async fn a_later_state_of_a_cached_object_is_cached() {
    let updates = [modified("o-0", 1000, "2"), modified("o-1", 1001, "2")];
    let version = Answer::json(200, &list("999", &[]));
    let mut wire = many([version, Answer::lines(updates).then_hang()]).await;
    let before = wire.read("o-0");
    let mut objects = Vec::new();
    while objects.len() < 2 {
        let event = wire.next().await;
        let Event::Updated { new, .. } = event else {
            panic!("not an update: {event:?}");
        };
        objects.push(Arc::downgrade(&new));
    }
    assert!(before.upgrade().is_none(), "the later state replaces it");
    assert!(
        objects[0].ptr_eq(&wire.read("o-0")),
        "it is not decoded again"
    );
    assert_eq!(value(&wire.get("o-0")), "2");
    assert!(objects[1].upgrade().is_none(), "it was not read");
}

/// Rows: BO-45
#[tokio::test(start_paused = true)]
async fn a_state_that_was_replaced_or_deleted_leaves_the_cache() {
    let changes = [modified("o-0", 1000, "2"), deleted("o-0", 1001)];
    let version = Answer::json(200, &list("999", &[]));
    let mut wire = many([version, Answer::lines(changes).then_hang()]).await;
    wire.read("o-0");
    let Event::Updated { old, new } = wire.next().await else {
        panic!("not an update");
    };
    let before = Arc::downgrade(&old.get().expect("it has decoded"));
    assert!(before.upgrade().is_none(), "no reader of the store gets it");
    let cached = Arc::downgrade(&new);
    drop(new);
    let Event::Deleted { last, .. } = wire.next().await else {
        panic!("not a delete");
    };
    assert!(cached.upgrade().is_none(), "the store has no object");
    drop(last);
}

/// All events of a [`RawObject`](windlass_informer::RawObject), those that the store repeats too.
#[tokio::test(start_paused = true)]
async fn raw_objects_are_replayed_resynced_indexed_and_reported_as_missed() {
    let server = Server::new([
        Answer::lines([added("a", 1, "7"), added("b", 2, "8"), END.to_owned()]),
        Answer::lines([crate::text::error(410, "Expired")]),
        Answer::lines([added("a", 1, "7"), END.replace("10", "20")]).then_hang_for_good(),
    ]);
    let api = Api::<ConfigMap>::default_namespaced(Client::new(server.clone(), "default"));
    let by_value = Index::new(|raw: &RawObject<ConfigMap>| {
        let object = raw.get().ok()?;
        object.data.as_ref()?.get("value").cloned()
    });
    let informer = Informer::builder(ListWatch::new(api).seed(7).raw())
        .resync(Duration::from_secs(100))
        .index(&by_value)
        .build();
    let mut events = informer.subscribe();
    let _running = AbortOnDropHandle::new(tokio::spawn({
        let informer = informer.clone();
        async move { informer.run(CancellationToken::new()).await }
    }));
    let mut seen = Vec::new();
    while seen.len() < 5 {
        seen.push(text(within_a_day(events.next()).await));
    }
    let expected = ["added a", "added b", "synced", "missed b", "resynced a"];
    assert_eq!(seen, expected);
    let mut late = informer.subscribe();
    assert_eq!(text(within_a_day(late.next()).await), "added a");
    assert_eq!(text(within_a_day(late.next()).await), "synced");
    let found = informer.store().by(&by_value, "7").expect("declared");
    assert_eq!(found.len(), 1);
    assert!(
        informer
            .store()
            .by(&by_value, "8")
            .expect("declared")
            .is_empty()
    );
}

/// Without subscribers no decoded object is kept for them.
#[tokio::test(start_paused = true)]
async fn raw_objects_are_indexed_without_subscribers() {
    let server = Server::new([Answer::lines(first_list(2)).then_hang_for_good()]);
    let api = Api::<ConfigMap>::default_namespaced(Client::new(server.clone(), "default"));
    let by_name = Index::new(|raw: &RawObject<ConfigMap>| raw.get().ok()?.metadata.name.clone());
    let informer = Informer::builder(ListWatch::new(api).seed(7).raw())
        .index(&by_name)
        .build();
    let _running = AbortOnDropHandle::new(tokio::spawn({
        let informer = informer.clone();
        async move { informer.run(CancellationToken::new()).await }
    }));
    informer.synced().await.expect("it runs");
    let found = informer.store().by(&by_name, "o-1").expect("declared");
    assert_eq!(found.len(), 1);
}

fn text(event: Option<Event<RawObject<ConfigMap>>>) -> String {
    match event.expect("the informer runs") {
        Event::Added(object) => format!("added {}", object.name()),
        Event::Updated { new, .. } => format!("updated {}", new.name()),
        Event::Deleted { last, missed: true } => format!("missed {}", last.name()),
        Event::Deleted { last, .. } => format!("deleted {}", last.name()),
        Event::Resynced(object) => format!("resynced {}", object.name()),
        _ => "synced".to_owned(),
    }
}

/// A long list must not stop the other tasks of its thread.
#[tokio::test(start_paused = true)]
async fn an_asynchronous_list_lets_other_tasks_continue() {
    let wire = many([]).await;
    let store = wire.informer.store();
    let (listed, turns) = beside_another_task(store.list_async()).await;
    assert_eq!(sorted_keys(&listed), all_keys(&store));
    assert!(turns >= MANY / 32, "{turns} turns of the other task");
}

/// All objects can be under one value of an index.
#[tokio::test(start_paused = true)]
async fn an_asynchronous_read_of_an_index_lets_other_tasks_continue() {
    let server = Server::new([Answer::lines(first_list(MANY)).then_hang_for_good()]);
    let api = Api::<ConfigMap>::default_namespaced(Client::new(server.clone(), "default"));
    let by_kind = Index::new(|_: &ConfigMap| Some("a config map"));
    let informer = Informer::builder(ListWatch::new(api).seed(7))
        .index(&by_kind)
        .build();
    let _running = AbortOnDropHandle::new(tokio::spawn({
        let informer = informer.clone();
        async move { informer.run(CancellationToken::new()).await }
    }));
    informer.synced().await.expect("it runs");
    let store = informer.store();
    let (found, turns) = beside_another_task(store.by_async(&by_kind, "a config map")).await;
    assert_eq!(sorted_keys(&found.expect("declared")), all_keys(&store));
    assert!(turns >= MANY / 32, "{turns} turns of the other task");
    let other = Index::new(|_: &ConfigMap| Some("a config map"));
    assert!(store.by_async(&other, "a config map").await.is_err());
}

/// Waits for `read`. Also returns how often another task of the thread had its turn meanwhile.
async fn beside_another_task<T>(read: impl Future<Output = T>) -> (T, usize) {
    let turns = Arc::new(AtomicUsize::new(0));
    let other = AbortOnDropHandle::new(tokio::spawn({
        let turns = Arc::clone(&turns);
        async move {
            loop {
                turns.fetch_add(1, Ordering::Relaxed);
                tokio::task::yield_now().await;
            }
        }
    }));
    let result = read.await;
    drop(other);
    (result, turns.load(Ordering::Relaxed))
}

fn sorted_keys(objects: &[Arc<ConfigMap>]) -> Vec<ObjectKey> {
    let mut keys: Vec<_> = objects.iter().map(|it| it.key()).collect();
    keys.sort();
    keys
}

fn all_keys(store: &Store<ConfigMap>) -> Vec<ObjectKey> {
    let mut keys = store.keys();
    keys.sort();
    keys
}

/// Rows: BO-45
#[tokio::test(start_paused = true)]
async fn a_store_configured_to_keep_objects_decoded_keeps_them() {
    let server = Server::new([Answer::lines(first_list(MANY)).then_hang_for_good()]);
    let api = Api::<ConfigMap>::default_namespaced(Client::new(server.clone(), "default"));
    let mut wire = Wire::run(ListWatch::new(api).decoded(), server);
    wire.receive(MANY + 1).await;
    let read_once = wire.read("o-0");
    wire.read_others();
    assert!(read_once.upgrade().is_some());
}

/// The identity, labels and owners of an object are available without decoding it.
#[tokio::test(start_paused = true)]
async fn inspecting_the_stored_form_does_not_decode() {
    let wire = many([]).await;
    let store = wire.informer.store();
    let kept = store.list_lazy();
    assert_eq!(kept.len(), MANY);
    for object in &kept {
        assert_eq!(object.uid(), Some(&*format!("uid-{}", object.name())));
        assert_eq!(object.metadata().name.as_deref(), Some(object.name()));
    }
    let one = store.get_lazy(&key("o-0")).expect("there");
    let read = wire.read("o-0");
    assert!(read.ptr_eq(&Arc::downgrade(&one.get().expect("it has decoded"))));
    assert!(store.get_lazy(&key("absent")).is_none());
}

/// The last state of an object whose delete no watch showed is the one that was kept.
#[tokio::test(start_paused = true)]
async fn a_deleted_object_is_delivered_in_its_stored_form() {
    let mut wire = Wire::start([
        Answer::lines([added("a", 1, "7"), added("b", 2, "8"), END.to_owned()]),
        Answer::lines([deleted("a", 11), crate::text::error(410, "Expired")]),
        Answer::lines([END.replace("10", "20")]).then_hang(),
    ]);
    assert_eq!(wire.receive(3).await, ["added a", "added b", "synced"]);
    assert_eq!(wire.receive(2).await, ["deleted a", "missed b"]);
}

const MANY: usize = 64;

/// Many objects; and when the watch has been silent for too long, `then`.
async fn many(then: impl IntoIterator<Item = Answer>) -> Wire {
    many_in(32 * 1024 * 1024, then).await
}

/// The same, with a cache of this number of bytes.
async fn many_in(cache: usize, then: impl IntoIterator<Item = Answer>) -> Wire {
    let first = Answer::lines(first_list(MANY)).then_hang();
    let server = Server::new(std::iter::once(first).chain(then)).otherwise(|asked| {
        if asked.contains("watch=true") {
            Answer::lines([]).then_hang()
        } else {
            Answer::json(200, &list("999", &[]))
        }
    });
    let api = Api::<ConfigMap>::default_namespaced(Client::new(server.clone(), "default"));
    let mut wire = Wire::run(ListWatch::new(api).seed(7).decode_cache(cache), server);
    wire.receive(MANY + 1).await;
    wire
}

fn first_list(objects: usize) -> Vec<String> {
    let objects = (0..objects).map(|number| added(&format!("o-{number}"), number + 1, "1"));
    objects.chain([END.replace("10", "999")]).collect()
}

fn key(name: &str) -> ObjectKey {
    ObjectKey::new(name).within("default")
}

impl Wire {
    fn get(&self, name: &str) -> Arc<ConfigMap> {
        let object = self.informer.store().get(&key(name));
        object.expect("it was delivered")
    }

    /// Reads an object, and keeps nothing of it.
    fn read(&self, name: &str) -> Weak<ConfigMap> {
        Arc::downgrade(&self.get(name))
    }

    /// Reads the other objects.
    fn read_others(&self) {
        for number in 2..MANY {
            self.read(&format!("o-{number}"));
        }
    }
}

fn value(object: &ConfigMap) -> &str {
    &object.data.as_ref().expect("each has data")["value"]
}
