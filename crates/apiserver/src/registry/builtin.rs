//! The built-in kinds, as a table.

use std::sync::Arc;

use super::{Generation, Resource, ResourceInfo, Rules, Subresource, View};
use crate::metadata::{Finalizers, NameRule};
use crate::selector::SelectableField;
use crate::table::Columns;

/// What every resource can do, in the order of discovery documents.
pub(super) const VERBS: &[&str] = &[
    "create",
    "delete",
    "deletecollection",
    "get",
    "list",
    "patch",
    "update",
    "watch",
];

/// One row of the table.
struct Builtin {
    group: &'static str,
    version: &'static str,
    kind: &'static str,
    plural: &'static str,
    short_names: &'static [&'static str],
    /// `Cluster` or `Namespaced`, and what else is special.
    traits: &'static [Trait],
    /// By which fields objects can be selected, beside name and namespace, with what
    /// counts as the value of an absent one.
    fields: &'static [(&'static str, &'static str)],
}

/// Where a kind differs from most.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Trait {
    /// Objects live in no namespace.
    Cluster,
    /// There is a `/status`.
    Status,
    /// A change of the spec counts as a new generation.
    Generation,
    /// An update must name a resourceVersion.
    Conditional,
    /// The answer to a deletion is the object.
    ReturnsDeleted,
    /// kubectl's `get all` shows it.
    All,
    /// Named as DNS labels are.
    NamedAsLabel,
    /// Named as services are.
    NamedAsService,
    /// Named by whatever fits into a URL.
    NamedAsSegment,
}

use Trait::{
    All, Cluster, Conditional, Generation as G, NamedAsLabel, NamedAsSegment, NamedAsService,
    ReturnsDeleted, Status,
};

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

const CORE: (&str, &str) = ("", "v1");
const ADMISSION: (&str, &str) = ("admissionregistration.k8s.io", "v1");
const APPS: (&str, &str) = ("apps", "v1");
const AUTOSCALING: (&str, &str) = ("autoscaling", "v2");
const BATCH: (&str, &str) = ("batch", "v1");
const COORDINATION: (&str, &str) = ("coordination.k8s.io", "v1");
const DISCOVERY: (&str, &str) = ("discovery.k8s.io", "v1");
const EVENTS: (&str, &str) = ("events.k8s.io", "v1");
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

const BUILTINS: &[Builtin] = &[
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
        &[Cluster, Status, G, Conditional],
        &[],
    ),
    row(
        ADMISSION,
        "ValidatingAdmissionPolicyBinding",
        "validatingadmissionpolicybindings",
        &[],
        &[Cluster, G, Conditional],
        &[],
    ),
    row(
        EXTENSIONS,
        "CustomResourceDefinition",
        "customresourcedefinitions",
        &["crd", "crds"],
        &[Cluster, Status, G, Conditional],
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
        &[("status.replicas", "0")],
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
    row(DISCOVERY, "EndpointSlice", "endpointslices", &[], &[G], &[]),
    row(EVENTS, "Event", "events", &["ev"], &[], EVENT_FIELDS),
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
        &[Cluster],
        &[],
    ),
    row(
        STORAGE,
        "StorageClass",
        "storageclasses",
        &["sc"],
        &[Cluster],
        &[],
    ),
];

/// The built-in resources.
pub(super) fn resources() -> impl Iterator<Item = Resource> {
    BUILTINS.iter().map(Builtin::resource)
}

// === impl Builtin ===

impl Builtin {
    fn is(&self, wanted: Trait) -> bool {
        self.traits.contains(&wanted)
    }

    fn resource(&self) -> Resource {
        let events = self.group == EVENTS.0;
        let table = match self.group {
            "" => self.plural.to_owned(),
            // One storage, two groups.
            _ if events => self.plural.to_owned(),
            group => format!("{}.{group}", self.plural),
        };
        Resource {
            info: self.info(),
            table: Arc::from(table),
            rules: self.rules(),
            view: if events { View::Events } else { View::Same },
            schema: None,
            stored_schema: None,
            stored_schema_number: 0,
            columns: Columns::builtin(self.group, self.plural),
            is_closing: false,
        }
    }

    fn info(&self) -> ResourceInfo {
        let owned = |list: &[&str]| list.iter().map(ToString::to_string).collect::<Vec<_>>();
        let mut subresources = Vec::new();
        if self.is(Status) {
            subresources.push(Subresource {
                name: "status".to_owned(),
                group: self.group.to_owned(),
                version: self.version.to_owned(),
                kind: self.kind.to_owned(),
                verbs: owned(&["get", "patch", "update"]),
            });
        }
        if self.kind == "Namespace" {
            subresources.push(Subresource {
                name: "finalize".to_owned(),
                group: self.group.to_owned(),
                version: self.version.to_owned(),
                kind: self.kind.to_owned(),
                verbs: owned(&["update"]),
            });
        }
        let mut verbs = owned(VERBS);
        if self.kind == "Namespace" {
            verbs.retain(|verb| verb != "deletecollection");
        }
        ResourceInfo {
            group: self.group.to_owned(),
            version: self.version.to_owned(),
            kind: self.kind.to_owned(),
            list_kind: format!("{}List", self.kind),
            plural: self.plural.to_owned(),
            singular: self.kind.to_lowercase(),
            short_names: owned(self.short_names),
            categories: if self.is(All) {
                owned(&["all"])
            } else {
                Vec::new()
            },
            namespaced: !self.is(Cluster),
            verbs,
            subresources,
            storage: self.group != EVENTS.0,
            custom: false,
            deprecation: None,
            open_api_schema: None,
        }
    }

    fn rules(&self) -> Rules {
        let names = if self.is(NamedAsLabel) {
            NameRule::Label
        } else if self.is(NamedAsService) {
            NameRule::Label1035
        } else if self.is(NamedAsSegment) {
            NameRule::PathSegment
        } else {
            NameRule::Subdomain
        };
        let mut fields = metadata_fields(!self.is(Cluster));
        fields.extend(
            self.fields
                .iter()
                .map(|(label, default)| SelectableField::at_its_path(label, default)),
        );
        match self.kind {
            // An old name of the same field.
            "Pod" => fields.push(SelectableField {
                label: "spec.host".to_owned(),
                pointer: "/spec/nodeName".to_owned(),
                default: "",
            }),
            "Event" => fields.push(SelectableField {
                label: "source".to_owned(),
                pointer: "/source/component".to_owned(),
                default: "",
            }),
            _ => {}
        }
        Rules {
            names,
            finalizers: Finalizers::Qualified,
            generation: if self.is(G) {
                Generation::Spec
            } else {
                Generation::None
            },
            unconditional_update: !self.is(Conditional),
            returns_deleted: self.is(ReturnsDeleted),
            fields,
        }
    }
}

/// The fields by which every object can be selected.
pub(super) fn metadata_fields(namespaced: bool) -> Vec<SelectableField> {
    let mut fields = vec![SelectableField::at_its_path("metadata.name", "")];
    if namespaced {
        fields.push(SelectableField::at_its_path("metadata.namespace", ""));
    }
    fields
}
