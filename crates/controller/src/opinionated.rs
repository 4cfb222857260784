//! Wrappers that hold each object with a finalizer until its clean-up has succeeded.
//!
//! In this module, to *add* an object is to call the inner handler for a new object. An object is
//! *in progress* while it has the in-progress finalizer, *held* while it has the finalizer, and
//! *released* when the finalizer is removed. The *inner* handler is the user's.
//!
//! A pure core (`next_step`) computes the next step from the observed object and what this process
//! remembers of it (`memory`). `finalizer_state` writes finalizers and remembers, `received` decides
//! which events are processed, and `clean_up` ends the work for an object. The wrappers call the
//! inner handler.

mod carried;
mod change;
mod clean_up;
mod finalizer_state;
mod memory;
mod next_step;
mod received;
mod reconciler;
mod selector_exit;
mod versions;
mod watcher;

pub use self::{
    reconciler::{DeleteOrder, FinalizerTiming, OpinionatedReconciler},
    selector_exit::OnSelectorExit,
    watcher::OpinionatedWatcher,
};
