//! Computes finalizer patches. *(pure)*
//!
//! Only our finalizers are changed, and only if the object has not changed meanwhile: each patch
//! tests the uid and the whole list of finalizers first.

use kube::api::ObjectMeta;
use serde::Serialize;
use serde_json::{Value, json};

use super::{FinalizerChange, FinalizerName};

/// A conditional change of the finalizers of one object, as a JSON patch.
///
/// It tests the uid and the list of finalizers, and then replaces the list. If it releases an
/// object, it also tests the deletion mark: an object that is marked meanwhile has to be cleaned up,
/// and in a server that was restored from a backup a marked object may not be marked. If a test
/// fails, the server rejects the whole patch with 422 or 409.
///
/// It serializes as the list of operations of RFC 6902.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(transparent)]
pub struct FinalizerPatch(Vec<Value>);

/// The names of our finalizers.
#[derive(Clone, Debug)]
pub(crate) struct Names {
    pub(crate) own: FinalizerName,
    pub(crate) in_progress: FinalizerName,
    /// Names of earlier versions of the operator, each with its in-progress form.
    pub(crate) legacy: Vec<(FinalizerName, FinalizerName)>,
}

/// Which of our finalizers an object has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FinalizerPresence {
    /// None.
    Absent,
    /// The in-progress finalizer: the object may have been added, and this process does not know.
    InProgress,
    /// The finalizer: the object has been added.
    Held {
        /// Whether it has exactly this one of ours: no legacy and no in-progress finalizer.
        tidy: bool,
    },
}

/// Which of our finalizers an object should have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FinalizerGoal {
    /// At least the in-progress finalizer.
    InProgress,
    /// Only the finalizer.
    Hold,
    /// None.
    Release,
}

impl FinalizerGoal {
    pub(crate) const fn change(self) -> FinalizerChange {
        match self {
            Self::InProgress | Self::Hold => FinalizerChange::Add,
            Self::Release => FinalizerChange::Remove,
        }
    }
}

/// The result of the computation.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum PatchPlan {
    /// The object is as requested.
    Nothing,
    /// Send this patch.
    Write(FinalizerPatch),
    /// The object is marked for deletion, and gets no new finalizer.
    Terminating,
    /// The object has no uid, so it does not come from a server.
    NoUid,
}

// === impl Names ===

impl Names {
    pub(crate) fn new(own: FinalizerName) -> Self {
        Self {
            in_progress: own.in_progress(),
            own,
            legacy: Vec::new(),
        }
    }

    /// Also treats `name`, an earlier name of the finalizer, as ours.
    pub(crate) fn add_legacy(&mut self, name: FinalizerName) {
        if name != self.own {
            let in_progress = name.in_progress();
            self.legacy.push((name, in_progress));
        }
    }

    /// All names, the own one first.
    pub(crate) fn all(&self) -> impl Iterator<Item = &FinalizerName> {
        let legacy = self.legacy.iter();
        let legacy = legacy.flat_map(|(name, in_progress)| [name, in_progress]);
        [&self.own, &self.in_progress].into_iter().chain(legacy)
    }

    pub(crate) fn is_ours(&self, finalizer: &str) -> bool {
        self.is_final(finalizer) || self.is_progress(finalizer)
    }

    fn is_final(&self, finalizer: &str) -> bool {
        finalizer == self.own.as_str()
            || (self.legacy.iter()).any(|(legacy, _)| legacy.as_str() == finalizer)
    }

    fn is_progress(&self, finalizer: &str) -> bool {
        finalizer == self.in_progress.as_str()
            || (self.legacy.iter()).any(|(_, progress)| progress.as_str() == finalizer)
    }

    /// Which of our finalizers the object with `meta` has.
    pub(crate) fn presence(&self, meta: &ObjectMeta) -> FinalizerPresence {
        let ours = || (finalizers(meta).iter()).filter(|it| self.is_ours(it));
        if ours().any(|it| self.is_final(it)) {
            let tidy = ours().eq([self.own.as_str()]);
            FinalizerPresence::Held { tidy }
        } else if ours().next().is_some() {
            FinalizerPresence::InProgress
        } else {
            FinalizerPresence::Absent
        }
    }

    /// Computes the patch for `goal` from `meta`.
    pub(crate) fn plan(&self, goal: FinalizerGoal, meta: &ObjectMeta) -> PatchPlan {
        let shown = finalizers(meta);
        let wanted = self.wanted(goal, meta);
        if wanted == shown {
            return PatchPlan::Nothing;
        }
        let terminating = meta.deletion_timestamp.is_some();
        if terminating && wanted.iter().any(|it| !shown.contains(it)) {
            return PatchPlan::Terminating;
        }
        let Some(uid) = &meta.uid else {
            return PatchPlan::NoUid;
        };
        // A `test` compares an absent list with null, and not with an empty list. Servers omit
        // empty lists.
        let shown = if shown.is_empty() {
            Value::Null
        } else {
            json!(shown)
        };
        let mut operations = vec![
            json!({ "op": "test", "path": "/metadata/uid", "value": uid }),
            json!({ "op": "test", "path": "/metadata/finalizers", "value": shown }),
        ];
        if goal == FinalizerGoal::Release {
            // An absent mark is null.
            let (path, marked) = ("/metadata/deletionTimestamp", &meta.deletion_timestamp);
            operations.push(json!({ "op": "test", "path": path, "value": marked }));
        }
        operations.push(json!({ "op": "add", "path": "/metadata/finalizers", "value": wanted }));
        PatchPlan::Write(FinalizerPatch(operations))
    }

    /// The requested finalizers. Those of other writers keep their order.
    fn wanted(&self, goal: FinalizerGoal, meta: &ObjectMeta) -> Vec<String> {
        let shown = finalizers(meta);
        let ours = match goal {
            FinalizerGoal::InProgress if self.presence(meta) != FinalizerPresence::Absent => {
                return shown.to_vec();
            }
            FinalizerGoal::InProgress => Some(&self.in_progress),
            FinalizerGoal::Hold => Some(&self.own),
            FinalizerGoal::Release => None,
        };
        let place = (shown.iter()).position(|it| self.is_ours(it));
        let mut wanted: Vec<_> = (shown.iter().filter(|it| !self.is_ours(it)).cloned()).collect();
        if let Some(ours) = ours {
            // Only other writers' finalizers precede the first of ours, so its position stays.
            wanted.insert(place.unwrap_or(wanted.len()), ours.to_string());
        }
        wanted
    }

    /// The finalizers of other writers.
    pub(crate) fn foreign<'a>(&self, meta: &'a ObjectMeta) -> Vec<&'a str> {
        let foreign = finalizers(meta).iter().filter(|it| !self.is_ours(it));
        foreign.map(String::as_str).collect()
    }
}

/// The finalizers of an object.
fn finalizers(meta: &ObjectMeta) -> &[String] {
    meta.finalizers.as_deref().unwrap_or_default()
}

// === impl FinalizerPatch ===

impl FinalizerPatch {
    /// A patch without operations, which returns the current object.
    #[doc(hidden)]
    #[must_use]
    pub const fn empty() -> Self {
        Self(Vec::new())
    }

    /// The operations, in order.
    #[must_use]
    pub fn operations(&self) -> &[Value] {
        &self.0
    }
}

#[cfg(test)]
mod tests {
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
            PatchPlan::Write(FinalizerPatch(operations)) => {
                let written = operations.last().expect("an operation");
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
}
