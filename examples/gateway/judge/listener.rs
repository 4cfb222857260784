//! The conditions of listeners, and conflicts between them. *(pure)*

use super::{hostname, reference::Referrer};
use crate::{
    api::{GROUP, Gateway, Listener, Protocol, RouteGroupKind, RouteKind},
    conditions::{ACCEPTED, CONFLICTED, OVERLAPPING_TLS, PROGRAMMED, RESOLVED_REFS, Verdict},
    snapshot::Snapshot,
};

/// The kinds of routes that `listener` supports: those of its protocol that it allows.
pub(super) fn kinds(listener: &Listener) -> Vec<RouteKind> {
    let known = listener.protocol().map_or(&[][..], RouteKind::of);
    let allowed = &listener.allowed_routes.kinds;
    let takes =
        |kind: &&RouteKind| allowed.is_empty() || allowed.iter().any(|one| names(one, **kind));
    known.iter().filter(takes).copied().collect()
}

/// The conditions of the listener at `index` of `gateway`.
pub(super) fn verdicts(index: usize, gateway: &Gateway, snapshot: &Snapshot) -> Vec<Verdict> {
    let listener = &gateway.spec.listeners[index];
    let others = || {
        let all = gateway.spec.listeners.iter().enumerate();
        all.filter(move |(other, _)| *other != index)
            .map(|(_, other)| other)
    };

    let conflicted = match others().find_map(|other| conflict(listener, other)) {
        Some((reason, message)) => Verdict::yes(CONFLICTED, reason, message),
        None => Verdict::no(
            CONFLICTED,
            "NoConflicts",
            "no conflict with another listener",
        ),
    };
    let accepted = accepted(listener, &conflicted);
    let resolved = resolved(listener, gateway, snapshot);
    let programmed = if accepted.holds && resolved.holds {
        Verdict::yes(PROGRAMMED, PROGRAMMED, "the listener is valid")
    } else {
        Verdict::no(PROGRAMMED, "Invalid", "see Accepted and ResolvedRefs")
    };
    let mut verdicts = vec![accepted, resolved, programmed, conflicted];
    if let Some(other) = others().find(|other| overlaps(listener, other)) {
        let message = format!(
            "clients of {:?} may reuse their connection for this listener",
            other.name
        );
        verdicts.push(Verdict::yes(
            OVERLAPPING_TLS,
            "OverlappingHostnames",
            message,
        ));
    }
    verdicts
}

fn accepted(listener: &Listener, conflicted: &Verdict) -> Verdict {
    if listener.protocol().is_none() {
        let message = format!(
            "this controller does not support the protocol {}",
            listener.protocol
        );
        Verdict::no(ACCEPTED, "UnsupportedProtocol", message)
    } else if conflicted.holds {
        Verdict::no(ACCEPTED, conflicted.reason, conflicted.message.as_str())
    } else {
        Verdict::yes(ACCEPTED, ACCEPTED, "the listener is valid")
    }
}

/// Whether the references of the listener are valid: kinds of routes, and certificates.
fn resolved(listener: &Listener, gateway: &Gateway, snapshot: &Snapshot) -> Verdict {
    let takes = kinds(listener);
    let unknown = |allowed: &&RouteGroupKind| !takes.iter().any(|kind| names(allowed, *kind));
    if let Some(unknown) = listener.allowed_routes.kinds.iter().find(unknown) {
        let message = format!(
            "a listener with the protocol {} does not support {}",
            listener.protocol, unknown.kind
        );
        return Verdict::no(RESOLVED_REFS, "InvalidRouteKinds", message);
    }
    let referrer = Referrer {
        kind: "Gateway",
        namespace: gateway.metadata.namespace.as_deref().unwrap_or_default(),
    };
    let mut certificates = listener.certificates().iter();
    let refused = certificates.find_map(|one| referrer.certificate(one, snapshot));
    refused.unwrap_or_else(|| Verdict::yes(RESOLVED_REFS, RESOLVED_REFS, "all references exist"))
}

/// Why two listeners cannot share their port.
fn conflict(listener: &Listener, other: &Listener) -> Option<(&'static str, String)> {
    let (one, two) = listener.protocol().zip(other.protocol())?;
    if listener.port != other.port || (one == Protocol::Udp) != (two == Protocol::Udp) {
        return None;
    }
    let (name, port) = (&other.name, other.port);
    let encrypted = |protocol| matches!(protocol, Protocol::Https | Protocol::Tls);
    if one != two && !(encrypted(one) && encrypted(two)) {
        let message = format!(
            "the listener {name:?} uses the protocol {} on port {port}",
            other.protocol
        );
        return Some(("ProtocolConflict", message));
    }
    let same =
        listener.hostname() == other.hostname() || matches!(one, Protocol::Tcp | Protocol::Udp);
    let message = || format!("the listener {name:?} has the same hostname on port {port}");
    same.then(|| ("HostnameConflict", message()))
}

/// Whether clients may reuse a connection to `other` for `listener`: they are different, and one
/// certificate may be valid for both.
fn overlaps(listener: &Listener, other: &Listener) -> bool {
    let https = |one: &Listener| one.protocol() == Some(Protocol::Https);
    https(listener)
        && https(other)
        && listener.port == other.port
        && listener.hostname() != other.hostname()
        && hostname::overlap(listener.hostname(), other.hostname())
}

fn names(allowed: &RouteGroupKind, kind: RouteKind) -> bool {
    allowed.group == GROUP && allowed.kind == kind.name()
}
