//! Deletes children: one, or all that are not desired any more.

use kube::api::ObjectMeta;
use windlass_informer::{LazyObject, ObjectIdentity as _, ObjectKey, api_request::RequestError};

use super::{
    ChildError, ChildKind, ChildObject, Children,
    identity::{Ownership, is_kept, key_of},
    memory::ChildId,
    requests::{ObjectRequests, is_not_found},
};

/// The result of a delete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deleted {
    /// The object was deleted, or is marked for deletion and goes when its finalizers are removed.
    Deleted,
    /// The object did not exist any more. Another one may have its name.
    AlreadyGone,
    /// Nothing was sent, because the parent is paused.
    Skipped,
}

/// The result of a prune.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct Pruned {
    /// The children that were deleted.
    pub deleted: Vec<ObjectKey>,
}

// === impl Children ===

impl Children {
    /// Deletes the object with the uid in `metadata`, and no other object of its name.
    ///
    /// # Errors
    ///
    /// [`ChildError::Controlled`] or [`ChildError::NotOurs`] if it is not a child of the parent; the
    /// error of the request.
    pub async fn delete(
        &self,
        kind: &ChildKind,
        metadata: &ObjectMeta,
    ) -> Result<Deleted, ChildError> {
        let key = key_of(metadata);
        let id = ChildId {
            resource: kind.resource(),
            key: key.clone(),
        };
        let uid = metadata.uid.clone().unwrap_or_default();
        match self.ownership(kind, metadata) {
            Ownership::Ours => {}
            Ownership::Uncontrolled => {
                let resource = kind.resource();
                return Err(ChildError::NotOurs { resource, key });
            }
            Ownership::Controlled { by } => {
                let resource = kind.resource();
                return Err(ChildError::Controlled { resource, key, by });
            }
        }
        let deleted = self.delete_uid(kind, &key, &uid, None).await?;
        self.memory.lock().forget(&id);
        Ok(deleted)
    }

    /// Deletes those of the `stored` objects that are children of the parent and that `is_desired`
    /// does not accept. Leaves those that are being deleted, and those with the annotation
    /// `windlass.dev/keep`.
    ///
    /// A child that was changed since `stored` was read is a conflict.
    ///
    /// # Errors
    ///
    /// The first error, after all children were tried, except for further ones of a namespace in which
    /// the permission to delete is missing.
    pub async fn prune<C: ChildObject>(
        &self,
        kind: &ChildKind,
        stored: impl IntoIterator<Item = LazyObject<C>>,
        is_desired: impl Fn(&ObjectKey) -> bool,
    ) -> Result<Pruned, ChildError> {
        let (mut pruned, mut failed) = (Pruned::default(), None);
        let mut forbidden: Vec<Option<String>> = Vec::new();
        for child in stored {
            let (key, metadata) = (child.key(), child.metadata());
            let is_forbidden = || forbidden.iter().any(|it| it.as_deref() == key.namespace());
            if is_desired(&key) || !self.is_prunable(kind, &metadata) || is_forbidden() {
                continue;
            }
            let uid = metadata.uid.clone().unwrap_or_default();
            let version = metadata.resource_version.as_deref();
            match self.delete_uid(kind, &key, &uid, version).await {
                Ok(Deleted::Deleted) => pruned.deleted.push(key),
                Ok(Deleted::AlreadyGone | Deleted::Skipped) => {}
                Err(error) => {
                    if matches!(error, ChildError::Forbidden { verb: "delete", .. }) {
                        forbidden.push(key.namespace().map(str::to_owned));
                    }
                    failed = failed.or(Some(error));
                }
            }
        }
        let resource = kind.resource();
        self.memory.lock().retain(&resource, is_desired);
        match failed {
            Some(error) => Err(error),
            None => Ok(pruned),
        }
    }

    /// Deletes the child with this key: the `stored` one or, if the store does not have it, that of
    /// an earlier call. If there is neither and `reads`, it is read from the API server. Returns whether
    /// it still exists; then it is called again. A child with the annotation `windlass.dev/keep` and an
    /// object that is not a child stay, and count as deleted.
    ///
    /// # Errors
    ///
    /// A child that was changed since `stored` was read is a conflict; the error of the request.
    pub async fn remove<C: ChildObject>(
        &self,
        kind: &ChildKind,
        key: &ObjectKey,
        stored: Option<&LazyObject<C>>,
        reads: bool,
    ) -> Result<bool, ChildError> {
        let id = ChildId {
            resource: kind.resource(),
            key: key.clone(),
        };
        let remembered = self.memory.lock().get(&id).map(|it| it.uid.clone());
        let metadata = match (stored, remembered) {
            (Some(stored), _) => Some(stored.metadata().into_owned()),
            (None, Some(uid)) => self.read(kind, key, Some(&uid)).await?,
            (None, None) if reads => self.read(kind, key, None).await?,
            (None, None) => None,
        };
        let exists = match &metadata {
            Some(metadata) => {
                let version = metadata.resource_version.as_deref();
                self.remove_one(kind, key, metadata, version).await?
            }
            None => false,
        };
        // It is ours until it was deleted, also if another writer has removed its labels and its owner.
        if !exists {
            self.memory.lock().forget(&id);
        }
        Ok(exists)
    }

    /// Deletes the children of `kind` that Kubernetes does not delete together with their parent,
    /// because they cannot have an owner reference to it, and with `owned` also the others: the `stored`
    /// ones, and those of earlier calls that the store does not have yet. Returns whether one of the former
    /// still exists; then it is called again. Children with the annotation `windlass.dev/keep` stay.
    ///
    /// # Errors
    ///
    /// The first error, after all children were tried.
    pub async fn tear_down<C: ChildObject>(
        &self,
        kind: &ChildKind,
        stored: impl IntoIterator<Item = LazyObject<C>>,
        owned: bool,
    ) -> Result<bool, ChildError> {
        let is_owned = |key: &ObjectKey| self.parent.can_own(key.namespace());
        let (mut exists, mut failed) = (false, None);
        let mut known = Vec::new();
        for child in stored {
            let (key, metadata) = (child.key(), child.metadata());
            known.push(key.clone());
            if is_owned(&key) && !owned {
                continue;
            }
            match self.remove_one(kind, &key, &metadata, None).await {
                Ok(found) => exists |= found && !is_owned(&key),
                Err(error) => failed = failed.or(Some(error)),
            }
        }
        let remembered = self.memory.lock().of_kind(&kind.resource());
        for (key, uid) in remembered {
            if known.contains(&key) || (is_owned(&key) && !owned) {
                continue;
            }
            let Some(metadata) = self.read(kind, &key, Some(&uid)).await? else {
                continue;
            };
            match self.remove_one(kind, &key, &metadata, None).await {
                Ok(found) => exists |= found && !is_owned(&key),
                Err(error) => failed = failed.or(Some(error)),
            }
        }
        match failed {
            Some(error) => Err(error),
            None => Ok(exists),
        }
    }

    /// Reads the metadata of an object from the API server, if it exists and has this uid.
    ///
    /// # Errors
    ///
    /// The error of the request.
    pub async fn read(
        &self,
        kind: &ChildKind,
        key: &ObjectKey,
        uid: Option<&str>,
    ) -> Result<Option<ObjectMeta>, ChildError> {
        let metadata = self.requests(kind, key).get_metadata().await?;
        Ok(metadata.filter(|it| uid.is_none() || it.uid.as_deref() == uid))
    }

    /// Deletes an object with this metadata and, if there is one, this version, if it is a child and
    /// not kept. Returns whether it still exists.
    async fn remove_one(
        &self,
        kind: &ChildKind,
        key: &ObjectKey,
        metadata: &ObjectMeta,
        version: Option<&str>,
    ) -> Result<bool, ChildError> {
        if metadata.deletion_timestamp.is_some() {
            return Ok(self.ownership(kind, metadata) == Ownership::Ours);
        }
        if !self.is_prunable(kind, metadata) {
            return Ok(false);
        }
        let uid = metadata.uid.clone().unwrap_or_default();
        let deleted = self.delete_uid(kind, key, &uid, version).await?;
        Ok(deleted == Deleted::Deleted)
    }

    fn is_prunable(&self, kind: &ChildKind, metadata: &ObjectMeta) -> bool {
        metadata.deletion_timestamp.is_none()
            && !is_kept(metadata)
            && !self.parent.has_orphaned(metadata)
            && self.ownership(kind, metadata) == Ownership::Ours
    }

    /// How an object belongs to the parent. One that we have written is ours, also if another writer
    /// has removed its labels and its owner.
    fn ownership(&self, kind: &ChildKind, metadata: &ObjectMeta) -> Ownership {
        let (resource, key) = (kind.resource(), key_of(metadata));
        let is_remembered = || {
            let memory = self.memory.lock();
            let last = memory.get(&ChildId { resource, key });
            last.is_some_and(|last| metadata.uid.as_ref() == Some(&last.uid))
        };
        match self.parent.ownership(kind, metadata) {
            Ownership::Uncontrolled if is_remembered() => Ownership::Ours,
            ownership => ownership,
        }
    }

    /// Deletes an object with this uid and, if there is one, this version.
    async fn delete_uid(
        &self,
        kind: &ChildKind,
        key: &ObjectKey,
        uid: &str,
        version: Option<&str>,
    ) -> Result<Deleted, ChildError> {
        let requests = self.requests(kind, key);
        let refused = match requests.delete(uid, version).await {
            Ok(_) => return Ok(Deleted::Deleted),
            Err(RequestError::Status(status)) if is_not_found(&status) => {
                return Ok(Deleted::AlreadyGone);
            }
            Err(refused) => refused,
        };
        let refused = requests.error("delete", refused);
        if refused.is_conflict() {
            // Another version of the object, or another object.
            let found = requests.get_metadata().await?;
            if found.and_then(|it| it.uid).as_deref() != Some(uid) {
                return Ok(Deleted::AlreadyGone);
            }
        }
        Err(refused)
    }

    /// The requests for the object with `key`.
    pub(super) const fn requests<'a>(
        &'a self,
        kind: &'a ChildKind,
        key: &'a ObjectKey,
    ) -> ObjectRequests<'a> {
        ObjectRequests {
            client: &self.client,
            kind,
            key,
            manager: self.parent.manager.as_str(),
            subresource: "",
        }
    }
}
