//! Declarative children: objects that a controller writes for a parent object.
//!
//! A controller says which children a parent has ([`Desired`]). This module compares them with the
//! existing objects, and applies, deletes or leaves them. A pure core (`plan`) decides about each
//! child; `write` and `delete` send the requests.
//!
//! # Contract
//!
//! *Guaranteed.* An object that another object controls, or that was not created for the parent, is
//! never changed or deleted, unless it is [adopted](Desired::adopt), or has no controller and the
//! selector of the parent matches it ([`Owned::claim`](crate::Owned::claim)). Each request names the
//! uid of the object that it was planned for, so that a recreated object is neither changed nor
//! deleted. An
//! invalid child is refused before anything is written. A child that is as desired causes no
//! request after the first apply in the process; a change of a field that was applied is reverted;
//! fields of other writers are left alone. When two writers revert each other, this one slows down
//! to one change in 5 minutes.
//!
//! *Required.* Names of children do not depend on the call. One controller has one memory for each
//! parent, and makes one call at a time for it.
//!
//! *Not guaranteed.* That an object which another client creates in the milliseconds between the read
//! and the first apply of a child is not taken over.
//!
//! Source: java-operator-sdk, metacontroller and Crossplane, for what goes wrong when desired and
//! existing objects are compared directly.

// What is desired, and whose an object is.
mod desired;
mod digest;
mod identity;
mod into_desired;
mod overrides;
mod parents;
mod selector;

// The decision.
mod allocated;
mod memory;
mod migrate;
mod plan;

// The requests.
mod apply;
mod claim;
mod delete;
mod observed;
mod requests;
mod set;
mod status;
mod write;

mod error;
mod errors;

pub use self::{
    apply::{Applied, ChildOutcome, Children, Contention},
    delete::{Deleted, Pruned},
    desired::{Desired, UpdateStrategy},
    error::{ChildError, InvalidChild},
    errors::ChildErrors,
    identity::{CHILD, ChildKind, KEEP, MANAGED_BY, PARENT_UID, Parent, managed_by, parent_uid},
    into_desired::IntoDesired,
    memory::ChildMemory,
    observed::ChildObject,
    parents::ParentOf,
    selector::InvalidSelector,
    set::{AllApplied, CheckedChild, CheckedChildren, ChildKeys},
};
pub(crate) use self::{
    claim::ClaimBy,
    identity::controller_of,
    requests::{ApplyMode, ObjectRequests},
    selector::ParentSelector,
    status::{StatusWrite, status_of},
};
