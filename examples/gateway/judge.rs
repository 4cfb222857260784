//! Computes the conditions of all objects by the rules of the Gateway API. *(pure)*
//!
//! All rules are in this module, as a function from a [`Snapshot`] to a [`Judgement`]. It uses
//! neither the existing conditions nor the time; [`plan`](crate::plan) does.
//!
//! # Not supported
//!
//! - `ListenerSet`s, `BackendTLSPolicy`s, and the certificates of a gateway's own `tls`.
//! - The content of certificates: the secret only has to exist.
//! - Conflicts between an `HTTPRoute` and a `GRPCRoute` with the same hostname.
//!
//! Source: the field descriptions of the Gateway API's CRDs, for all conditions and reasons.

mod attachment;
mod hostname;
mod listener;
mod reference;

use std::{collections::BTreeMap, sync::Arc};

use windlass::ObjectKey;

pub(crate) use self::attachment::Binding;
use self::{attachment::attach, listener::kinds, reference::Referrer};
use crate::{
    api::{Address, Gateway, GatewayClass, ParentRef, Route, RouteKind},
    conditions::{ACCEPTED, PROGRAMMED, RESOLVED_REFS, Verdict},
    snapshot::{RouteId, Snapshot},
};

/// The conditions of all objects of one controller.
#[derive(Debug, Default)]
pub(crate) struct Judgement {
    pub(crate) classes: BTreeMap<ObjectKey, Vec<Verdict>>,
    pub(crate) gateways: BTreeMap<ObjectKey, GatewayJudgement>,
    pub(crate) routes: BTreeMap<RouteId, Vec<ParentJudgement>>,
}

#[derive(Debug)]
pub(crate) struct GatewayJudgement {
    pub(crate) verdicts: Vec<Verdict>,
    pub(crate) addresses: Vec<Address>,
    /// In the order of the listeners of the gateway.
    pub(crate) listeners: Vec<ListenerJudgement>,
}

#[derive(Debug)]
pub(crate) struct ListenerJudgement {
    pub(crate) name: String,
    pub(crate) kinds: Vec<RouteKind>,
    pub(crate) attached: usize,
    pub(crate) verdicts: Vec<Verdict>,
}

/// The conditions of a route at one of its parents.
#[derive(Debug)]
pub(crate) struct ParentJudgement {
    pub(crate) parent: ParentRef,
    gateway: ObjectKey,
    /// The listeners to which it is attached. Empty if it is not accepted.
    pub(crate) bindings: Vec<Binding>,
    pub(crate) verdicts: Vec<Verdict>,
}

/// Computes the conditions for `controller`: of the gateways whose class names it, and of the routes
/// with such a gateway as parent.
pub(crate) fn judge(snapshot: &Snapshot, controller: &str) -> Judgement {
    let is_ours = |class: &GatewayClass| class.spec.controller_name == controller;
    let classes = snapshot.classes.iter().filter(|(_, class)| is_ours(class));
    let classes: BTreeMap<_, _> = classes
        .map(|(name, _)| (name.clone(), vec![class_accepted()]))
        .collect();

    let has_our_class = |gateway: &Gateway| classes.contains_key(&gateway.class());
    let gateways = snapshot.gateways.iter();
    let gateways = gateways.filter(|(_, gateway)| has_our_class(gateway));
    let gateways: BTreeMap<_, _> = gateways.collect();

    let routes = snapshot.routes.iter().map(|((kind, key), route)| {
        let parents = route.spec.parent_refs.iter().filter_map(|parent| {
            let gateway = gateways.get_key_value(&gateway_key(parent, route)?)?;
            Some(judge_parent((*kind, route), parent, gateway, snapshot))
        });
        ((*kind, key.clone()), parents.collect())
    });
    let routes: BTreeMap<RouteId, Vec<ParentJudgement>> = routes.collect();

    let gateways = gateways.into_iter().map(|(key, gateway)| {
        let attached = |listener: &str| attached(&routes, key, listener);
        (key.clone(), judge_gateway(gateway, snapshot, attached))
    });
    Judgement {
        gateways: gateways.collect(),
        classes,
        routes,
    }
}

/// The key of the gateway that `parent` refers to, if it refers to a gateway.
pub(crate) fn gateway_key(parent: &ParentRef, route: &Route) -> Option<ObjectKey> {
    let namespace = parent
        .namespace
        .as_deref()
        .or(route.metadata.namespace.as_deref())?;
    parent
        .is_gateway()
        .then(|| ObjectKey::new(&*parent.name).within(namespace))
}

/// Classes are accepted with any `parametersRef`, because this controller has no parameters.
fn class_accepted() -> Verdict {
    let message = "this controller handles the gateways of this class, and ignores parameters";
    Verdict::yes(ACCEPTED, ACCEPTED, message)
}

fn judge_parent(
    (kind, route): (RouteKind, &Route),
    parent: &ParentRef,
    (key, gateway): (&&ObjectKey, &&Arc<Gateway>),
    snapshot: &Snapshot,
) -> ParentJudgement {
    let (bindings, accepted) = match attach((kind, route), parent, gateway, snapshot) {
        Ok(bindings) => (
            bindings,
            Verdict::yes(ACCEPTED, ACCEPTED, "the route is attached"),
        ),
        Err(refusal) => (Vec::new(), refusal),
    };
    let referrer = Referrer {
        kind: kind.name(),
        namespace: route.metadata.namespace.as_deref().unwrap_or_default(),
    };
    let mut backends = route.spec.backends();
    let unresolved = backends.find_map(|backend| referrer.backend(backend, snapshot));
    let resolved = || Verdict::yes(RESOLVED_REFS, RESOLVED_REFS, "all references exist");
    ParentJudgement {
        parent: parent.clone(),
        gateway: (*key).clone(),
        bindings,
        verdicts: vec![accepted, unresolved.unwrap_or_else(resolved)],
    }
}

/// The number of routes attached to `listener` of `gateway`. Each route counts once.
fn attached(
    routes: &BTreeMap<RouteId, Vec<ParentJudgement>>,
    gateway: &ObjectKey,
    listener: &str,
) -> usize {
    let is_attached = |judged: &ParentJudgement| {
        let mut bindings = judged.bindings.iter();
        judged.gateway == *gateway && bindings.any(|binding| binding.listener == listener)
    };
    let attached = routes.values().filter(|it| it.iter().any(is_attached));
    attached.count()
}

fn judge_gateway(
    gateway: &Gateway,
    snapshot: &Snapshot,
    attached: impl Fn(&str) -> usize,
) -> GatewayJudgement {
    let listeners = gateway.spec.listeners.iter().enumerate();
    let listeners = listeners.map(|(index, listener)| ListenerJudgement {
        name: listener.name.clone(),
        kinds: kinds(listener),
        attached: attached(&listener.name),
        verdicts: listener::verdicts(index, gateway, snapshot),
    });
    let listeners: Vec<_> = listeners.collect();
    // There is no data plane that assigns addresses: a gateway gets the requested ones.
    let addresses = gateway.spec.addresses.iter();
    let addresses = addresses
        .filter(|address| !address.value.is_empty())
        .cloned();
    GatewayJudgement {
        verdicts: vec![
            gateway_accepted(gateway, &listeners),
            gateway_programmed(&listeners),
        ],
        addresses: addresses.collect(),
        listeners,
    }
}

fn gateway_accepted(gateway: &Gateway, listeners: &[ListenerJudgement]) -> Verdict {
    let known = |address: &Address| matches!(address.kind.as_str(), "IPAddress" | "Hostname");
    let mut addresses = gateway.spec.addresses.iter();
    if let Some(unknown) = addresses.find(|address| !known(address)) {
        let message = format!(
            "this controller does not support addresses of the type {}",
            unknown.kind
        );
        return Verdict::no(ACCEPTED, "UnsupportedAddress", message);
    }
    let (good, bad): (Vec<_>, Vec<_>) = listeners
        .iter()
        .partition(|listener| says(&listener.verdicts, ACCEPTED));
    let reason = if bad.is_empty() {
        ACCEPTED
    } else {
        "ListenersNotValid"
    };
    let message = format!("{} of {} listeners are valid", good.len(), listeners.len());
    Verdict {
        about: ACCEPTED,
        holds: bad.is_empty() || !good.is_empty(),
        reason,
        message,
    }
}

fn gateway_programmed(listeners: &[ListenerJudgement]) -> Verdict {
    let good = listeners
        .iter()
        .filter(|listener| says(&listener.verdicts, PROGRAMMED));
    match good.count() {
        0 => Verdict::no(PROGRAMMED, "Invalid", "no listener is valid"),
        good => {
            let message = format!("{good} of {} listeners are programmed", listeners.len());
            Verdict::yes(PROGRAMMED, PROGRAMMED, message)
        }
    }
}

/// Whether the condition `about` is true in `verdicts`.
fn says(verdicts: &[Verdict], about: &str) -> bool {
    verdicts
        .iter()
        .any(|verdict| verdict.about == about && verdict.holds)
}

#[cfg(test)]
mod tests;
