//! Writes of the status of the object of a call.

use std::sync::Arc;

use kube::{
    Api,
    api::{ApiResource, DynamicObject, Patch, PatchParams},
};
use parking_lot::Mutex;
use serde::Serialize;
use serde_json::{Value, json};
use windlass_informer::{LazyObject, ObjectIdentity as _, resource_name};

use super::{Context, Mode, Watchable};
use crate::{
    ChildError, Failure,
    children::{ChildMemory, RememberedStatus, migrate},
    own_writes::parse_version,
};

/// The type of the condition that an object has while its clean-up waits.
const CONDITION: &str = "Paused";

// === impl Context ===

impl<K: Watchable> Context<K> {
    /// Applies `status` to the status subresource by server-side apply, unless the newest known state
    /// of the object has it already. In a [stale](Self::is_stale) call it is always sent. Returns whether
    /// a request was sent. An object that does not exist any more is no error. It also writes while the
    /// object is [paused](Mode::Paused).
    ///
    /// All fields of the status that an earlier call has written and that `status` does not have are
    /// removed. Fields of other writers stay, except for lists without a key: an atomic list of
    /// conditions is replaced.
    ///
    /// # Errors
    ///
    /// [`Failure`] with the [`kube::Error`] of the request, with
    /// [`ChildError::NoStatusSubresource`](crate::ChildError) if the kind has no status subresource, or
    /// if `status` does not serialize.
    pub async fn write_status<S: Serialize + Send>(&self, status: S) -> Result<bool, Failure>
    where
        K: Serialize,
    {
        let status = serde_json::to_value(status)?;
        let newest = self.newest();
        let known = status_of(&*newest)?;
        let memory = self.call.setup.memories.of(&*newest);
        let is_known = known == status
            || matches!(&memory.lock().status, Some(last) if last.shows(&status, &known));
        let migrates = self.migrates_status(&memory);
        // In a stale call the store can have the status before the last write.
        if is_known && !self.is_stale() && !migrates {
            return Ok(false);
        }
        let types = self.call.setup.types();
        let metadata = newest.meta();
        let body = |version: Option<&str>| {
            // The uid prevents a write to another object with the same name. The version proves that
            // the response has no change of others.
            let mut of = json!({ "uid": metadata.uid });
            if let Some(version) = version {
                of["resourceVersion"] = version.into();
            }
            Patch::Apply(json!({
                "apiVersion": K::api_version(types),
                "kind": K::kind(types),
                "metadata": of,
                "status": status,
            }))
        };
        let params = PatchParams::apply(self.field_manager()).force();
        let (api, name) = (self.api(), self.key().name());
        let version = metadata.resource_version.as_deref();
        let mut sent = api.patch_status(name, &params, &body(version)).await;
        if matches!(&sent, Err(kube::Error::Api(status)) if status.code == 409) {
            sent = api.patch_status(name, &params, &body(None)).await;
        }
        match sent {
            Ok(answer) => {
                let answer = if migrates {
                    let answer = self.migrate_status(answer, &body(None)).await?;
                    memory.lock().is_status_migrated = true;
                    answer
                } else {
                    answer
                };
                let shown = answer.try_parse::<K>().ok();
                let shown = shown.and_then(|it| status_of(&it).ok());
                // Most answers show exactly what was written.
                let differs = shown.filter(|shown| *shown != status);
                memory.lock().status =
                    differs.map(|shown| RememberedStatus::new(&status, &shown, None));
                Ok(true)
            }
            Err(kube::Error::Api(status)) if status.code == 404 => {
                // If the path is unknown, the API server names no object.
                let missing = status.details.as_ref().map(|details| details.name.as_str());
                let is_missing = missing == Some(name)
                    // The kind can be missing too.
                    || matches!(api.get_metadata_opt(name).await, Ok(None));
                if is_missing {
                    return Ok(false);
                }
                let resource = resource_name::<K>(types);
                let key = self.key().clone();
                Err(ChildError::NoStatusSubresource { resource, key }.into())
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Whether the fields of earlier managers were not moved yet. Not while the object is paused: that is
    /// more than a write of the status.
    fn migrates_status(&self, memory: &Mutex<ChildMemory>) -> bool {
        !self.call.setup.earlier_managers.is_empty()
            && self.mode() != Mode::Paused
            && !memory.lock().is_status_migrated
    }

    /// Moves the fields of earlier managers in `answer`, the response to an apply of a status, to our
    /// applies, and applies `body` again: that removes those that it does not have.
    async fn migrate_status(
        &self,
        answer: DynamicObject,
        body: &Patch<Value>,
    ) -> Result<DynamicObject, Failure> {
        let earlier = &self.call.setup.earlier_managers;
        let object = json!({ "metadata": answer.metadata });
        let Some(entries) = migrate::moved(&object, self.field_manager(), earlier, "status") else {
            return Ok(answer);
        };
        let metadata = &answer.metadata;
        let moved = Patch::Merge(json!({ "metadata": {
            "uid": metadata.uid, "resourceVersion": metadata.resource_version,
            "managedFields": entries,
        }}));
        let (api, name) = (self.api(), self.key().name());
        api.patch(name, &PatchParams::default(), &moved).await?;
        let params = PatchParams::apply(self.field_manager()).force();
        Ok(api.patch_status(name, &params, body).await?)
    }

    /// Sets the condition `Paused` of an object whose clean-up waits, or ends it when the clean-up
    /// continues. Other fields of the status stay. A kind whose status has no conditions is left as it
    /// is.
    pub(super) async fn show_waiting_cleanup(&self) -> Result<(), kube::Error>
    where
        K: Serialize,
    {
        let object = serde_json::to_value(&**self.object()).map_err(kube::Error::SerdeError)?;
        let known = object["status"]["conditions"].as_array();
        let mut conditions = known.cloned().unwrap_or_default();
        let at = conditions.iter().position(|it| it["type"] == CONDITION);
        let (status, reason, message) = match self.mode() {
            Mode::Paused => (
                "True",
                "CleanupWaits",
                "the object is paused by its annotation windlass.dev/paused, and is deleted after \
                 the annotation was removed",
            ),
            Mode::Normal if at.is_none() => return Ok(()),
            Mode::Normal => ("False", "CleanupContinues", ""),
        };
        if at.is_some_and(|at| conditions[at]["status"] == status) {
            return Ok(());
        }
        let condition = json!({
            "type": CONDITION, "status": status, "reason": reason, "message": message,
            "observedGeneration": self.generation(),
            "lastTransitionTime": crate::conditions::transition_time(),
        });
        match at {
            Some(at) => conditions[at] = condition,
            None => conditions.push(condition),
        }
        let metadata = self.object().meta();
        // The list is replaced as a whole: at this version only.
        let body = Patch::Merge(json!({
            "metadata": { "uid": metadata.uid, "resourceVersion": metadata.resource_version },
            "status": { "conditions": conditions },
        }));
        let params = PatchParams {
            field_manager: Some(self.field_manager().to_owned()),
            ..PatchParams::default()
        };
        let sent = self
            .api()
            .patch_status(self.key().name(), &params, &body)
            .await;
        sent.map(drop)
    }

    /// The newest known state of the object: that of the call, of the store, or of a response of this
    /// call.
    fn newest(&self) -> Arc<K> {
        let (object, key) = (self.object(), self.key());
        let version = |version: Option<&str>| version.and_then(parse_version);
        let own = version(object.meta().resource_version.as_deref());
        let stored = self.call.setup.primaries.get_lazy(key).filter(|stored| {
            let is_same = stored.uid() == object.meta().uid.as_deref();
            is_same && version(stored.resource_version()) > own
        });
        let stored = stored.unwrap_or_else(|| LazyObject::from(Arc::clone(object)));
        let resource = resource_name::<K>(self.call.setup.types());
        let newest = (self.call.writer).newest(&resource, key, Some(stored));
        let newest = newest.and_then(|newest| newest.get().ok());
        newest.unwrap_or_else(|| Arc::clone(object))
    }

    /// The API of the object's kind and namespace, without a type.
    fn api(&self) -> Api<DynamicObject> {
        let types = ApiResource::erase::<K>(self.call.setup.types());
        match self.key().namespace() {
            Some(namespace) => Api::namespaced_with(self.client(), namespace, &types),
            None => Api::all_with(self.client(), &types),
        }
    }
}

/// The status of an object, as its type serializes it.
fn status_of<K: Serialize>(object: &K) -> Result<Value, serde_json::Error> {
    let mut object = serde_json::to_value(object)?;
    Ok(object
        .get_mut("status")
        .map(Value::take)
        .unwrap_or_default())
}
