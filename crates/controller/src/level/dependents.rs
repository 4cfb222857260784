//! `Dependents`: children that depend on each other, applied in order and deleted in reverse order.
//!
//! Source: java-operator-sdk, its `Workflow`; metacontroller, its rolling update strategies.

use std::{
    fmt,
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use serde::Serialize;

mod check;
mod erased;
mod rollout;
mod run;
mod states;

use self::{
    check::Check,
    run::{Node, Run},
    states::MixedPlans,
};
pub use self::{
    check::has_condition,
    states::{DependentId, DependentState, DependentStates, DependentsError},
};
use super::{Context, Owned, Watchable};
use crate::{
    Failure, Outcome,
    children::{Desired, IntoDesired},
};

/// Children of one object that depend on each other.
///
/// Each call builds it from the object, and then calls [`apply`](Self::apply), or
/// [`delete`](Self::delete) in a clean-up.
///
/// # Contract
///
/// *Guaranteed.*
/// - **Checked first.** If a desired child is invalid, or occurs twice, nothing is written.
/// - **Order.** Nothing is written for a dependent before all that it depends on are applied and
///   ready. Until then it waits: if it exists, it is left as it is.
/// - **Preconditions.** A dependent with a false [precondition](Dependent::when) is deleted, and all
///   that depend on it.
/// - **Reverse order.** A dependent is deleted when all that depend on it no longer exist. A delete
///   that was accepted is not sufficient: finalizers can delay its end.
/// - **Independence.** An error of one dependent does not prevent the others, except for those that
///   depend on it. One [`Failure`] has the errors of all.
/// - **No polling.** The events of the children cause the next call: a status that makes one ready, or
///   the end of its deletion.
/// - [`Owned::prune`] leaves the children of all dependents, also of those that wait or are invalid, and
///   in a clean-up.
///
/// Each child is written as [`Owned::apply`] says. Children with the annotation `windlass.dev/keep` are
/// not deleted, and do not delay the deletion of what they depend on. Kubernetes deletes them together
/// with the object, if they have an owner reference to it. While the object is
/// [paused](super::Mode::Paused), nothing is sent, and the states are those of the stores. In a
/// [stale](Context::is_stale) call nothing is deleted, what the stores show counts as not ready, and
/// the call is repeated.
///
/// *Required.* The watches of the handles show the children. Each call adds the same children, also
/// those that are not wanted now, with a false precondition: what is not added is not deleted. If their
/// names depend on the object, such as a number of them that has become less, call [`Owned::prune`] after
/// `apply`, and after `delete` in the clean-up: the object can be deleted before a call with the new names.
///
/// *Not guaranteed.* The order in which the garbage collector deletes children, if the object is
/// deleted in the foreground. That the Pods of a workload have ended when it no longer exists: the API
/// server deletes a Deployment at once, and the garbage collector deletes its Pods afterwards.
///
/// # Example
///
/// ```no_run
/// use k8s_openapi::api::{apps::v1::StatefulSet, core::v1::{ConfigMap, Service}};
/// use serde_json::json;
/// use windlass_controller::{
///     Context, Dependents, Desired, Failure, ObjectReconciler, Outcome, Owned, has_condition,
/// };
///
/// struct Shops {
///     databases: Owned<ConfigMap, StatefulSet>,
///     routes: Owned<ConfigMap, Service>,
/// }
///
/// impl Shops {
///     fn dependents(&self, shop: &ConfigMap) -> Dependents<ConfigMap> {
///         let is_open = shop.data.as_ref().is_some_and(|data| data.contains_key("open"));
///         let mut plan = Dependents::new();
///         let database = Desired::json(json!({ "spec": { "serviceName": "database" } }));
///         let is_ready = |it: &StatefulSet| it.status.as_ref().is_some_and(|it| it.replicas > 0);
///         let database = plan.add(self.databases.dependent(database).ready(is_ready));
///         let route = Desired::json(json!({ "spec": { "ports": [{ "port": 80 }] } }));
///         plan.add(self.routes.dependent(route).after([database]).when(is_open));
///         plan
///     }
/// }
///
/// impl ObjectReconciler<ConfigMap> for Shops {
///     type Error = Failure;
///
///     async fn reconcile(&self, cx: Context<ConfigMap>) -> Result<Outcome, Failure> {
///         let states = self.dependents(cx.object()).apply(&cx).await?;
///         println!("ready: {}, because {states}", states.is_ready());
///         Ok(Outcome::done())
///     }
///
///     async fn cleanup(&self, cx: Context<ConfigMap>) -> Result<Outcome, Failure> {
///         self.dependents(cx.object()).delete(&cx).await
///     }
/// }
/// ```
#[must_use = "dependents are not written before `apply` or `delete` is called"]
pub struct Dependents<K: Watchable> {
    /// Of the ids: they are valid in this plan only.
    plan: u64,
    nodes: Vec<Node<K>>,
    /// Whether a dependent was to be after one of another plan.
    is_mixed: bool,
}

/// A child that is applied or deleted in order, or several that are updated a few at a time. Created
/// by [`Owned::dependent`] and [`Owned::rolling`].
#[must_use = "a dependent has no effect until it is added to `Dependents`"]
pub struct Dependent<K: Watchable, C: Watchable> {
    owned: Owned<K, C>,
    desired: Vec<Desired<C>>,
    after: Vec<DependentId>,
    is_wanted: bool,
    ready: Option<Check<C>>,
    failed: Option<Check<C>>,
    /// How many children are updated at a time. `None`: there is no limit, and they are not marked.
    at_most: Option<usize>,
}

/// When a clean-up of an object that does not exist any more checks its children again: their events
/// cause no call for it.
const CHECK_DELETED: Duration = Duration::from_secs(10);

// === impl Dependents ===

impl<K: Watchable> Dependents<K> {
    /// Creates it without dependents.
    pub fn new() -> Self {
        static PLANS: AtomicU64 = AtomicU64::new(0);
        Self {
            plan: PLANS.fetch_add(1, Ordering::Relaxed),
            nodes: Vec::new(),
            is_mixed: false,
        }
    }

    /// Adds a dependent. Those that it depends on were added before, so that there are no cycles.
    pub fn add<C: Watchable + Serialize>(&mut self, dependent: Dependent<K, C>) -> DependentId {
        let index = self.nodes.len();
        let is_known = |id: &&DependentId| id.plan == self.plan && id.index < index;
        let known = dependent.after.iter().filter(is_known);
        let after: Vec<_> = known.map(|id| id.index).collect();
        self.is_mixed |= after.len() < dependent.after.len();
        let are_wanted = after.iter().all(|&index| self.nodes[index].is_wanted);
        let is_wanted = dependent.is_wanted && are_wanted;
        self.nodes.push(Node::new(dependent, after, is_wanted));
        let plan = self.plan;
        DependentId { plan, index }
    }

    /// Deletes what is not wanted, in reverse order, and applies the others, in order. Returns what
    /// is ready and what waits.
    ///
    /// # Errors
    ///
    /// [`ChildError`](crate::ChildError) if a desired child is invalid: nothing was written, and the
    /// failure is permanent. [`ChildErrors`](crate::ChildErrors) after all other dependents were tried:
    /// then the error has the states as well.
    ///
    /// # Cancel safety
    ///
    /// After the future is dropped, any of the children may be written or deleted. The next call
    /// continues.
    pub async fn apply(self, cx: &Context<K>) -> Result<DependentStates, DependentsError> {
        let plan = self.plan;
        let mut run = self.begin(cx)?;
        run.check()?;
        run.delete_unwanted().await;
        run.apply_wanted().await;
        let (states, failure) = run.finish();
        let states = DependentStates::new(plan, states);
        match failure {
            Some(failure) => Err(DependentsError::new(failure, Some(states))),
            None => Ok(states),
        }
    }

    /// Deletes all dependents in reverse order, for a clean-up, whatever their preconditions and
    /// whether they are valid. The outcome is [`Outcome::done`] after all were deleted, and
    /// [`Outcome::unfinished`] before: the events of the children cause the next call. A child that has
    /// no owner reference and that the store does not show is read from the API server.
    ///
    /// If the object is deleted with `--cascade=orphan`, the children stay.
    ///
    /// # Errors
    ///
    /// [`ChildErrors`](crate::ChildErrors) after all were tried.
    ///
    /// # Cancel safety
    ///
    /// As of [`apply`](Self::apply).
    pub async fn delete(mut self, cx: &Context<K>) -> Result<Outcome, Failure> {
        if cx.leaves_children() {
            return Ok(Outcome::done());
        }
        for node in &mut self.nodes {
            node.is_wanted = false;
        }
        let mut run = self.begin(cx)?;
        run.is_clean_up = true;
        run.delete_unwanted().await;
        let (states, failure) = run.finish();
        if let Some(failure) = failure {
            return Err(failure);
        }
        let is_deleted = states
            .iter()
            .all(|(state, _)| *state == DependentState::Deleted);
        Ok(if is_deleted {
            Outcome::done()
        } else if cx.stored().is_none() {
            Outcome::requeue_after(CHECK_DELETED)
        } else {
            Outcome::unfinished()
        })
    }

    fn begin(self, cx: &Context<K>) -> Result<Run<'_, K>, Failure> {
        let run = Run::new(cx, self.nodes)?;
        if self.is_mixed {
            return Err(Failure::new(MixedPlans).permanent());
        }
        Ok(run)
    }
}

impl<K: Watchable> Default for Dependents<K> {
    fn default() -> Self {
        Self::new()
    }
}

impl<K: Watchable> fmt::Debug for Dependents<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Dependents")
            .field("dependents", &self.nodes.len())
            .finish_non_exhaustive()
    }
}

// === impl Owned ===

impl<K: Watchable, C: Watchable> Owned<K, C> {
    /// A child for [`Dependents::add`]: without prerequisites, and ready as soon as it is applied.
    pub fn dependent(&self, desired: impl IntoDesired<C>) -> Dependent<K, C> {
        self.dependents(vec![desired.into_desired()], None)
    }

    /// Several children for [`Dependents::add`], of which at most one is
    /// [updated at a time](Dependent::at_most), in the order of the list. They are one dependent, which
    /// is ready when all are updated and ready.
    ///
    /// # Contract
    ///
    /// *Guaranteed.*
    /// - A child is updated when its desired state has changed since it was last applied by this
    ///   function, also before a restart, or when it is [adopted](Desired::adopt). The next one follows
    ///   when those that were updated are [ready](Dependent::ready). It works with each
    ///   [`UpdateStrategy`](crate::UpdateStrategy): a child that is left to another client counts as
    ///   waiting.
    /// - Children that are not ready are updated before those that are, so that an update which a newer
    ///   one replaces adds no further child that is not ready.
    /// - While a child that was updated [has failed](Dependent::failed), no further one is updated.
    ///   [`DependentState::Failed`] is reported, with the name of the child. The update continues when
    ///   it has recovered, or with a new desired state.
    /// - A child that does not exist is created at once, whatever the limit, and counts as being
    ///   updated until it is ready. So the first children are all created together.
    /// - A change by another writer is reverted at once in children that were updated. The others are
    ///   left as they are until they are updated.
    ///
    /// *Not guaranteed.* The limit for children to adopt that the watch does not show, for example
    /// because it selects by a label that they do not have. That children without a `ready` check, or
    /// whose check does not tell an old status from a new one, are updated in several calls. Children
    /// that the list does not have any more are left to [`prune`](Self::prune), which deletes all at
    /// once.
    ///
    /// # Example
    ///
    /// ```no_run
    /// use k8s_openapi::api::{apps::v1::Deployment, core::v1::ConfigMap};
    /// use serde_json::json;
    /// use windlass_controller::{
    ///     Context, DependentState, Dependents, Desired, Failure, Owned, has_condition,
    /// };
    ///
    /// async fn update(
    ///     shards: &Owned<ConfigMap, Deployment>,
    ///     cx: &Context<ConfigMap>,
    /// ) -> Result<bool, Failure> {
    ///     let desired = (0..3).map(|index| {
    ///         let shard = json!({ "spec": { "replicas": 2 } });
    ///         Desired::json(shard).named(format!("{}-{index}", cx.key().name()))
    ///     });
    ///     let rolling = shards.rolling(desired).at_most(2);
    ///     let mut plan = Dependents::new();
    ///     let shards = plan.add(
    ///         rolling
    ///             .ready(has_condition("Available", "True"))
    ///             .failed(has_condition("Progressing", "False")),
    ///     );
    ///     let states = plan.apply(cx).await?;
    ///     Ok(states.get(shards) == Some(DependentState::Ready))
    /// }
    /// ```
    pub fn rolling<D: IntoDesired<C>>(
        &self,
        desired: impl IntoIterator<Item = D>,
    ) -> Dependent<K, C> {
        let desired = desired.into_iter().map(|it| it.into_desired().rolled());
        self.dependents(desired.collect(), Some(1))
    }

    fn dependents(&self, desired: Vec<Desired<C>>, at_most: Option<usize>) -> Dependent<K, C> {
        Dependent {
            owned: self.clone(),
            desired,
            after: Vec::new(),
            is_wanted: true,
            ready: None,
            failed: None,
            at_most,
        }
    }
}

// === impl Dependent ===

impl<K: Watchable, C: Watchable> Dependent<K, C> {
    /// Sets what it depends on, which must be ready before it is applied, and which is deleted after
    /// it. By default nothing. A second call adds to the first.
    ///
    /// With an id of other [`Dependents`], `apply` and `delete` fail permanently before they write.
    pub fn after(mut self, others: impl IntoIterator<Item = DependentId>) -> Self {
        self.after.extend(others);
        self
    }

    /// Sets whether it is wanted: otherwise it is deleted, and all that depend on it. By default true.
    pub fn when(self, is_wanted: bool) -> Self {
        Self { is_wanted, ..self }
    }

    /// Sets when it is ready, for those that depend on it. The check gets the newest known state. By
    /// default it is ready as soon as it is applied. A check that panics fails its dependent, which is
    /// not ready then.
    ///
    /// A child is not ready while it is being deleted, or while `status.observedGeneration` is older
    /// than its generation, because its status is then that of an earlier desired state. For other
    /// kinds, the check itself must tell an old status from a new one.
    pub fn ready(self, is_ready: impl Fn(&C) -> bool + Send + Sync + 'static) -> Self {
        let ready: Option<Check<C>> = Some(Box::new(is_ready));
        Self { ready, ..self }
    }

    /// Sets when it has failed, as [`ready`](Self::ready) does. It is then not ready, and
    /// [`DependentState::Failed`] is reported. By default never.
    pub fn failed(self, has_failed: impl Fn(&C) -> bool + Send + Sync + 'static) -> Self {
        let failed: Option<Check<C>> = Some(Box::new(has_failed));
        Self { failed, ..self }
    }

    /// Sets how many of the children of [`Owned::rolling`] are updated at a time, by default 1. With 0
    /// the update is paused. It has no effect on an [`Owned::dependent`].
    pub fn at_most(self, count: usize) -> Self {
        let at_most = self.at_most.map(|_| count);
        Self { at_most, ..self }
    }
}

/// Shows the number of children, and never their content, which may be secret.
impl<K: Watchable, C: Watchable> fmt::Debug for Dependent<K, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Dependent")
            .field("children", &self.desired.len())
            .field("after", &self.after)
            .field("is_wanted", &self.is_wanted)
            .finish_non_exhaustive()
    }
}
