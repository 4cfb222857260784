//! Finalizers: they keep an object in the API server until its clean-up has succeeded.
//!
//! [`Finalizers`] is one operator's finalizer on the objects of a kind. A pure core (`plan`)
//! computes the patch from the observed object. This module sends it, and computes it again after a
//! conflict.

use std::{fmt, sync::Arc};

use kube::{Resource, api::ObjectMeta, core::GroupVersionKind};
use windlass_informer::{ObjectKey, api_request::NOT_FOUND, resource_name};

use crate::fence;

mod answer;
mod client;
mod error;
mod hook;
mod identity;
mod name;
mod plan;
mod registry;
mod supplier;
mod unwatched;

pub(crate) use self::{
    answer::trimmed,
    client::kube_error,
    hook::{OnEvent, is_called_for},
    identity::FinalizerIdentity,
    plan::{FinalizerGoal, FinalizerPresence},
    registry::{ClaimantId, FinalizerClaim, Scope},
};
use self::{client::ErasedClient, plan::PatchPlan};
pub use self::{
    client::PatchClient,
    error::{FinalizerChange, FinalizerError},
    hook::{FinalizerHook, Interest},
    name::{FinalizerName, InvalidFinalizer},
    plan::FinalizerPatch,
    registry::FinalizerRegistry,
    supplier::{DefaultFinalizerSupplier, FinalizerSupplier},
    unwatched::UnwatchedObject,
};

/// One operator's finalizer on the objects of a kind, with the client that writes it.
///
/// # Contract
///
/// *Guaranteed.* Only three forms of finalizers are added or removed: this name; its in-progress
/// form, which is added before the first call for an object, and replaced after that call has
/// succeeded; and [legacy](Self::legacy_name) names. Each patch tests the uid of the object and its
/// whole list of finalizers, so that no finalizer of another writer is lost and a recreated object
/// is not confused with its predecessor. After a conflict the object is read again immediately, and
/// after 8 conflicts the call fails. An object that is marked for deletion gets no finalizer.
///
/// `managedFields` and audit logs name the domain of the finalizer as the writer of these patches
/// ([`FinalizerPatch::field_manager`]).
///
/// *Required.* No other operator uses the same name on this kind. The permissions `get` and `patch`
/// on the kind; on kinds with `OwnerReferencesPermissionEnforcement` also `update` on their
/// finalizers.
///
/// Within a call of a controller with a [`Fence`](crate::Fence), no patch begins after the deadline
/// of the fence, with any client. Use a fenced client too, so that a patch which waits for a
/// connection is not sent either.
///
/// # Example
///
/// ```no_run
/// use k8s_openapi::api::core::v1::ConfigMap;
/// use windlass_controller::{FinalizerName, Finalizers};
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let client = kube::Client::try_default().await?;
/// let name = FinalizerName::new("example.io/publisher")?;
/// let finalizers = Finalizers::<ConfigMap>::new(client, name)?;
/// # Ok(())
/// # }
/// ```
pub struct Finalizers<K> {
    client: Arc<dyn ErasedClient<K>>,
    identity: FinalizerIdentity,
}

/// The result of a change of finalizers.
#[derive(Debug)]
pub(crate) enum GoalOutcome<K> {
    /// The finalizers are as requested. This is the newest known state.
    Reached(Arc<K>),
    /// The object is marked for deletion, and gets no finalizer. Or it was to be released, and was
    /// marked meanwhile, so that it has to be cleaned up.
    Terminating,
    /// The object does not exist, or another one has its name.
    Gone,
    /// The finalizer was to be removed because the object is marked for deletion, but it is not any
    /// more: the server was restored from a backup.
    Lives,
}

// === impl Finalizers ===

impl<K: Resource + Send + Sync + 'static> Finalizers<K> {
    /// How often a patch is attempted, each time with the current object.
    const TRIES: u32 = 8;

    /// Creates the finalizer that `supplier` returns for the kind, written through `client`.
    ///
    /// # Errors
    ///
    /// [`InvalidFinalizer`] if Kubernetes would reject the name.
    pub fn new(
        client: impl PatchClient<K>,
        supplier: impl FinalizerSupplier,
    ) -> Result<Self, InvalidFinalizer>
    where
        K: Resource<DynamicType = ()>,
    {
        Self::of(client, &(), supplier)
    }

    /// Like [`new`](Self::new), for a kind that is known only at run time.
    ///
    /// # Errors
    ///
    /// [`InvalidFinalizer`] if Kubernetes would reject the name.
    #[expect(
        clippy::needless_pass_by_value,
        reason = "a supplier is a name or a closure, written where it is used"
    )]
    pub fn of(
        client: impl PatchClient<K>,
        types: &K::DynamicType,
        supplier: impl FinalizerSupplier,
    ) -> Result<Self, InvalidFinalizer> {
        let kind = GroupVersionKind {
            group: K::group(types).into_owned(),
            version: K::version(types).into_owned(),
            kind: K::kind(types).into_owned(),
        };
        let name = supplier::check(supplier.finalizer(&kind)?, &kind)?;
        Ok(Self {
            client: Arc::new(client),
            identity: FinalizerIdentity::new(resource_name::<K>(types), name),
        })
    }

    /// Also treats `name`, an earlier name of the finalizer, as ours. An object with it counts as
    /// held. When the object is next processed, one patch replaces it by the current name.
    #[must_use]
    pub fn legacy_name(mut self, name: FinalizerName) -> Self {
        self.identity.names.add_legacy(name);
        self
    }

    /// The name of the finalizer.
    #[must_use]
    pub const fn name(&self) -> &FinalizerName {
        self.identity.name()
    }

    /// The names of the finalizer and its resource, for the registry of finalizers.
    pub(crate) const fn identity(&self) -> &FinalizerIdentity {
        &self.identity
    }

    /// Which of our finalizers the object with `metadata` has.
    pub(crate) fn presence(&self, metadata: &ObjectMeta) -> FinalizerPresence {
        self.identity.names.presence(metadata)
    }

    /// Whether the finalizers of other writers differ.
    pub(crate) fn foreign_changed(&self, old: &ObjectMeta, new: &ObjectMeta) -> bool {
        self.identity.names.foreign(old) != self.identity.names.foreign(new)
    }

    /// Brings the finalizers of `object` to `goal`.
    ///
    /// # Errors
    ///
    /// [`FinalizerError`] if the server refuses, or other writers change the finalizers each time.
    ///
    /// # Cancel safety
    ///
    /// After the future is dropped, the patch may or may not have been applied. The next call
    /// detects it.
    pub(crate) async fn reach(
        &self,
        goal: FinalizerGoal,
        object: &Arc<K>,
    ) -> Result<GoalOutcome<K>, FinalizerError> {
        let key = ObjectKey::of(&**object);
        let change = goal.change();
        let mut latest = Arc::clone(object);
        for _ in 0..Self::TRIES {
            let patch = match self.identity.names.plan(goal, latest.meta()) {
                PatchPlan::Nothing => return Ok(GoalOutcome::Reached(latest)),
                PatchPlan::Terminating => return Ok(GoalOutcome::Terminating),
                PatchPlan::NoUid => return Err(FinalizerError::NoUid { key }),
                PatchPlan::Write(patch) => patch,
            };
            let written = match fence::check() {
                Ok(()) => self.client.patch(&key, &patch).await,
                Err(closed) => {
                    let closed = closed.of_request(&format!("the finalizer patch of {key}"));
                    Err(kube::Error::Service(Box::new(closed)))
                }
            };
            let refused = match written {
                Ok(written) => {
                    latest = Arc::new(written);
                    let left = self.identity.names.plan(goal, latest.meta());
                    if matches!(left, PatchPlan::Write(_)) {
                        // A mutating webhook has changed what was written.
                        continue;
                    }
                    return Ok(GoalOutcome::Reached(latest));
                }
                Err(error) => error,
            };
            match status(&refused) {
                Some(404) if is_not_found(&refused) => return Ok(GoalOutcome::Gone),
                Some(409 | 422) => {}
                _ => return Err(self.cannot_write(change, key, refused)),
            }
            // Either a conflict with another writer, or the server rejects the patch itself.
            let Some(fresh) = self.find(change, object).await? else {
                return Ok(GoalOutcome::Gone);
            };
            let is_terminating = |object: &K| object.meta().deletion_timestamp.is_some();
            if goal == FinalizerGoal::Release && is_terminating(object) && !is_terminating(&fresh) {
                // The server was restored from a backup, and the object is not being deleted.
                return Ok(GoalOutcome::Lives);
            }
            if goal == FinalizerGoal::Release && !is_terminating(object) && is_terminating(&fresh) {
                return Ok(GoalOutcome::Terminating);
            }
            let is_same = self.identity.names.plan(goal, fresh.meta()) == PatchPlan::Write(patch);
            if is_same && status(&refused) == Some(422) {
                return Err(self.cannot_write(change, key, refused));
            }
            latest = fresh;
        }
        Err(FinalizerError::Contended {
            change,
            finalizer: self.name().clone(),
            key,
            tries: Self::TRIES,
        })
    }

    /// Reads the current state of `object`. `None` if it does not exist, or another object has its
    /// name.
    pub(crate) async fn find(
        &self,
        change: FinalizerChange,
        object: &Arc<K>,
    ) -> Result<Option<Arc<K>>, FinalizerError> {
        let found = self.get(change, &ObjectKey::of(&**object)).await?;
        let found = found.filter(|found| found.meta().uid == object.meta().uid);
        Ok(found.map(Arc::new))
    }

    /// Reads the object with this key, if it exists.
    async fn get(
        &self,
        change: FinalizerChange,
        key: &ObjectKey,
    ) -> Result<Option<K>, FinalizerError> {
        match self.client.get(key).await {
            Ok(found) => Ok(Some(found)),
            Err(error) if is_not_found(&error) => Ok(None),
            Err(source) if status(&source) == Some(403) => {
                Err(self.forbidden(change, "get", key.clone(), source))
            }
            Err(source) => Err(FinalizerError::Read {
                change,
                finalizer: self.name().clone(),
                key: key.clone(),
                source,
            }),
        }
    }

    fn cannot_write(
        &self,
        change: FinalizerChange,
        key: ObjectKey,
        source: kube::Error,
    ) -> FinalizerError {
        if status(&source) == Some(403) {
            return self.forbidden(change, "patch", key, source);
        }
        FinalizerError::Write {
            change,
            finalizer: self.name().clone(),
            key,
            source,
        }
    }

    fn forbidden(
        &self,
        change: FinalizerChange,
        verb: &'static str,
        key: ObjectKey,
        source: kube::Error,
    ) -> FinalizerError {
        FinalizerError::Forbidden {
            change,
            verb,
            resource: Arc::clone(&self.identity.resource),
            finalizer: self.name().clone(),
            key,
            source,
        }
    }
}

/// The status code of the response, if there is one.
fn status(error: &kube::Error) -> Option<u16> {
    match error {
        kube::Error::Api(status) => Some(status.code),
        _ => None,
    }
}

/// Whether the API server says that the object does not exist. A proxy may also respond with 404,
/// by mistake and without this reason.
fn is_not_found(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 404 && status.reason == NOT_FOUND)
}

impl<K> Clone for Finalizers<K> {
    fn clone(&self) -> Self {
        Self {
            client: Arc::clone(&self.client),
            identity: self.identity.clone(),
        }
    }
}

impl<K> fmt::Debug for Finalizers<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Finalizers")
            .field("identity", &self.identity)
            .finish_non_exhaustive()
    }
}
