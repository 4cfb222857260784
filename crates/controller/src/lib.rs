//! Controllers.
mod action;
mod route;
mod schedule;
pub use crate::{
    action::{Action, ResourceAction},
    route::HandlerId,
};
