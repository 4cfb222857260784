//! Composite controllers: a function computes the children and the status of an object from the
//! object and its existing children. The controller applies them.
//!
//! A [`CompositeHandler`] is the function. It sends no request: it gets a [`SyncRequest`] with the
//! parent and its children, and returns a [`SyncResponse`] with the desired children and the status.
//! A [`CompositeController`] watches the parents and the children, calls the handler after each
//! change of them, and brings the cluster to what the response says.
//!
//! # Not supported
//!
//! - Rolling updates, and an order of children by their readiness. A handler can leave out a child
//!   until another one is ready, because it is called again after each change.

// The interface of handlers.
mod handler;
mod request;
mod response;
mod views;

// The controller.
mod child_config;
mod controller;
mod error;

// Calls.
mod calls;
mod observed_generation;
mod threads;

pub use windlass_controller::ChildErrors;

pub use crate::{
    child_config::ChildConfig,
    controller::{CompositeBuilder, CompositeController},
    error::CompositeBuildError,
    handler::{AsyncCompositeHandler, CompositeHandler},
    request::{ObservedChildren, SyncRequest},
    response::{FinalizeResponse, SyncResponse},
    views::{RawView, TypedView},
};
