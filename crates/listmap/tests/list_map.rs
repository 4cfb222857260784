//! The guarantees of `ListMap`, row by row, and a comparison with a simple model.

use std::{
    collections::HashMap,
    num::NonZeroUsize,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
        mpsc::{Receiver, channel},
    },
    thread,
    time::Duration,
};

use proptest::prelude::*;
use windlass_listmap::{EmptyKeys, Items, ListMap};

/// A timeout that only a deadlock reaches.
const STUCK: Duration = Duration::from_secs(30);

#[test]
fn debug_output_has_all_keys_and_items() {
    let map = ListMap::new();
    map.extend("a", [1, 2]);
    assert_eq!(format!("{map:?}"), r#"{"a": [1, 2]}"#);
    assert_eq!(format!("{:?}", map.items("a")), "[1, 2]");
}

/// Rows: GA-49
#[test]
fn threads_share_the_map_and_returned_lists_are_copies() {
    fn shared<T: Send + Sync + 'static>() {}
    shared::<ListMap<String, String>>();
    shared::<Items<String>>();

    let map = ListMap::new();
    map.extend("a", [1, 2]);
    let mut copy = map.items("a").to_vec();
    copy.push(3);
    let mut keys = map.keys();
    keys.clear();
    assert_eq!(*map.items("a"), [1, 2]);
    assert_eq!(map.keys(), ["a"]);

    let mut seen = Vec::new();
    for item in &map.items("a") {
        seen.push(*item);
    }
    assert_eq!(seen, [1, 2]);
}

/// Rows: GA-50
#[test]
fn adding_creates_the_key_and_keeps_the_order() {
    let map = ListMap::new();
    map.push("a", 1);
    map.extend("a", [2, 3]);
    map.push("a", 4);
    assert_eq!(*map.items("a"), [1, 2, 3, 4]);

    map.extend("b", []);
    assert!(!map.contains_key("b"));
    let keeping = ListMap::<_, i32>::new().empty_keys(EmptyKeys::Keep);
    keeping.extend("b", []);
    assert!(keeping.contains_key("b"));
}

/// With hundreds of keys, some share a lock of dashmap with the key whose closure waits.
///
/// Rows: GA-50
#[test]
fn a_closure_that_does_not_return_blocks_no_other_key() {
    let map = Arc::new(ListMap::new());
    for key in 0..512 {
        map.extend(key, [0, 1]);
    }
    let (inside, is_inside) = channel();
    let (release, released) = channel();
    let slow = thread::spawn({
        let map = Arc::clone(&map);
        move || {
            map.remove_first(&0, |_| {
                inside.send(()).expect("the test waits");
                wait(&released)
            })
        }
    });
    wait(&is_inside);

    let others = thread::spawn({
        let map = Arc::clone(&map);
        move || {
            for key in 1..512 {
                map.push(key, 2);
                map.remove_first(&key, |n| *n == 0);
                map.push(key + 1000, 0);
                map.remove_key(&(key + 1000));
            }
            // Also calls for the same key, and calls for all keys.
            map.push(0, 2);
            map.len() + map.keys().len()
        }
    });
    let (done, is_done) = channel();
    thread::spawn(move || done.send(others.join()));
    let sizes = is_done
        .recv_timeout(STUCK)
        .expect("a closure blocks another key");
    assert_eq!(sizes.expect("the others do not panic"), 1024);

    release.send(()).expect("the closure waits");
    assert_eq!(slow.join().expect("the closure does not panic"), Some(0));
    assert_eq!(*map.items(&0), [1, 2]);
    assert_eq!(*map.items(&511), [1, 2]);
}

/// Rows: GA-51
#[test]
fn get_returns_the_item_at_an_index_or_none() {
    let map = ListMap::new();
    map.extend("a", ["x", "y"]);
    assert_eq!(map.get("a", 1), Some("y"));
    assert_eq!(map.get("a", 2), None);
    assert_eq!(map.get("b", 0), None);
}

/// Rows: GA-52
#[test]
fn the_length_of_a_key_is_the_length_of_its_list_or_0() {
    let map = ListMap::new();
    map.extend("a", [1, 2, 3]);
    assert_eq!(map.len_of("a"), 3);
    assert_eq!(map.len_of("b"), 0);
    assert!(!map.contains_key("b"), "a read does not create a key");
}

/// Rows: GA-53
#[test]
fn keys_are_a_snapshot_that_blocks_no_writer() {
    let map = ListMap::new();
    map.push("a", 1);
    map.push("b", 1);
    let mut keys = map.keys();
    for key in &keys {
        map.remove_key(key);
        map.push("c", 1);
    }
    keys.sort_unstable();
    assert_eq!(keys, ["a", "b"]);
    assert_eq!(map.keys(), ["c"]);
}

/// Rows: GA-54
#[test]
fn a_closure_sees_each_item_in_order_despite_concurrent_changes() {
    let map = ListMap::new();
    map.extend("a", [10, 11, 12]);
    let mut seen = Vec::new();
    let mut kept = Vec::new();
    map.for_each("a", |index, item| {
        seen.push((index, *item));
        kept.push(*item);
        map.remove_at("a", 0);
        map.push("a", 99);
    });
    assert_eq!(seen, [(0, 10), (1, 11), (2, 12)]);
    assert_eq!(
        kept,
        [10, 11, 12],
        "an item in a snapshot outlives its removal"
    );
    assert_eq!(*map.items("a"), [99, 99, 99]);
    map.for_each("b", |_, _| panic!("an absent key has no items"));
}

/// Rows: GA-54
#[test]
fn a_panic_in_a_closure_leaves_the_map_unchanged() {
    let map = ListMap::new();
    map.extend("a", [1, 2]);
    let panicking = std::panic::AssertUnwindSafe(|| map.remove_first("a", |_| panic!("no")));
    assert!(std::panic::catch_unwind(panicking).is_err());
    map.push("a", 3);
    assert_eq!(*map.items("a"), [1, 2, 3]);
}

/// Rows: GA-55
#[test]
fn every_key_and_item_is_visited() {
    let map = ListMap::new();
    map.extend("a", [1, 2]);
    map.extend("b", [3]);
    let mut seen = Vec::new();
    map.for_each_of_all(|key, index, item| {
        seen.push((*key, index, *item));
        map.remove_key("a");
        map.remove_key("b");
    });
    let within = seen
        .iter()
        .filter(|(key, ..)| *key == "a")
        .collect::<Vec<_>>();
    assert_eq!(within, [&("a", 0, 1), &("a", 1, 2)]);
    seen.sort_unstable();
    assert_eq!(seen, [("a", 0, 1), ("a", 1, 2), ("b", 0, 3)]);
    assert!(map.is_empty());
}

/// Rows: GA-56
#[test]
fn the_first_match_is_removed_and_the_rest_keeps_its_order() {
    let map = ListMap::new();
    map.extend("a", [1, 2, 3, 2]);
    assert_eq!(map.remove_first("a", |n| *n == 2), Some(2));
    assert_eq!(*map.items("a"), [1, 3, 2]);
    assert_eq!(map.remove_first("a", |n| *n == 9), None);
    assert_eq!(map.remove_first("b", |_| true), None);
    assert_eq!(*map.items("a"), [1, 3, 2]);
}

/// Rows: GA-57
#[test]
fn the_item_at_an_index_is_removed_and_the_rest_moves_up() {
    let map = ListMap::new();
    map.extend("a", [1, 2, 3]);
    assert_eq!(map.remove_at("a", 1), Some(2));
    assert_eq!(*map.items("a"), [1, 3]);
    assert_eq!(map.remove_at("a", 2), None);
    assert_eq!(map.remove_at("a", usize::MAX), None);
    assert_eq!(map.remove_at("b", 0), None);
    assert_eq!(*map.items("a"), [1, 3]);
}

/// Rows: GA-58
#[test]
fn matches_are_removed_up_to_a_limit_and_all_of_them_without_one() {
    let map = ListMap::new();
    map.extend("a", [1, 0, 2, 0, 3, 0]);
    assert_eq!(map.remove_items("a", |n| *n == 0, NonZeroUsize::new(2)), 2);
    assert_eq!(*map.items("a"), [1, 2, 3, 0]);
    // `NonZeroUsize::new(0)` is `None`: no limit, as "limit < 1" in the grafana-app-sdk.
    assert_eq!(map.remove_items("a", |n| *n > 1, NonZeroUsize::new(0)), 2);
    assert_eq!(*map.items("a"), [1, 0]);
    assert_eq!(map.remove_items("a", |n| *n == 9, None), 0);
    assert_eq!(map.remove_items("b", |_| true, None), 0);
}

/// Rows: GA-59
#[test]
fn a_removed_key_goes_with_its_list() {
    let map = ListMap::new();
    map.extend("a", [1, 2]);
    map.push("b", 3);
    assert_eq!(map.remove_key("a").as_deref(), Some(&[1, 2][..]));
    assert!(map.remove_key("a").is_none());
    assert_eq!(map.len_of("a"), 0);
    assert_eq!(map.keys(), ["b"]);
}

/// Rows: GA-60
#[test]
fn its_size_is_the_number_of_its_keys() {
    let map = ListMap::new();
    assert_eq!(map.len(), 0);
    map.extend("a", [1, 2]);
    map.push("b", 3);
    assert_eq!(map.len(), 2);
    assert!(!map.is_empty());
    map.remove_key("a");
    assert_eq!(map.len(), 1);
    map.remove_key("b");
    assert!(map.is_empty());
}

/// Items that a caller holds are copied only when the list is changed.
#[test]
fn a_removal_of_an_index_that_does_not_exist_copies_nothing() {
    #[derive(Debug)]
    struct Counted(Arc<AtomicUsize>);

    impl Clone for Counted {
        fn clone(&self) -> Self {
            self.0.fetch_add(1, Ordering::Relaxed);
            Self(Arc::clone(&self.0))
        }
    }

    let copies = Arc::new(AtomicUsize::new(0));
    let map = ListMap::new();
    map.push("a", Counted(Arc::clone(&copies)));
    let held = map.items("a");
    assert!(map.remove_at("a", 1).is_none());
    assert_eq!(copies.load(Ordering::Relaxed), 0);
    assert!(map.remove_at("a", 0).is_some());
    assert_eq!(copies.load(Ordering::Relaxed), 1);
    assert_eq!(held.len(), 1);
}

#[test]
fn a_copy_of_items_has_the_same_items_and_both_print_them() {
    let map = ListMap::new();
    map.extend("a", [1, 2]);
    let items = map.items("a").clone();
    assert_eq!(*items, [1, 2]);
    assert_eq!(format!("{items:?}"), "[1, 2]");
    assert_eq!(format!("{map:?}"), r#"{"a": [1, 2]}"#);
}

/// The grafana-app-sdk keeps each key that it ever had.
#[test]
fn a_key_is_removed_with_its_last_item_by_default() {
    let map = ListMap::new();
    let keeping = ListMap::new().empty_keys(EmptyKeys::Keep);
    for map in [&map, &keeping] {
        map.push("a", 1);
        map.push("b", 1);
        map.extend("c", [1, 2]);
        map.remove_at("a", 0);
        map.remove_first("b", |_| true);
        map.remove_items("c", |_| true, None);
    }
    assert!(map.is_empty());
    assert_eq!(keeping.len(), 3);
    assert_eq!(keeping.len_of("a"), 0);
    assert!(
        keeping
            .remove_key("a")
            .is_some_and(|items| items.is_empty())
    );
    assert_eq!(keeping.len(), 2);
}

fn wait(for_it: &Receiver<()>) -> bool {
    for_it
        .recv_timeout(STUCK)
        .expect("the other thread is stuck");
    true
}

/// One call, on one of a few keys.
#[derive(Clone, Debug)]
enum Call {
    Push(u8, u8),
    Extend(u8, Vec<u8>),
    RemoveFirst(u8, u8),
    RemoveAt(u8, usize),
    RemoveItems(u8, u8, usize),
    RemoveKey(u8),
    Hold(u8),
}

fn calls() -> impl Strategy<Value = Vec<Call>> {
    let (key, item) = (0..4_u8, 0..5_u8);
    let call = prop_oneof![
        3 => (key.clone(), item.clone()).prop_map(|(k, v)| Call::Push(k, v)),
        2 => (key.clone(), prop::collection::vec(item.clone(), 0..4))
            .prop_map(|(k, v)| Call::Extend(k, v)),
        2 => (key.clone(), item.clone()).prop_map(|(k, v)| Call::RemoveFirst(k, v)),
        2 => (key.clone(), 0..5_usize).prop_map(|(k, i)| Call::RemoveAt(k, i)),
        2 => (key.clone(), item, 0..4_usize).prop_map(|(k, v, n)| Call::RemoveItems(k, v, n)),
        1 => key.clone().prop_map(Call::RemoveKey),
        1 => key.prop_map(Call::Hold),
    ];
    prop::collection::vec(call, 0..60)
}

proptest! {
    /// A `HashMap` of `Vec`s gives the expected result and state of each call. Snapshots that were
    /// held on the way are compared at the end.
    ///
    /// Rows: GA-49, GA-50, GA-51, GA-52, GA-53, GA-55, GA-56, GA-57, GA-58, GA-59, GA-60
    #[test]
    fn a_list_map_behaves_like_a_map_of_vecs(calls in calls(), keep: bool) {
        let empty_keys = if keep { EmptyKeys::Keep } else { EmptyKeys::Drop };
        let map = ListMap::new().empty_keys(empty_keys);
        let mut naive = HashMap::<u8, Vec<u8>>::new();
        let mut held = Vec::new();
        for call in calls {
            let drops_empty = !matches!(call, Call::RemoveKey(_)) && !keep;
            match call {
                Call::Push(key, item) => {
                    map.push(key, item);
                    naive.entry(key).or_default().push(item);
                }
                Call::Extend(key, items) => {
                    map.extend(key, items.clone());
                    naive.entry(key).or_default().extend(items);
                }
                Call::RemoveFirst(key, item) => {
                    let removed = naive.get_mut(&key).and_then(|list| {
                        let place = list.iter().position(|other| *other == item)?;
                        Some(list.remove(place))
                    });
                    prop_assert_eq!(map.remove_first(&key, |other| *other == item), removed);
                }
                Call::RemoveAt(key, index) => {
                    let removed = naive
                        .get_mut(&key)
                        .and_then(|list| (index < list.len()).then(|| list.remove(index)));
                    prop_assert_eq!(map.remove_at(&key, index), removed);
                }
                Call::RemoveItems(key, item, limit) => {
                    let mut removed = 0;
                    if let Some(list) = naive.get_mut(&key) {
                        list.retain(|other| {
                            let remove = *other == item && (limit == 0 || removed < limit);
                            removed += usize::from(remove);
                            !remove
                        });
                    }
                    let limit = NonZeroUsize::new(limit);
                    prop_assert_eq!(map.remove_items(&key, |other| *other == item, limit), removed);
                }
                Call::RemoveKey(key) => {
                    let removed = map.remove_key(&key).map(|items| items.to_vec());
                    prop_assert_eq!(removed, naive.remove(&key));
                }
                Call::Hold(key) => {
                    held.push((map.items(&key), naive.get(&key).cloned().unwrap_or_default()));
                }
            }
            if drops_empty {
                naive.retain(|_, list| !list.is_empty());
            }
            for key in 0..4 {
                let list = naive.get(&key).map_or(&[][..], Vec::as_slice);
                prop_assert_eq!(&*map.items(&key), list);
                prop_assert_eq!(map.len_of(&key), list.len());
                prop_assert_eq!(map.get(&key, 1), list.get(1).copied());
                prop_assert_eq!(map.contains_key(&key), naive.contains_key(&key));
            }
            prop_assert_eq!(map.len(), naive.len());
            let lists = map.lists().into_iter().map(|(key, items)| (key, items.to_vec()));
            prop_assert_eq!(lists.collect::<HashMap<_, _>>(), naive.clone());
        }
        for (items, then) in held {
            prop_assert_eq!(&*items, then);
        }
    }
}
