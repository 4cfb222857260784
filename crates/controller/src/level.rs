//! Level-triggered controllers: each call gets the newest object, and not a change.

// The interface.
mod builder;
mod context;
mod controller;
mod error;
mod memo;
mod missing_kind;
mod reconciler;
mod status;
mod watch;

// Other kinds.
mod children;
mod claims;
mod dependents;
mod handles;
mod informers;
mod references;

// Causes of calls.
mod filter;
mod requeue;
mod triggers;

// Calls.
mod handler;
mod own;
mod setup;

// When a call begins.
mod debounce;
mod pace;

pub use self::{
    builder::ControllerBuilder,
    claims::{ChildSelector, GeneratedSelector},
    context::{Context, Step},
    controller::{AddedTrigger, Controller},
    dependents::{
        Dependent, DependentId, DependentState, DependentStates, Dependents, DependentsError,
        has_condition,
    },
    error::ControllerBuildError,
    handles::{Owned, Referred, Related},
    informers::{AddedWatch, Informers},
    missing_kind::MissingKind,
    reconciler::ObjectReconciler,
    requeue::RequeueHandle,
    triggers::{Trigger, TriggerHandle},
    watch::{Watch, Watchable},
};
use crate::{Mode, Reasons};
