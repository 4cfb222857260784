//! Finalizers: they keep an object in the API server until its clean-up has succeeded.
//!
//! [`Finalizers`] is one operator's finalizer on the objects of a kind. The patch to write
//! is decided by a pure core (`plan`), from what an object shows; here it is written, and
//! decided again if another writer was faster.

use std::{fmt, sync::Arc};

use kube::{Resource, api::ObjectMeta, core::GroupVersionKind};
use windlass_informer::ObjectKey;

mod client;
mod error;
mod name;
mod orphan;
mod plan;
mod supplier;

pub(crate) use self::plan::{FinalizerGoal, FinalizerPresence};
use self::{
    client::ErasedClient,
    plan::{Names, PatchPlan},
};
pub use self::{
    client::PatchClient,
    error::FinalizerError,
    name::{FinalizerName, InvalidFinalizer},
    orphan::Orphan,
    plan::FinalizerPatch,
    supplier::{DefaultFinalizerSupplier, FinalizerSupplier, QualifiedFinalizerSupplier},
};

/// One operator's finalizer on the objects of a kind, and who writes it.
///
/// # Contract
///
/// *Guaranteed.* Only finalizers of this name are ever added or removed, the in-progress form of
/// it, and [former](Self::legacy_name) names. A patch tests the object's uid and its whole list of
/// finalizers, so that no finalizer of another writer is lost and a recreated object is never taken
/// for its predecessor. If another writer was faster, the object is read again, a few times,
/// without waiting. An object that is marked for deletion gets no finalizer.
///
/// *Required.* That no other operator uses the same name on this kind; the right to `get` and
/// `patch` the kind, and for kinds with `OwnerReferencesPermissionEnforcement` to update their
/// finalizers.
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
    names: Names,
    /// The kind, as `plural.group`.
    resource: Arc<str>,
}

/// An object after its finalizers were seen to.
#[derive(Debug)]
pub(crate) enum SettleOutcome<K> {
    /// They are as they should be; this is the newest that is known of it.
    Reached(Arc<K>),
    /// It is marked for deletion, and gets no finalizer.
    Terminating,
    /// It is gone, or another has its name.
    Gone,
    /// It was to be released because it is marked for deletion, and lives: the server was
    /// restored from a backup.
    Lives,
}

// === impl Finalizers ===

impl<K: Resource + Send + Sync + 'static> Finalizers<K> {
    /// How often a patch is tried, each time with the object as it is then.
    const TRIES: u32 = 8;

    /// The finalizer that `supplier` gives for the kind, written through `client`.
    ///
    /// # Errors
    ///
    /// [`InvalidFinalizer`] if Kubernetes would not take it.
    pub fn new(
        client: impl PatchClient<K>,
        supplier: impl FinalizerSupplier,
    ) -> Result<Self, InvalidFinalizer>
    where
        K: Resource<DynamicType = ()>,
    {
        Self::of(client, &(), supplier)
    }

    /// The same for a kind that is found at run time.
    ///
    /// # Errors
    ///
    /// [`InvalidFinalizer`] if Kubernetes would not take it.
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
            names: Names::new(name),
            resource: match (K::plural(types), &*kind.group) {
                (plural, "") => Arc::from(plural),
                (plural, group) => Arc::from(format!("{plural}.{group}")),
            },
        })
    }

    /// Takes `name` for ours too: it is what the operator was called before. Where an object
    /// has it, it is replaced by the name of today, in one patch, when the object is next told
    /// of; what has it is held.
    #[must_use]
    pub fn legacy_name(mut self, name: FinalizerName) -> Self {
        if name != self.names.own {
            let in_progress = name.in_progress();
            self.names.legacy.push((name, in_progress));
        }
        self
    }

    /// The finalizer.
    #[must_use]
    pub const fn name(&self) -> &FinalizerName {
        &self.names.own
    }

    /// How we hold `object`, by what it shows.
    pub(crate) fn presence(&self, object: &K) -> FinalizerPresence {
        self.names.presence(object.meta())
    }

    /// How we hold the object of `metadata`.
    pub(crate) fn presence_in(&self, metadata: &ObjectMeta) -> FinalizerPresence {
        self.names.presence(metadata)
    }

    /// Whether the finalizers of others differ.
    pub(crate) fn foreign_changed(&self, old: &K, new: &K) -> bool {
        self.names.foreign(old.meta()) != self.names.foreign(new.meta())
    }

    /// Holds `object` as `goal` says, beginning with what it shows.
    ///
    /// # Errors
    ///
    /// [`FinalizerError`] if the server does not let us, or others write all the time.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves the patch made or not made; the next call finds out.
    pub(crate) async fn settle(
        &self,
        goal: FinalizerGoal,
        object: &Arc<K>,
    ) -> Result<SettleOutcome<K>, FinalizerError> {
        let key = ObjectKey::of(&**object);
        let mut latest = Arc::clone(object);
        for _ in 0..Self::TRIES {
            let patch = match self.names.plan(goal, latest.meta()) {
                PatchPlan::Nothing => return Ok(SettleOutcome::Reached(latest)),
                PatchPlan::Terminating => return Ok(SettleOutcome::Terminating),
                PatchPlan::NoUid => return Err(FinalizerError::NoUid { key }),
                PatchPlan::Write(patch) => patch,
            };
            let refused = match self.client.patch(&key, &patch).await {
                Ok(written) => return Ok(SettleOutcome::Reached(Arc::new(written))),
                Err(error) => error,
            };
            match status(&refused) {
                Some(404) => return Ok(SettleOutcome::Gone),
                Some(409 | 422) => {}
                _ => return Err(self.cannot_write(key, refused)),
            }
            // Another writer was faster; or it is no conflict, and nothing has changed.
            let Some(fresh) = self.find(object).await? else {
                return Ok(SettleOutcome::Gone);
            };
            let dies = |object: &K| object.meta().deletion_timestamp.is_some();
            if goal == FinalizerGoal::Release && dies(object) && !dies(&fresh) {
                // The server was restored from a backup, and the object lives.
                return Ok(SettleOutcome::Lives);
            }
            let is_same = self.names.plan(goal, fresh.meta()) == PatchPlan::Write(patch);
            if is_same && status(&refused) == Some(422) {
                return Err(self.cannot_write(key, refused));
            }
            latest = fresh;
        }
        Err(FinalizerError::Contended {
            finalizer: self.names.own.clone(),
            key,
            tries: Self::TRIES,
        })
    }

    /// Asks the server for `object` as it is now; none if it is gone, or another has its name.
    pub(crate) async fn find(&self, object: &Arc<K>) -> Result<Option<Arc<K>>, FinalizerError> {
        let found = self.get(&ObjectKey::of(&**object)).await?;
        let found = found.filter(|found| found.meta().uid == object.meta().uid);
        Ok(found.map(Arc::new))
    }

    /// The object of this key, if there is one.
    async fn get(&self, key: &ObjectKey) -> Result<Option<K>, FinalizerError> {
        match self.client.get(key).await {
            Ok(found) => Ok(Some(found)),
            Err(error) if status(&error) == Some(404) => Ok(None),
            Err(source) if status(&source) == Some(403) => {
                Err(self.forbidden("get", key.clone(), source))
            }
            Err(source) => Err(FinalizerError::Read {
                finalizer: self.names.own.clone(),
                key: key.clone(),
                source,
            }),
        }
    }

    fn cannot_write(&self, key: ObjectKey, source: kube::Error) -> FinalizerError {
        if status(&source) == Some(403) {
            return self.forbidden("patch", key, source);
        }
        FinalizerError::Write {
            finalizer: self.names.own.clone(),
            key,
            source,
        }
    }

    fn forbidden(&self, verb: &'static str, key: ObjectKey, source: kube::Error) -> FinalizerError {
        FinalizerError::Forbidden {
            verb,
            resource: Arc::clone(&self.resource),
            finalizer: self.names.own.clone(),
            key,
            source,
        }
    }
}

/// What the server answered, if it did.
fn status(error: &kube::Error) -> Option<u16> {
    match error {
        kube::Error::Api(status) => Some(status.code),
        _ => None,
    }
}

impl<K> Clone for Finalizers<K> {
    fn clone(&self) -> Self {
        Self {
            client: Arc::clone(&self.client),
            names: self.names.clone(),
            resource: Arc::clone(&self.resource),
        }
    }
}

impl<K> fmt::Debug for Finalizers<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Finalizers")
            .field("names", &self.names)
            .finish_non_exhaustive()
    }
}
