//! The conditions of everything that exists. *(pure)*
//!
//! The whole of the controller's knowledge of the Gateway API is here, as a function from a
//! [`Snapshot`] to a [`Judgement`]. It knows neither what was said before nor what time it
//! is; [`plan`](crate::plan) does.
//!
//! # Not judged
//!
//! - `ListenerSet`s, `BackendTLSPolicy`s, and the certificates of a gateway's own `tls`.
//! - Whether a certificate is one: that the secret is there is enough.
//! - Which of an `HTTPRoute` and a `GRPCRoute` has a hostname that both ask for.
//!
//! Source: the field descriptions of the Gateway API's CRDs, for all conditions and reasons.

mod attachment;
mod hostname;
mod listener;
mod reference;

use std::collections::BTreeMap;

use windlass::ObjectKey;

pub(crate) use self::attachment::Binding;
use self::{attachment::attach, listener::kinds, reference::Referrer};
use crate::{
    api::{Address, Gateway, GatewayClass, ParentRef, Route, RouteKind},
    conditions::{ACCEPTED, PROGRAMMED, RESOLVED_REFS, Verdict},
    snapshot::{RouteId, Snapshot},
};

/// The conditions of everything that is one controller's.
#[derive(Debug, Default)]
pub(crate) struct Judgement {
    pub(crate) classes: BTreeMap<String, Vec<Verdict>>,
    pub(crate) gateways: BTreeMap<ObjectKey, GatewayJudgement>,
    pub(crate) routes: BTreeMap<RouteId, Vec<ParentJudgement>>,
}

#[derive(Debug)]
pub(crate) struct GatewayJudgement {
    pub(crate) verdicts: Vec<Verdict>,
    pub(crate) addresses: Vec<Address>,
    /// In the order of the gateway's.
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
    /// Where it is attached; nowhere, if it is not accepted.
    pub(crate) bindings: Vec<Binding>,
    pub(crate) verdicts: Vec<Verdict>,
}

/// Judges what is there, in the name of `controller`: the gateways whose class names it, and
/// the routes that name such a gateway.
pub(crate) fn judge(snapshot: &Snapshot, controller: &str) -> Judgement {
    let is_ours = |class: &GatewayClass| class.spec.controller_name == controller;
    let classes = snapshot.classes.iter().filter(|(_, class)| is_ours(class));
    let classes: BTreeMap<_, _> = classes
        .map(|(name, _)| (name.clone(), vec![class_accepted()]))
        .collect();

    let has_our_class = |gateway: &Gateway| classes.contains_key(&gateway.spec.gateway_class_name);
    let gateways = snapshot
        .gateways
        .iter()
        .filter(|(_, gateway)| has_our_class(gateway));
    let gateways: BTreeMap<_, _> = gateways.collect();

    let routes = snapshot.routes.iter().map(|((kind, key), route)| {
        let parents = route.spec.parent_refs.iter().filter_map(|parent| {
            let gateway = gateways.get(&gateway_key(parent, route)?)?;
            Some(judge_parent((*kind, route), parent, gateway, snapshot))
        });
        ((*kind, key.clone()), parents.collect())
    });
    let routes: BTreeMap<RouteId, Vec<ParentJudgement>> = routes.collect();

    let gateways = gateways.into_iter().map(|(key, gateway)| {
        let attached = |listener: &str| attached(&routes, snapshot, key, listener);
        (key.clone(), judge_gateway(gateway, snapshot, attached))
    });
    Judgement {
        gateways: gateways.collect(),
        classes,
        routes,
    }
}

/// The gateway that `parent` names, if it names one.
pub(crate) fn gateway_key(parent: &ParentRef, route: &Route) -> Option<ObjectKey> {
    let namespace = parent
        .namespace
        .as_deref()
        .or(route.metadata.namespace.as_deref())?;
    parent
        .is_gateway()
        .then(|| ObjectKey::new(&*parent.name).within(namespace))
}

/// Classes are accepted whatever `parametersRef` says: this controller has nothing to set.
fn class_accepted() -> Verdict {
    let message = "gateways of this class are run by this controller, which reads no parameters";
    Verdict::yes(ACCEPTED, ACCEPTED, message)
}

fn judge_parent(
    (kind, route): (RouteKind, &Route),
    parent: &ParentRef,
    gateway: &Gateway,
    snapshot: &Snapshot,
) -> ParentJudgement {
    let (bindings, accepted) = match attach((kind, route), parent, gateway, snapshot) {
        Ok(bindings) => (bindings, Verdict::yes(ACCEPTED, ACCEPTED, "it is attached")),
        Err(refusal) => (Vec::new(), refusal),
    };
    let referrer = Referrer {
        kind: kind.name(),
        namespace: route.metadata.namespace.as_deref().unwrap_or_default(),
    };
    let mut backends = route.spec.backends();
    let unresolved = backends.find_map(|backend| referrer.backend(backend, snapshot));
    let resolved = || Verdict::yes(RESOLVED_REFS, RESOLVED_REFS, "all it names is there");
    ParentJudgement {
        parent: parent.clone(),
        bindings,
        verdicts: vec![accepted, unresolved.unwrap_or_else(resolved)],
    }
}

/// How many routes are attached to `listener` of `gateway`: each once, however often it asks.
fn attached(
    routes: &BTreeMap<RouteId, Vec<ParentJudgement>>,
    snapshot: &Snapshot,
    gateway: &ObjectKey,
    listener: &str,
) -> usize {
    let attached = routes.iter().filter(|(id, parents)| {
        let route = &snapshot.routes[id];
        parents.iter().any(|judged| {
            gateway_key(&judged.parent, route).as_ref() == Some(gateway)
                && judged
                    .bindings
                    .iter()
                    .any(|binding| binding.listener == listener)
        })
    });
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
    // Without a data plane no address is ever found: a gateway gets those that it asks for.
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
    if let Some(unknown) = gateway
        .spec
        .addresses
        .iter()
        .find(|address| !known(address))
    {
        let message = format!(
            "addresses of the type {} are not for this controller",
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
        0 => Verdict::no(PROGRAMMED, "Invalid", "no listener works"),
        good => {
            let message = format!("{good} of {} listeners work", listeners.len());
            Verdict::yes(PROGRAMMED, PROGRAMMED, message)
        }
    }
}

/// Whether one of `verdicts` says that `about` holds.
fn says(verdicts: &[Verdict], about: &str) -> bool {
    verdicts
        .iter()
        .any(|verdict| verdict.about == about && verdict.holds)
}

#[cfg(test)]
mod tests;
