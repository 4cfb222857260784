//! Informers: a live copy of the objects of a kind, and the events of their lives.
//!
//! An [`Informer`] lists and watches through a [`Source`], keeps what it hears in a
//! [`Store`], and tells every [`Subscription`] what happened, in order. The modules below
//! stand in the order in which an object passes them.

// What an object is called, everywhere.
mod key;

// 5. What happened.
mod event;

pub use crate::{
    event::Event,
    key::{ObjectKey, Uid},
};
