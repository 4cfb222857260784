//! Controllers: they turn the events of informers into calls of watchers and reconcilers.
//!
//! An [`InformerController`] dispatches the events of informers to the [`Watcher`]s and
//! [`Reconciler`]s of their kind: in the order in which these were added, one call at a time for
//! each object, with retries.
//!
//! # Failed calls
//!
//! A handler that returns an error, panics or exceeds the
//! [`timeout`](InformerControllerBuilder::timeout) has failed: only this handler, for this object.
//! [`on_error`](InformerControllerBuilder::on_error) is called. The [`RetryPolicy`] decides whether
//! and when the call is repeated; a [`Failure`] can set the delay or prevent the retry. Until then
//! the call is pending. While the backoff runs, an event with the same generation leaves the call
//! pending. For any other new event of the object, the [`RetryDequeuePolicy`] decides whether the
//! pending call is dropped. A repeated call gets the newest object ([`RetryObject`]), the [`State`]
//! of earlier calls, and the number of its attempt. When the policy stops the retries,
//! [`on_exhausted`](InformerControllerBuilder::on_exhausted) is called and the call becomes a dead
//! letter ([`dead_letters`](InformerController::dead_letters)). The handler is called again for the
//! next event of the object, or when you [`redrive`](InformerController::redrive) the dead letter.
//!
//! # Which handlers receive an event
//!
//! All handlers of its kind, except those whose [`Predicate`] rejects it. A [`Mapper`] returns the
//! keys of affected objects of another kind, for example owners; these objects are dispatched to
//! their handlers again.
//!
//! # Not supported
//!
//! - Replaying earlier events to a handler that is added while the controller runs.

#![cfg_attr(
    test,
    expect(
        clippy::duplicate_mod,
        reason = "the model test compiles the engine again, with another lock and clock"
    )
)]

// The modules are in the order in which an event passes them. The numbers are the stages of
// ARCHITECTURE.md; 1 to 5 are in windlass-informer.

// Events.
mod action;
mod content;
mod event;

// 6. Routing: handlers and mappers.
mod handler;
mod mapper;
mod merge;
mod predicate;
mod route;

// 7. The queue.
mod schedule;

// 8. Calls of handlers.
mod reasons;
mod reconciler;
mod running;
mod watcher;
mod work;

// 9. Retries.
mod call_observer;
mod gcra;
mod report;
mod retry;

// The controller.
mod controller;
mod erased_runnable;
mod informer_state;
mod runnable;

// Level-triggered controllers.
mod level;
mod mode;

// Wrappers with finalizers.
mod finalizer;
mod opinionated;

// Declarative children, and the record of a controller's own writes.
#[doc(hidden)]
pub mod children;
mod own_writes;

// Programming models over the controller.
mod apply_cleanup;
mod keyed;

// Helpers of reconcilers.
mod conditions;
mod crds;
mod recorder;

// Fences for leader election.
mod fence;

// 10. Observability and errors.
mod error;
mod metrics;
mod trace;
#[cfg(feature = "opentelemetry")]
mod tracer;

#[cfg(feature = "opentelemetry")]
pub use crate::tracer::{PackageTracer, get_tracer, opentelemetry_layer, set_tracer};
pub use windlass_informer::ErasedObject;

// For the other crates of the workspace, not for users.
#[doc(hidden)]
pub use crate::{
    call_observer::{CallObserver, observe_calls},
    erased_runnable::ErasedRunnable,
    fence::{Fenced, is_time_simulated},
    schedule::Priority,
};

pub use crate::{
    action::{Action, ResourceAction},
    apply_cleanup::{ApplyCleanup, ApplyCleanupController, ApplyCleanupError},
    children::{
        ChildError, ChildErrors, Deleted, Desired, IntoDesired, InvalidChild, InvalidSelector,
        UpdateStrategy,
    },
    conditions::{Conditions, InvalidCondition, NewCondition},
    controller::{
        Coalescing, DeadLetter, HandledAs, InformerController, InformerControllerBuilder, Kind,
        OnStop, Registration,
    },
    crds::{CheckError, InstallError, check_crds, install_crds, join_versions, replace_crds},
    error::{AddError, BuildError, HandlerError, RunError},
    fence::{Fence, FenceClosed, FenceLayer, FencePermit},
    finalizer::{
        DefaultFinalizerSupplier, FinalizerChange, FinalizerError, FinalizerHook, FinalizerName,
        FinalizerPatch, FinalizerRegistry, FinalizerSupplier, Finalizers, Interest,
        InvalidFinalizer, PatchClient, UnwatchedObject,
    },
    handler::{HandlerId, Role},
    informer_state::{InformerDiagnostics, InformerHealth},
    keyed::{
        Background, FnResource, KeyedResource, ResourceController, TestRun, new_resource,
        test_controller_run,
    },
    level::{
        AddedTrigger, AddedWatch, ChildSelector, Context, Controller, ControllerBuildError,
        ControllerBuilder, Dependent, DependentId, DependentState, DependentStates, Dependents,
        DependentsError, GeneratedSelector, Informers, MissingKind, ObjectReconciler, Owned,
        Referred, Related, RequeueHandle, Step, Trigger, TriggerHandle, Watch, Watchable,
        has_condition,
    },
    mapper::{Mapper, Owners, SameName},
    metrics::ObjectMetrics,
    mode::{Mode, PAUSED, WritePaused},
    opinionated::{
        DeleteOrder, FinalizerTiming, OnSelectorExit, OpinionatedReconciler, OpinionatedWatcher,
    },
    predicate::{
        AnnotationsChanged, Filtered, GenerationChanged, LabelsChanged, Predicate,
        ResourceVersionChanged,
    },
    reasons::Reasons,
    reconciler::{
        CannotCastError, Failure, Outcome, Reconciler, Request, Retry, State, TypedReconciler,
    },
    recorder::{EventPublisher, EventRecorder, ObjectEvent},
    report::{CallOutcome, CallReport, ErrorReport},
    retry::{
        DeleteRetry, ExponentialBackoff, NeverDequeue, NeverRetry, NewEvent,
        OpinionatedRetryDequeuePolicy, PendingCall, RateLimited, RetryDequeuePolicy, RetryObject,
        RetryPolicy,
    },
    runnable::Runnable,
    running::RunningCall,
    watcher::{SimpleWatcher, Watcher},
};
