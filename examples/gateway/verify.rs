//! Verification of the written conditions against the rules of the Gateway API. *(pure)*
//!
//! It reads the statuses as anybody would, and knows nothing of how they were judged.

use std::{collections::BTreeSet, fmt};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use crate::{
    api::{ParentRef, Route, RouteKind},
    conditions::{ACCEPTED, PROGRAMMED, RESOLVED_REFS, find},
    judge::gateway_key,
    snapshot::Snapshot,
};

/// What became of the `HTTPRoute`s and the gateways.
#[derive(Debug, Default)]
pub(crate) struct Verification {
    /// How many routes name a gateway that is there.
    attached: usize,
    /// How many routes name no parent at all.
    alone: usize,
    /// The parents that other routes name, and that are not there.
    absent: BTreeSet<String>,
    /// What is not as it should be, one sentence each.
    pub(crate) faults: Vec<String>,
}

// === impl Verification ===

impl Verification {
    /// Holds what `controller` says against what it is asked for: each `HTTPRoute` is accepted
    /// by each gateway that it names and that is there, something is said of its references,
    /// and of each gateway whether it is accepted and programmed; and all of that for the
    /// objects as they are now.
    ///
    /// Gateways of a class that is known to be another controller's are left alone.
    pub(crate) fn of(snapshot: &Snapshot, controller: &str) -> Self {
        let mut verification = Self::default();
        let routes = snapshot
            .routes
            .iter()
            .filter(|((kind, _), _)| *kind == RouteKind::Http);
        for (_, route) in routes {
            verification.route(route, snapshot, controller);
        }
        for (key, gateway) in &snapshot.gateways {
            if !is_elsewhere(&gateway.spec.gateway_class_name, snapshot, controller) {
                let conditions = gateway
                    .status
                    .as_ref()
                    .map_or(&[][..], |status| &status.conditions);
                let said = Said {
                    of: format!("the Gateway {key}"),
                    conditions,
                    generation: gateway.metadata.generation,
                };
                verification.faults.extend(said.unsaid(ACCEPTED));
                verification.faults.extend(said.unsaid(PROGRAMMED));
            }
        }
        verification
    }

    fn route(&mut self, route: &Route, snapshot: &Snapshot, controller: &str) {
        let parents = &route.spec.parent_refs;
        let gateway = |parent: &ParentRef| snapshot.gateways.get(&gateway_key(parent, route)?);
        let mut attached = false;
        for parent in parents {
            let Some(gateway) = gateway(parent) else {
                self.absent
                    .insert(format!("{} {}", parent.kind, parent.name));
                continue;
            };
            if is_elsewhere(&gateway.spec.gateway_class_name, snapshot, controller) {
                continue;
            }
            attached = true;
            let status = route.status.as_ref();
            let entry = status.and_then(|status| status.entry(parent, controller));
            let said = Said {
                of: format!(
                    "the HTTPRoute {}/{} at {}",
                    route.metadata.namespace.as_deref().unwrap_or_default(),
                    route.metadata.name.as_deref().unwrap_or_default(),
                    parent.name,
                ),
                conditions: entry.map_or(&[][..], |entry| &entry.conditions),
                generation: route.metadata.generation,
            };
            self.faults.extend(said.not_accepted());
            self.faults.extend(said.unsaid(ACCEPTED));
            self.faults.extend(said.unsaid(RESOLVED_REFS));
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
                "All {attached} HTTPRoutes whose parent is there are accepted."
            )?;
        }
        for fault in faults {
            writeln!(f, "Not well: {fault}.")?;
        }
        let absent: Vec<_> = absent.iter().map(String::as_str).collect();
        write!(
            f,
            "Of the other HTTPRoutes, {alone} name no parent, and the rest one that no manifest \
             brings:\n  {}",
            absent.join(", ")
        )
    }
}

/// What is said of something.
struct Said<'s> {
    of: String,
    conditions: &'s [Condition],
    generation: Option<i64>,
}

// === impl Said ===

impl Said<'_> {
    fn not_accepted(&self) -> Option<String> {
        let accepted = find(self.conditions, ACCEPTED).is_some_and(|it| it.status == "True");
        (!accepted).then(|| format!("{} is not accepted", self.of))
    }

    /// That nothing is said `about` it, or only of what it was before.
    fn unsaid(&self, about: &str) -> Option<String> {
        let is_now = |it: &Condition| it.observed_generation == self.generation;
        let said = find(self.conditions, about).is_some_and(is_now);
        (!said).then(|| {
            format!(
                "nothing says of {} as it is now whether it is {about}",
                self.of
            )
        })
    }
}

/// Whether the gateways of `class` are another controller's.
fn is_elsewhere(class: &str, snapshot: &Snapshot, controller: &str) -> bool {
    let class = snapshot.classes.get(class);
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
                "nothing says of the HTTPRoute default/r at web as it is now whether it is Accepted",
                "nothing says of the HTTPRoute default/r at web as it is now whether it is ResolvedRefs",
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
                "nothing says of the Gateway default/silent as it is now whether it is Accepted",
                "nothing says of the Gateway default/silent as it is now whether it is Programmed",
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

    /// `manifests`, and a gateway that is well.
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
