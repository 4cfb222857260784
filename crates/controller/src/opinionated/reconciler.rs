//! A reconciler that no delete passes by.

use std::{fmt, sync::Arc};

use kube::Resource;
use serde::Serialize;

use super::{
    carried::{Carried, carry, carry_on},
    change,
    custody::{Custody, Fate},
    leaving::Leaving,
    ledger::Progress,
    rule::{Duty, Told, duty},
};
use crate::{
    Action, Failure, Finalizers, Outcome, Reconciler, Request, State, finalizer::Standing,
};

/// A reconciler around another, that keeps each object with a finalizer until the other has
/// cleaned up after it.
///
/// # Contract
///
/// *Promised.*
/// - An object that is new gets the in-progress finalizer, is passed on as `Created`, and gets
///   the finalizer once that has succeeded, whether or not it is to be called again later.
/// - At the start, an object that has the finalizer is passed on as `Resynced`. One whose
///   `Created` had not succeeded is passed on as `Created` again.
/// - An object that is marked for deletion is passed on as `Deleted` while the finalizer holds
///   it; once that has succeeded, and not before, the finalizer goes. That it is then really
///   gone is told to nobody. [`DeleteOrder::AfterRemoval`] has it the other way round. A
///   `Deleted` that asks to be called again is not done yet: the finalizer stays until it is.
/// - An update of an object whose finalizer is missing adds it, and is not passed on; the update
///   that follows of it is: as `Created` if that was never done, else as `Updated`.
/// - Outcomes, errors, states and attempts pass through, and are those of one request whichever
///   call of ours goes wrong: a call that has succeeded is not made again because its finalizer
///   could not be written.
/// - Of our own patches only those are passed on whose event may have dropped a call that is
///   owed.
///
/// *Asked.* That what is done already is found out: after a crash between a call and its
/// finalizer the call is made again. A `Deleted` can come for an object whose `Created` did not
/// succeed, and twice.
///
/// # Example
///
/// ```
/// use std::convert::Infallible;
///
/// use k8s_openapi::api::core::v1::ConfigMap;
/// use windlass_controller::{
///     FinalizerName, Finalizers, OpinionatedReconciler, Outcome, Request,
/// };
///
/// # fn example(client: kube::Client) -> Result<(), windlass_controller::InvalidFinalizer> {
/// let finalizers = Finalizers::new(client, FinalizerName::new("example.io/publisher")?)?;
/// let reconciler = OpinionatedReconciler::new(finalizers, |request: Request<ConfigMap>| async move {
///     println!("{:?} {}", request.action(), request.key());
///     Ok::<_, Infallible>(Outcome::done())
/// });
/// # let _ = reconciler;
/// # Ok(())
/// # }
/// ```
///
/// Source: grafana-app-sdk, `operator.OpinionatedReconciler`.
#[must_use = "a reconciler does nothing until it is added to a controller"]
pub struct OpinionatedReconciler<K, R> {
    custody: Custody<K>,
    reconciler: R,
    order: DeleteOrder,
}

/// When a reconciler is told of a deletion.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum DeleteOrder {
    /// While the finalizer still holds the object; the finalizer goes when the call has
    /// succeeded. The default.
    #[default]
    WhileHeld,
    /// When the object is gone: the finalizer is removed as soon as the object is marked, and
    /// the `Deleted` of the informer is passed on. The order that grafana-app-sdk's page
    /// describes.
    ///
    /// It can lose deletions: once the finalizer is gone nothing is left that remembers the
    /// object, so that an operator that stops, crashes or gives up retrying between the removal
    /// and the end of that call never cleans up.
    AfterRemoval,
}

// === impl OpinionatedReconciler ===

impl<K, R> OpinionatedReconciler<K, R>
where
    K: Resource + Serialize + Send + Sync + 'static,
    R: Reconciler<K>,
{
    /// Wraps `reconciler`.
    pub fn new(finalizers: Finalizers<K>, reconciler: R) -> Self {
        Self {
            custody: Custody::new(finalizers),
            reconciler,
            order: DeleteOrder::default(),
        }
    }

    /// When the reconciler is told of a deletion. By default while the finalizer holds the
    /// object.
    pub fn delete_order(self, order: DeleteOrder) -> Self {
        Self { order, ..self }
    }

    /// What is done about an object that leaves the informer's selector. By default the
    /// finalizer goes.
    pub fn on_leave(mut self, leaving: Leaving) -> Self {
        self.custody.leaving = leaving;
        self
    }

    /// Reconciles an object that is there.
    async fn see(&self, request: Request<K>, carried: Option<Carried>) -> Result<Outcome, Failure> {
        let custody = &self.custody;
        let mut object = Arc::clone(request.object());
        let mut sight = custody.sight(&object);
        let mut progress = custody.progress(&object);
        if !sight.dying
            && carried
                .as_ref()
                .is_some_and(|it| it.passed_as == Action::Created)
        {
            return self.create(request, carried).await;
        }
        if sight.standing == (Standing::Held { tidy: true })
            && matches!(progress, Some(Progress::Held { .. }))
        {
            // It shows what we knew, from now on.
            custody.take_progress(&object);
        }
        loop {
            let told = match request.action() {
                Action::Updated => Told::Updated {
                    matters: !self.is_needless(&request, progress),
                },
                Action::Resynced => Told::Resynced,
                _ => Told::Added,
            };
            match duty(told, sight, progress) {
                Duty::Nothing => return Ok(Outcome::done()),
                Duty::Hold => {
                    let Some(held) = custody.hold(&object).await? else {
                        return Ok(Outcome::done());
                    };
                    if let Some(Progress::Added { again }) = progress {
                        let held = Progress::Held { again };
                        progress = Some(held);
                        custody.note(&object, held);
                    }
                    if let Standing::Held { .. } = sight.standing {
                        sight.standing = Standing::Held { tidy: true };
                    }
                    object = held;
                }
                Duty::Add if told_missing(&request, sight.standing) => {
                    return self.adopt(&request).await;
                }
                Duty::Add => return self.create(request, carried).await,
                Duty::Resume => {
                    return self.pass(request, Action::Resynced, object, carried).await;
                }
                Duty::Update => {
                    return self.pass(request, Action::Updated, object, carried).await;
                }
                Duty::Delete => return self.end(request, object, carried).await,
                Duty::Release => {
                    custody.release(&object).await?;
                    return Ok(Outcome::done());
                }
            }
        }
    }

    /// Whether an update is an echo of ours, and nothing is owed that it has dropped.
    fn is_needless(&self, request: &Request<K>, progress: Option<Progress>) -> bool {
        let settled = matches!(
            progress,
            Some(Progress::Held { again: false } | Progress::Added { again: false })
        );
        // A guard is followed by a finalizer, whose echo is passed on if something is owed.
        let guard = progress.is_some()
            && self.custody.finalizers.standing(request.object()) == Standing::Guarded;
        (settled || guard)
            && (request.old())
                .is_some_and(|old| change::is_echo(&self.custody.finalizers, old, request.object()))
    }

    /// Puts the finalizer that an update lacks, and leaves the rest to the update that follows.
    async fn adopt(&self, request: &Request<K>) -> Result<Outcome, Failure> {
        let old = request
            .old()
            .map(|old| self.custody.finalizers.standing(old));
        if let Some(Standing::Held { .. }) = old {
            // Somebody took it away. It has been added before.
            self.custody.hold(request.object()).await?;
        } else {
            // It was never added, and has to be.
            self.custody.guard(request.object()).await?;
        }
        Ok(Outcome::done())
    }

    /// Adds an object: guards it, passes it on, and holds it.
    async fn create(
        &self,
        request: Request<K>,
        carried: Option<Carried>,
    ) -> Result<Outcome, Failure> {
        let custody = &self.custody;
        let (state, owed) = match carried {
            Some(Carried { state, owed, .. }) => (state, owed),
            None => (None, None),
        };
        let received = Arc::clone(request.object());
        let (object, outcome, state) = if let Some(outcome) = owed {
            (received, outcome, state)
        } else {
            let Some(object) = custody
                .guard(&received)
                .await
                .map_err(|error| carry(Failure::from(error), Action::Created, state.clone()))?
            else {
                return Ok(Outcome::done());
            };
            let request = request.passed_on(Action::Created, Arc::clone(&object), state.clone());
            let outcome = match self.reconciler.reconcile(request).await {
                Ok(outcome) => outcome,
                Err(error) => return Err(carry(error.into(), Action::Created, state)),
            };
            let state = outcome.clone().into_state().or(state);
            (object, outcome, state)
        };
        let again = outcome.delay().is_some();
        custody.note(&object, Progress::Added { again });
        match custody.hold(&object).await {
            // If it is on its way out, the guard goes on holding it: what matters is that it
            // is not created again for an older event.
            Ok(_) => custody.note(&object, Progress::Held { again }),
            Err(error) => {
                let carried = Carried {
                    passed_as: Action::Created,
                    state,
                    owed: Some(outcome),
                };
                return Err(Failure::from(error).state(State::new(carried)));
            }
        }
        Ok(carry_on(outcome, Action::Created, state))
    }

    /// Passes an object on that we hold.
    async fn pass(
        &self,
        request: Request<K>,
        action: Action,
        object: Arc<K>,
        carried: Option<Carried>,
    ) -> Result<Outcome, Failure> {
        let state = carried.and_then(|carried| carried.state);
        let custody = &self.custody;
        let known = matches!(custody.progress(&object), Some(Progress::Held { .. }));
        if known {
            // Until it has succeeded: a panic or a timeout leaves it so.
            custody.note(&object, Progress::Held { again: true });
        }
        let request = request.passed_on(action, Arc::clone(&object), state.clone());
        match self.reconciler.reconcile(request).await {
            Ok(outcome) => {
                if known && outcome.delay().is_none() {
                    custody.note(&object, Progress::Held { again: false });
                }
                let state = outcome.clone().into_state().or(state);
                Ok(carry_on(outcome, action, state))
            }
            Err(error) => Err(carry(error.into(), action, state)),
        }
    }

    /// Cleans up after an object that we hold, and lets it go.
    async fn end(
        &self,
        request: Request<K>,
        object: Arc<K>,
        carried: Option<Carried>,
    ) -> Result<Outcome, Failure> {
        if self.order == DeleteOrder::AfterRemoval {
            self.custody.release(&object).await?;
            return Ok(Outcome::done());
        }
        let outcome = self.clean(request, Arc::clone(&object), carried).await?;
        if outcome.delay().is_none() {
            self.custody.note(&object, Progress::Cleaned);
            self.custody.release(&object).await?;
        }
        Ok(outcome)
    }

    /// Passes an object on as deleted.
    async fn clean(
        &self,
        request: Request<K>,
        object: Arc<K>,
        carried: Option<Carried>,
    ) -> Result<Outcome, Failure> {
        // A state that another action left says nothing about this one.
        let carried = carried.filter(|carried| carried.passed_as == Action::Deleted);
        self.pass(request, Action::Deleted, object, carried).await
    }

    /// Finds out about an object that is out of sight.
    async fn miss(
        &self,
        request: Request<K>,
        carried: Option<Carried>,
    ) -> Result<Outcome, Failure> {
        let custody = &self.custody;
        let last = Arc::clone(request.object());
        let progress = custody.progress(&last);
        let told = matches!(progress, Some(Progress::Released));
        if told && self.order == DeleteOrder::WhileHeld {
            custody.take_progress(&last);
            return Ok(Outcome::done());
        }
        let free = custody.sight(&last).standing == Standing::Free && progress.is_none();
        let fate = if told || free {
            Fate::Gone
        } else {
            custody.fate(&last).await?
        };
        if progress == Some(Progress::Cleaned) {
            if let Fate::Dying(live) | Fate::Left(live) = fate {
                custody.part(&live).await?;
            }
            custody.take_progress(&last);
            return Ok(Outcome::done());
        }
        // From here on nothing is remembered: a call that is made again finds out anew.
        custody.take_progress(&last);
        match (fate, custody.leaving) {
            (Fate::Gone, _) => self.clean(request, last, carried).await,
            (Fate::Dying(live), _) | (Fate::Left(live), Leaving::CleanUp) => {
                self.depart(request, live, carried).await
            }
            (Fate::Left(live), Leaving::Release) => {
                custody.part(&live).await?;
                Ok(Outcome::done())
            }
            (Fate::Left(live), Leaving::Report) => {
                custody.report(&live);
                Ok(Outcome::done())
            }
            (Fate::Free, _) => Ok(Outcome::done()),
        }
    }

    /// Cleans up after an object that is out of sight, and lets it go.
    async fn depart(
        &self,
        request: Request<K>,
        live: Arc<K>,
        carried: Option<Carried>,
    ) -> Result<Outcome, Failure> {
        let outcome = self.clean(request, Arc::clone(&live), carried).await?;
        if outcome.delay().is_none() {
            self.custody.part(&live).await?;
        }
        Ok(outcome)
    }
}

/// Whether `request` is of an update that finds nothing of ours.
fn told_missing<K>(request: &Request<K>, standing: Standing) -> bool {
    request.action() == Action::Updated && standing == Standing::Free
}

impl<K, R> Reconciler<K> for OpinionatedReconciler<K, R>
where
    K: Resource + Serialize + Send + Sync + 'static,
    R: Reconciler<K>,
{
    type Error = Failure;

    async fn reconcile(&self, request: Request<K>) -> Result<Outcome, Failure> {
        let carried = request.state().and_then(State::get::<Carried>).cloned();
        if request.action() == Action::Deleted {
            self.miss(request, carried).await
        } else {
            self.see(request, carried).await
        }
    }
}

impl<K, R> fmt::Debug for OpinionatedReconciler<K, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OpinionatedReconciler")
            .field("custody", &self.custody)
            .field("order", &self.order)
            .finish_non_exhaustive()
    }
}
