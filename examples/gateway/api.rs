//! The Gateway API, as far as this controller reads and writes it.
//!
//! The types hold the fields that decide a status, and no others: a manifest may say much
//! more, and the API server checks all of it against the CRDs.

mod gateway;
mod grant;
mod route;

pub(crate) use self::{
    gateway::{
        Address, AllowedFrom, Gateway, GatewayClass, GatewayClassStatus, GatewayStatus, Listener,
        ListenerStatus, Protocol, RouteGroupKind,
    },
    grant::ReferenceGrant,
    route::{BackendRef, ParentRef, ParentStatus, Route, RouteKind, RouteStatus, Target},
};

/// The API group of all of it.
pub(crate) const GROUP: &str = "gateway.networking.k8s.io";

/// The default of the group in a reference.
fn group() -> String {
    GROUP.to_owned()
}
