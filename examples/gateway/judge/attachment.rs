//! Attachment: the listeners that a route gets. *(pure)*

use super::{hostname, listener::kinds};
use crate::{
    api::{AllowedFrom, Gateway, Listener, ParentRef, Route, RouteKind},
    conditions::{ACCEPTED, Verdict},
    snapshot::{Snapshot, selects},
};

/// A route at a listener.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Binding {
    /// The name of the listener.
    pub(crate) listener: String,
    /// The hostnames for which the route is asked there.
    pub(crate) hostnames: Vec<String>,
}

/// The listeners of `gateway` that `route` gets by `parent`.
///
/// Whether a listener is well does not matter here: a route is accepted by what was asked
/// for, not by what works at the moment.
///
/// # Errors
///
/// The verdict of the first question that no listener answers with yes: is it the one that
/// is named, does it allow the route, has it a hostname in common with it?
pub(super) fn attach(
    (kind, route): (RouteKind, &Route),
    parent: &ParentRef,
    gateway: &Gateway,
    snapshot: &Snapshot,
) -> Result<Vec<Binding>, Verdict> {
    let refused = |reason, message: &str| Err(Verdict::no(ACCEPTED, reason, message));

    let mut listeners: Vec<&Listener> = gateway.spec.listeners.iter().collect();
    listeners.retain(|listener| {
        parent
            .section_name
            .as_ref()
            .is_none_or(|name| *name == listener.name)
            && parent.port.is_none_or(|port| port == listener.port)
    });
    if listeners.is_empty() {
        return refused("NoMatchingParent", "the gateway has no such listener");
    }

    listeners.retain(|listener| {
        kinds(listener).contains(&kind) && allows_namespace(listener, gateway, route, snapshot)
    });
    if listeners.is_empty() {
        let message = "no listener allows routes of this kind from this namespace";
        return refused("NotAllowedByListeners", message);
    }

    let bindings = listeners.into_iter().filter_map(|listener| {
        let hostnames = match kind {
            // These have no hostnames, whatever else is on the port.
            RouteKind::Tcp | RouteKind::Udp => vec!["*".to_owned()],
            _ => hostname::common(listener.hostname(), &route.spec.hostnames),
        };
        (!hostnames.is_empty()).then(|| Binding {
            listener: listener.name.clone(),
            hostnames,
        })
    });
    let bindings: Vec<_> = bindings.collect();
    if bindings.is_empty() {
        let message = "no listener has a hostname in common with the route";
        return refused("NoMatchingListenerHostname", message);
    }
    Ok(bindings)
}

fn allows_namespace(
    listener: &Listener,
    gateway: &Gateway,
    route: &Route,
    snapshot: &Snapshot,
) -> bool {
    let allowed = &listener.allowed_routes.namespaces;
    let namespace = route.metadata.namespace.as_deref().unwrap_or_default();
    match allowed.from {
        AllowedFrom::All => true,
        AllowedFrom::Same => gateway.metadata.namespace.as_deref() == Some(namespace),
        AllowedFrom::Selector => {
            let labels = snapshot.namespaces.get(namespace);
            let selector = allowed.selector.as_ref();
            labels
                .zip(selector)
                .is_some_and(|(labels, selector)| selects(selector, labels))
        }
    }
}
