//! Tests of `ready.rs`.

use std::collections::HashMap;

use super::*;

#[test]
fn a_group_is_a_fifo_queue() {
    check("live a1, live a2, live a3", "a1 a2 a3");
}

#[test]
fn groups_take_turns_whatever_their_length() {
    check(
        "live a1, live a2, live a3, live b1, live c1",
        "a1 b1 c1 a2 a3",
    );
}

#[test]
fn changes_have_priority_over_retries_the_first_list_and_resyncs() {
    check("resync a1, first a2, retry a3, live a4", "a4 a3 a2 a1");
}

#[test]
fn a_lane_leaves_the_middle_of_its_queue() {
    check("live a1, live a2, live a3, remove a2", "a1 a3");
    check("live a1, live a2, remove a1", "a2");
    check("live a1, live a2, remove a2, live a3", "a1 a3");
    check("live a1, remove a1, live a2", "a2");
}

#[test]
fn many_changes_do_not_starve_lower_priorities() {
    let storm: Vec<_> = (1..=20).map(|lane| format!("live a{lane}")).collect();
    check(
        &format!("resync b1, first b2, retry b3, {}", storm.join(", ")),
        "a1 a2 a3 b3 a4 a5 a6 b2 a7 a8 a9 a10 a11 a12 a13 b1 a14 a15 a16 a17 a18 a19 a20",
    );
}

#[test]
fn an_empty_group_has_no_turn() {
    let mut ready = ReadyQueue::default();
    let (group, lane) = (SlabKey::at(7), SlabKey::at(0));
    for _ in 0..100 {
        ready.push(lane, Priority::Live, group, true);
        ready.remove(lane, Priority::Live, group);
    }
    assert_eq!(ready.pop(), None);
    assert_eq!((ready.rings[0].front, ready.rings[0].back), (None, None));
    check("live a1, remove a1, live a2, live b3, live a4", "a2 b3 a4");
}

#[test]
fn the_next_lanes_are_known_in_advance() {
    let mut ready = ReadyQueue::default();
    ready.push(SlabKey::at(99), Priority::Resync, SlabKey::at(9), true);
    for at in 0..12 {
        ready.push(SlabKey::at(at), Priority::Live, SlabKey::at(at % 3), true);
    }
    let mut coming: Vec<_> = ready.upcoming(6).collect();
    coming.sort_unstable();
    let mut next: Vec<_> = (0..6).filter_map(|_| ready.pop()).collect();
    next.sort_unstable();
    assert_eq!(coming, next);

    while ready.len() > 1 {
        ready.pop();
    }
    assert_eq!(ready.upcoming(6).count(), 1);
    ready.pop();
    assert_eq!(ready.upcoming(6).count(), 0);
}

#[test]
fn a_closed_group_has_no_turn_and_keeps_its_order() {
    let mut ready = ReadyQueue::default();
    let (shop, web) = (SlabKey::at(0), SlabKey::at(1));
    let lane = SlabKey::at;
    ready.push(lane(0), Priority::Live, shop, false);
    // The state of the first lane of a group holds for the group.
    ready.push(lane(1), Priority::Resync, shop, true);
    ready.push(lane(2), Priority::Live, shop, false);
    ready.push(lane(3), Priority::Live, web, true);
    assert_eq!((ready.len(), ready.upcoming(6).count()), (1, 1));
    assert_eq!((ready.pop(), ready.pop()), (Some(lane(3)), None));

    ready.remove(lane(0), Priority::Live, shop);
    ready.set_open(shop, true);
    ready.set_open(shop, true);
    assert_eq!(ready.len(), 2);
    assert_eq!(ready.pop(), Some(lane(2)));
    ready.set_open(shop, false);
    assert_eq!((ready.len(), ready.pop()), (0, None));
    ready.set_open(shop, true);
    assert_eq!((ready.pop(), ready.pop()), (Some(lane(1)), None));

    // A group without a lane is as its next lane says.
    ready.set_open(shop, false);
    ready.push(lane(4), Priority::Live, shop, true);
    assert_eq!((ready.len(), ready.pop()), (1, Some(lane(4))));
}

/// Runs `script`, where `a12` is lane 12 of group a, and then pops until none is left.
#[track_caller]
fn check(script: &str, popped: &str) {
    let mut ready = ReadyQueue::default();
    let mut names = HashMap::new();
    for step in script.split(", ") {
        let (verb, name) = step.split_once(' ').expect("a verb and a lane");
        let group = usize::from(name.as_bytes()[0] - b'a');
        // Numbers are used in more than one group; lanes are not.
        let lane = name[1..].parse::<usize>().expect("a number") + 100 * group;
        let (group, lane) = (SlabKey::at(group), SlabKey::at(lane));
        let priority = match verb {
            "retry" => Priority::Retry,
            "first" => Priority::FirstList,
            "resync" => Priority::Resync,
            _ => Priority::Live,
        };
        names.insert(lane, name);
        if verb == "remove" {
            ready.remove(lane, priority, group);
        } else {
            ready.push(lane, priority, group, true);
        }
    }
    let order: Vec<_> = std::iter::from_fn(|| ready.pop())
        .map(|lane| names[&lane])
        .collect();
    assert_eq!(order.join(" "), popped, "{script}");
    assert_eq!(ready.len(), 0);
}
