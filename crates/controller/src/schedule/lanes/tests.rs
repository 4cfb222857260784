//! Tests of `lanes.rs`.

use windlass_informer::ObjectKey;

use super::{super::lane::Offer, *};

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
fn a_lane_whose_priority_rises_is_taken_once() {
    check("first a1, first a2, first a3, live a2", "a2 a1 a3");
    check("first a1, live a1, live b1, live a2", "a1 b1 a2");
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
    check("live a1, remove a1, live a2, live b3, live a4", "a2 b3 a4");
    let mut lanes = Lanes::default();
    for _ in 0..100 {
        step(&mut lanes, "live a1");
        step(&mut lanes, "remove a1");
    }
    assert!(lanes.groups.is_empty() && !lanes.has_ready());
    assert!(lanes.take().is_none());
}

#[test]
fn a_closed_kind_has_no_turn_and_keeps_its_order() {
    let mut lanes = Lanes::default();
    let (shop, web) = (kind("a"), kind("b"));
    lanes.set_gate(Some(shop), false);
    for it in ["live a0", "resync a1", "live a2", "live b3"] {
        step(&mut lanes, it);
    }
    assert_eq!(lanes.ready(), 1);
    assert_eq!(take(&mut lanes).as_deref(), Some("b3"));
    assert_eq!(take(&mut lanes), None);

    step(&mut lanes, "remove a0");
    lanes.set_gate(Some(shop), true);
    lanes.set_gate(Some(shop), true);
    assert_eq!(lanes.ready(), 2);
    assert_eq!(take(&mut lanes).as_deref(), Some("a2"));
    lanes.set_gate(Some(shop), false);
    assert_eq!((lanes.ready(), take(&mut lanes)), (0, None));
    lanes.set_gate(Some(web), false);
    lanes.set_gate(Some(shop), true);
    assert_eq!(take(&mut lanes).as_deref(), Some("a1"));
    assert_eq!(take(&mut lanes), None);
}

#[test]
fn a_kind_is_open_unless_it_or_all_are_closed() {
    let (shop, web) = (kind("a"), kind("b"));
    let mut lanes = Lanes::<(), ()>::default();
    let open = |lanes: &Lanes<_, _>| (lanes.rings.is_open(shop), lanes.rings.is_open(web));
    assert_eq!(open(&lanes), (true, true));
    lanes.set_gate(None, false);
    lanes.set_gate(Some(shop), false);
    assert_eq!(open(&lanes), (false, false));
    lanes.set_gate(None, true);
    assert_eq!(open(&lanes), (false, true));
    lanes.set_gate(Some(shop), true);
    assert_eq!(open(&lanes), (true, true));
}

#[test]
fn memory_is_released_after_all_lanes_were_removed() {
    let mut lanes = Lanes::default();
    for at in 0..10_000 {
        step(&mut lanes, &format!("live a{at}"));
    }
    for at in 1..10_000 {
        step(&mut lanes, &format!("remove a{at}"));
    }
    assert_eq!(lanes.slab.len(), 1);
    step(&mut lanes, "remove a0");
    assert_eq!((lanes.slab.capacity(), lanes.by_name.capacity()), (0, 0));
}

/// Runs `script`, where `a12` is lane 12 of group a, and then takes all lanes.
#[track_caller]
fn check(script: &str, taken: &str) {
    let mut lanes = Lanes::default();
    for it in script.split(", ") {
        step(&mut lanes, it);
    }
    let order: Vec<_> = std::iter::from_fn(|| take(&mut lanes)).collect();
    assert_eq!(order.join(" "), taken, "{script}");
    assert_eq!(lanes.ready(), 0);
    assert!(lanes.groups.is_empty());
}

/// Adds an event to a lane, or removes all of its events.
fn step(lanes: &mut Lanes<(), ()>, step: &str) {
    let (verb, name) = step.split_once(' ').expect("a verb and a lane");
    let priority = match verb {
        "retry" => Priority::Retry,
        "first" => Priority::FirstList,
        "resync" => Priority::Resync,
        _ => Priority::Live,
    };
    let offer = Offer::new(priority, ());
    let key = LaneKey {
        kind: kind(name),
        object: ObjectKey::new(name),
    };
    let lane = lanes.enter(key);
    lanes.change(lane, |lane| match verb {
        "remove" => while lane.pop().is_some() {},
        _ => lane.push(offer),
    });
}

/// Takes the next lane, and finishes it.
fn take(lanes: &mut Lanes<(), ()>) -> Option<String> {
    let id = lanes.take()?;
    let key = lanes.key(id);
    lanes.change(id, |lane| {
        while lane.pop().is_some() {}
        lane.phase = Phase::Idle;
    });
    Some(key.object.name().to_owned())
}

/// Each group is a kind of its own.
fn kind(name: &str) -> KindId {
    KindId(u32::from(name.as_bytes()[0]))
}
