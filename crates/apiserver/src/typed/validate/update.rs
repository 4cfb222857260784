//! Fields that an update may not change.

use serde_json::Value;

use super::{At, Faults, network};
use crate::status::FieldError;

mod job;
mod pod;

use self::job::job;
use self::pod::pod;

const IMMUTABLE: &str = "field is immutable";

/// Returns the errors of an update from `before` to `after`, for an object of type `name`.
pub(crate) fn validate_update(name: &str, before: &Value, after: &Value) -> Vec<FieldError> {
    let mut faults = Faults::default();
    let has_changed = |path: &str| before.pointer(path) != after.pointer(path);
    match name {
        "core.v1.ConfigMap" => immutable_data(before, after, &["data", "binaryData"], &mut faults),
        "core.v1.Secret" => {
            same(before, after, &["/type"], &mut faults);
            immutable_data(before, after, &["data"], &mut faults);
        }
        "apps.v1.Deployment" | "apps.v1.ReplicaSet" | "apps.v1.DaemonSet" => {
            same(before, after, &["/spec/selector"], &mut faults);
        }
        "batch.v1.Job" => job(before, after, &mut faults),
        "apps.v1.StatefulSet" => stateful_set(before, after, &mut faults),
        "core.v1.Pod" => pod(before, after, &mut faults),
        "core.v1.Service" => cluster_ip(before, after, &mut faults),
        "core.v1.PersistentVolumeClaim" => claim(before, after, &mut faults),
        "core.v1.PersistentVolume" => volume(before, after, &mut faults),
        "rbac.v1.RoleBinding" | "rbac.v1.ClusterRoleBinding" if has_changed("/roleRef") => {
            faults.invalid(
                "roleRef",
                &role_in_go(&after["roleRef"]),
                "cannot change roleRef",
            );
        }
        "storage.v1.StorageClass" => {
            if has_changed("/parameters") {
                faults.forbidden("parameters", "updates to parameters are forbidden.");
            }
            let paths = ["/provisioner", "/reclaimPolicy", "/volumeBindingMode"];
            same(before, after, &paths, &mut faults);
        }
        "storage.v1.VolumeAttributesClass" => {
            for field in ["driverName", "parameters"] {
                if has_changed(&format!("/{field}")) {
                    faults.forbidden(field, &format!("updates to {field} are forbidden."));
                }
            }
        }
        "scheduling.v1.PriorityClass" => {
            if has_changed("/value") {
                faults.forbidden("value", "may not be changed in an update.");
            }
            same(before, after, &["/preemptionPolicy"], &mut faults);
        }
        "core.v1.ResourceQuota" => same(before, after, &["/spec/scopes"], &mut faults),
        _ => fixed_fields(name, before, after, &mut faults),
    }
    faults.0
}

fn stateful_set(before: &Value, after: &Value, faults: &mut Faults) {
    const FREE: [&str; 7] = [
        "replicas",
        "ordinals",
        "template",
        "updateStrategy",
        "revisionHistoryLimit",
        "persistentVolumeClaimRetentionPolicy",
        "minReadySeconds",
    ];
    if without(before, &FREE) != without(after, &FREE) {
        let why = "updates to statefulset spec for fields other than 'replicas', \
                   'ordinals', 'template', 'updateStrategy', 'revisionHistoryLimit', \
                   'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are \
                   forbidden";
        faults.forbidden("spec", why);
    }
}

/// Rejects another cluster IP of a service that has one.
fn cluster_ip(before: &Value, after: &Value, faults: &mut Faults) {
    let address = |object: &Value| object["spec"]["clusterIP"].clone();
    let is_set = |object: &Value| {
        let has_address = address(object).as_str().is_some_and(|it| !it.is_empty());
        has_address && object["spec"]["type"] != "ExternalName"
    };
    let is_right = super::service::has_addresses(after);
    if is_right && is_set(before) && is_set(after) && address(before) != address(after) {
        let why = "may not change once set";
        faults.invalid("spec.clusterIPs[0]", &vec![address(after)].into(), why);
    }
}

/// Rejects another source of a persistent volume.
fn volume(before: &Value, after: &Value, faults: &mut Faults) {
    const FREE: [&str; 9] = [
        "accessModes",
        "capacity",
        "claimRef",
        "mountOptions",
        "nodeAffinity",
        "persistentVolumeReclaimPolicy",
        "storageClassName",
        "volumeAttributesClassName",
        "volumeMode",
    ];
    if without(before, &FREE) != without(after, &FREE) {
        let why = "spec.persistentvolumesource is immutable after creation";
        faults.forbidden("spec.persistentvolumesource", why);
    }
    same(before, after, &["/spec/volumeMode"], faults);
}

/// Rejects changes of immutable fields.
fn fixed_fields(name: &str, before: &Value, after: &Value, faults: &mut Faults) {
    match name {
        "discovery.v1.EndpointSlice" => {
            same(before, after, &["/addressType"], faults);
            if before["endpoints"] != after["endpoints"] {
                let root = At {
                    value: after,
                    path: "",
                };
                network::slice_endpoints(root, faults);
            }
        }
        "apps.v1.ControllerRevision" => same(before, after, &["/data"], faults),
        "events.v1.Event" => {
            let fixed = [
                "/involvedObject",
                "/reason",
                "/message",
                "/source",
                "/firstTimestamp",
                "/lastTimestamp",
                "/count",
                "/type",
                "/action",
                "/related",
                "/reportingInstance",
            ];
            same(before, after, &fixed, faults);
            if before.get("eventTime") != after.get("eventTime") {
                let none = serde_json::json!({});
                let found = after.get("eventTime").filter(|time| !time.is_null());
                faults.invalid("eventTime", found.unwrap_or(&none), IMMUTABLE);
            }
            if before.get("reportingComponent") != after.get("reportingComponent") {
                let found = after["reportingComponent"].as_str().unwrap_or_default();
                faults.invalid("reportingController", &found.into(), IMMUTABLE);
            }
        }
        "networking.v1.IPAddress" => same(before, after, &["/spec/parentRef"], faults),
        "resource.v1.ResourceSlice" => {
            let fixed = ["/spec/pool/name", "/spec/driver", "/spec/nodeName"];
            same(before, after, &fixed, faults);
        }
        "networking.v1.IngressClass" => same(before, after, &["/spec/controller"], faults),
        "networking.v1.ServiceCIDR" => service_ranges(before, after, faults),
        "node.v1.RuntimeClass" => same(before, after, &["/handler"], faults),
        "resource.v1.ResourceClaim"
        | "resource.v1.ResourceClaimTemplate"
        | "storage.v1.VolumeAttachment" => same(before, after, &["/spec"], faults),
        "storage.v1.CSINode" => drivers(before, after, faults),
        "storage.v1.CSIStorageCapacity" => {
            let fixed = ["/nodeTopology", "/storageClassName"];
            same(before, after, &fixed, faults);
        }
        _ => {}
    }
}

/// The CIDRs of services are immutable, but a second one of the other family can be added.
fn service_ranges(before: &Value, after: &Value, faults: &mut Faults) {
    let count = |object: &Value| object["spec"]["cidrs"].as_array().map_or(0, Vec::len);
    match (count(before), count(after)) {
        (old, new) if old == new => {
            for number in 0..old {
                same(before, after, &[&format!("/spec/cidrs/{number}")], faults);
            }
        }
        (1, 2) => {
            same(before, after, &["/spec/cidrs/0"], faults);
            let root = At {
                value: after,
                path: "",
            };
            network::service_ranges(root, faults);
        }
        _ => {
            let found = after["spec"]["cidrs"].as_array();
            let found = found.cloned().unwrap_or_default();
            faults.invalid("spec.cidrs", &found.into(), IMMUTABLE);
        }
    }
}

/// Rejects changes of the drivers of a node, except of `allocatable`. Drivers can be added and
/// removed.
fn drivers(before: &Value, after: &Value, faults: &mut Faults) {
    let of = |node: &Value| {
        let drivers = node["spec"]["drivers"].as_array();
        let mut drivers = drivers.cloned().unwrap_or_default();
        for driver in drivers.iter_mut().filter_map(Value::as_object_mut) {
            driver.remove("allocatable");
        }
        drivers
    };
    let new = of(after);
    for old in of(before) {
        let same = new.iter().filter(|new| new["name"] == old["name"]);
        for changed in same.filter(|new| **new != old) {
            faults.invalid("spec.drivers", changed, IMMUTABLE);
        }
    }
}

/// Rejects changes of the values at these JSON pointers.
fn same(before: &Value, after: &Value, paths: &[&str], faults: &mut Faults) {
    for path in paths {
        let found = after.pointer(path).unwrap_or(&Value::Null);
        let old = before.pointer(path).unwrap_or(&Value::Null);
        if old != found {
            let empty = Value::from("");
            // A removed text is reported as an empty one.
            let found = if found.is_null() && old.is_string() {
                &empty
            } else {
                found
            };
            let name = path.trim_start_matches('/').replace('/', ".");
            let name = name.replace(".0", "[0]").replace(".1", "[1]");
            faults.invalid(name, found, IMMUTABLE);
        }
    }
}

/// Rejects changes of immutable data and of `immutable: true`.
fn immutable_data(before: &Value, after: &Value, fields: &[&str], faults: &mut Faults) {
    let why = "field is immutable when `immutable` is set";
    if before["immutable"] != true {
        return;
    }
    if after["immutable"] != true {
        faults.forbidden("immutable", why);
    }
    for field in fields {
        if before.get(field) != after.get(field) {
            faults.forbidden(*field, why);
        }
    }
}

/// The spec of an object, without `fields`.
fn without(object: &Value, fields: &[&str]) -> Value {
    let mut spec = object["spec"].clone();
    if let Some(spec) = spec.as_object_mut() {
        for field in fields {
            spec.remove(*field);
        }
    }
    spec
}

fn claim(before: &Value, after: &Value, faults: &mut Faults) {
    let is_bound = before["status"]["phase"] == "Bound";
    let is_unbound_volume = before["spec"]["volumeName"].is_null();
    let mut free = vec!["volumeAttributesClassName"];
    if is_unbound_volume {
        free.push("volumeName");
    }
    if is_bound {
        free.push("resources");
    }
    if without(before, &free) != without(after, &free) {
        let why = "spec is immutable after creation except resources.requests and \
                   volumeAttributesClassName for bound claims";
        faults.forbidden("spec", why);
    }
}

/// A role reference with the Go names of its fields, which the real server's error shows.
fn role_in_go(role: &Value) -> Value {
    serde_json::json!({
        "APIGroup": role["apiGroup"], "Kind": role["kind"], "Name": role["name"],
    })
}
