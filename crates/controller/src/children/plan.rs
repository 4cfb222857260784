//! Decides what to do with one child. *(pure)*
//!
//! ```text
//!                read: absent
//!  not in store ─────────────▶ Create
//!       │ read: present           deleted: nothing before its end
//!       ▼                      ┌▶ Terminating
//!  controlled by another ◀─────┤
//!  no controller: NotOurs, ◀───┤  desired and answer as remembered
//!  or adopted: Adopt           ├▶ Unchanged
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

/// The annotation with the digest of the desired object of children that are recreated, or updated a
/// few at a time.
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
    /// Apply it to an object that is not ours yet, at exactly this version: at a later one, another
    /// object may control it.
    Adopt(Preconditions),
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
        if has_identity(parent, kind, desired, metadata) {
            return Ok(Step::Unchanged);
        }
        let wait = remembered.and_then(|it| it.reverts.wait(now));
        return Ok(wait.map_or_else(|| Step::Restore(preconditions(version)), Step::Wait));
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
        return Ok(if is_ours {
            Step::Apply(preconditions)
        } else {
            Step::Adopt(preconditions)
        });
    }
    // Without the annotation, another strategy has written it.
    Ok(
        if is_marked(desired, metadata) || applied(metadata).is_none() {
            Step::Compare(preconditions)
        } else {
            Step::Replace(preconditions)
        },
    )
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

/// Whether the annotation of an existing child names the desired state.
pub(super) fn is_marked(desired: &Prepared, metadata: &ObjectMeta) -> bool {
    let mark = desired.mark.map(|mark| mark.to_string());
    mark.is_some() && applied(metadata) == mark.as_ref()
}

/// The annotation with the digest of the desired state that an existing child has.
fn applied(metadata: &ObjectMeta) -> Option<&String> {
    metadata.annotations.as_ref()?.get(APPLIED)
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
mod tests;
