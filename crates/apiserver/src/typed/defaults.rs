//! Defaults of the built-in kinds that are code in Kubernetes, by type.
//!
//! They are filled in from the outside in, before the fields of an object are checked: what is
//! of the wrong type is left as it is.
//!
//! Source: the `defaults.go` files of Kubernetes v1.36.3 (`pkg/apis`).

use serde_json::{Map, Value, json};

use super::image::is_latest;

mod autoscaling;
mod core;

type Members = Map<String, Value>;

/// When a default is filled in.
#[derive(Clone, Copy)]
enum If {
    /// The field is absent: it is a pointer in Go.
    Absent,
    /// The field is absent or empty.
    Empty,
}

/// A default that depends on nothing: type, field, when, and the value as JSON.
const PLAIN: &[(&str, &str, If, &str)] = &[
    (
        "admissionregistration.v1.MatchResources",
        "matchPolicy",
        If::Absent,
        r#""Equivalent""#,
    ),
    (
        "admissionregistration.v1.MatchResources",
        "namespaceSelector",
        If::Absent,
        "{}",
    ),
    (
        "admissionregistration.v1.MatchResources",
        "objectSelector",
        If::Absent,
        "{}",
    ),
    (
        "admissionregistration.v1.MutatingAdmissionPolicySpec",
        "failurePolicy",
        If::Absent,
        r#""Fail""#,
    ),
    (
        "admissionregistration.v1.MutatingWebhook",
        "failurePolicy",
        If::Absent,
        r#""Fail""#,
    ),
    (
        "admissionregistration.v1.MutatingWebhook",
        "matchPolicy",
        If::Absent,
        r#""Equivalent""#,
    ),
    (
        "admissionregistration.v1.MutatingWebhook",
        "namespaceSelector",
        If::Absent,
        "{}",
    ),
    (
        "admissionregistration.v1.MutatingWebhook",
        "objectSelector",
        If::Absent,
        "{}",
    ),
    (
        "admissionregistration.v1.MutatingWebhook",
        "reinvocationPolicy",
        If::Absent,
        r#""Never""#,
    ),
    (
        "admissionregistration.v1.MutatingWebhook",
        "timeoutSeconds",
        If::Absent,
        "10",
    ),
    (
        "admissionregistration.v1.NamedRuleWithOperations",
        "scope",
        If::Absent,
        r#""*""#,
    ),
    (
        "admissionregistration.v1.RuleWithOperations",
        "scope",
        If::Absent,
        r#""*""#,
    ),
    (
        "admissionregistration.v1.ServiceReference",
        "port",
        If::Absent,
        "443",
    ),
    (
        "admissionregistration.v1.ValidatingAdmissionPolicySpec",
        "failurePolicy",
        If::Absent,
        r#""Fail""#,
    ),
    (
        "admissionregistration.v1.ValidatingWebhook",
        "failurePolicy",
        If::Absent,
        r#""Fail""#,
    ),
    (
        "admissionregistration.v1.ValidatingWebhook",
        "matchPolicy",
        If::Absent,
        r#""Equivalent""#,
    ),
    (
        "admissionregistration.v1.ValidatingWebhook",
        "namespaceSelector",
        If::Absent,
        "{}",
    ),
    (
        "admissionregistration.v1.ValidatingWebhook",
        "objectSelector",
        If::Absent,
        "{}",
    ),
    (
        "admissionregistration.v1.ValidatingWebhook",
        "timeoutSeconds",
        If::Absent,
        "10",
    ),
    (
        "apps.v1.DaemonSetSpec",
        "revisionHistoryLimit",
        If::Absent,
        "10",
    ),
    (
        "apps.v1.DaemonSetUpdateStrategy",
        "type",
        If::Empty,
        r#""RollingUpdate""#,
    ),
    (
        "apps.v1.DeploymentSpec",
        "progressDeadlineSeconds",
        If::Absent,
        "600",
    ),
    ("apps.v1.DeploymentSpec", "replicas", If::Absent, "1"),
    (
        "apps.v1.DeploymentSpec",
        "revisionHistoryLimit",
        If::Absent,
        "10",
    ),
    (
        "apps.v1.DeploymentStrategy",
        "type",
        If::Empty,
        r#""RollingUpdate""#,
    ),
    ("apps.v1.ReplicaSetSpec", "replicas", If::Absent, "1"),
    (
        "apps.v1.StatefulSetPersistentVolumeClaimRetentionPolicy",
        "whenDeleted",
        If::Empty,
        r#""Retain""#,
    ),
    (
        "apps.v1.StatefulSetPersistentVolumeClaimRetentionPolicy",
        "whenScaled",
        If::Empty,
        r#""Retain""#,
    ),
    (
        "apps.v1.StatefulSetSpec",
        "persistentVolumeClaimRetentionPolicy",
        If::Absent,
        "{}",
    ),
    (
        "apps.v1.StatefulSetSpec",
        "podManagementPolicy",
        If::Empty,
        r#""OrderedReady""#,
    ),
    ("apps.v1.StatefulSetSpec", "replicas", If::Absent, "1"),
    (
        "apps.v1.StatefulSetSpec",
        "revisionHistoryLimit",
        If::Absent,
        "10",
    ),
    (
        "autoscaling.v1.HorizontalPodAutoscalerSpec",
        "minReplicas",
        If::Absent,
        "1",
    ),
    (
        "autoscaling.v2.HorizontalPodAutoscalerSpec",
        "minReplicas",
        If::Absent,
        "1",
    ),
    (
        "batch.v1.CronJobSpec",
        "concurrencyPolicy",
        If::Empty,
        r#""Allow""#,
    ),
    (
        "batch.v1.CronJobSpec",
        "failedJobsHistoryLimit",
        If::Absent,
        "1",
    ),
    (
        "batch.v1.CronJobSpec",
        "successfulJobsHistoryLimit",
        If::Absent,
        "3",
    ),
    ("batch.v1.CronJobSpec", "suspend", If::Absent, "false"),
    (
        "batch.v1.PodFailurePolicyOnPodConditionsPattern",
        "status",
        If::Empty,
        r#""True""#,
    ),
    (
        "core.v1.AzureDiskVolumeSource",
        "cachingMode",
        If::Absent,
        r#""ReadWrite""#,
    ),
    (
        "core.v1.AzureDiskVolumeSource",
        "fsType",
        If::Absent,
        r#""ext4""#,
    ),
    (
        "core.v1.AzureDiskVolumeSource",
        "kind",
        If::Absent,
        r#""Shared""#,
    ),
    (
        "core.v1.AzureDiskVolumeSource",
        "readOnly",
        If::Absent,
        "false",
    ),
    (
        "core.v1.ConfigMapVolumeSource",
        "defaultMode",
        If::Absent,
        "420",
    ),
    ("core.v1.ContainerPort", "protocol", If::Empty, r#""TCP""#),
    (
        "core.v1.DownwardAPIVolumeSource",
        "defaultMode",
        If::Absent,
        "420",
    ),
    ("core.v1.EndpointPort", "protocol", If::Empty, r#""TCP""#),
    ("core.v1.GRPCAction", "service", If::Absent, r#""""#),
    ("core.v1.HTTPGetAction", "path", If::Empty, r#""/""#),
    ("core.v1.HTTPGetAction", "scheme", If::Empty, r#""HTTP""#),
    ("core.v1.HostPathVolumeSource", "type", If::Absent, r#""""#),
    (
        "core.v1.ISCSIPersistentVolumeSource",
        "iscsiInterface",
        If::Empty,
        r#""default""#,
    ),
    (
        "core.v1.ISCSIVolumeSource",
        "iscsiInterface",
        If::Empty,
        r#""default""#,
    ),
    ("core.v1.NamespaceStatus", "phase", If::Empty, r#""Active""#),
    (
        "core.v1.ObjectFieldSelector",
        "apiVersion",
        If::Empty,
        r#""v1""#,
    ),
    (
        "core.v1.PersistentVolumeClaimSpec",
        "volumeMode",
        If::Absent,
        r#""Filesystem""#,
    ),
    (
        "core.v1.PersistentVolumeClaimStatus",
        "phase",
        If::Empty,
        r#""Pending""#,
    ),
    (
        "core.v1.PersistentVolumeSpec",
        "persistentVolumeReclaimPolicy",
        If::Empty,
        r#""Retain""#,
    ),
    (
        "core.v1.PersistentVolumeSpec",
        "volumeMode",
        If::Absent,
        r#""Filesystem""#,
    ),
    (
        "core.v1.PersistentVolumeStatus",
        "phase",
        If::Empty,
        r#""Pending""#,
    ),
    (
        "core.v1.PodSpec",
        "dnsPolicy",
        If::Empty,
        r#""ClusterFirst""#,
    ),
    ("core.v1.PodSpec", "restartPolicy", If::Empty, r#""Always""#),
    (
        "core.v1.PodSpec",
        "schedulerName",
        If::Empty,
        r#""default-scheduler""#,
    ),
    ("core.v1.PodSpec", "securityContext", If::Absent, "{}"),
    (
        "core.v1.PodSpec",
        "terminationGracePeriodSeconds",
        If::Absent,
        "30",
    ),
    ("core.v1.Probe", "failureThreshold", If::Empty, "3"),
    ("core.v1.Probe", "periodSeconds", If::Empty, "10"),
    ("core.v1.Probe", "successThreshold", If::Empty, "1"),
    ("core.v1.Probe", "timeoutSeconds", If::Empty, "1"),
    (
        "core.v1.ProjectedVolumeSource",
        "defaultMode",
        If::Absent,
        "420",
    ),
    (
        "core.v1.RBDPersistentVolumeSource",
        "keyring",
        If::Empty,
        r#""/etc/ceph/keyring""#,
    ),
    (
        "core.v1.RBDPersistentVolumeSource",
        "pool",
        If::Empty,
        r#""rbd""#,
    ),
    (
        "core.v1.RBDPersistentVolumeSource",
        "user",
        If::Empty,
        r#""admin""#,
    ),
    (
        "core.v1.RBDVolumeSource",
        "keyring",
        If::Empty,
        r#""/etc/ceph/keyring""#,
    ),
    ("core.v1.RBDVolumeSource", "pool", If::Empty, r#""rbd""#),
    ("core.v1.RBDVolumeSource", "user", If::Empty, r#""admin""#),
    (
        "core.v1.ReplicationControllerSpec",
        "replicas",
        If::Absent,
        "1",
    ),
    (
        "core.v1.ScaleIOPersistentVolumeSource",
        "fsType",
        If::Empty,
        r#""xfs""#,
    ),
    (
        "core.v1.ScaleIOPersistentVolumeSource",
        "storageMode",
        If::Empty,
        r#""ThinProvisioned""#,
    ),
    (
        "core.v1.ScaleIOVolumeSource",
        "fsType",
        If::Empty,
        r#""xfs""#,
    ),
    (
        "core.v1.ScaleIOVolumeSource",
        "storageMode",
        If::Empty,
        r#""ThinProvisioned""#,
    ),
    ("core.v1.Secret", "type", If::Empty, r#""Opaque""#),
    (
        "core.v1.SecretVolumeSource",
        "defaultMode",
        If::Absent,
        "420",
    ),
    (
        "core.v1.ServiceAccountTokenProjection",
        "expirationSeconds",
        If::Absent,
        "3600",
    ),
    ("core.v1.ServicePort", "protocol", If::Empty, r#""TCP""#),
    (
        "core.v1.ServiceSpec",
        "sessionAffinity",
        If::Empty,
        r#""None""#,
    ),
    ("core.v1.ServiceSpec", "type", If::Empty, r#""ClusterIP""#),
    ("discovery.v1.EndpointPort", "name", If::Absent, r#""""#),
    (
        "discovery.v1.EndpointPort",
        "protocol",
        If::Absent,
        r#""TCP""#,
    ),
    (
        "flowcontrol.v1.ExemptPriorityLevelConfiguration",
        "lendablePercent",
        If::Absent,
        "0",
    ),
    (
        "flowcontrol.v1.ExemptPriorityLevelConfiguration",
        "nominalConcurrencyShares",
        If::Absent,
        "0",
    ),
    (
        "flowcontrol.v1.FlowSchemaSpec",
        "matchingPrecedence",
        If::Empty,
        "1000",
    ),
    (
        "flowcontrol.v1.LimitedPriorityLevelConfiguration",
        "lendablePercent",
        If::Absent,
        "0",
    ),
    (
        "flowcontrol.v1.LimitedPriorityLevelConfiguration",
        "nominalConcurrencyShares",
        If::Absent,
        "30",
    ),
    (
        "flowcontrol.v1.QueuingConfiguration",
        "handSize",
        If::Empty,
        "8",
    ),
    (
        "flowcontrol.v1.QueuingConfiguration",
        "queueLengthLimit",
        If::Empty,
        "50",
    ),
    (
        "flowcontrol.v1.QueuingConfiguration",
        "queues",
        If::Empty,
        "64",
    ),
    (
        "networking.v1.IngressClassParametersReference",
        "scope",
        If::Absent,
        r#""Cluster""#,
    ),
    (
        "networking.v1.NetworkPolicyPort",
        "protocol",
        If::Absent,
        r#""TCP""#,
    ),
    (
        "rbac.v1.RoleRef",
        "apiGroup",
        If::Empty,
        r#""rbac.authorization.k8s.io""#,
    ),
    (
        "scheduling.v1.PriorityClass",
        "preemptionPolicy",
        If::Absent,
        r#""PreemptLowerPriority""#,
    ),
    (
        "storage.v1.CSIDriverSpec",
        "attachRequired",
        If::Absent,
        "true",
    ),
    (
        "storage.v1.CSIDriverSpec",
        "fsGroupPolicy",
        If::Absent,
        r#""ReadWriteOnceWithFSType""#,
    ),
    (
        "storage.v1.CSIDriverSpec",
        "podInfoOnMount",
        If::Absent,
        "false",
    ),
    (
        "storage.v1.CSIDriverSpec",
        "requiresRepublish",
        If::Absent,
        "false",
    ),
    (
        "storage.v1.CSIDriverSpec",
        "seLinuxMount",
        If::Absent,
        "false",
    ),
    (
        "storage.v1.CSIDriverSpec",
        "storageCapacity",
        If::Absent,
        "false",
    ),
    (
        "storage.v1.CSIDriverSpec",
        "volumeLifecycleModes",
        If::Empty,
        r#"["Persistent"]"#,
    ),
    (
        "storage.v1.StorageClass",
        "reclaimPolicy",
        If::Absent,
        r#""Delete""#,
    ),
    (
        "storage.v1.StorageClass",
        "volumeBindingMode",
        If::Absent,
        r#""Immediate""#,
    ),
];

/// Fills in what an object of the type called `name` lacks.
pub(super) fn fill(name: &str, object: &mut Members) {
    let first = PLAIN.partition_point(|(of, ..)| *of < name);
    for (_, field, when, value) in PLAIN[first..].iter().take_while(|(of, ..)| *of == name) {
        let found = object.get(*field).filter(|value| !value.is_null());
        let lacks = match (when, found) {
            (_, None) => true,
            (If::Absent, Some(_)) => false,
            (If::Empty, Some(found)) => is_zero(found),
        };
        if !lacks {
            continue;
        }
        let Ok(value) = serde_json::from_str::<Value>(value) else {
            continue;
        };
        // What is empty and of another type is left to the decoder, which refuses it.
        let is_of_type = found
            .is_none_or(|found| std::mem::discriminant(found) == std::mem::discriminant(&value));
        if is_of_type {
            object.insert((*field).to_owned(), value);
        }
    }
    match name {
        "apps.v1.DeploymentStrategy" => rolling_update(object, "25%", "25%"),
        "apps.v1.DaemonSetUpdateStrategy" => rolling_update(object, 1, 0),
        "apps.v1.StatefulSetUpdateStrategy" => stateful_strategy(object),
        "apps.v1.StatefulSetSpec" => claim_types(object),
        "autoscaling.v2.HorizontalPodAutoscalerSpec" => autoscaling::metrics(object),
        "autoscaling.v2.HorizontalPodAutoscalerBehavior" => autoscaling::behavior(object),
        "batch.v1.Job" => job_labels(object),
        "core.v1.Container" | "core.v1.EphemeralContainer" => core::container(object),
        "core.v1.LimitRangeItem" => core::limit_range_item(object),
        "core.v1.NodeStatus" => core::node_status(object),
        "core.v1.Pod" => core::pod(object),
        "core.v1.PodSpec" => core::service_account(object),
        "core.v1.ReplicationController" => core::replication_controller(object),
        "core.v1.ServiceSpec" => core::service(object),
        "core.v1.Volume" => core::volume(object),
        // It has gone, and is still accepted.
        "discovery.v1.Endpoint" => _ = object.remove("deprecatedTopology"),
        "networking.v1.NetworkPolicySpec" => policy_types(object),
        "resource.v1.ExactDeviceRequest" | "resource.v1.DeviceSubRequest" => device_request(object),
        "rbac.v1.Subject" => subject(object),
        _ => {}
    }
}

fn rolling_update(strategy: &mut Members, unavailable: impl Into<Value>, surge: impl Into<Value>) {
    if text(strategy, "type") != "RollingUpdate" {
        return;
    }
    if let Some(rolling) = inner(strategy, "rollingUpdate") {
        absent(rolling, "maxUnavailable", unavailable);
        absent(rolling, "maxSurge", surge);
    }
}

fn stateful_strategy(strategy: &mut Members) {
    if text(strategy, "type").is_empty() && is_unset(strategy, "type") {
        strategy.insert("type".to_owned(), "RollingUpdate".into());
        absent(strategy, "rollingUpdate", json!({}));
    }
    if text(strategy, "type") == "RollingUpdate"
        && let Some(Value::Object(rolling)) = strategy.get_mut("rollingUpdate")
    {
        absent(rolling, "partition", 0);
    }
}

/// The templates of claims name their type.
fn claim_types(spec: &mut Members) {
    let claims = spec
        .get_mut("volumeClaimTemplates")
        .and_then(Value::as_array_mut);
    for claim in claims.into_iter().flatten() {
        if let Some(claim) = claim.as_object_mut() {
            absent_or_empty(claim, "apiVersion", "v1");
            absent_or_empty(claim, "kind", "PersistentVolumeClaim");
        }
    }
}

/// What is asked of a device: exactly one, unless it says how many.
fn device_request(request: &mut Members) {
    absent_or_empty(request, "allocationMode", "ExactCount");
    if text(request, "allocationMode") == "ExactCount" {
        absent_or_empty(request, "count", 1);
    }
}

/// A job has the labels of its pods, unless it has some; its spec has defaults that those of
/// the template of a cron job do not get.
fn job_labels(job: &mut Members) {
    let labels = job
        .get("spec")
        .and_then(|spec| spec.pointer("/template/metadata/labels"));
    if let Some(labels @ Value::Object(_)) = labels.cloned()
        && let Some(metadata) = inner(job, "metadata")
        && metadata.get("labels").is_none_or(is_zero)
    {
        metadata.insert("labels".to_owned(), labels);
    }
    let Some(spec) = inner(job, "spec") else {
        return;
    };
    if is_unset(spec, "completions") && is_unset(spec, "parallelism") {
        spec.insert("completions".to_owned(), 1.into());
    }
    absent(spec, "parallelism", 1);
    let limit = if is_unset(spec, "backoffLimitPerIndex") {
        6
    } else {
        i32::MAX
    };
    absent(spec, "backoffLimit", limit);
    absent(spec, "completionMode", "NonIndexed");
    absent(spec, "suspend", false);
    let replacement = if is_unset(spec, "podFailurePolicy") {
        "TerminatingOrFailed"
    } else {
        "Failed"
    };
    absent(spec, "podReplacementPolicy", replacement);
    absent(spec, "manualSelector", false);
}

fn policy_types(policy: &mut Members) {
    if !policy.get("policyTypes").is_none_or(is_zero) {
        return;
    }
    let mut types = vec!["Ingress"];
    if !policy.get("egress").is_none_or(is_zero) {
        types.push("Egress");
    }
    policy.insert("policyTypes".to_owned(), types.into());
}

fn subject(subject: &mut Members) {
    if matches!(text(subject, "kind"), "User" | "Group") && text(subject, "apiGroup").is_empty() {
        absent_or_empty(subject, "apiGroup", "rbac.authorization.k8s.io");
    }
}

/// Whether a field is absent or `null`.
fn is_unset(object: &Members, field: &str) -> bool {
    object.get(field).is_none_or(Value::is_null)
}

/// Whether a value is one that Go leaves out.
fn is_zero(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(flag) => !flag,
        Value::Number(number) => number.as_i64() == Some(0),
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(members) => members.is_empty(),
    }
}

fn text<'a>(object: &'a Members, field: &str) -> &'a str {
    object
        .get(field)
        .and_then(Value::as_str)
        .unwrap_or_default()
}

/// The object in `field`, made if it is absent; nothing if something else is there.
fn inner<'a>(object: &'a mut Members, field: &str) -> Option<&'a mut Members> {
    absent(object, field, json!({}));
    object.get_mut(field).and_then(Value::as_object_mut)
}

/// Fills in a field that is absent.
fn absent(object: &mut Members, field: &str, value: impl Into<Value>) {
    if is_unset(object, field) {
        object.insert(field.to_owned(), value.into());
    }
}

/// Fills in a field that is absent or empty.
fn absent_or_empty(object: &mut Members, field: &str, value: impl Into<Value>) {
    if object.get(field).is_none_or(is_zero) {
        object.insert(field.to_owned(), value.into());
    }
}

#[cfg(test)]
mod tests {
    use super::super::table::named;
    use super::PLAIN;

    #[test]
    fn the_table_is_sorted_and_names_fields_that_there_are() {
        assert!(PLAIN.is_sorted_by_key(|(of, field, ..)| (of, field)));
        for (of, field, _, value) in PLAIN {
            let found = named(of).unwrap_or_else(|| panic!("no type {of}"));
            assert!(found.fields.contains_key(field), "{of}.{field}");
            assert!(
                serde_json::from_str::<serde_json::Value>(value).is_ok(),
                "{value}"
            );
        }
    }
}
