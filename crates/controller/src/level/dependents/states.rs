//! The ids of dependents, and their states after an apply.

use std::fmt;

use crate::Failure;

/// Identifies a dependent within its [`Dependents`](super::Dependents).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DependentId {
    pub(super) plan: u64,
    pub(super) index: usize,
}

/// The state of a dependent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DependentState {
    /// It is applied, and ready.
    Ready,
    /// It is applied, and not ready yet.
    NotReady,
    /// It is applied, and [has failed](super::Dependent::failed).
    Failed,
    /// Nothing was written for it, because one that it depends on is not ready.
    Waiting,
    /// It is not wanted, and it still exists, or one that depends on it does.
    Deleting,
    /// It is not wanted, and does not exist.
    Deleted,
}

/// The states of all dependents after an [`apply`](super::Dependents::apply).
///
/// It displays what is not ready and why, for example for the message of a condition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DependentStates {
    plan: u64,
    states: Vec<Reported>,
}

/// Why dependents were not applied, and what the states of all of them are. It converts to [`Failure`]
/// with `?`.
///
/// # Example
///
/// ```no_run
/// use k8s_openapi::api::core::v1::ConfigMap;
/// use windlass_controller::{Context, Dependents, Failure};
///
/// async fn apply(plan: Dependents<ConfigMap>, cx: &Context<ConfigMap>) -> Result<(), Failure> {
///     let applied = plan.apply(cx).await;
///     let states = match &applied {
///         Ok(states) => Some(states),
///         Err(error) => error.states(),
///     };
///     if let Some(states) = states {
///         println!("{states}");
///     }
///     applied?;
///     Ok(())
/// }
/// ```
#[derive(Debug)]
pub struct DependentsError {
    failure: Failure,
    states: Option<DependentStates>,
}

/// A dependent depends on one of another plan.
#[derive(Debug, thiserror::Error)]
#[error(
    "a dependent was added that depends on one of other `Dependents`, and nothing was written; give \
     `after` only ids that `add` of the same `Dependents` has returned"
)]
pub(super) struct MixedPlans;

/// The state of a dependent, and why it is not ready.
pub(super) type Reported = (DependentState, Option<String>);

// === impl DependentStates ===

impl DependentStates {
    pub(super) const fn new(plan: u64, states: Vec<Reported>) -> Self {
        Self { plan, states }
    }

    /// The state of a dependent. `None` if it is not one of these.
    #[must_use]
    pub fn get(&self, id: DependentId) -> Option<DependentState> {
        let (state, _) = self.states.get(id.index)?;
        (id.plan == self.plan).then_some(*state)
    }

    /// Whether all dependents are as desired: those that are wanted are ready, and the others do not
    /// exist.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        use DependentState::{Deleted, Ready};

        let is_done = |(state, _): &Reported| matches!(state, Ready | Deleted);
        self.states.iter().all(is_done)
    }
}

impl fmt::Display for DependentStates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let reasons = self.states.iter().filter_map(|(_, reason)| reason.clone());
        let reasons: Vec<_> = reasons.collect();
        if reasons.is_empty() {
            return f.write_str("all are ready");
        }
        f.write_str(&reasons.join("; "))
    }
}

// === impl DependentsError ===

impl DependentsError {
    pub(super) const fn new(failure: Failure, states: Option<DependentStates>) -> Self {
        Self { failure, states }
    }

    /// The states of all dependents. `None` if nothing was written for any.
    #[must_use]
    pub const fn states(&self) -> Option<&DependentStates> {
        self.states.as_ref()
    }
}

impl fmt::Display for DependentsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.failure.fmt(f)
    }
}

impl From<Failure> for DependentsError {
    fn from(failure: Failure) -> Self {
        Self::new(failure, None)
    }
}

impl From<DependentsError> for Failure {
    fn from(error: DependentsError) -> Self {
        error.failure
    }
}
