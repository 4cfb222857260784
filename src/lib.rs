#![doc = include_str!("../README.md")]

// The names that most operators use, at the root and for `use windlass::prelude::*`.
#[doc(no_inline)]
pub use crate::prelude::*;

pub mod prelude {
    //! The names that most operators use: `use windlass::prelude::*`.
    //!
    //! The same names are at the root of the crate. All others are in the module of their subject.

    pub use crate::{
        admin::AdminServer,
        controller::InformerController,
        finalizer::{FinalizerName, Finalizers, OpinionatedReconciler, OpinionatedWatcher},
        handler::{Action, Failure, Outcome, Reconciler, Request, SimpleWatcher, Watcher},
        informer::{Event, Informer, ObjectKey},
        leader::LeaderElection,
        mapper::{Mapper, Owners},
        operator::Operator,
        predicate::{GenerationChanged, Predicate},
        retry::ExponentialBackoff,
        source::ListWatch,
        store::Store,
    };
}

// In the order in which an event passes them.

pub mod source {
    //! Where changes come from: a list and watch of an API server, or a script in a test.

    #[cfg(feature = "kube-runtime")]
    pub use windlass_informer::WatcherStream;
    pub use windlass_informer::{
        Backoff, Change, Changes, DecodeError, Identity, InvalidBackoff, InvalidListWatch,
        ListWatch, Script, Scripted, Source, Stopped, Trim, Verb, WatchError,
    };
}

pub mod store {
    //! The objects of a kind as they were last seen, and indexes over them.

    pub use windlass_informer::{
        AnyObject, Index, Kept, Named, Packed, Store, Stored, UndeclaredIndex,
    };
}

pub mod informer {
    //! Informers: one source, one store, and the events of every change.

    pub use windlass_informer::{
        ErrorChain, Event, Health, HealthState, Informer, InformerBuilder, InformerError,
        InformerId, InformerMetrics, InformerUser, ObjectKey, Problem, SharedInformerError,
        Subscription, SyncError, Told, Uid,
    };
}

pub mod controller {
    //! Controllers: they run watchers and reconcilers over the events of informers.

    pub use windlass_controller::{
        AddError, BuildError, Coalescing, Controller, ErrorReport, ExhaustedCall, GivenUp,
        HandlerError, HandlerId, InformerController, InformerControllerBuilder, InformerHealth,
        Role, RunError,
    };
}

pub mod predicate {
    //! Predicates: which events a handler receives.

    pub use windlass_controller::{
        And, AnnotationsChanged, Filtered, GenerationChanged, LabelsChanged, Not, Or, Predicate,
        ResourceVersionChanged,
    };
}

pub mod mapper {
    //! Mappers: which objects of another kind a change concerns.

    pub use windlass_controller::{Mapper, Owners, SameName};
}

pub mod handler {
    //! Watchers and reconcilers, and what they receive and return.

    pub use windlass_controller::{
        Action, CannotCastError, Failure, Outcome, Reconciler, Request, ResourceAction,
        SimpleWatcher, State, TypedReconciler, Watcher,
    };
}

pub mod retry {
    //! Whether and when a failed call is repeated, and what a new event does to a pending call.

    pub use windlass_controller::{
        AlwaysDequeue, Arrival, DeleteRetry, ExponentialBackoff, NeverDequeue, NeverRetry,
        OpinionatedRetryDequeuePolicy, PendingRetry, RetryDequeuePolicy, RetryObject, RetryPolicy,
    };
}

pub mod finalizer {
    //! Finalizers, and wrappers that hold each object until its clean-up has succeeded.

    pub use windlass_controller::{
        DefaultFinalizerSupplier, DeleteOrder, FinalizerError, FinalizerName, FinalizerPatch,
        FinalizerSupplier, Finalizers, InvalidFinalizer, OnSelectorExit, OpinionatedReconciler,
        OpinionatedWatcher, Orphan, PatchClient, QualifiedFinalizerSupplier,
    };
}

pub mod operator {
    //! The process: it runs controllers, and stops them gracefully. Its time and randomness come
    //! from the operating system, or from a [`SimulatedHost`].

    pub use windlass_informer::{SimulatedHost, random_seed, wall_clock};
    pub use windlass_operator::{
        AddControllerError, Operator, OperatorBuilder, OperatorError, RequestBudget,
    };
}

pub mod leader {
    //! Leader election by a lease, and fences that hold back calls and writes after its deadline.

    pub use windlass_controller::{Fence, FenceClosed, FenceLayer, FencePermit, Fenced};
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
}

#[cfg(feature = "opentelemetry")]
pub mod tracing {
    //! One OpenTelemetry trace for each event, from the watch to the last retry.

    pub use windlass_controller::{PackageTracer, get_tracer, opentelemetry_layer, set_tracer};
}

#[cfg(feature = "chrono")]
pub mod chrono;

pub use windlass_listmap as listmap;
#[cfg(feature = "simulate")]
pub use windlass_simulate as simulate;
