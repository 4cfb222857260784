//! Decides what to do with one child. *(pure)*
//!
//! ```text
//!                read: absent
//!  not in store ─────────────▶ Create
//!       │ read: present           deleted: nothing before its end
//!       ▼                      ┌▶ Terminating
//!  controlled by another ◀─────┤
//!  no controller: NotOurs, ◀───┤  desired and answer as remembered
//!  or adopted: Apply           ├▶ Unchanged
//!                              │  reverted too often
//!                              ├▶ Wait
//!                              └▶ Apply, Replace, Compare or Restore, by strategy
//! ```

use std::time::Duration;

use kube::api::ObjectMeta;
use tokio::time::Instant;

use super::{
    ChildError, ChildKind, Parent, UpdateStrategy,
    desired::Prepared,
    digest::Digest,
    identity::Ownership,
    memory::{AnswerDigests, ChildMemory, Remembered},
};

/// The annotation with the digest of the desired object of children that are recreated.
pub(super) const APPLIED: &str = "windlass.dev/applied";

/// What to do with a child.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Read it from the API server, and plan again: the store does not have it.
    Read,
    /// Apply it. It does not exist.
    Create,
    /// Apply it to the existing object, with these preconditions.
    Apply(Preconditions),
    /// Delete it with these preconditions, and create it afterwards.
    Replace(Preconditions),
    /// Compare it with the result of an apply that is not executed, and replace it if they differ.
    Compare(Preconditions),
    /// Restore its labels and owner, with these preconditions.
    Restore(Preconditions),
    /// Nothing: it is as desired.
    Unchanged,
    /// Nothing: it is being deleted.
    Terminating,
    /// Nothing for this time: another writer reverts our changes.
    Wait(Duration),
}

/// The state of the object that a request was planned for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Preconditions {
    pub(super) uid: String,
    pub(super) version: String,
}

/// What is known of an existing child.
pub(super) struct ExistingChild<'a> {
    pub(super) metadata: &'a ObjectMeta,
    /// The digest of the object, for comparison with the digest of this form that is remembered.
    pub(super) digest: &'a dyn Fn() -> Result<(DigestForm, Digest), ChildError>,
}

/// The form in which a store has an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DigestForm {
    Json,
    Decoded,
    Metadata,
}

/// Decides the next step for `desired`. `was_read` says whether the existing child was just read
/// from the API server.
pub(super) fn plan(
    parent: &Parent,
    kind: &ChildKind,
    desired: &Prepared,
    existing: Option<&ExistingChild<'_>>,
    remembered: Option<&Remembered>,
    was_read: bool,
    now: Instant,
) -> Result<Step, ChildError> {
    let same_desired = remembered.filter(|it| it.desired == desired.digest);
    let wait = same_desired.and_then(|it| it.reverts.wait(now));
    let Some(existing) = existing else {
        return match wait {
            _ if !was_read => Ok(Step::Read),
            None => Ok(Step::Create),
            Some(wait) => Err(ChildError::Contended {
                resource: kind.resource(),
                key: desired.key.clone(),
                wait,
            }),
        };
    };
    let metadata = existing.metadata;
    let uid = metadata.uid.clone().unwrap_or_default();
    let version = metadata.resource_version.clone().unwrap_or_default();
    let remembered = remembered.filter(|remembered| remembered.uid == uid);
    let is_ours = check_ownership(parent, kind, desired, metadata, remembered.is_some())?;
    if metadata.deletion_timestamp.is_some() {
        return Ok(Step::Terminating);
    }
    let preconditions = |version: String| Preconditions {
        uid: uid.clone(),
        version,
    };
    if desired.strategy == UpdateStrategy::OnDelete {
        return Ok(if has_identity(parent, kind, desired, metadata) {
            Step::Unchanged
        } else {
            Step::Restore(preconditions(version))
        });
    }
    // A state from before our last write counts as the response to that write.
    let is_stale = remembered.is_some_and(|it| ChildMemory::is_newer(it, &uid, &version));
    let version = match remembered {
        Some(remembered) if is_stale => remembered.version.clone(),
        _ => version,
    };
    if let Some(remembered) = remembered.filter(|_| same_desired.is_some() && is_ours) {
        let is_known = is_stale || remembered.version == version;
        if is_known || remembered.answer.has((existing.digest)()?) {
            return Ok(Step::Unchanged);
        }
    }
    if let Some(wait) = wait {
        return Ok(Step::Wait(wait));
    }
    let preconditions = preconditions(version);
    if desired.strategy != UpdateStrategy::Recreate {
        return Ok(Step::Apply(preconditions));
    }
    let applied = (metadata.annotations.as_ref()).and_then(|it| it.get(APPLIED));
    Ok(if applied == Some(&desired.digest.to_string()) {
        Step::Compare(preconditions)
    } else {
        Step::Replace(preconditions)
    })
}

/// Whether the existing object is a child of the parent. False if it is to be adopted.
///
/// An object that we have written is ours, even if another writer has removed its labels and its
/// owner, but not if another object controls it now.
fn check_ownership(
    parent: &Parent,
    kind: &ChildKind,
    desired: &Prepared,
    metadata: &ObjectMeta,
    is_remembered: bool,
) -> Result<bool, ChildError> {
    match parent.ownership(kind, metadata) {
        Ownership::Ours => Ok(true),
        Ownership::Uncontrolled if is_remembered => Ok(true),
        Ownership::Uncontrolled if desired.is_adopted => Ok(false),
        Ownership::Uncontrolled => Err(ChildError::NotOurs {
            resource: kind.resource(),
            key: desired.key.clone(),
        }),
        Ownership::Controlled { by } => Err(ChildError::Controlled {
            resource: kind.resource(),
            key: desired.key.clone(),
            by: windlass_informer::one_line(&by).into_owned(),
        }),
    }
}

/// Whether an existing child has the labels, the annotation and the owner of a child.
fn has_identity(
    parent: &Parent,
    kind: &ChildKind,
    desired: &Prepared,
    metadata: &ObjectMeta,
) -> bool {
    let wanted = &desired.body["metadata"];
    let labels = metadata.labels.as_ref();
    let annotations = metadata.annotations.as_ref();
    let has_label = |name: &str| {
        let label = labels.and_then(|labels| labels.get(name));
        label.map(String::as_str) == wanted["labels"][name].as_str()
    };
    let annotation = parent.annotation(kind, &desired.key);
    let owners = metadata.owner_references.iter().flatten();
    let is_owned = owners
        .filter(|owner| owner.controller == Some(true))
        .any(|owner| owner.uid == parent.uid);
    has_label(super::identity::PARENT_UID)
        && has_label(super::identity::MANAGED_BY)
        && annotations.and_then(|it| it.get(super::identity::CHILD)) == Some(&annotation)
        && (is_owned || !parent.can_own(desired.key.namespace()))
}

// === impl AnswerDigests ===

impl AnswerDigests {
    /// Whether the object had this digest, in this form.
    fn has(&self, (form, digest): (DigestForm, Digest)) -> bool {
        digest
            == match form {
                DigestForm::Json => self.json,
                DigestForm::Decoded => self.decoded,
                DigestForm::Metadata => self.metadata,
            }
    }
}

#[cfg(test)]
mod tests {
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
            let metadata: Option<ObjectMeta> = self.existing.as_ref().map(|object| {
                serde_json::from_value(object["metadata"].clone()).expect("metadata")
            });
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
        Case::of(stranger(&json!({}))).check("configmaps shop/blog exists already and has no");
        Case::of(stranger(&json!({})))
            .wants(desired().adopt())
            .check("apply s at 3");
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
        let digest = recreate().prepare(&parent(), &kind).expect("valid").digest;
        let applied = json!({ "metadata": { "annotations": { APPLIED: digest.to_string() } } });
        let marked = || with(ours("6"), &applied);
        Case::of(Some(ours("6")))
            .wants(recreate())
            .check("replace c at 6");
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
}
