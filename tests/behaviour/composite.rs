//! Composite controllers: what is written for the response of a handler, and what is left alone.

mod rig;

pub(crate) mod calls;
pub(crate) mod children;
pub(crate) mod clean_up;
pub(crate) mod earlier;
pub(crate) mod status;
