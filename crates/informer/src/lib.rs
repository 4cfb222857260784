//! Informers: a live copy of the objects of a kind, and the events of its changes.
//!
//! An [`Informer`] lists and watches through a [`Source`], keeps the objects in a
//! [`Store`], and delivers every change to every [`Subscription`], in order. The modules below
//! are in the order in which an object passes them.
//!
//! # Not supported
//!
//! - Server-side sharded watches (KEP-5866), compressed watches and protobuf.

// What comes from the operating system, and how a simulation replaces it.
mod simulated;

// Keys of objects, and the forms in which objects are kept.
mod held;
mod kept;
mod key;
mod object;
mod packed;
mod stored;

// 1. Sources of changes.
mod source;

// 2. From bytes to objects.
mod decode;

// 3. A watch that survives.
mod watch;

// 4. The store.
mod store;

// 5. Events and subscriptions.
mod event;
mod subscription;

// The five together.
mod informer;

// 10. Observability.
mod error_chain;
mod health;
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
    health::{Health, HealthState},
    informer::{
        Informer, InformerBuilder, InformerError, InformerId, InformerUser, SharedInformerError,
        SyncError,
    },
    kept::Kept,
    key::{ObjectKey, Uid},
    metrics::InformerMetrics,
    object::AnyObject,
    packed::Packed,
    problem::Problem,
    simulated::{SimulatedHost, random_seed, wall_clock},
    source::{Change, Changes, InvalidListWatch, ListWatch, Script, Scripted, Source, Stopped},
    store::{Index, Store, UndeclaredIndex},
    stored::{Named, Stored},
    subscription::{Subscription, Told},
    watch::{Backoff, InvalidBackoff, Verb, WatchError},
};

// What the crates above need, and no user does.
#[doc(hidden)]
pub use crate::{
    decode::{Decoder, Form},
    kept::Fresh,
    panics::panic_message,
    subscription::{AnyTold, ResyncHandle},
};
