//! Wrappers that hold each object with a finalizer until its clean-up has succeeded.
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
    reconciler::{DeleteOrder, OpinionatedReconciler},
    selector_exit::OnSelectorExit,
    watcher::OpinionatedWatcher,
};
