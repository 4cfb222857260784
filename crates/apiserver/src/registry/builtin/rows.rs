//! The table itself: one row for each built-in kind.

use super::Trait::{
    All, Cluster, Conditional, ContentGeneration, Extension, Generation as G, NamedAsLabel,
    NamedAsSegment, NamedAsService, ReturnsDeleted, Status,
};
use super::{Builtin, Trait};

const CORE: (&str, &str) = ("", "v1");
const ADMISSION: (&str, &str) = ("admissionregistration.k8s.io", "v1");
const APPS: (&str, &str) = ("apps", "v1");
const AUTOSCALING: (&str, &str) = ("autoscaling", "v2");
const BATCH: (&str, &str) = ("batch", "v1");
const COORDINATION: (&str, &str) = ("coordination.k8s.io", "v1");
const DISCOVERY: (&str, &str) = ("discovery.k8s.io", "v1");
pub(super) const EVENTS: (&str, &str) = ("events.k8s.io", "v1");
const EXTENSIONS: (&str, &str) = ("apiextensions.k8s.io", "v1");
const NETWORKING: (&str, &str) = ("networking.k8s.io", "v1");
const POLICY: (&str, &str) = ("policy", "v1");
const RBAC: (&str, &str) = ("rbac.authorization.k8s.io", "v1");
const SCHEDULING: (&str, &str) = ("scheduling.k8s.io", "v1");
const STORAGE: (&str, &str) = ("storage.k8s.io", "v1");

const POD_FIELDS: &[(&str, &str)] = &[
    ("spec.nodeName", ""),
    ("spec.restartPolicy", ""),
    ("spec.schedulerName", ""),
    ("spec.serviceAccountName", ""),
    ("spec.hostNetwork", "false"),
    ("status.phase", ""),
    ("status.podIP", ""),
    ("status.nominatedNodeName", ""),
];
const EVENT_FIELDS: &[(&str, &str)] = &[
    ("involvedObject.kind", ""),
    ("involvedObject.namespace", ""),
    ("involvedObject.name", ""),
    ("involvedObject.uid", ""),
    ("involvedObject.apiVersion", ""),
    ("involvedObject.resourceVersion", ""),
    ("involvedObject.fieldPath", ""),
    ("reason", ""),
    ("reportingComponent", ""),
    ("type", ""),
];

pub(super) const BUILTINS: &[Builtin] = &[
    row(CORE, "ConfigMap", "configmaps", &["cm"], &[], &[]),
    row(CORE, "Endpoints", "endpoints", &["ep"], &[], &[]),
    row(CORE, "Event", "events", &["ev"], &[], EVENT_FIELDS),
    row(CORE, "LimitRange", "limitranges", &["limits"], &[], &[]),
    row(
        CORE,
        "Namespace",
        "namespaces",
        &["ns"],
        &[Cluster, Status, NamedAsLabel],
        &[("status.phase", "")],
    ),
    row(
        CORE,
        "Node",
        "nodes",
        &["no"],
        &[Cluster, Status],
        &[("spec.unschedulable", "false")],
    ),
    row(
        CORE,
        "PersistentVolumeClaim",
        "persistentvolumeclaims",
        &["pvc"],
        &[Status, ReturnsDeleted],
        &[],
    ),
    row(
        CORE,
        "PersistentVolume",
        "persistentvolumes",
        &["pv"],
        &[Cluster, Status, ReturnsDeleted],
        &[],
    ),
    row(
        CORE,
        "Pod",
        "pods",
        &["po"],
        &[Status, ReturnsDeleted, All, G],
        POD_FIELDS,
    ),
    row(
        CORE,
        "ResourceQuota",
        "resourcequotas",
        &["quota"],
        &[Status, ReturnsDeleted],
        &[],
    ),
    row(CORE, "Secret", "secrets", &[], &[], &[("type", "")]),
    row(
        CORE,
        "ServiceAccount",
        "serviceaccounts",
        &["sa"],
        &[ReturnsDeleted],
        &[],
    ),
    row(
        CORE,
        "Service",
        "services",
        &["svc"],
        &[Status, ReturnsDeleted, All, NamedAsService],
        &[("spec.clusterIP", ""), ("spec.type", "")],
    ),
    row(
        ADMISSION,
        "ValidatingAdmissionPolicy",
        "validatingadmissionpolicies",
        &[],
        &[Cluster, Status, G, Conditional, Extension],
        &[],
    ),
    row(
        ADMISSION,
        "ValidatingAdmissionPolicyBinding",
        "validatingadmissionpolicybindings",
        &[],
        &[Cluster, G, Conditional, Extension],
        &[],
    ),
    row(
        EXTENSIONS,
        "CustomResourceDefinition",
        "customresourcedefinitions",
        &["crd", "crds"],
        &[Cluster, Status, G, Conditional, Extension],
        &[],
    ),
    row(
        APPS,
        "DaemonSet",
        "daemonsets",
        &["ds"],
        &[Status, G, All],
        &[],
    ),
    row(
        APPS,
        "Deployment",
        "deployments",
        &["deploy"],
        &[Status, G, All],
        &[],
    ),
    row(
        APPS,
        "ReplicaSet",
        "replicasets",
        &["rs"],
        &[Status, G, All],
        &[],
    ),
    row(
        APPS,
        "StatefulSet",
        "statefulsets",
        &["sts"],
        &[Status, G, All],
        &[],
    ),
    row(
        AUTOSCALING,
        "HorizontalPodAutoscaler",
        "horizontalpodautoscalers",
        &["hpa"],
        &[Status, All],
        &[],
    ),
    row(
        BATCH,
        "CronJob",
        "cronjobs",
        &["cj"],
        &[Status, G, All],
        &[],
    ),
    row(
        BATCH,
        "Job",
        "jobs",
        &[],
        &[Status, G, All],
        &[("status.successful", "0")],
    ),
    row(COORDINATION, "Lease", "leases", &[], &[Conditional], &[]),
    row(
        DISCOVERY,
        "EndpointSlice",
        "endpointslices",
        &[],
        &[ContentGeneration],
        &[],
    ),
    row(
        EVENTS,
        "Event",
        "events",
        &["ev"],
        &[],
        &[("reason", ""), ("type", "")],
    ),
    row(
        NETWORKING,
        "IngressClass",
        "ingressclasses",
        &[],
        &[Cluster, G],
        &[],
    ),
    row(
        NETWORKING,
        "Ingress",
        "ingresses",
        &["ing"],
        &[Status, G],
        &[],
    ),
    row(
        NETWORKING,
        "NetworkPolicy",
        "networkpolicies",
        &["netpol"],
        &[G],
        &[],
    ),
    row(
        POLICY,
        "PodDisruptionBudget",
        "poddisruptionbudgets",
        &["pdb"],
        &[Status, G, Conditional],
        &[],
    ),
    row(
        RBAC,
        "ClusterRoleBinding",
        "clusterrolebindings",
        &[],
        &[Cluster, NamedAsSegment],
        &[],
    ),
    row(
        RBAC,
        "ClusterRole",
        "clusterroles",
        &[],
        &[Cluster, NamedAsSegment],
        &[],
    ),
    row(
        RBAC,
        "RoleBinding",
        "rolebindings",
        &[],
        &[NamedAsSegment],
        &[],
    ),
    row(RBAC, "Role", "roles", &[], &[NamedAsSegment], &[]),
    row(
        SCHEDULING,
        "PriorityClass",
        "priorityclasses",
        &["pc"],
        &[Cluster, G],
        &[],
    ),
    row(
        STORAGE,
        "StorageClass",
        "storageclasses",
        &["sc"],
        &[Cluster, ReturnsDeleted],
        &[],
    ),
];

const fn row(
    group_version: (&'static str, &'static str),
    kind: &'static str,
    plural: &'static str,
    short_names: &'static [&'static str],
    traits: &'static [Trait],
    fields: &'static [(&'static str, &'static str)],
) -> Builtin {
    let (group, version) = group_version;
    Builtin {
        group,
        version,
        kind,
        plural,
        short_names,
        traits,
        fields,
    }
}
