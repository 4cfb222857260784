//! Tests of `plan.rs`.

use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::{Value, json};

use super::*;
use crate::children::{Desired, digest, memory::Reverts};

/// One row of the table: what exists, what is remembered, and the step.
struct Case {
    existing: Option<Value>,
    remembered: Option<(&'static str, &'static str)>,
    desired: Desired<ConfigMap>,
    was_read: bool,
}

const ANSWER: &str = "same";

fn parent() -> Parent {
    let mut map = ConfigMap::default();
    map.metadata.name = Some("blog".into());
    map.metadata.namespace = Some("shop".into());
    map.metadata.uid = Some("u-1".into());
    Parent::of(&map, &(), "websites").expect("it has a uid")
}

fn desired() -> Desired<ConfigMap> {
    Desired::json(json!({ "data": { "a": "b" } }))
}

/// An object that we created, with `uid` `c`.
fn ours(version: &str) -> Value {
    let kind = ChildKind::of::<ConfigMap>(&());
    let mut body = desired().prepare(&parent(), &kind).expect("valid").body;
    body["metadata"]["uid"] = "c".into();
    body["metadata"]["resourceVersion"] = version.into();
    body
}

fn with(mut object: Value, change: &Value) -> Value {
    json_patch::merge(&mut object, change);
    object
}

impl Case {
    fn of(existing: impl Into<Option<Value>>) -> Self {
        Self {
            existing: existing.into(),
            remembered: None,
            desired: desired(),
            was_read: false,
        }
    }

    /// Remembers a response to the same desired object with uid `c`: its version, and its data.
    fn remembers(self, version: &'static str, data: &'static str) -> Self {
        Self {
            remembered: Some((version, data)),
            ..self
        }
    }

    fn wants(self, desired: Desired<ConfigMap>) -> Self {
        Self { desired, ..self }
    }

    fn step(self) -> Result<Step, ChildError> {
        let (parent, kind) = (parent(), ChildKind::of::<ConfigMap>(&()));
        let ours = desired().prepare(&parent, &kind).expect("valid");
        let prepared = self.desired.prepare(&parent, &kind)?;
        let json = |object: &Value| digest::of_fields(object, &prepared.body);
        let remembered = self.remembered.map(|(version, data)| {
            let mut answer = ours.body.clone();
            if data != ANSWER {
                answer["data"]["a"] = data.into();
            }
            Remembered {
                uid: "c".into(),
                desired: ours.digest,
                answer: AnswerDigests {
                    json: json(&answer),
                    decoded: Digest::of(&Value::Null),
                    metadata: Digest::of(&Value::Null),
                },
                version: version.into(),
                reverts: Reverts::default(),
            }
        });
        let metadata: Option<ObjectMeta> = self
            .existing
            .as_ref()
            .map(|object| serde_json::from_value(object["metadata"].clone()).expect("metadata"));
        let digest = || Ok((DigestForm::Json, json(self.existing.as_ref().expect("it"))));
        let existing = metadata.as_ref().map(|metadata| ExistingChild {
            metadata,
            digest: &digest,
        });
        plan(
            &parent,
            &kind,
            &prepared,
            existing.as_ref(),
            remembered.as_ref(),
            self.was_read,
            Instant::now(),
        )
    }

    #[track_caller]
    fn check(self, expected: &str) {
        let step = match self.step() {
            Ok(Step::Apply(it)) => format!("apply {} at {}", it.uid, it.version),
            Ok(Step::Adopt(it)) => format!("adopt {} at {}", it.uid, it.version),
            Ok(Step::Replace(it)) => format!("replace {} at {}", it.uid, it.version),
            Ok(Step::Compare(it)) => format!("compare {} at {}", it.uid, it.version),
            Ok(Step::Restore(it)) => format!("restore {} at {}", it.uid, it.version),
            Ok(other) => format!("{other:?}").to_lowercase(),
            Err(error) => error.to_string(),
        };
        assert!(step.starts_with(expected), "{step:?}, not {expected:?}");
    }
}

#[test]
fn an_absent_child_is_read_before_it_is_created() {
    Case::of(None::<Value>).check("read");
    Case::of(None::<Value>).remembers("5", ANSWER).check("read");
    let read = Case {
        was_read: true,
        ..Case::of(None::<Value>)
    };
    read.check("create");
}

/// Rows: RO-11, BO-13
#[test]
fn only_a_changed_field_that_we_set_or_a_new_desire_is_applied() {
    // Nothing is remembered: fields that an earlier program set must go.
    Case::of(Some(ours("5"))).check("apply c at 5");
    Case::of(Some(ours("5")))
        .remembers("5", "other")
        .check("unchanged");
    Case::of(Some(ours("6")))
        .remembers("5", ANSWER)
        .check("unchanged");
    Case::of(with(ours("6"), &json!({ "data": { "theirs": "x" } })))
        .remembers("5", ANSWER)
        .check("unchanged");
    Case::of(with(ours("6"), &json!({ "data": { "a": "x" } })))
        .remembers("5", ANSWER)
        .check("apply c at 6");
    Case::of(Some(ours("5")))
        .remembers("5", ANSWER)
        .wants(Desired::json(json!({ "data": {} })))
        .check("apply c at 5");
}

#[test]
fn a_state_from_before_our_last_write_is_not_acted_on() {
    let stale = with(ours("4"), &json!({ "data": { "a": "x" } }));
    Case::of(stale.clone())
        .remembers("5", ANSWER)
        .check("unchanged");
    let changed = Case::of(stale)
        .remembers("5", ANSWER)
        .wants(Desired::json(json!({ "data": { "a": "c" } })));
    changed.check("apply c at 5");
}

/// Rows: RO-41
#[test]
fn a_child_that_is_being_deleted_is_left_alone() {
    let marked = json!({ "metadata": { "deletionTimestamp": "2026-11-25T00:00:00Z" } });
    Case::of(with(ours("6"), &marked)).check("terminating");
    Case::of(with(ours("6"), &marked))
        .wants(desired().strategy(UpdateStrategy::OnDelete))
        .check("terminating");
}

/// Rows: RO-39
#[test]
fn an_object_of_others_is_never_changed() {
    let stranger = |more: &Value| {
        let object = json!({
            "metadata": { "namespace": "shop", "name": "blog", "uid": "s", "resourceVersion": "3" },
        });
        with(object, more)
    };
    let controlled = json!({ "metadata": { "ownerReferences": [{
        "apiVersion": "v1", "kind": "Shop", "name": "other", "uid": "u-2", "controller": true,
    }] } });
    Case::of(stranger(&json!({}))).check("configmaps shop/blog exists already and was not changed");
    Case::of(stranger(&json!({})))
        .wants(desired().adopt())
        .check("adopt s at 3");
    Case::of(stranger(&controlled)).check("configmaps shop/blog belongs to Shop other");
    Case::of(stranger(&controlled))
        .wants(desired().adopt())
        .check("configmaps shop/blog belongs to Shop other");
}

/// Rows: RO-26
#[test]
fn a_child_without_its_labels_and_owner_is_ours_while_it_is_remembered() {
    let lost = json!({ "metadata": {
        "labels": null, "annotations": null, "ownerReferences": null,
    } });
    Case::of(with(ours("6"), &lost))
        .remembers("5", ANSWER)
        .check("apply c at 6");
    Case::of(with(ours("6"), &lost)).check("configmaps shop/blog exists already");
    let part = json!({ "metadata": { "labels": { "app.kubernetes.io/managed-by": null } } });
    Case::of(with(ours("6"), &part))
        .remembers("5", ANSWER)
        .check("apply c at 6");
}

/// Rows: RO-25
#[test]
fn a_strategy_decides_how_a_changed_child_is_written() {
    let desired = |strategy| desired().strategy(strategy);
    let on_delete = || desired(UpdateStrategy::OnDelete);
    let changed = json!({ "data": { "a": "x" } });
    Case::of(with(ours("6"), &changed))
        .wants(on_delete())
        .check("unchanged");
    let lost = json!({ "metadata": { "labels": null } });
    Case::of(with(ours("6"), &lost))
        .wants(on_delete())
        .check("restore c at 6");

    let recreate = || desired(UpdateStrategy::Recreate);
    let kind = ChildKind::of::<ConfigMap>(&());
    let mark = recreate().prepare(&parent(), &kind).expect("valid").mark;
    let mark = mark.expect("it has one").to_string();
    let marked_by = |mark: &str| {
        let applied = json!({ "metadata": { "annotations": { APPLIED: mark } } });
        with(ours("6"), &applied)
    };
    let marked = || marked_by(&mark);
    Case::of(Some(marked_by("of another state")))
        .wants(recreate())
        .check("replace c at 6");
    // Written with another strategy.
    Case::of(Some(ours("6")))
        .wants(recreate())
        .check("compare c at 6");
    Case::of(Some(marked()))
        .wants(recreate())
        .check("compare c at 6");
    Case::of(Some(marked()))
        .wants(recreate())
        .remembers("6", ANSWER)
        .check("unchanged");
    Case::of(with(marked(), &changed))
        .wants(recreate())
        .remembers("5", ANSWER)
        .check("compare c at 6");
}
