//! Attachment of routes to listeners. *(pure)*

use kube::core::{Selector, SelectorExt as _};

use super::{hostname, listener::kinds};
use crate::{
    api::{AllowedFrom, Gateway, Listener, ParentRef, Route, RouteKind},
    conditions::{ACCEPTED, Verdict},
    snapshot::Snapshot,
};

/// The attachment of a route to a listener.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Binding {
    /// The name of the listener.
    pub(crate) listener: String,
    /// The hostnames of the route on this listener.
    pub(crate) hostnames: Vec<String>,
}

/// The listeners of `gateway` to which `route` is attached by `parent`.
///
/// The state of a listener is ignored: a route is accepted by the specs, not by the current state.
///
/// # Errors
///
/// The first rule that no listener fulfils: it is the selected listener, it allows the route, and it
/// has a hostname in common with the route.
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
            // TCP and UDP routes have no hostnames.
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
            // An invalid selector selects nothing.
            let selector = allowed.selector.clone().map(Selector::try_from);
            labels
                .zip(selector)
                .is_some_and(|(labels, selector)| selector.is_ok_and(|it| it.matches(labels)))
        }
    }
}
