//! Writes of the status of the object of a call.

use std::sync::Arc;

use kube::{
    Api,
    api::{ApiResource, DynamicObject, Patch, PatchParams},
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use windlass_informer::{LazyObject, ObjectIdentity as _, resource_name};

use super::{Context, Mode, Watchable, children::failure};
use crate::{
    ChildError, Failure,
    children::{ChildKind, StatusWrite, status_of},
    own_writes::parse_version,
};

/// The type of the condition that an object has while its clean-up waits.
const CONDITION: &str = "Paused";

/// The status of an object, whose other fields are skipped.
#[derive(Deserialize)]
struct OnlyStatus {
    #[serde(default)]
    status: Value,
}

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
    /// [`Failure`] with the [`ChildError`] of the request, with [`ChildError::NoStatusSubresource`] if
    /// the kind has no status subresource and the object can be read, with
    /// [`ChildError::UndeclaredField`] if its schema lacks a field, or if `status` does not serialize.
    pub async fn write_status<S: Serialize + Send>(&self, status: S) -> Result<bool, Failure>
    where
        K: Serialize,
    {
        let status = serde_json::to_value(status)?;
        self.apply_status(&status).await.map_err(failure)
    }

    /// Like [`write_status`](Self::write_status), with the error of the request.
    #[doc(hidden)]
    pub async fn apply_status(&self, status: &Value) -> Result<bool, ChildError>
    where
        K: Serialize,
    {
        let (setup, newest) = (&self.call.setup, self.newest());
        // It is more than a write of the status.
        let migrates = self.mode() != Mode::Paused;
        let earlier: &[String] = if migrates {
            &setup.earlier_managers
        } else {
            &[]
        };
        let write = StatusWrite {
            kind: &ChildKind::of::<K>(setup.types()),
            status,
            version: newest.resource_version().unwrap_or_default(),
            observed: &Self::statuses_in(&newest),
            names_version: setup.own.recognizes(),
            // The store can have the status before the last write.
            is_forced: self.is_stale(),
            earlier_managers: earlier,
        };
        self.children()?.apply_status::<K>(&write).await
    }

    /// The status of the newest known state of the object.
    #[doc(hidden)]
    #[must_use]
    pub fn observed_status(&self) -> Value
    where
        K: Serialize,
    {
        let statuses = Self::statuses_in(&self.newest());
        statuses.into_iter().next().unwrap_or_default()
    }

    /// The status in `state`: that of the JSON, which has all fields, if it is kept as JSON, and as its
    /// type has it.
    fn statuses_in(state: &LazyObject<K>) -> Vec<Value>
    where
        K: Serialize,
    {
        let json = state.as_erased().json();
        let json = json.and_then(|json| serde_json::from_str::<OnlyStatus>(json).ok());
        let json = json.map(|it| it.status);
        let typed = state.get().ok().and_then(|it| status_of(&*it).ok());
        json.into_iter().chain(typed).collect()
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
    fn newest(&self) -> LazyObject<K> {
        let (object, key) = (self.object(), self.key());
        let version = |version: Option<&str>| version.and_then(parse_version);
        let own = version(object.meta().resource_version.as_deref());
        let stored = self.call.setup.primaries.get_lazy(key).filter(|stored| {
            let is_same = stored.uid() == object.meta().uid.as_deref();
            is_same && version(stored.resource_version()) >= own
        });
        let of_call = || LazyObject::from(Arc::clone(object));
        let resource = resource_name::<K>(self.call.setup.types());
        let stored = stored.unwrap_or_else(of_call);
        let newest = (self.call.writer).newest(&resource, key, Some(stored));
        newest.unwrap_or_else(of_call)
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
