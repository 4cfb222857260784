//! The write of one child: executes a planned step.

use std::sync::Arc;

use bytes::Bytes;
use serde_json::{Value, json};
use tokio::time::Instant;
use windlass_informer::{api_request::RequestError, one_line};

use super::{
    Applied, ChildError, ChildKind, ChildObject, ChildOutcome, Children, Contention, allocated,
    desired::Prepared,
    digest,
    identity::is_kept,
    memory::{ChildId, Remembered, Reverts},
    observed::Observed,
    plan::{APPLIED, ExistingChild, Preconditions, Step, is_marked, plan},
    requests::{ApplyMode, ObjectRequests, is_not_found},
};

/// The write of one child.
pub(super) struct ChildWrite<'a> {
    pub(super) children: &'a Children,
    pub(super) kind: &'a ChildKind,
    pub(super) desired: &'a Prepared,
    pub(super) id: ChildId,
    pub(super) requests: ObjectRequests<'a>,
}

// === impl ChildWrite ===

impl ChildWrite<'_> {
    pub(super) fn plan<C: ChildObject>(
        &self,
        existing: Option<&Observed<C>>,
        was_read: bool,
    ) -> Result<Step, ChildError> {
        let (metadata, digest);
        let existing = match existing {
            Some(existing) => {
                metadata = existing.metadata();
                digest = || existing.digest(self.kind, self.desired);
                Some(ExistingChild {
                    metadata: &metadata,
                    digest: &digest,
                })
            }
            None => None,
        };
        let memory = self.children.memory.lock();
        plan(
            &self.children.parent,
            self.kind,
            self.desired,
            existing.as_ref(),
            memory.get(&self.id),
            was_read,
            Instant::now(),
        )
    }

    pub(super) async fn execute<C: ChildObject>(
        &self,
        step: Step,
        existing: Observed<C>,
    ) -> Result<Applied<C>, ChildError> {
        let object = || existing.get(self.kind);
        match step {
            // `Read` and `Create` are only planned without an existing child.
            Step::Unchanged | Step::Read | Step::Create => {
                Ok(Applied::without_write(object()?, ChildOutcome::Unchanged))
            }
            Step::Terminating => Ok(Applied::without_write(object()?, ChildOutcome::Terminating)),
            Step::Wait(wait) => Ok(Applied::without_write(
                object()?,
                ChildOutcome::Delayed(wait),
            )),
            Step::Apply(preconditions) => self.apply(&preconditions, false).await,
            Step::Adopt(preconditions) => self.apply(&preconditions, true).await,
            Step::Restore(preconditions) => self.restore(&preconditions, &existing).await,
            Step::Compare(preconditions) => {
                if self.is_equivalent(&preconditions, &existing).await? {
                    self.remember(&existing, false)?;
                    return Ok(Applied::without_write(object()?, ChildOutcome::Unchanged));
                }
                self.replace(&preconditions, object()?).await
            }
            Step::Replace(preconditions) => self.replace(&preconditions, object()?).await,
        }
    }

    /// Creates the child with an apply: the fields of a POST would never be removed by an apply.
    pub(super) async fn create<C: ChildObject>(&self) -> Result<Applied<C>, ChildError> {
        let body = self.requests.apply(&self.body(), ApplyMode::Force).await;
        let body = body.map_err(|error| self.requests.error("patch", error))?;
        let created = self.decode("patch", &body)?;
        self.remember(&created, true)?;
        Ok(Applied::without_write(
            created.get(self.kind)?,
            ChildOutcome::Created,
        ))
    }

    /// Applies the desired object to the existing one: at first if that has the planned version, so
    /// that the version of the response is known to be ours, and after a conflict at any version,
    /// unless `is_exact`.
    async fn apply<C: ChildObject>(
        &self,
        preconditions: &Preconditions,
        is_exact: bool,
    ) -> Result<Applied<C>, ChildError> {
        let contention = self.contention(preconditions).await;
        let body = self.body();
        let mut answer = self
            .requests
            .apply(&preconditions.added_to(&body, true), ApplyMode::Force)
            .await;
        let is_conflict =
            matches!(&answer, Err(RequestError::Status(status)) if status.code == 409);
        if is_conflict && !is_exact {
            let body = preconditions.added_to(&body, false);
            answer = self.requests.apply(&body, ApplyMode::Force).await;
        }
        let mut answer = answer.map_err(|error| self.requests.error("patch", error))?;
        if let Some(again) = self.migrate(&answer).await? {
            answer = again;
        }
        let answer = self.decode("patch", &answer)?;
        let metadata = answer.metadata();
        let is_changed = metadata.resource_version.as_deref() != Some(&preconditions.version);
        self.remember(&answer, is_changed)?;
        let outcome = match (metadata.deletion_timestamp, is_changed) {
            (Some(_), _) => ChildOutcome::Terminating,
            (None, true) => ChildOutcome::Changed,
            (None, false) => ChildOutcome::Unchanged,
        };
        Ok(Applied {
            object: answer.get(self.kind)?,
            outcome,
            contention,
            repeat_after: None,
        })
    }

    /// Moves the fields of earlier managers in `answer`, the response to an apply, to our applies, and
    /// applies again: that removes those that are not desired. Returns the response to that.
    ///
    /// Until the second request has succeeded, nothing is remembered of the child: the next call, or
    /// the first one after a restart, applies it again.
    async fn migrate(&self, answer: &Bytes) -> Result<Option<Bytes>, ChildError> {
        let earlier = &self.desired.earlier_managers;
        if earlier.is_empty() {
            return Ok(None);
        }
        let object: Value = serde_json::from_slice(answer).unwrap_or_default();
        let Some(moved) = self.requests.migration(&object, earlier) else {
            return Ok(None);
        };
        let refused = |error| self.requests.error("patch", error);
        self.children.memory.lock().forget(&self.id);
        self.requests.merge(&moved).await.map_err(refused)?;
        let mut body = self.body();
        body["metadata"]["uid"] = moved["metadata"]["uid"].clone();
        let again = self.requests.apply(&body, ApplyMode::Force).await;
        again.map(Some).map_err(refused)
    }

    /// Restores the labels and the owner with a merge patch: an apply of these alone would remove
    /// all other fields that earlier applies have set.
    async fn restore<C: ChildObject>(
        &self,
        preconditions: &Preconditions,
        existing: &Observed<C>,
    ) -> Result<Applied<C>, ChildError> {
        let wanted = &self.desired.body["metadata"];
        let parent = &self.children.parent;
        let mut metadata =
            json!({ "labels": wanted["labels"], "annotations": wanted["annotations"] });
        if parent.can_own(self.desired.key.namespace()) {
            let owners = existing.metadata().owner_references.unwrap_or_default();
            let mut owners = serde_json::to_value(owners).unwrap_or_default();
            if let Some(owners) = owners.as_array_mut() {
                owners.retain(|owner| owner["uid"] != parent.uid());
                owners.push(parent.owner_reference());
            }
            metadata["ownerReferences"] = owners;
        }
        let body = preconditions.added_to(&json!({ "metadata": metadata }), true);
        let answer = self.requests.merge(&body).await;
        let answer = answer.map_err(|error| self.requests.error("patch", error))?;
        let object = self.decode::<C>("patch", &answer)?.get(self.kind)?;
        let is_contended = self.remember_restored(&preconditions.uid);
        Ok(Applied {
            object,
            outcome: ChildOutcome::Changed,
            contention: is_contended.then(|| Contention {
                resource: self.id.resource.clone(),
                key: self.id.key.clone(),
                conflicts: Vec::new(),
            }),
            repeat_after: None,
        })
    }

    /// Counts a revert of another writer, and nothing else: the child has not its desired state.
    /// Returns whether it is one of too many.
    fn remember_restored(&self, uid: &str) -> bool {
        let now = Instant::now();
        let mut memory = self.children.memory.lock();
        let known = memory.get(&self.id).filter(|last| last.uid == uid);
        let mut remembered = known.cloned().unwrap_or_else(|| Remembered::restored(uid));
        let is_contended = remembered.reverts.is_contended(now);
        remembered.reverts.record(now);
        memory.put(self.id.clone(), remembered);
        is_contended
    }

    /// Whether the existing child has everything that an apply would set: injected fields and defaults
    /// are no reason to replace it. If an apply is refused, the mark decides.
    ///
    /// A webhook can change creates and not updates, so that an apply would set other values. After a
    /// start, when the response to the create is not known, a marked child has all that is desired,
    /// unless it lacks a field, or another manager has set one.
    async fn is_equivalent<C: ChildObject>(
        &self,
        preconditions: &Preconditions,
        existing: &Observed<C>,
    ) -> Result<bool, ChildError> {
        let body = preconditions.added_to(&self.body(), false);
        let result = match self.requests.apply(&body, ApplyMode::DryRun).await {
            Ok(result) => self.decode::<C>("patch", &result)?.value(self.kind)?.1,
            Err(RequestError::Status(status)) if status.code == 422 => {
                return Ok(is_marked(self.desired, &existing.metadata()));
            }
            Err(error) => return Err(self.requests.error("patch", error)),
        };
        let metadata = existing.metadata();
        let existing = existing.value(self.kind)?.1;
        let result = digest::cut(&result, &self.desired.body);
        let is_known = {
            let memory = self.children.memory.lock();
            (memory.get(&self.id)).is_some_and(|last| last.uid == preconditions.uid)
        };
        if is_known || !is_marked(self.desired, &metadata) {
            return Ok(digest::contains(&existing, &result));
        }
        if !digest::has_fields(&existing, &result) {
            return Ok(false);
        }
        let ours = format!("conflict with {:?}", self.children.parent.manager);
        let conflicts = self.conflicts(preconditions).await?;
        Ok(conflicts.iter().all(|it| it.contains(&ours)))
    }

    /// Deletes the child, if the API server would accept the new one.
    async fn replace<C: ChildObject>(
        &self,
        preconditions: &Preconditions,
        object: Arc<C>,
    ) -> Result<Applied<C>, ChildError> {
        if is_kept(object.meta()) {
            let ChildId { resource, key } = self.id.clone();
            return Err(ChildError::Kept { resource, key });
        }
        let Preconditions { uid, version } = preconditions;
        let body = self.body();
        let accepted = match self.requests.try_create(&body).await {
            Err(RequestError::Status(status)) if status.message.contains("already allocated") => {
                // What the existing child has is free after its deletion.
                match self.without_own(&body, uid).await? {
                    Some(body) => self.requests.try_create(&body).await,
                    None => Err(RequestError::Status(status)),
                }
            }
            accepted => accepted,
        };
        accepted.map_err(|error| self.requests.error("create", error))?;
        let deleted = self.requests.delete(uid, Some(version)).await;
        match deleted {
            Err(RequestError::Status(status)) if is_not_found(&status) => {}
            deleted => {
                deleted.map_err(|error| self.requests.error("delete", error))?;
            }
        }
        Ok(Applied::without_write(object, ChildOutcome::Replaced))
    }

    /// `body` without the addresses and ports that the existing child, which has this uid, has allocated.
    /// `None` if there are none.
    async fn without_own(&self, body: &Value, uid: &str) -> Result<Option<Value>, ChildError> {
        let existing = self.requests.get().await?;
        let existing = existing.and_then(|it| serde_json::from_slice::<Value>(&it).ok());
        let existing = existing.filter(|it| it["metadata"]["uid"] == uid);
        Ok(existing.and_then(|it| allocated::without_own(body, &it)))
    }

    /// The body of an apply, without preconditions.
    fn body(&self) -> Value {
        let mut body = self.desired.body.clone();
        if let Some(mark) = self.desired.mark {
            body["metadata"]["annotations"][APPLIED] = mark.to_string().into();
        }
        body
    }

    /// Remembers the response to an apply. `is_changed` says whether the apply changed or created
    /// the object, which reverts another writer if the desired state is the same as before.
    fn remember<C: ChildObject>(
        &self,
        answer: &Observed<C>,
        is_changed: bool,
    ) -> Result<(), ChildError> {
        let metadata = answer.metadata();
        let digests = answer.digests(self.kind, self.desired)?;
        let uid = metadata.uid.unwrap_or_default();
        let mut memory = self.children.memory.lock();
        let reverts = match memory.get(&self.id) {
            Some(last) if last.desired == self.desired.digest => {
                let mut reverts = last.reverts.clone();
                if is_changed {
                    reverts.record(Instant::now());
                }
                reverts
            }
            _ => Reverts::default(),
        };
        let remembered = Remembered {
            uid,
            desired: self.desired.digest,
            answer: digests,
            version: metadata.resource_version.unwrap_or_default(),
            reverts,
        };
        memory.put(self.id.clone(), remembered);
        Ok(())
    }

    /// Finds the other writers, if this apply is one of too many reverts.
    async fn contention(&self, preconditions: &Preconditions) -> Option<Contention> {
        let is_contended = {
            let memory = self.children.memory.lock();
            let last = memory.get(&self.id)?;
            last.uid == preconditions.uid
                && last.desired == self.desired.digest
                && last.reverts.is_contended(Instant::now())
        };
        if !is_contended {
            return None;
        }
        let mut conflicts = self.conflicts(preconditions).await.unwrap_or_default();
        conflicts.truncate(5);
        Some(Contention {
            resource: self.id.resource.clone(),
            key: self.id.key.clone(),
            conflicts,
        })
    }

    /// The fields to which other managers have given other values than desired, with the managers.
    async fn conflicts(&self, preconditions: &Preconditions) -> Result<Vec<String>, ChildError> {
        let body = preconditions.added_to(&self.body(), false);
        let Err(refused) = self.requests.apply(&body, ApplyMode::FindConflicts).await else {
            return Ok(Vec::new());
        };
        let causes = match &refused {
            RequestError::Status(status) => status.causes.as_slice(),
            _ => &[],
        };
        let conflicts = causes
            .iter()
            .filter(|cause| cause.reason == "FieldManagerConflict");
        let conflicts: Vec<_> = conflicts
            .map(|cause| one_line(&format!("{}: {}", cause.field, cause.message)).into_owned())
            .collect();
        if conflicts.is_empty() {
            return Err(self.requests.error("patch", refused));
        }
        Ok(conflicts)
    }

    pub(super) fn decode<C: ChildObject>(
        &self,
        verb: &'static str,
        body: &Bytes,
    ) -> Result<Observed<C>, ChildError> {
        let decoded = Observed::answer(body);
        decoded.map_err(|error| self.requests.error(verb, RequestError::Connection(error)))
    }
}
