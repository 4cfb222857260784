#![doc = include_str!("../README.md")]

// The names that most operators use, at the root and for `use windlass::prelude::*`.
#[doc(no_inline)]
pub use crate::prelude::*;

pub mod prelude {
    //! The names that most operators use: `use windlass::prelude::*`.
    //!
    //! The same names are at the root of the crate. All other names are in the modules.

    pub use crate::{
        admin::AdminServer,
        controller::InformerController,
        finalizer::{FinalizerName, Finalizers, OpinionatedReconciler, OpinionatedWatcher},
        handler::{Action, Failure, Outcome, Reconciler, Request, SimpleWatcher, Watcher},
        informer::{ErrorChain, Event, Informer, ObjectKey},
        leader::LeaderElection,
        level::{Context, Controller, ControllerBuilder, Desired, ObjectReconciler, Owned, Watch},
        mapper::{Mapper, Owners},
        operator::Operator,
        predicate::{GenerationChanged, Predicate},
        retry::ExponentialBackoff,
        source::ListWatch,
        store::Store,
    };
}

// The modules in the order in which an event passes them.

pub mod source {
    //! Sources of changes: a list and watch of an API server, or a script in a test.

    #[cfg(feature = "kube-runtime")]
    pub use windlass_informer::WatcherStream;
    pub use windlass_informer::{
        Backoff, Change, Changes, DecodeError, Identity, InvalidBackoff, InvalidListWatch,
        InvalidShard, ListWatch, Script, Scripted, Shard, Source, Stopped, Trim, Verb, WatchError,
        WatchErrorCause,
    };
}

pub mod store {
    //! Stores: the last known state of each object of a kind, and indexes, like client-go's
    //! `Indexer`.

    pub use windlass_informer::{
        ErasedObject, Index, LateIndex, LazyObject, ObjectIdentity, RawObject, Store, Stored,
        UndeclaredIndex,
    };
}

pub mod informer {
    //! Informers: each has a source and a store, and publishes an event for each change.

    pub use windlass_informer::{
        Diagnostics, ErrorChain, Event, EventEnvelope, GuardedSpan, Health, HealthState,
        HistoryWentBack, Informer, InformerBuilder, InformerError, InformerMetrics, ObjectKey,
        Problem, Subscription, SyncError, Uid,
    };
}

pub mod controller {
    //! Controllers: they call watchers and reconcilers for the events of informers.

    pub use windlass_controller::{
        AddError, BuildError, CallOutcome, CallReport, Coalescing, DeadLetter, ErrorReport,
        HandledAs, HandlerError, HandlerId, InformerController, InformerControllerBuilder,
        InformerDiagnostics, InformerHealth, Kind, ObjectMetrics, OnStop, Registration, Role,
        RunError, Runnable, RunningCall,
    };
}

pub mod apply_cleanup {
    //! One method for objects that exist, and one for those that are being deleted.

    pub use windlass_controller::{ApplyCleanup, ApplyCleanupController, ApplyCleanupError};
}

pub mod keyed {
    //! Keyed resources: keep something else in step with a kind, by the keys of its objects.

    pub use windlass_controller::{
        Background, FnResource, KeyedResource, ResourceController, TestRun, new_resource,
        test_controller_run,
    };
}

pub mod level {
    //! Controllers of one kind: each call gets the newest object, whatever has changed.

    pub use windlass_controller::{
        AddedTrigger, AddedWatch, ChildError, ChildErrors, ChildSelector, Context, Controller,
        ControllerBuildError, ControllerBuilder, Deleted, Dependent, DependentId, DependentState,
        DependentStates, Dependents, DependentsError, Desired, GeneratedSelector, Informers,
        IntoDesired, InvalidChild, InvalidSelector, MissingKind, Mode, ObjectReconciler, Owned,
        PAUSED, Reasons, Referred, Related, RequeueHandle, Retry, Step, Trigger, TriggerHandle,
        UpdateStrategy, Watch, Watchable, WritePaused, has_condition,
    };
}

pub mod conditions {
    //! Conditions in the status of an object.

    pub use windlass_controller::{Conditions, InvalidCondition, NewCondition};
}

pub mod recorder {
    //! Kubernetes Events, published without delaying or failing a reconciler.

    pub use windlass_controller::{EventPublisher, EventRecorder, ObjectEvent};
}

pub mod crds {
    //! Definitions of custom resources: joins versions, installs definitions, and compares them with those
    //! of the cluster.

    pub use windlass_controller::{
        CheckError, InstallError, check_crds, install_crds, join_versions, replace_crds,
    };
}

pub mod predicate {
    //! Predicates: which events a handler receives.

    pub use windlass_controller::{
        AnnotationsChanged, Filtered, GenerationChanged, LabelsChanged, Predicate,
        ResourceVersionChanged,
    };
}

pub mod mapper {
    //! Mappers: a change of an object causes calls for the objects that it affects, for example its
    //! owners.

    pub use windlass_controller::{Mapper, Owners, SameName};
}

pub mod handler {
    //! Handlers: watchers have one method for each action, reconcilers one for all. Also their
    //! requests and results.

    pub use windlass_controller::{
        Action, CannotCastError, Failure, Outcome, Reconciler, Request, ResourceAction,
        SimpleWatcher, State, TypedReconciler, Watcher,
    };
}

pub mod retry {
    //! Retry policies: whether and when a failed call is repeated. Dequeue policies: whether a new
    //! event drops a pending call.

    pub use windlass_controller::{
        DeleteRetry, ExponentialBackoff, NeverDequeue, NeverRetry, NewEvent,
        OpinionatedRetryDequeuePolicy, PendingCall, RateLimited, RetryDequeuePolicy, RetryObject,
        RetryPolicy,
    };
}

pub mod finalizer {
    //! Finalizers, and handlers that keep each object until its clean-up has succeeded.

    pub use windlass_controller::{
        DefaultFinalizerSupplier, DeleteOrder, FinalizerChange, FinalizerError, FinalizerHook,
        FinalizerName, FinalizerPatch, FinalizerRegistry, FinalizerSupplier, FinalizerTiming,
        Finalizers, Interest, InvalidFinalizer, OnSelectorExit, OpinionatedReconciler,
        OpinionatedWatcher, PatchClient, UnwatchedObject,
    };
}

pub mod operator {
    //! The operator process: runs controllers and stops them gracefully. Time and randomness come
    //! from the operating system, or in tests from a simulation (feature `simulate`).

    pub use windlass_informer::{random_seed, wall_clock};
    pub use windlass_operator::{
        AddControllerError, Operator, OperatorBuilder, OperatorError, RequestBudget, block_on,
    };
}

pub mod leader {
    //! Leader election by a lease, and fences: after the deadline of the lease they prevent calls of
    //! handlers, and writes of fenced clients.

    pub use windlass_controller::{Fence, FenceClosed, FenceLayer, FencePermit};
    pub use windlass_operator::{
        InvalidElection, LeaderElection, LeaderElectionBuilder, LeadershipLost, LeaseClient,
        LeaseError,
    };
}

pub mod admin {
    //! The admin server: health, metrics and your own pages over HTTP.

    pub use windlass_operator::{
        AdminError, AdminLimits, AdminServer, HealthCheck, HealthDetails, Listen, Route, RouteError,
    };
    // The requests and responses of a `Route`.
    pub use windlass_operator::{bytes, http};
}

#[cfg(feature = "webhook")]
pub mod webhook {
    //! A server of admission and conversion webhooks.

    pub use kube::core::admission::{AdmissionRequest, Operation};
    pub use windlass_operator::{AdmissionError, Conversion, Denied, Warnings, WebhookServer};
}

#[cfg(feature = "opentelemetry")]
pub mod tracing {
    //! One OpenTelemetry trace for each event, from the watch to the last retry.

    pub use windlass_controller::{PackageTracer, get_tracer, opentelemetry_layer, set_tracer};
}

#[cfg(feature = "composite")]
pub mod composite {
    //! Composite controllers: the children and the status of an object, computed by one function.

    pub use windlass_composite::{
        AsyncCompositeHandler, ChildConfig, ChildErrors, CompositeBuildError, CompositeBuilder,
        CompositeController, CompositeHandler, FinalizeResponse, ObservedChildren, RawView,
        SyncRequest, SyncResponse, TypedView,
    };
}

// The names of other frameworks.
pub mod consul;
pub mod k8s_controller;
#[cfg(feature = "roperator")]
pub mod roperator;

#[cfg(feature = "chrono")]
pub mod chrono;

#[cfg(feature = "settings")]
pub mod settings;

pub use windlass_listmap as listmap;
#[cfg(feature = "kube-runtime")]
pub use windlass_runtime as runtime;
#[cfg(feature = "simulate")]
pub use windlass_simulate as simulate;
#[cfg(feature = "kit")]
pub use windlass_simulate::kit;
