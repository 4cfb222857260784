//! Many interleavings of small programs that use a `ListMap`, checked with shuttle.
//!
//! This test compiles the files of the map again, with the locks of `shuttle` instead of those of
//! `parking_lot`, and with a table whose keys share one lock, the worst case of hashing. shuttle
//! reports a lock that is never released as a deadlock, and prints the schedule.

#![expect(
    unreachable_pub,
    dead_code,
    reason = "the public items of the library are private here, and the test does not use all"
)]

#[path = "../src/list.rs"]
mod list;
#[path = "../src/list_map.rs"]
mod list_map;
#[path = "../src/slot.rs"]
mod slot;
#[path = "model/sync.rs"]
mod sync;
#[path = "model/table.rs"]
mod table;

use std::{num::NonZeroUsize, sync::Arc};

use shuttle::{
    sync::{Barrier, mpsc::channel},
    thread,
};

use crate::list_map::{EmptyKeys, ListMap};

/// The number of schedules for each program. It takes a second, and was enough to find each defect
/// that we planted.
const SCHEDULES: usize = 2000;

/// Rows: GA-50
#[test]
fn a_slow_closure_blocks_no_other_call() {
    check(|| {
        let map = Arc::new(ListMap::new());
        map.push("a", 1);
        map.push("b", 1);

        // A closure on "a" waits for the other thread, which works on other keys and on "a".
        let (done, wait) = channel();
        let other = thread::spawn({
            let map = Arc::clone(&map);
            move || {
                map.push("b", 2);
                map.push("c", 3);
                map.remove_first("b", |n| *n == 1);
                map.remove_key("c");
                map.push("a", 2);
                assert_eq!((map.len_of("a"), map.len_of("b")), (2, 1));
                done.send(()).expect("the closure waits");
            }
        });
        let removed = map.remove_first("a", |_| {
            wait.recv()
                .expect("the other thread sends a message at its end");
            true
        });
        assert_eq!(removed, Some(1));
        other.join().expect("the other thread does not panic");
        assert_eq!(*map.items("a"), [2]);
        assert_eq!(*map.items("b"), [2]);
        assert_eq!(map.len(), 2);
    });
}

/// Rows: GA-49, GA-54
#[test]
fn two_closures_can_wait_for_each_other() {
    check(|| {
        let map = Arc::new(ListMap::new());
        map.push("a", 1);
        map.push("b", 1);
        let both = Arc::new(Barrier::new(2));
        let threads = ["a", "b"].map(|key| {
            let (map, both) = (Arc::clone(&map), Arc::clone(&both));
            thread::spawn(move || {
                map.for_each(key, |_, item| {
                    both.wait();
                    // Also for the same key.
                    map.push(key, item + 1);
                });
            })
        });
        for thread in threads {
            thread.join().expect("no closure panics");
        }
        assert_eq!(
            (&*map.items("a"), &*map.items("b")),
            (&[1, 2][..], &[1, 2][..])
        );
    });
}

/// Rows: GA-50
#[test]
fn items_of_one_call_are_adjacent() {
    check(|| {
        let map = Arc::new(ListMap::new());
        let threads = [[1, 2], [3, 4], [5, 6]].map(|items| {
            let map = Arc::clone(&map);
            thread::spawn(move || map.extend("a", items))
        });
        for thread in threads {
            thread.join().expect("adding does not panic");
        }
        let mut pairs = map
            .items("a")
            .chunks(2)
            .map(<[i32]>::to_vec)
            .collect::<Vec<_>>();
        pairs.sort_unstable();
        assert_eq!(pairs, [[1, 2], [3, 4], [5, 6]]);
    });
}

/// Rows: GA-50, GA-56
#[test]
fn an_item_added_while_its_key_is_removed_is_not_lost() {
    check(|| {
        let map = Arc::new(ListMap::new());
        map.push("a", 0);
        let adds = [1, 2].map(|item| {
            let map = Arc::clone(&map);
            thread::spawn(move || map.push("a", item))
        });
        let removes = thread::spawn({
            let map = Arc::clone(&map);
            move || map.remove_first("a", |n| *n == 0)
        });
        assert_eq!(removes.join().expect("removing does not panic"), Some(0));
        for add in adds {
            add.join().expect("adding does not panic");
        }
        let mut items = map.items("a").to_vec();
        items.sort_unstable();
        assert_eq!(items, [1, 2]);
        assert_eq!(map.len(), 1);
    });
}

/// Rows: GA-49, GA-59
#[test]
fn a_removed_key_is_absent_for_all_methods() {
    check(|| {
        let map = Arc::new(ListMap::new());
        map.extend("a", [1, 2]);
        let remove = thread::spawn({
            let map = Arc::clone(&map);
            move || map.remove_key("a").map(|items| items.to_vec())
        });
        if map.len_of("a") == 0 {
            assert!(!map.contains_key("a"));
            assert!(map.keys().is_empty());
            assert_eq!(map.len(), 0);
            assert!(map.lists().is_empty());
        }
        assert_eq!(
            remove.join().expect("removing does not panic"),
            Some(vec![1, 2])
        );
    });
}

/// Rows: GA-49, GA-56
#[test]
fn each_item_is_removed_by_exactly_one_caller_and_each_caller_removes_one() {
    check(|| {
        let map = Arc::new(ListMap::new().empty_keys(EmptyKeys::Keep));
        map.extend("a", [1, 2, 3]);
        let threads = [(); 3].map(|()| {
            let map = Arc::clone(&map);
            thread::spawn(move || map.remove_first("a", |_| true))
        });
        let mut removed = threads
            .map(|thread| thread.join().expect("removing does not panic"))
            .to_vec();
        removed.sort_unstable();
        assert_eq!(removed, [Some(1), Some(2), Some(3)]);
        assert_eq!(map.keys(), ["a"]);
    });
}

/// Rows: GA-49, GA-58
#[test]
fn remove_all_removes_the_items_that_exist_at_its_end() {
    check(|| {
        let map = Arc::new(ListMap::new());
        map.extend("a", [1, 2]);
        let add = thread::spawn({
            let map = Arc::clone(&map);
            move || map.push("a", 3)
        });
        let limit = NonZeroUsize::new(3);
        let removed = map.remove_items("a", |_| true, limit);
        add.join().expect("adding does not panic");
        assert_eq!(removed + map.len_of("a"), 3);
        assert_eq!(map.get("a", 0), (removed == 2).then_some(3));
    });
}

/// Runs `program` with many schedules. If one fails, shuttle prints its seed.
fn check(program: impl Fn() + Send + Sync + 'static) {
    let program = Arc::new(program);
    let again = Arc::clone(&program);
    shuttle::check_random(move || again(), SCHEDULES);
    shuttle::check_pct(move || program(), SCHEDULES, 3);
}
