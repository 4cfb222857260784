//! Wrappers that hold each object with a finalizer until its clean-up has succeeded.
//!
//! In this module, to *add* an object is to call the inner handler for a new object. An object is
//! *in progress* while it has the in-progress finalizer, *held* while it has the finalizer, and
//! *released* when the finalizer is removed. The *inner* handler is the user's.
//!
//! There is one wrapper, `OpinionatedReconciler`. An `OpinionatedWatcher` is that wrapper around an
//! adapter from actions to the methods of a watcher.
//!
//! A pure core (`next_step`) computes the next step from what is observed: the object and its event,
//! what this process remembers of the object (`memory`), and what an earlier call has left
//! (`inner_call`). `deleted_step` does that for an object that the informer reported as deleted. The
//! wrapper takes the step. `finalizer_state` writes finalizers and remembers, `received` decides
//! which events are processed, and `clean_up` ends the work for an object.

mod change;
mod clean_up;
mod deleted_step;
mod finalizer_state;
mod inner_call;
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
