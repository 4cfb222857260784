//! The writes that publish the conditions, and the services of the gateways. *(pure)*

use std::collections::BTreeSet;

use k8s_openapi::{api::core::v1::Service, apimachinery::pkg::apis::meta::v1::Time};
use kube::{Resource, ResourceExt as _, api::ApiResource};
use serde::Serialize;
use serde_json::{Value, json};
use windlass::ObjectKey;

use crate::{
    api::{
        Gateway, GatewayClass, GatewayClassStatus, GatewayStatus, ListenerStatus, ParentStatus,
        Protocol, RouteGroupKind, RouteStatus,
    },
    conditions::conditions,
    judge::{GatewayJudgement, ListenerJudgement, ParentJudgement, judge},
    snapshot::Snapshot,
};

/// A required write.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Write {
    pub(crate) resource: ApiResource,
    pub(crate) key: ObjectKey,
    /// The configuration to apply: all that this controller wants of a status or of a service.
    pub(crate) config: Value,
}

// === impl Write ===

impl Write {
    /// Whether the configuration is that of a status.
    pub(crate) fn is_status(&self) -> bool {
        self.config.get("status").is_some()
    }
}

/// The writes that `controller` must send. Empty after all of them were applied.
pub(crate) fn plan(snapshot: &Snapshot, controller: &str, now: &Time) -> Vec<Write> {
    let judgement = judge(snapshot, controller);

    let classes = judgement.classes.iter().filter_map(|(key, verdicts)| {
        let class = &**snapshot.classes.get(key)?;
        let resource = ApiResource::erase::<GatewayClass>(&());
        write(resource, class, class.status.as_ref(), |old, generation| {
            GatewayClassStatus {
                conditions: conditions(&old.conditions, verdicts, generation, now),
            }
        })
    });
    let gateways = judgement.gateways.iter().filter_map(|(key, judged)| {
        let gateway = &**snapshot.gateways.get(key)?;
        let resource = ApiResource::erase::<Gateway>(&());
        let new = |old: &_, generation| gateway_status(old, judged, generation, now);
        write(resource, gateway, gateway.status.as_ref(), new)
    });
    let routes = judgement.routes.iter().filter_map(|(id, judged)| {
        let route = &**snapshot.routes.get(id)?;
        let new = |old: &_, generation| route_status(old, judged, generation, controller, now);
        write(id.0.resource(), route, route.status.as_ref(), new)
    });
    let services = judgement.gateways.keys();
    let services = services.filter_map(|key| service(&snapshot.gateways[key], snapshot));
    let statuses = classes.chain(gateways).chain(routes);
    statuses.chain(services).collect()
}

/// The write of the service of a gateway, with the ports of its listeners, if it is missing or has
/// other ports.
///
/// The gateway is its owner, so the cluster deletes it with the gateway. A service of the same name
/// that the gateway does not own is left alone.
fn service(gateway: &Gateway, snapshot: &Snapshot) -> Option<Write> {
    let listeners = gateway.spec.listeners.iter();
    let ports = listeners.filter_map(|listener| match listener.protocol()? {
        Protocol::Udp => Some((listener.port, "UDP")),
        _ => Some((listener.port, "TCP")),
    });
    let ports: BTreeSet<_> = ports.collect();
    let owner = gateway.controller_owner_ref(&())?;
    let name = format!("{}-{}", gateway.name_any(), gateway.spec.gateway_class_name);
    let key = ObjectKey::new(&*name).within(gateway.namespace()?);
    let there = snapshot.services.get(&key);
    let is_done = there.is_some_and(|there| {
        let old = there
            .spec
            .iter()
            .flat_map(|spec| spec.ports.iter().flatten());
        let old = old.map(|port| (port.port, port.protocol.as_deref().unwrap_or("TCP")));
        let mut owners = there.owner_references().iter();
        old.collect::<BTreeSet<_>>() == ports || !owners.any(|it| it.uid == owner.uid)
    });
    // A deleted gateway would wait for a new service as it does for its other dependents.
    if is_done || ports.is_empty() || gateway.metadata.deletion_timestamp.is_some() {
        return None;
    }
    let port = |(port, protocol): &(i32, &str)| json!({ "name": format!("{}-{port}", protocol.to_lowercase()), "port": port, "protocol": protocol });
    let ports: Vec<_> = ports.iter().map(port).collect();
    let config = json!({
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": { "name": name, "ownerReferences": [owner] },
        "spec": { "ports": ports, "selector": { "gateway.networking.k8s.io/gateway-name": gateway.name_any() } },
    });
    Some(Write {
        resource: ApiResource::erase::<Service>(&()),
        key,
        config,
    })
}

fn gateway_status(
    old: &GatewayStatus,
    judged: &GatewayJudgement,
    generation: Option<i64>,
    now: &Time,
) -> GatewayStatus {
    let listener = |listener: &ListenerJudgement| {
        let mut before = old.listeners.iter();
        let before = before.find(|before| before.name == listener.name);
        let before = before.map_or(&[][..], |before| &before.conditions);
        ListenerStatus {
            name: listener.name.clone(),
            supported_kinds: listener.kinds.iter().map(RouteGroupKind::from).collect(),
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

/// The unchanged entries of other controllers, followed by ours. Our entries of former parents are
/// removed.
fn route_status(
    old: &RouteStatus,
    judged: &[ParentJudgement],
    generation: Option<i64>,
    controller: &str,
    now: &Time,
) -> RouteStatus {
    let others = old.parents.iter();
    let others = others.filter(|entry| entry.controller_name != controller);
    let ours = judged.iter().map(|judged| {
        let before = old.entry(&judged.parent, controller);
        let before = before.map_or(&[][..], |before| &before.conditions);
        ParentStatus {
            parent_ref: judged.parent.clone(),
            controller_name: controller.to_owned(),
            conditions: conditions(before, &judged.verdicts, generation, now),
        }
    });
    RouteStatus {
        parents: others.cloned().chain(ours).collect(),
    }
}

/// The write of the `new` status of `object`, unless it equals the `old` one.
///
/// It contains the `resourceVersion` of the snapshot. If the object has changed since then, the API
/// server rejects the write, and the event of the change causes another reconcile.
fn write<K: Resource, S: Clone + Default + PartialEq + Serialize>(
    resource: ApiResource,
    object: &K,
    old: Option<&S>,
    new: impl FnOnce(&S, Option<i64>) -> S,
) -> Option<Write> {
    let old = old.cloned().unwrap_or_default();
    let new = new(&old, object.meta().generation);
    (old != new).then(|| Write {
        key: ObjectKey::of(object),
        config: json!({
            "apiVersion": resource.api_version,
            "kind": resource.kind,
            "metadata": { "resourceVersion": object.meta().resource_version },
            "status": new,
        }),
        resource,
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use k8s_openapi::jiff::Timestamp;
    use serde::de::DeserializeOwned;

    use super::*;
    use crate::{api::RouteKind, snapshot::tests::snapshot};

    const CONTROLLER: &str = "example.io/ours";

    const WORLD: &str = "
{kind: GatewayClass, apiVersion: g/v1, metadata: {name: ours, generation: 1}, spec: {controllerName: example.io/ours}}
---
kind: Gateway
apiVersion: g/v1
metadata: {name: web, namespace: n, uid: u, resourceVersion: '7', generation: 3}
spec: {gatewayClassName: ours, listeners: [{name: a, port: 80, protocol: HTTP}]}
---
kind: HTTPRoute
apiVersion: g/v1
metadata: {name: r, namespace: n, resourceVersion: '9', generation: 2}
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
        assert_eq!(plan(&world, CONTROLLER, &at(10)).len(), 4);
        written(&mut world, 10);
        assert_eq!(plan(&world, CONTROLLER, &at(20)), []);
    }

    #[test]
    fn a_status_has_the_resource_version_of_the_snapshot() {
        let plan = plan(&snapshot(WORLD), CONTROLLER, &at(10));
        let statuses = plan.iter().filter(|write| write.is_status());
        let versions = statuses.map(|write| &write.config["metadata"]["resourceVersion"]);
        assert!(versions.eq(&[Value::Null, json!("7"), json!("9")]));
    }

    #[test]
    fn entries_of_others_are_kept_and_ours_of_former_parents_are_removed() {
        let plan = plan(&snapshot(WORLD), CONTROLLER, &at(10));
        let parents: RouteStatus = read(&plan[2]);
        let parents = parents.parents.iter();
        let parents = parents.map(|it| (&*it.controller_name, &*it.parent_ref.name));
        assert!(parents.eq([("example.io/theirs", "web"), ("example.io/ours", "web")]));
    }

    #[test]
    fn a_gateway_owns_a_service_with_its_ports() {
        let mut world = snapshot(WORLD);
        let service = |world: &Snapshot| {
            let mut plan = plan(world, CONTROLLER, &at(10)).into_iter();
            plan.find(|write| !write.is_status())
        };
        let write = service(&world).expect("a service");
        let owner = &write.config["metadata"]["ownerReferences"][0];
        assert_eq!(
            (&owner["uid"], &owner["controller"]),
            (&json!("u"), &json!(true))
        );
        assert_eq!(write.config["spec"]["ports"][0]["port"], 80);
        written(&mut world, 10);
        for gateway in world.gateways.values_mut() {
            Arc::make_mut(gateway).spec.listeners[0].port = 81;
        }
        assert!(service(&world).is_some(), "the ports have changed");
        for service in world.services.values_mut() {
            Arc::make_mut(service).metadata.owner_references = None;
        }
        assert_eq!(service(&world), None, "it belongs to another writer");
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
        let condition = &plan[0].config["status"]["conditions"][0];
        assert_eq!(condition["observedGeneration"], 4);
        assert_eq!(condition["lastTransitionTime"], "1970-01-01T00:00:10Z");
    }

    /// Applies the planned writes, as the API server does.
    fn written(world: &mut Snapshot, second: i64) {
        for write in plan(world, CONTROLLER, &at(second)) {
            let key = write.key.clone();
            match &*write.resource.kind {
                "GatewayClass" => {
                    let class = world.classes.get_mut(&key).expect("the class");
                    Arc::make_mut(class).status = read(&write);
                }
                "Gateway" => {
                    let gateway = world.gateways.get_mut(&key).expect("the gateway");
                    Arc::make_mut(gateway).status = read(&write);
                }
                "Service" => {
                    let service = serde_json::from_value(write.config).expect("a service");
                    world.services.insert(key, Arc::new(service));
                }
                _ => {
                    let id = (RouteKind::Http, key);
                    let route = world.routes.get_mut(&id).expect("the route");
                    Arc::make_mut(route).status = read(&write);
                }
            }
        }
    }

    fn read<S: DeserializeOwned>(write: &Write) -> S {
        serde_json::from_value(write.config["status"].clone()).expect("a status")
    }

    fn at(second: i64) -> Time {
        Time(Timestamp::from_second(second).expect("a second of 1970"))
    }
}
