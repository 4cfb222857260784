//! Wrappers that hold each object with a finalizer until its clean-up has succeeded.
//!
//! In this module, to *add* an object is to call the inner handler for a new object. An object is
//! *in progress* while it has the in-progress finalizer, *held* while it has the finalizer, and
//! *released* when the finalizer is removed. The *inner* handler is the user's.
//!
//! A pure core (`next_step`) computes the next step from the observed object and what this process
//! remembers of it (`memory`). `finalizer_state` writes finalizers and remembers. The wrappers call
//! the inner handler.

mod carried;
mod change;
mod finalizer_state;
mod memory;
mod next_step;
mod reconciler;
mod selector_exit;
mod watcher;

pub use self::{
    reconciler::{DeleteOrder, FinalizerTiming, OpinionatedReconciler},
    selector_exit::OnSelectorExit,
    watcher::OpinionatedWatcher,
};
