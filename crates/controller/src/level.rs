//! Level-triggered controllers: each call gets the newest object, and not a change.

// The interface.
mod builder;
mod context;
mod controller;
mod error;
mod reconciler;
mod watch;

// Other kinds.
mod children;
mod handles;
mod informers;
mod references;

// Causes of calls.
mod filter;
mod reasons;
mod triggers;

// Calls.
mod adapter;
mod handler;
mod own;
mod setup;

// When a call begins.
mod debounce;
mod pace;
mod rate;

pub(crate) use self::{adapter::LevelAdapter, own::OwnWriteTracker};
pub use self::{
    builder::{ControllerBuilder, MissingKind},
    context::{Context, Step},
    controller::Controller,
    error::ControllerBuildError,
    handles::{Owned, Referred, Related},
    informers::{AddedWatch, Informers},
    reasons::Reasons,
    reconciler::ObjectReconciler,
    triggers::{Trigger, TriggerHandle},
    watch::{Watch, Watchable},
};
