//! Informers: a live copy of the objects of a kind, and the events of its changes.
//!
//! An [`Informer`] lists and watches through a [`Source`], keeps the objects in a
//! [`Store`], and delivers every change to every [`Subscription`], in order.
//!
//! # The forms of an object
//!
//! By default a store keeps each object as JSON without the trimmed fields, because a decoded object
//! takes several times the memory. A handler gets a decoded object. These types and traits connect
//! the two:
//!
//! | type | is | you meet it |
//! |--|--|--|
//! | `Arc<K>` | a decoded object, for example an `Arc<Pod>` | in events, in [`Store::get`] and [`Store::list`] |
//! | [`LazyObject<K>`](LazyObject) | an object of a store, decoded at the first read | as the old state in [`Event::Updated`], in [`Store::get_lazy`] |
//! | [`RawObject<K>`](RawObject) | JSON that may not decode, with the identity of its object | after [`ListWatch::raw`]: then it is the `K` of the informer |
//! | [`dyn ErasedObject`](ErasedObject) | an object of any kind | in retry and dequeue policies |
//! | [`ObjectIdentity`] | the trait of everything that has a name, namespace, uid and version | in bounds |
//! | [`Stored`] | the trait of everything that a store can keep: each `K` and each [`RawObject`] | in bounds |
//! | [`Identity`] | key, uid and version of an object without the object | in a [`Source`] of your own |
//!
//! # Not supported
//!
//! - Compressed watches and protobuf.

// The modules are in the order in which an object passes them. The numbers are the stages of
// ARCHITECTURE.md; 6 to 9 are in windlass-controller.

// The randomness and the clock of the operating system, which a simulation replaces.
mod simulated;

// Keys and identities of objects, and the forms in which a store keeps objects.
mod decoded_object;
mod json_form;
mod key;
mod lazy_object;
mod object;
mod raw_object;
mod shard;
mod stored;

// 1. Sources of changes.
mod source;

// 2. Decoding.
mod decode;
mod stored_form;

// 3. The state machine of a list and watch.
mod watch;

// 4. The store.
mod store;

// 5. Events and subscriptions.
mod event;
mod history;
mod subscription;

// The informer: runs stages 1 to 5.
mod informer;

// 10. Observability.
mod error_chain;
mod guarded_span;
mod health;
mod message;
mod metrics;
mod panics;
mod problem;
mod trace;

#[cfg(feature = "kube-runtime")]
pub use crate::source::WatcherStream;
pub use crate::{
    decode::{DecodeError, Identity, Trim},
    error_chain::ErrorChain,
    event::Event,
    guarded_span::GuardedSpan,
    health::{Health, HealthState},
    history::HistoryWentBack,
    informer::{Diagnostics, Informer, InformerBuilder, InformerError, SyncError},
    key::{ObjectIdentity, ObjectKey, Uid},
    lazy_object::LazyObject,
    metrics::InformerMetrics,
    object::ErasedObject,
    problem::Problem,
    raw_object::RawObject,
    shard::{InvalidShard, Shard},
    simulated::{random_seed, wall_clock},
    source::{Change, Changes, InvalidListWatch, ListWatch, Script, Scripted, Source, Stopped},
    store::{Index, LateIndex, Store, UndeclaredIndex},
    stored::Stored,
    subscription::{EventEnvelope, Subscription},
    watch::{Backoff, InvalidBackoff, Verb, WatchError, WatchErrorCause},
};

// For the other crates of the workspace, not for users.
#[doc(hidden)]
pub mod api_request;
#[doc(hidden)]
pub mod log;
#[doc(hidden)]
pub use crate::{
    decode::{Decoder, IGNORED_METADATA},
    informer::InformerId,
    lazy_object::IncomingObject,
    message::one_line,
    panics::panic_message,
    problem::log as log_problem,
    simulated::{SimulatedHost, host_name, is_host_simulated},
    source::resource_name,
    stored_form::StoredForm,
    subscription::ResyncHandle,
    trace::is_unseen,
    watch::is_older,
};
