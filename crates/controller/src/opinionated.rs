//! Opinionated handlers: a watcher and a reconciler around others, that add a finalizer to each
//! object so that no delete is missed, whenever the operator was down.
//!
//! `rule` says what is to be done about an object, from what it shows and what the `ledger`
//! remembers; the two wrappers do it. Both write finalizers through
//! [`Finalizers`](crate::Finalizers).

// What is to be done.
mod carried;
mod change;
mod ledger;
mod rule;

// Who does it.
mod custody;
mod leaving;
mod reconciler;
mod watcher;

pub use self::{
    leaving::Leaving,
    reconciler::{DeleteOrder, OpinionatedReconciler},
    watcher::OpinionatedWatcher,
};
