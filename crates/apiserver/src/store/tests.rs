//! Tests of the store: lists at earlier revisions, and the limits of the history.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;
use serde_json::json;

use super::{Change, Expired, HistoryLimits, Key, Store, Table};

fn table() -> Table {
    Arc::from("pods")
}

/// Creates a store that keeps `writes` writes of each resource, without limits of size and age.
fn keeping(writes: usize) -> Store {
    Store::new(HistoryLimits {
        writes,
        bytes: usize::MAX,
        age: Duration::MAX,
    })
}

fn write(store: &mut Store, name: &str, data: u32) {
    store.put(
        &table(),
        &Key::new("default", name),
        json!({ "metadata": {}, "d": data }),
        0,
    );
}

#[test]
fn one_counter_serves_all_resources() {
    let mut store = keeping(10);
    write(&mut store, "a", 1);
    store.put(&Arc::from("nodes"), &Key::new("", "n"), json!({}), 0);
    write(&mut store, "a", 2);
    assert_eq!(store.revision(), 3);
    let events = store
        .events_after("pods", 0, 10)
        .expect("nothing is forgotten");
    let found: Vec<_> = events
        .iter()
        .map(|event| (event.revision, event.change))
        .collect();
    assert_eq!(found, [(1, Change::Added), (3, Change::Modified)]);
}

#[test]
fn a_delete_event_has_the_last_state_and_the_revision_of_the_deletion() {
    let mut store = keeping(10);
    write(&mut store, "a", 7);
    let last = store
        .remove(&table(), &Key::new("default", "a"))
        .expect("it was there");
    assert_eq!(last.value()["d"], 7);
    assert_eq!(last.value()["metadata"]["resourceVersion"], "2");
    assert!(store.remove(&table(), &Key::new("default", "a")).is_none());
    assert_eq!(store.revision(), 2, "a removal of nothing writes nothing");
}

#[test]
fn keys_are_ordered_as_texts_and_never_equal_by_their_text_alone() {
    let key = Key::new;
    let mut keys = [
        key("a", "x"),
        key("a-b", "x"),
        key("", "x"),
        key("a", "b/c"),
        key("a/b", "c"),
    ];
    keys.sort();
    let text: Vec<_> = keys
        .iter()
        .map(|key| format!("{}|{}", key.namespace, key.name))
        .collect();
    assert_eq!(text, ["|x", "a-b|x", "a|b/c", "a/b|c", "a|x"]);
    assert_ne!(
        key("a", "b/c").cmp(&key("a/b", "c")),
        std::cmp::Ordering::Equal
    );
}

#[test]
fn compaction_affects_only_later_reads() {
    let mut store = keeping(10);
    for data in 0..4 {
        write(&mut store, "a", data);
    }
    store.compact(3);
    assert_eq!(store.remembers("pods", 2), Err(Expired { oldest: 3 }));
    assert_eq!(store.remembers("pods", 3), Ok(()));
    assert!(
        store.events_after("pods", 1, 10).is_ok(),
        "a running watch continues"
    );
    store.compact(99);
    assert_eq!(
        store.remembers("pods", 4),
        Ok(()),
        "the present is never forgotten"
    );
}

#[test]
fn a_full_log_drops_the_oldest_events() {
    let mut store = keeping(2);
    for data in 0..4 {
        write(&mut store, "a", data);
    }
    assert_eq!(
        store.events_after("pods", 1, 10).map(|events| events.len()),
        Err(Expired { oldest: 2 })
    );
    assert_eq!(
        store.events_after("pods", 2, 10).map(|events| events.len()),
        Ok(2)
    );
}

#[test]
fn the_history_is_bounded_by_its_bytes_over_all_resources() {
    let limit = 200_000;
    let mut store = Store::new(HistoryLimits {
        writes: 100_000,
        bytes: limit,
        age: Duration::MAX,
    });
    let nodes: Table = Arc::from("nodes");
    store.put(&nodes, &Key::new("", "n"), json!({ "metadata": {} }), 0);
    store.put(&nodes, &Key::new("", "n"), json!({ "metadata": {} }), 0);
    for data in 0..288 {
        let value = json!({ "metadata": {}, "text": "x".repeat(10_000), "d": data });
        store.put(&table(), &Key::new("default", "a"), value, 0);
        assert!(store.history_bytes() <= limit, "{}", store.history_bytes());
    }
    let kept = store.log_length("pods");
    assert!((5..12).contains(&kept), "{kept} events of 20 KB");
    assert_eq!(store.remembers("nodes", 1), Err(Expired { oldest: 2 }));
    assert_eq!(store.objects("pods").count(), 1, "what is current stays");
}

#[test]
fn the_history_is_bounded_by_its_age() {
    let mut store = Store::new(HistoryLimits {
        writes: 100,
        bytes: usize::MAX,
        age: Duration::from_secs(60),
    });
    write(&mut store, "a", 1);
    store.advance(Duration::from_secs(60));
    write(&mut store, "a", 2);
    assert_eq!(store.remembers("pods", 0), Ok(()));
    store.advance(Duration::from_secs(61));
    assert_eq!(store.remembers("pods", 0), Err(Expired { oldest: 1 }));
    assert_eq!(store.remembers("pods", 1), Ok(()));
    store.advance(Duration::from_secs(1));
    assert_eq!(store.remembers("pods", 1), Ok(()), "time never goes back");
    store.advance(Duration::from_secs(121));
    assert_eq!(store.history_bytes(), 0, "a deleted history takes nothing");
}

#[test]
fn events_that_were_dropped_for_their_number_take_no_memory() {
    let mut store = keeping(2);
    store.put(&Arc::from("nodes"), &Key::new("", "n"), json!({}), 0);
    for data in 0..10_000 {
        write(&mut store, "a", data);
    }
    assert!(store.order_length() < 2_000, "{}", store.order_length());
    assert_eq!(
        store.remembers("nodes", 0),
        Ok(()),
        "the other log is whole"
    );
}

proptest! {
    /// The state at a revision does not change with later writes.
    #[test]
    fn an_earlier_revision_is_read_unchanged(script in proptest::collection::vec((0..5_u8, 0..3_u32), 0..40)) {
        let mut store = keeping(100);
        let mut past = vec![BTreeMap::new()];
        for (name, data) in script {
            let name = name.to_string();
            if data == 0 {
                store.remove(&table(), &Key::new("default", &name));
            } else {
                write(&mut store, &name, data);
            }
            if store.revision() == past.len() as u64 {
                past.push(
                    store
                        .objects("pods")
                        .map(|(key, object)| (key.clone(), object.value().clone()))
                        .collect::<BTreeMap<_, _>>(),
                );
            }
        }
        for (revision, expected) in past.iter().enumerate() {
            let starts = expected.keys().map(|key| Bound::Excluded(key.clone()));
            for start in starts.chain([Bound::Unbounded]) {
                let then = store.objects_at("pods", revision as u64, start.clone());
                let then = then.map_err(|_| ()).expect("nothing is forgotten");
                let then: Vec<_> = then.map(|(key, object)| (key, object.value())).collect();
                let expected: Vec<_> = expected.range((start, Bound::Unbounded)).collect();
                prop_assert_eq!(then, expected);
            }
        }
    }
}
