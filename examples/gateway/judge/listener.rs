//! Listeners: what each can do, and whether it gets in another's way. *(pure)*

use super::{hostname, reference::Referrer};
use crate::{
    api::{GROUP, Gateway, Listener, Protocol, RouteGroupKind, RouteKind},
    conditions::{ACCEPTED, CONFLICTED, OVERLAPPING_TLS, PROGRAMMED, RESOLVED_REFS, Verdict},
    snapshot::Snapshot,
};

/// The kinds of routes that `listener` takes: those of its protocol, less those that it
/// does not allow.
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
        None => Verdict::no(CONFLICTED, "NoConflicts", "no other listener is in its way"),
    };
    let accepted = accepted(listener, &conflicted);
    let resolved = resolved(listener, gateway, snapshot);
    let programmed = if accepted.holds && resolved.holds {
        Verdict::yes(PROGRAMMED, PROGRAMMED, "it is as it should be")
    } else {
        Verdict::no(PROGRAMMED, "Invalid", "see Accepted and ResolvedRefs")
    };
    let mut verdicts = vec![accepted, resolved, programmed, conflicted];
    if let Some(other) = others().find(|other| overlaps(listener, other)) {
        let message = format!(
            "clients of {:?} may reuse a connection for this one",
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
        let message = format!("this controller does not know {}", listener.protocol);
        Verdict::no(ACCEPTED, "UnsupportedProtocol", message)
    } else if conflicted.holds {
        Verdict::no(ACCEPTED, conflicted.reason, conflicted.message.as_str())
    } else {
        Verdict::yes(ACCEPTED, ACCEPTED, "it is valid")
    }
}

/// Whether everything is there that the listener names: kinds of routes, and certificates.
fn resolved(listener: &Listener, gateway: &Gateway, snapshot: &Snapshot) -> Verdict {
    let takes = kinds(listener);
    let unknown = |allowed: &&RouteGroupKind| !takes.iter().any(|kind| names(allowed, *kind));
    if let Some(unknown) = listener.allowed_routes.kinds.iter().find(unknown) {
        let message = format!(
            "a listener of {} takes no {}",
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
    refused.unwrap_or_else(|| Verdict::yes(RESOLVED_REFS, RESOLVED_REFS, "all it names is there"))
}

/// Why two listeners cannot both be on their port.
fn conflict(listener: &Listener, other: &Listener) -> Option<(&'static str, String)> {
    let (one, two) = listener.protocol().zip(other.protocol())?;
    if listener.port != other.port || (one == Protocol::Udp) != (two == Protocol::Udp) {
        return None;
    }
    let (name, port) = (&other.name, other.port);
    let encrypted = |protocol| matches!(protocol, Protocol::Https | Protocol::Tls);
    if one != two && !(encrypted(one) && encrypted(two)) {
        let message = format!(
            "the listener {name:?} speaks {} on port {port}",
            other.protocol
        );
        return Some(("ProtocolConflict", message));
    }
    let same =
        listener.hostname() == other.hostname() || matches!(one, Protocol::Tcp | Protocol::Udp);
    let message = || format!("the listener {name:?} has the same hostname on port {port}");
    same.then(|| ("HostnameConflict", message()))
}

/// Whether clients may take a connection to `other` for one to `listener`: they are
/// different, and one certificate may be good for both.
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
