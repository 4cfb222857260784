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
pub struct FinalizerPatch {
    operations: Vec<Value>,
    #[serde(skip)]
    field_manager: String,
}

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
        PatchPlan::Write(FinalizerPatch {
            operations,
            field_manager: self.own.field_manager().to_owned(),
        })
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
        Self {
            operations: Vec::new(),
            field_manager: String::new(),
        }
    }

    /// The operations, in order.
    #[must_use]
    pub fn operations(&self) -> &[Value] {
        &self.operations
    }

    /// The name of the writer, for the parameter `fieldManager` of the request: the domain of the
    /// finalizer or, if it has none, the finalizer. At most 128 characters, which need no encoding in a
    /// URL. Empty in a patch without operations.
    ///
    /// [`Client`](kube::Client) and [`Api`](kube::Api) send it, so that `managedFields` and audit logs
    /// name the writer.
    ///
    /// # Example
    ///
    /// A client that logs the patches:
    ///
    /// ```
    /// use k8s_openapi::api::core::v1::ConfigMap;
    /// use kube::Client;
    /// use windlass_controller::{FinalizerPatch, PatchClient};
    /// use windlass_informer::ObjectKey;
    ///
    /// struct Logged(Client);
    ///
    /// impl PatchClient<ConfigMap> for Logged {
    ///     async fn patch(
    ///         &self,
    ///         key: &ObjectKey,
    ///         patch: &FinalizerPatch,
    ///     ) -> Result<ConfigMap, kube::Error> {
    ///         println!("{} patches {key}", patch.field_manager());
    ///         self.0.patch(key, patch).await
    ///     }
    /// }
    ///
    /// assert_eq!(FinalizerPatch::empty().field_manager(), "");
    /// ```
    #[must_use]
    pub fn field_manager(&self) -> &str {
        &self.field_manager
    }
}

#[cfg(test)]
mod tests;
