//! `Context`: the object of one call, and what its reconciler needs.

use std::{fmt, sync::Arc};

use kube::{
    Api, Client,
    api::{ApiResource, DynamicObject, Patch, PatchParams},
};
use serde::Serialize;
use serde_json::{Value, json};
use tokio::time::Instant;
use windlass_informer::ObjectKey;

use super::{Reasons, Watchable, children::CallWrites, own::CallWriter, setup::Setup};
use crate::{Failure, State};

/// One call of an [`ObjectReconciler`](super::ObjectReconciler): the object, and how to read and
/// write.
///
/// Clones belong to the same call.
pub struct Context<K: Watchable> {
    pub(super) call: Arc<CallContext<K>>,
}

pub(super) struct CallContext<K: Watchable> {
    pub(super) setup: Arc<Setup<K>>,
    pub(super) key: ObjectKey,
    pub(super) object: Arc<K>,
    pub(super) reasons: Reasons,
    pub(super) attempt: u32,
    pub(super) is_last: bool,
    pub(super) state: Option<State>,
    pub(super) writes: CallWrites,
    pub(super) writer: CallWriter,
    pub(super) is_stale: bool,
}

/// A named part of a call, which is timed until it is dropped.
#[derive(Debug)]
#[must_use = "the step ends when this is dropped"]
pub struct Step {
    began: Instant,
    histogram: Option<prometheus::Histogram>,
}

// === impl Context ===

impl<K: Watchable> Context<K> {
    /// The object, in the newest state that the store had when the call began, or with the finalizer
    /// that was just added.
    #[must_use]
    pub fn object(&self) -> &Arc<K> {
        &self.call.object
    }

    /// The namespace and the name of the object.
    #[must_use]
    pub fn key(&self) -> &ObjectKey {
        &self.call.key
    }

    /// The generation of the object; 0 for kinds without one.
    #[must_use]
    pub fn generation(&self) -> i64 {
        self.object().meta().generation.unwrap_or_default()
    }

    /// Why the call was queued, for logs.
    #[must_use]
    pub fn reasons(&self) -> Reasons {
        self.call.reasons
    }

    /// The number of failed calls in a row: 0 in the first call.
    #[must_use]
    pub fn attempt(&self) -> u32 {
        self.call.attempt
    }

    /// Whether the retry policy ends with this attempt.
    #[must_use]
    pub fn last_attempt(&self) -> bool {
        self.call.is_last
    }

    /// The state that the previous call left in its [`Outcome`](crate::Outcome::state) or its
    /// [`Failure`], if it has this type.
    #[must_use]
    pub fn state<S: std::any::Any + Send + Sync>(&self) -> Option<&S> {
        self.call.state.as_ref()?.get()
    }

    /// Whether the stores did not show a write of an earlier call for this object in time.
    #[must_use]
    pub fn is_stale(&self) -> bool {
        self.call.is_stale
    }

    /// The client of this call. It sends each write once, and records it: the next call for the object
    /// waits until the stores have it, and the event that it causes does not reconcile this object
    /// again. While the controller does not hold the lease of its operator,
    /// writes fail.
    #[must_use]
    pub fn client(&self) -> Client {
        self.call.writer.client(|| self.call.setup.client())
    }

    /// The field manager of the controller, for server-side apply.
    #[must_use]
    pub fn field_manager(&self) -> &str {
        &self.call.setup.field_manager
    }

    /// Applies `status` to the status subresource by server-side apply, unless the object in the
    /// store has it already. Returns whether a request was sent. An object that does not exist any
    /// more is no error.
    ///
    /// # Errors
    ///
    /// [`Failure`] with the [`kube::Error`] of the request, or if `status` does not serialize.
    pub async fn write_status<S: Serialize + Send>(&self, status: S) -> Result<bool, Failure>
    where
        K: Serialize,
    {
        let status = serde_json::to_value(status)?;
        let known = serde_json::to_value(&**self.object())?;
        if known.get("status").unwrap_or(&Value::Null) == &status {
            return Ok(false);
        }
        let types = self.call.setup.types();
        let body = json!({
            "apiVersion": K::api_version(types),
            "kind": K::kind(types),
            // The uid prevents a write to another object with the same name.
            "metadata": { "uid": self.object().meta().uid },
            "status": status,
        });
        let params = PatchParams::apply(self.field_manager()).force();
        let api = self.api();
        let body = Patch::Apply(body);
        match api.patch_status(self.key().name(), &params, &body).await {
            Ok(_) => Ok(true),
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Times a part of the call, until the result is dropped, in the metric
    /// `reconcile_step_duration_seconds`. `name` is a label value: use few names, and no names of
    /// objects.
    pub fn step(&self, name: &'static str) -> Step {
        Step {
            began: Instant::now(),
            histogram: self.call.setup.step(name),
        }
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

impl<K: Watchable> Clone for Context<K> {
    fn clone(&self) -> Self {
        Self {
            call: Arc::clone(&self.call),
        }
    }
}

/// Shows the key and the attempt, and never the object's content, which may be secret.
impl<K: Watchable> fmt::Debug for Context<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Context")
            .field("kind", &K::kind(self.call.setup.types()))
            .field("key", &format_args!("{}", self.key()))
            .field("reasons", &self.call.reasons)
            .field("attempt", &self.call.attempt)
            .finish_non_exhaustive()
    }
}

// === impl Step ===

impl Drop for Step {
    fn drop(&mut self) {
        if let Some(histogram) = &self.histogram {
            histogram.observe(self.began.elapsed().as_secs_f64());
        }
    }
}
