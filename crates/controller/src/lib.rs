//! Controllers: what informers tell becomes calls of watchers and reconcilers.
//!
//! An [`InformerController`] takes the events of informers, and has them told to the
//! [`Watcher`]s and [`Reconciler`]s of their kind: in the order in which these were added, one
//! object at a time, with retries. The modules below stand in the order in which an event
//! passes them.
//!
//! # What a call that fails comes to
//!
//! A handler that returns an error, panics or exceeds the
//! [`timeout`](InformerControllerBuilder::timeout) has failed: it alone, for that object.
//! [`on_error`](InformerControllerBuilder::on_error) is called. The [`RetryPolicy`] says whether
//! and when it is called again, unless the [`Failure`] itself does. Until then the call is
//! pending; when something new happens to the object, the [`RetryDequeuePolicy`] is asked
//! whether it is still wanted. A repeated call has the newest object ([`RetryObject`]), the
//! [`State`] that earlier calls left, and the number of its attempt. When the policy gives up,
//! [`on_exhausted`](InformerControllerBuilder::on_exhausted) is called, and nothing more happens
//! until something happens to the object, or the operator's author asks for it
//! ([`given_up`](InformerController::given_up), [`redrive`](InformerController::redrive)).
//!
//! # Which handlers receive an event
//!
//! All handlers of its kind, except those whose [`Predicate`] refuses it. A [`Mapper`] names objects
//! of another kind, for example those that own, use or mirror the changed object; their handlers
//! receive these objects again.
//!
//! # Not supported
//!
//! - Telling a handler that is added while the controller runs what happened before.

#![cfg_attr(
    test,
    expect(
        clippy::duplicate_mod,
        reason = "the model test compiles the engine again, with another lock and clock"
    )
)]

// What is carried.
mod action;
mod content;
mod event;

// 6. Which handlers and which other objects an event concerns.
mod mapper;
mod predicate;
mod route;

// 7. Whose turn it is.
mod schedule;

// 8. The work.
mod reconciler;
mod watcher;
mod work;

// 9. What comes back.
mod retry;

// All of it in one.
mod controller;
mod runnable;

// Around the work: nothing is deleted unseen.
mod finalizer;
mod opinionated;

// Around the work: nothing begins and nothing is written after the lease.
mod fence;

// 10. What one sees, and what can go wrong.
mod error;
mod metrics;
mod trace;
#[cfg(feature = "opentelemetry")]
mod tracer;

#[cfg(feature = "opentelemetry")]
pub use crate::tracer::{PackageTracer, get_tracer, opentelemetry_layer, set_tracer};
pub use windlass_informer::AnyObject;

pub use crate::{
    action::{Action, ResourceAction},
    controller::{
        Coalescing, ErrorReport, GivenUp, InformerController, InformerControllerBuilder,
        InformerHealth,
    },
    error::{AddError, BuildError, HandlerError, RunError},
    fence::{Fence, FenceClosed, FenceLayer, FencePermit, Fenced, is_time_simulated},
    finalizer::{
        DefaultFinalizerSupplier, FinalizerError, FinalizerName, FinalizerPatch, FinalizerSupplier,
        Finalizers, InvalidFinalizer, Orphan, PatchClient, QualifiedFinalizerSupplier,
    },
    mapper::{Mapper, Owners, SameName},
    opinionated::{DeleteOrder, OnSelectorExit, OpinionatedReconciler, OpinionatedWatcher},
    predicate::{
        And, AnnotationsChanged, Filtered, GenerationChanged, LabelsChanged, Not, Or, Predicate,
        ResourceVersionChanged,
    },
    reconciler::{CannotCastError, Failure, Outcome, Reconciler, Request, State, TypedReconciler},
    retry::{
        AlwaysDequeue, Arrival, DeleteRetry, ExponentialBackoff, NeverDequeue, NeverRetry,
        OpinionatedRetryDequeuePolicy, PendingRetry, RetryDequeuePolicy, RetryObject, RetryPolicy,
    },
    route::{HandlerId, Role},
    runnable::Controller,
    watcher::{SimpleWatcher, Watcher},
};
