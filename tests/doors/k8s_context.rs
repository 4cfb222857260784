//! What a `Context` can rely on, in virtual time.

mod script;

mod actions;
mod calls;
mod errors;
mod finalizer;
