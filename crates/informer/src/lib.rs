//! Informers: a live copy of the objects of a kind, and the events of their lives.
//!
//! An [`Informer`] lists and watches through a [`Source`], keeps what it hears in a
//! [`Store`], and tells every [`Subscription`] what happened, in order. The modules below
//! stand in the order in which an object passes them.
//!
//! # Not supported
//!
//! - Server-side sharded watches (KEP-5866), compressed watches and protobuf.

// What an object is called, everywhere, and in which forms it is kept.
mod held;
mod kept;
mod key;
mod object;
mod packed;
mod stored;

// 1. Where changes come from.
mod source;

// 2. From bytes to objects.
mod decode;

// 3. A watch that survives.
mod watch;

// 4. What is.
mod store;

// 5. What happened, and who is told.
mod event;
mod subscription;

// The five in one.
mod informer;

// 10. What one sees.
mod error_chain;
mod health;
mod metrics;
mod panics;
mod problem;
mod trace;

#[cfg(feature = "kube-runtime")]
pub use crate::source::WatcherStream;
pub use crate::{
    decode::{DecodeError, Decoder, Form, Identity, Trim},
    error_chain::ErrorChain,
    event::Event,
    health::{Health, HealthState},
    informer::{Informer, InformerBuilder, InformerError, InformerId, SyncError},
    kept::{Fresh, Kept},
    key::{ObjectKey, Uid},
    metrics::InformerMetrics,
    object::AnyObject,
    packed::Packed,
    problem::Problem,
    source::{Change, Changes, InvalidListWatch, ListWatch, Script, Scripted, Source, Stopped},
    store::{Index, Store, UndeclaredIndex},
    stored::{Named, Stored},
    subscription::{AnyTold, ResyncHandle, Subscription, Told},
    watch::{Backoff, InvalidBackoff, Verb, WatchError},
};
