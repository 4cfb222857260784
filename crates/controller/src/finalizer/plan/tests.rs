//! The patch for each goal and each state of an object.

use k8s_openapi::{apimachinery::pkg::apis::meta::v1::Time, jiff::Timestamp};

use super::*;

#[test]
fn the_finalizers_of_an_object_show_its_state() {
    for (shown, presence) in [
        ("", FinalizerPresence::Absent),
        ("x y", FinalizerPresence::Absent),
        ("x own.in-progress", FinalizerPresence::InProgress),
        ("old.in-progress", FinalizerPresence::InProgress),
        ("own", FinalizerPresence::Held { tidy: true }),
        ("x own y", FinalizerPresence::Held { tidy: true }),
        ("old", FinalizerPresence::Held { tidy: false }),
        ("own old", FinalizerPresence::Held { tidy: false }),
        (
            "own own.in-progress",
            FinalizerPresence::Held { tidy: false },
        ),
        ("own own", FinalizerPresence::Held { tidy: false }),
        ("ownx own.in-progressx", FinalizerPresence::Absent),
    ] {
        assert_eq!(names().presence(&meta(shown)), presence, "{shown:?}");
    }
}

#[test]
fn an_in_progress_finalizer_is_added_after_the_others_and_never_twice() {
    check(FinalizerGoal::InProgress, "", "own.in-progress");
    check(FinalizerGoal::InProgress, "x y", "x y own.in-progress");
    check(FinalizerGoal::InProgress, "x own.in-progress", "same");
    check(FinalizerGoal::InProgress, "own x", "same");
    check(FinalizerGoal::InProgress, "old", "same");
}

#[test]
fn the_finalizer_replaces_the_in_progress_finalizer_at_its_position() {
    check(FinalizerGoal::Hold, "own.in-progress", "own");
    check(FinalizerGoal::Hold, "x own.in-progress y", "x own y");
    check(FinalizerGoal::Hold, "x y", "x y own");
    check(FinalizerGoal::Hold, "own", "same");
}

#[test]
fn a_former_name_is_replaced_in_one_patch() {
    check(FinalizerGoal::Hold, "x old y", "x own y");
    check(FinalizerGoal::Hold, "old.in-progress", "own");
    check(FinalizerGoal::Hold, "old x own", "own x");
}

#[test]
fn only_our_finalizers_are_removed() {
    check(FinalizerGoal::Release, "x own y", "x y");
    check(FinalizerGoal::Release, "own", "");
    check(FinalizerGoal::Release, "own.in-progress old x", "x");
    check(FinalizerGoal::Release, "x ownx", "same");
    check(FinalizerGoal::Release, "", "same");
}

#[test]
fn a_terminating_object_gets_no_finalizer_of_ours() {
    check(FinalizerGoal::InProgress, "!", "terminating");
    check(FinalizerGoal::InProgress, "! x", "terminating");
    check(FinalizerGoal::Hold, "! own.in-progress", "terminating");
    check(FinalizerGoal::Hold, "! old", "terminating");
    check(FinalizerGoal::InProgress, "! own.in-progress", "same");
    check(FinalizerGoal::Hold, "! own old", "own");
    check(FinalizerGoal::Release, "! own x", "x");
    check(FinalizerGoal::Release, "! own.in-progress", "");
}

#[test]
fn every_patch_tests_the_uid_and_the_whole_list() {
    let PatchPlan::Write(patch) = names().plan(FinalizerGoal::InProgress, &meta("x")) else {
        panic!("there is something to write");
    };
    assert_eq!(
        serde_json::to_value(&patch).expect("plain JSON"),
        json!([
            { "op": "test", "path": "/metadata/uid", "value": "uid-1" },
            { "op": "test", "path": "/metadata/finalizers", "value": ["x"] },
            { "op": "add", "path": "/metadata/finalizers", "value": ["x", "own.in-progress"] },
        ])
    );
    assert_eq!(patch.field_manager(), "own");
    let PatchPlan::Write(patch) = names().plan(FinalizerGoal::InProgress, &meta("")) else {
        panic!("there is something to write");
    };
    assert_eq!(patch.operations()[1]["value"], Value::Null);
}

#[test]
fn a_dying_object_is_released_only_while_it_dies() {
    let PatchPlan::Write(patch) = names().plan(FinalizerGoal::Release, &meta("! own")) else {
        panic!("there is something to write");
    };
    let mark = "/metadata/deletionTimestamp";
    assert_eq!(
        patch.operations()[2],
        json!({ "op": "test", "path": mark, "value": "1970-01-01T00:00:00Z" })
    );
    let PatchPlan::Write(patch) = names().plan(FinalizerGoal::Release, &meta("own")) else {
        panic!("there is something to write");
    };
    assert_eq!(
        patch.operations()[2],
        json!({ "op": "test", "path": mark, "value": null })
    );
}

#[test]
fn an_object_without_a_uid_is_not_written() {
    let mut meta = meta("");
    meta.uid = None;
    assert_eq!(
        names().plan(FinalizerGoal::InProgress, &meta),
        PatchPlan::NoUid
    );
    assert_eq!(
        names().plan(FinalizerGoal::Release, &meta),
        PatchPlan::Nothing
    );
}

/// `shown` are the finalizers before, `!` being the mark of deletion, and `wanted` those
/// after, or what the plan is.
#[track_caller]
fn check(goal: FinalizerGoal, shown: &str, wanted: &str) {
    let plan = match names().plan(goal, &meta(shown)) {
        PatchPlan::Nothing => "same".to_owned(),
        PatchPlan::Terminating => "terminating".to_owned(),
        PatchPlan::NoUid => "no uid".to_owned(),
        PatchPlan::Write(patch) => {
            let written = patch.operations.last().expect("an operation");
            let list = written["value"].as_array().expect("a list");
            let list: Vec<_> = list.iter().map(|it| it.as_str().expect("a name")).collect();
            list.join(" ")
        }
    };
    assert_eq!(plan, wanted, "{goal:?} of {shown:?}");
}

fn names() -> Names {
    let name = |name| FinalizerName::new(name).expect("a name");
    Names {
        legacy: vec![(name("old"), name("old").in_progress())],
        ..Names::new(name("own"))
    }
}

fn meta(shown: &str) -> ObjectMeta {
    let words = || shown.split_whitespace();
    let finalizers: Vec<_> = (words().filter(|word| *word != "!"))
        .map(str::to_owned)
        .collect();
    ObjectMeta {
        uid: Some("uid-1".to_owned()),
        finalizers: (!finalizers.is_empty()).then_some(finalizers),
        deletion_timestamp: words()
            .any(|word| word == "!")
            .then_some(Time(Timestamp::UNIX_EPOCH)),
        ..ObjectMeta::default()
    }
}
