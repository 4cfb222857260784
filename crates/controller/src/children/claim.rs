//! Claims children by the rules of controller references: adopts, releases, and leaves alone.
//!
//! ```text
//!  controller          selected                      not selected
//!  the parent          claimed                       released
//!  another object      left alone                    left alone
//!  none                adopted, unless it is         left alone; released if it names the parent
//!                      being deleted                 in the label of children
//! ```
//!
//! A parent that is being deleted, or paused, adopts and releases nothing.
//!
//! Source: Kubernetes, `pkg/controller/controller_ref_manager.go`.

use std::sync::Arc;

use kube::api::ObjectMeta;
use serde_json::{Value, json};
use windlass_informer::{LazyObject, ObjectKey, api_request::RequestError, log};

use super::{
    CHILD, ChildError, ChildKind, ChildObject, Children, MANAGED_BY, PARENT_UID, Parent,
    identity::{controller_of, key_of, labelled_parent, managed_by},
    memory::ChildId,
    observed::Observed,
    plan::Preconditions,
    requests::is_not_found,
    selector::ParentSelector,
};

/// What to do with an object that may be a child.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Claim {
    /// It is a child.
    Claimed,
    /// It becomes a child: the parent becomes its controller.
    Adopt,
    /// It is a child no more: the parent is removed from its owners.
    Release,
    /// It is not a child.
    Leave,
}

/// How a parent claims its children.
#[derive(Debug)]
pub(crate) struct ClaimBy<'a> {
    pub(crate) selector: &'a ParentSelector,
    /// The kind of the parent, to read it before an adoption.
    pub(crate) parent: &'a ChildKind,
    /// Whether it adopts and releases: not while it is paused or being deleted.
    pub(crate) writes: bool,
}

// === impl Parent ===

impl Parent {
    fn claim(&self, kind: &ChildKind, by: &ClaimBy<'_>, metadata: &ObjectMeta) -> Claim {
        let is_selected = by.selector.matches(metadata.labels.as_ref());
        let can_own = self.can_own(metadata.namespace.as_deref());
        let named = labelled_parent(kind, metadata);
        let is_named = named.is_some_and(|(uid, _)| uid == self.uid);
        let is_controlled = match controller_of(metadata) {
            Some(controller) if controller.uid != self.uid => return Claim::Leave,
            Some(_) => true,
            // A child that cannot have an owner reference.
            None => is_named && !can_own,
        };
        match (is_controlled, is_selected) {
            (true, true) => Claim::Claimed,
            (true, false) if by.writes => Claim::Release,
            (false, false) if by.writes && is_named => Claim::Release,
            (_, false) => Claim::Leave,
            (false, true) => {
                let is_terminating = metadata.deletion_timestamp.is_some();
                let is_theirs = named.is_some_and(|(_, other)| is_elsewhere(other, metadata));
                if by.writes && can_own && !is_terminating && !is_theirs {
                    Claim::Adopt
                } else {
                    Claim::Leave
                }
            }
        }
    }

    /// The metadata that makes this parent the controller of an object.
    fn adopted(&self, metadata: &ObjectMeta) -> Value {
        let mut owners = self.other_owners(metadata);
        owners.push(self.owner_reference());
        json!({ "ownerReferences": owners })
    }

    /// The metadata without the owner reference, the labels and the annotation of a child.
    fn released(&self, kind: &ChildKind, metadata: &ObjectMeta) -> Value {
        let mut released = json!({ "ownerReferences": self.other_owners(metadata) });
        let label = |name: &str| metadata.labels.as_ref().and_then(|labels| labels.get(name));
        if label(PARENT_UID) == Some(&self.uid) {
            released["labels"][PARENT_UID] = Value::Null;
            if label(MANAGED_BY) == Some(&managed_by(&self.manager)) {
                released["labels"][MANAGED_BY] = Value::Null;
            }
        }
        let annotations = metadata.annotations.as_ref();
        let child = annotations.and_then(|annotations| annotations.get(CHILD));
        if child == Some(&self.annotation(kind, &key_of(metadata))) {
            released["annotations"][CHILD] = Value::Null;
        }
        released
    }

    fn other_owners(&self, metadata: &ObjectMeta) -> Vec<Value> {
        let owners = metadata.owner_references.iter().flatten();
        let others = owners.filter(|owner| owner.uid != self.uid);
        others
            .filter_map(|owner| serde_json::to_value(owner).ok())
            .collect()
    }
}

/// Whether the annotation of an object names `parent`, in another namespace: then its parent cannot
/// be its controller, and has it nevertheless.
fn is_elsewhere(parent: &str, metadata: &ObjectMeta) -> bool {
    let mut parts = parent.split('/').skip(1);
    match (parts.next(), parts.next()) {
        (Some(namespace), Some(_)) => metadata.namespace.as_deref() != Some(namespace),
        _ => false,
    }
}

// === impl Children ===

impl Children {
    /// Claims the `candidates`: adopts those that are selected and have no controller, releases the
    /// children that are not selected, and returns the children, in the order of the candidates.
    ///
    /// Each request names the uid and the version of the object, so that an object that has changed
    /// since, or another one with its name, is never adopted or released.
    ///
    /// # Errors
    ///
    /// [`ChildError::ParentGone`] before the first adoption, if the API server has no such parent;
    /// then it ends. Else the first error, after all candidates were tried.
    ///
    /// # Cancel safety
    ///
    /// After the future is dropped, each candidate may or may not be written. The next call continues.
    pub(crate) async fn claim<C: ChildObject>(
        &self,
        kind: &ChildKind,
        by: &ClaimBy<'_>,
        candidates: impl IntoIterator<Item = LazyObject<C>>,
    ) -> Result<Vec<Arc<C>>, ChildError> {
        let (mut claimed, mut failed) = (Vec::new(), None);
        let mut is_parent_read = false;
        for candidate in candidates {
            let metadata = candidate.metadata().into_owned();
            let ended = match self.parent.claim(kind, by, &metadata) {
                Claim::Leave => Ok(None),
                Claim::Claimed => Observed::stored(candidate).get(kind).map(Some),
                Claim::Release => self.release(kind, &metadata).await.map(|()| None),
                Claim::Adopt => {
                    if !is_parent_read {
                        self.check_parent(by.parent).await?;
                        is_parent_read = true;
                    }
                    self.adopt(kind, &metadata).await
                }
            };
            match ended {
                Ok(child) => claimed.extend(child),
                Err(error) => failed = failed.or(Some(error)),
            }
        }
        match failed {
            Some(error) => Err(error),
            None => Ok(claimed),
        }
    }

    /// Checks that the API server has the parent, and that it is not being deleted: the store can be
    /// behind, and the garbage collector deletes the children of an owner that does not exist.
    async fn check_parent(&self, kind: &ChildKind) -> Result<(), ChildError> {
        let key = self.parent.key();
        let found = self.requests(kind, key).get_metadata().await?;
        let is_there = found.is_some_and(|metadata| {
            metadata.uid.as_deref() == Some(self.parent.uid())
                && metadata.deletion_timestamp.is_none()
        });
        is_there
            .then_some(())
            .ok_or_else(|| ChildError::ParentGone {
                resource: kind.resource(),
                key: key.clone(),
            })
    }

    /// Makes the parent the controller of an object. `None` if the object does not exist any more.
    async fn adopt<C: ChildObject>(
        &self,
        kind: &ChildKind,
        metadata: &ObjectMeta,
    ) -> Result<Option<Arc<C>>, ChildError> {
        let key = key_of(metadata);
        let adopted = self.parent.adopted(metadata);
        let Some(answer) = self.merge(kind, &key, metadata, adopted).await? else {
            return Ok(None);
        };
        let decoded = Observed::<C>::answer(&answer);
        let decoded = decoded.map_err(|error| {
            let error = RequestError::Connection(error);
            self.requests(kind, &key).error("patch", error)
        })?;
        log::info!(
            component = "Controller",
            object = %self.parent.key(),
            child = %key,
            "adopted a child"
        );
        decoded.get(kind).map(Some)
    }

    /// Removes the parent from the owners of an object, and forgets it.
    async fn release(&self, kind: &ChildKind, metadata: &ObjectMeta) -> Result<(), ChildError> {
        let key = key_of(metadata);
        let released = self.parent.released(kind, metadata);
        if self.merge(kind, &key, metadata, released).await?.is_some() {
            log::info!(
                component = "Controller",
                object = %self.parent.key(),
                child = %key,
                "released a child, which the selector does not match"
            );
        }
        let resource = kind.resource();
        // Otherwise the next apply would take it back.
        self.memory.lock().forget(&ChildId { resource, key });
        Ok(())
    }

    /// Changes the metadata of exactly this version of an object. `None` if it does not exist.
    async fn merge(
        &self,
        kind: &ChildKind,
        key: &ObjectKey,
        metadata: &ObjectMeta,
        changes: Value,
    ) -> Result<Option<bytes::Bytes>, ChildError> {
        let preconditions = Preconditions {
            uid: metadata.uid.clone().unwrap_or_default(),
            version: metadata.resource_version.clone().unwrap_or_default(),
        };
        let body = preconditions.added_to(&json!({ "metadata": changes }), true);
        let requests = self.requests(kind, key);
        match requests.merge(&body).await {
            Ok(answer) => Ok(Some(answer)),
            Err(RequestError::Status(status)) if is_not_found(&status) => Ok(None),
            Err(error) => Err(requests.error("patch", error)),
        }
    }
}

#[cfg(test)]
mod tests;
