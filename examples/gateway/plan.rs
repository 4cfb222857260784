//! The status writes that publish the conditions. *(pure)*

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::Resource;
use serde::Serialize;
use serde_json::{Value, json};
use windlass::ObjectKey;

use crate::{
    api::{
        GROUP, Gateway, GatewayClassStatus, GatewayStatus, ListenerStatus, ParentStatus, Route,
        RouteGroupKind, RouteKind, RouteStatus,
    },
    conditions::conditions,
    judge::{GatewayJudgement, ListenerJudgement, ParentJudgement, judge},
    snapshot::Snapshot,
};

/// A required status write.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct StatusWrite {
    pub(crate) kind: Kind,
    pub(crate) key: ObjectKey,
    /// A merge patch of the status for exactly this version of the object.
    pub(crate) patch: Value,
}

/// The kinds whose statuses this controller writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Class,
    Gateway,
    Route(RouteKind),
}

/// The writes that `controller` must send. Empty after all of them were applied.
pub(crate) fn plan(snapshot: &Snapshot, controller: &str, now: &Time) -> Vec<StatusWrite> {
    let judgement = judge(snapshot, controller);

    let classes = judgement.classes.iter().filter_map(|(name, verdicts)| {
        let class = &snapshot.classes[name];
        let old = class.status.clone().unwrap_or_default();
        let new = GatewayClassStatus {
            conditions: conditions(&old.conditions, verdicts, class.metadata.generation, now),
        };
        write(Kind::Class, &**class, &old, &new)
    });
    let gateways = judgement.gateways.iter().filter_map(|(key, judged)| {
        let gateway = &snapshot.gateways[key];
        let old = gateway.status.clone().unwrap_or_default();
        let new = gateway_status(&old, judged, gateway, now);
        write(Kind::Gateway, &**gateway, &old, &new)
    });
    let routes = judgement.routes.iter().filter_map(|(id, judged)| {
        let route = &snapshot.routes[id];
        let old = route.status.clone().unwrap_or_default();
        let new = route_status(&old, judged, route, controller, now);
        write(Kind::Route(id.0), &**route, &old, &new)
    });
    classes.chain(gateways).chain(routes).collect()
}

fn gateway_status(
    old: &GatewayStatus,
    judged: &GatewayJudgement,
    gateway: &Gateway,
    now: &Time,
) -> GatewayStatus {
    let generation = gateway.metadata.generation;
    let listener = |listener: &ListenerJudgement| {
        let before = old
            .listeners
            .iter()
            .find(|before| before.name == listener.name);
        let before = before.map_or(&[][..], |before| &before.conditions);
        ListenerStatus {
            name: listener.name.clone(),
            supported_kinds: listener.kinds.iter().copied().map(supported).collect(),
            attached_routes: listener.attached.try_into().unwrap_or(i32::MAX),
            conditions: conditions(before, &listener.verdicts, generation, now),
        }
    };
    GatewayStatus {
        addresses: judged.addresses.clone(),
        conditions: conditions(&old.conditions, &judged.verdicts, generation, now),
        listeners: judged.listeners.iter().map(listener).collect(),
    }
}

fn supported(kind: RouteKind) -> RouteGroupKind {
    RouteGroupKind {
        group: GROUP.to_owned(),
        kind: kind.name().to_owned(),
    }
}

/// The unchanged entries of other controllers, followed by ours. Our entries of former parents are
/// removed.
fn route_status(
    old: &RouteStatus,
    judged: &[ParentJudgement],
    route: &Route,
    controller: &str,
    now: &Time,
) -> RouteStatus {
    let others = old
        .parents
        .iter()
        .filter(|entry| entry.controller_name != controller);
    let ours = judged.iter().map(|judged| {
        let before = old.entry(&judged.parent, controller);
        let before = before.map_or(&[][..], |before| &before.conditions);
        ParentStatus {
            parent_ref: judged.parent.clone(),
            controller_name: controller.to_owned(),
            conditions: conditions(before, &judged.verdicts, route.metadata.generation, now),
        }
    });
    RouteStatus {
        parents: others.cloned().chain(ours).collect(),
    }
}

/// The write that changes `old` to `new`, if they differ.
///
/// It contains the `resourceVersion` of the snapshot. If the object has changed since then, the API
/// server rejects the write, and the event of the change causes another reconcile.
fn write<K: Resource, S: PartialEq + Serialize>(
    kind: Kind,
    object: &K,
    old: &S,
    new: &S,
) -> Option<StatusWrite> {
    let version = &object.meta().resource_version;
    (old != new).then(|| StatusWrite {
        kind,
        key: ObjectKey::of(object),
        patch: json!({ "metadata": { "resourceVersion": version }, "status": new }),
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use k8s_openapi::jiff::Timestamp;
    use serde::de::DeserializeOwned;

    use super::*;
    use crate::snapshot::tests::snapshot;

    const CONTROLLER: &str = "example.io/ours";

    const WORLD: &str = "
{kind: GatewayClass, apiVersion: g/v1, metadata: {name: ours, generation: 1}, spec: {controllerName: example.io/ours}}
---
kind: Gateway
apiVersion: g/v1
metadata: {name: web, resourceVersion: '7', generation: 3}
spec: {gatewayClassName: ours, listeners: [{name: a, port: 80, protocol: HTTP}]}
---
kind: HTTPRoute
apiVersion: g/v1
metadata: {name: r, resourceVersion: '9', generation: 2}
spec: {parentRefs: [{name: web}]}
status:
  parents:
  - {parentRef: {name: web}, controllerName: example.io/theirs, conditions: []}
  - {parentRef: {name: old}, controllerName: example.io/ours, conditions: []}
---
";

    #[test]
    fn no_write_is_planned_after_all_were_applied() {
        let mut world = snapshot(WORLD);
        assert_eq!(plan(&world, CONTROLLER, &at(10)).len(), 3);
        written(&mut world, 10);
        assert_eq!(plan(&world, CONTROLLER, &at(20)), []);
    }

    #[test]
    fn a_write_has_the_resource_version_of_the_snapshot() {
        let plan = plan(&snapshot(WORLD), CONTROLLER, &at(10));
        let versions = plan
            .iter()
            .map(|write| &write.patch["metadata"]["resourceVersion"]);
        assert!(versions.eq(&[Value::Null, json!("7"), json!("9")]));
    }

    #[test]
    fn entries_of_others_are_kept_and_ours_of_former_parents_are_removed() {
        let plan = plan(&snapshot(WORLD), CONTROLLER, &at(10));
        let parents = plan[2].patch["status"]["parents"]
            .as_array()
            .expect("parents");
        let entry = |entry: &Value| {
            format!(
                "{}: {}",
                entry["controllerName"], entry["parentRef"]["name"]
            )
        };
        let parents: Vec<_> = parents.iter().map(entry).collect();
        assert_eq!(
            parents,
            [
                r#""example.io/theirs": "web""#,
                r#""example.io/ours": "web""#
            ]
        );
    }

    #[test]
    fn a_change_of_the_spec_is_observed() {
        let mut world = snapshot(WORLD);
        written(&mut world, 10);
        for gateway in world.gateways.values_mut() {
            Arc::make_mut(gateway).metadata.generation = Some(4);
        }
        let plan = plan(&world, CONTROLLER, &at(20));
        assert_eq!(plan.len(), 1);
        let condition = &plan[0].patch["status"]["conditions"][0];
        assert_eq!(condition["observedGeneration"], 4);
        assert_eq!(condition["lastTransitionTime"], "1970-01-01T00:00:10Z");
    }

    /// Applies the planned writes, as the API server does.
    fn written(world: &mut Snapshot, second: i64) {
        for write in plan(world, CONTROLLER, &at(second)) {
            match write.kind {
                Kind::Class => {
                    let class = world.classes.get_mut(write.key.name()).expect("the class");
                    Arc::make_mut(class).status = read(&write);
                }
                Kind::Gateway => {
                    let gateway = world.gateways.get_mut(&write.key).expect("the gateway");
                    Arc::make_mut(gateway).status = read(&write);
                }
                Kind::Route(kind) => {
                    let id = (kind, write.key.clone());
                    let route = world.routes.get_mut(&id).expect("the route");
                    Arc::make_mut(route).status = read(&write);
                }
            }
        }
    }

    fn read<S: DeserializeOwned>(write: &StatusWrite) -> S {
        serde_json::from_value(write.patch["status"].clone()).expect("a status")
    }

    fn at(second: i64) -> Time {
        Time(Timestamp::from_second(second).expect("a second of 1970"))
    }
}
