//! Verification of the written conditions against the rules of the Gateway API. *(pure)*
//!
//! It reads only the statuses, independently of the code that computed them.

use std::{collections::BTreeSet, fmt};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use windlass::ObjectKey;

use crate::{
    api::{Gateway, Route, RouteKind},
    conditions::{ACCEPTED, PROGRAMMED, RESOLVED_REFS, find},
    judge::gateway_key,
    snapshot::Snapshot,
};

/// The result of the verification of `HTTPRoute`s and gateways.
#[derive(Debug, Default)]
pub(crate) struct Verification {
    /// The number of routes with an existing gateway.
    attached: usize,
    /// The number of routes without a parent.
    alone: usize,
    /// The missing parents of other routes.
    absent: BTreeSet<String>,
    /// The violations, one sentence each.
    pub(crate) faults: Vec<String>,
}

// === impl Verification ===

impl Verification {
    /// Checks the statuses of `controller`: each `HTTPRoute` must be accepted by each of its existing
    /// gateways and have the condition `ResolvedRefs`; each gateway must have the conditions
    /// `Accepted` and `Programmed`. All conditions must be of the current generation.
    ///
    /// Gateways of another controller's class are ignored.
    pub(crate) fn of(snapshot: &Snapshot, controller: &str) -> Self {
        let mut verification = Self::default();
        for ((kind, key), route) in &snapshot.routes {
            if *kind == RouteKind::Http {
                verification.route(key, route, snapshot, controller);
            }
        }
        for (key, gateway) in &snapshot.gateways {
            if !is_elsewhere(gateway, snapshot, controller) {
                let status = gateway.status.as_ref();
                let object = VerifiedObject {
                    name: format!("the Gateway {key}"),
                    conditions: status.map_or(&[], |status| &status.conditions),
                    generation: gateway.metadata.generation,
                };
                verification.faults.extend(object.missing(ACCEPTED));
                verification.faults.extend(object.missing(PROGRAMMED));
            }
        }
        verification
    }

    fn route(&mut self, key: &ObjectKey, route: &Route, snapshot: &Snapshot, controller: &str) {
        let parents = &route.spec.parent_refs;
        let mut attached = false;
        for parent in parents {
            let gateway = gateway_key(parent, route).and_then(|key| snapshot.gateways.get(&key));
            let Some(gateway) = gateway else {
                self.absent
                    .insert(format!("{} {}", parent.kind, parent.name));
                continue;
            };
            if is_elsewhere(gateway, snapshot, controller) {
                continue;
            }
            attached = true;
            let status = route.status.as_ref();
            let entry = status.and_then(|status| status.entry(parent, controller));
            let object = VerifiedObject {
                name: format!("the HTTPRoute {key} at {}", parent.name),
                conditions: entry.map_or(&[], |entry| &entry.conditions),
                generation: route.metadata.generation,
            };
            if find(object.conditions, ACCEPTED).is_none_or(|it| it.status != "True") {
                self.faults.push(format!("{} is not accepted", object.name));
            }
            self.faults.extend(object.missing(ACCEPTED));
            self.faults.extend(object.missing(RESOLVED_REFS));
        }
        self.attached += usize::from(attached);
        self.alone += usize::from(parents.is_empty());
    }
}

impl fmt::Display for Verification {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            attached,
            alone,
            absent,
            faults,
        } = self;
        if faults.is_empty() {
            writeln!(
                f,
                "All {attached} HTTPRoutes with an existing parent are accepted."
            )?;
        }
        for fault in faults {
            writeln!(f, "Violation: {fault}.")?;
        }
        let absent: Vec<_> = absent.iter().map(String::as_str).collect();
        write!(
            f,
            "Of the other HTTPRoutes, {alone} have no parent. The parents of the rest are in no \
             manifest:\n  {}",
            absent.join(", ")
        )
    }
}

/// The conditions of an object.
struct VerifiedObject<'s> {
    name: String,
    conditions: &'s [Condition],
    generation: Option<i64>,
}

// === impl VerifiedObject ===

impl VerifiedObject<'_> {
    /// The violation if the condition `about` is missing, or of an older generation.
    fn missing(&self, about: &str) -> Option<String> {
        let is_now = |it: &Condition| it.observed_generation == self.generation;
        let is_current = find(self.conditions, about).is_some_and(is_now);
        (!is_current).then(|| {
            format!(
                "{} has no condition {about} for its current generation",
                self.name
            )
        })
    }
}

/// Whether the class of `gateway` belongs to another controller.
fn is_elsewhere(gateway: &Gateway, snapshot: &Snapshot, controller: &str) -> bool {
    let class = snapshot.classes.get(&gateway.class());
    class.is_some_and(|class| class.spec.controller_name != controller)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::snapshot::tests::snapshot;

    const CONTROLLER: &str = "example.io/ours";

    const ROUTE: &str = "
kind: HTTPRoute
apiVersion: g/v1
metadata: {name: r, generation: 2}
spec: {parentRefs: [{name: web}, {name: gone}]}
status:
  parents:
  - parentRef: {name: web}
    controllerName: example.io/ours
    conditions:
    - {type: Accepted, status: 'True', reason: a, message: '', observedGeneration: 2, lastTransitionTime: '2026-01-01T00:00:00Z'}
    - {type: ResolvedRefs, status: 'False', reason: a, message: '', observedGeneration: 2, lastTransitionTime: '2026-01-01T00:00:00Z'}
---
";

    #[test]
    fn an_accepted_route_is_valid_even_with_unresolved_references() {
        check(ROUTE, &[]);
    }

    #[test]
    fn a_route_is_a_fault_if_its_conditions_are_false_stale_or_of_another_controller() {
        check(
            &ROUTE.replace("'True'", "'False'"),
            &["the HTTPRoute default/r at web is not accepted"],
        );
        check(
            &ROUTE.replace("generation: 2}", "generation: 3}"),
            &[
                "the HTTPRoute default/r at web has no condition Accepted for its current generation",
                "the HTTPRoute default/r at web has no condition ResolvedRefs for its current generation",
            ],
        );
        let others = Verification::of(
            &world(&ROUTE.replace(CONTROLLER, "example.io/theirs")),
            CONTROLLER,
        );
        assert_eq!(others.faults.len(), 3);
    }

    #[test]
    fn a_gateway_without_conditions_is_a_fault() {
        let silent = "{kind: Gateway, apiVersion: g/v1, metadata: {name: silent}, spec: {gatewayClassName: ours}}";
        check(
            silent,
            &[
                "the Gateway default/silent has no condition Accepted for its current generation",
                "the Gateway default/silent has no condition Programmed for its current generation",
            ],
        );
        check(&silent.replace("ours", "theirs"), &[]);
    }

    #[test]
    fn missing_parents_are_listed() {
        let verification = Verification::of(&world(ROUTE), CONTROLLER);
        assert!(verification.absent.iter().eq(["Gateway gone"]));
        assert_eq!((verification.attached, verification.alone), (1, 0));
    }

    #[track_caller]
    fn check(manifests: &str, expected: &[&str]) {
        let verification = Verification::of(&world(manifests), CONTROLLER);
        assert_eq!(verification.faults, expected);
    }

    /// `manifests`, and a gateway with all conditions.
    fn world(manifests: &str) -> Snapshot {
        let world = "
{kind: GatewayClass, apiVersion: g/v1, metadata: {name: theirs}, spec: {controllerName: example.io/theirs}}
---
kind: Gateway
apiVersion: g/v1
metadata: {name: web}
spec: {gatewayClassName: ours}
status:
  conditions:
  - {type: Accepted, status: 'True', reason: a, message: '', lastTransitionTime: '2026-01-01T00:00:00Z'}
  - {type: Programmed, status: 'True', reason: a, message: '', lastTransitionTime: '2026-01-01T00:00:00Z'}
---
";
        snapshot(&(world.to_owned() + manifests))
    }
}
