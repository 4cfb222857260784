//! Kinds: `k8s_types::core::v1::Pod`, or a [`K8sType`] of your own.

use std::fmt;

use super::resource::K8sTypeRef;

/// A kind of objects.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct K8sType {
    /// The group and version.
    pub api_version: &'static str,
    /// The kind.
    pub kind: &'static str,
    /// The plural name in URLs.
    pub plural_kind: &'static str,
}

/// The cluster-scoped ones of the kinds in this module.
static CLUSTER_SCOPED: [&K8sType; 11] = [
    core::v1::Namespace,
    core::v1::Node,
    core::v1::PersistentVolume,
    rbac_authorization_k8s_io::v1::ClusterRole,
    rbac_authorization_k8s_io::v1::ClusterRoleBinding,
    storage_k8s_io::v1::StorageClass,
    storage_k8s_io::v1::CSIDriver,
    storage_k8s_io::v1::CSINode,
    storage_k8s_io::v1::VolumeAttachment,
    scheduling_k8s_io::v1::PriorityClass,
    apiregistration_k8s_io::v1::APIService,
];

/// Creates a kind at run time. Its memory is never freed: call it once for each kind.
#[must_use]
pub fn define_type(api_version: String, kind: String, plural_kind: String) -> &'static K8sType {
    Box::leak(Box::new(K8sType {
        api_version: api_version.leak(),
        kind: kind.leak(),
        plural_kind: plural_kind.leak(),
    }))
}

// === impl K8sType ===

impl K8sType {
    /// The group, which is empty for the kinds of the core, and the version.
    #[must_use]
    pub fn as_group_and_version(&self) -> (&str, &str) {
        let parts = self.api_version.split_once('/');
        parts.unwrap_or(("", self.api_version))
    }

    /// The group.
    #[must_use]
    pub fn group(&self) -> &str {
        self.as_group_and_version().0
    }

    /// The version.
    #[must_use]
    pub fn version(&self) -> &str {
        self.as_group_and_version().1
    }

    /// The `apiVersion` and the kind.
    #[must_use]
    pub const fn to_type_ref(&self) -> K8sTypeRef<'static> {
        K8sTypeRef(self.api_version, self.kind)
    }

    /// Whether it is a kind of this module whose objects have no namespace.
    pub(super) fn is_cluster_scoped(&self) -> bool {
        CLUSTER_SCOPED.contains(&self)
    }
}

/// As `v1/pods`.
impl fmt::Display for K8sType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.api_version, self.plural_kind)
    }
}

macro_rules! kinds {
    ($($group:ident::$version:ident $api_version:literal { $($kind:ident $plural:literal)* })*) => {
        $(pub mod $group {
            //! Kinds of this group.
            pub mod $version {
                //! Kinds of this version.
                $(
                    #[doc = stringify!($kind)]
                    #[expect(non_upper_case_globals, reason = "the name of the kind")]
                    pub static $kind: &super::super::K8sType = &super::super::K8sType {
                        api_version: $api_version,
                        kind: stringify!($kind),
                        plural_kind: $plural,
                    };
                )*
            }
        })*
    };
}

kinds! {
    core::v1 "v1" {
        Namespace "namespaces" Node "nodes" Pod "pods" PodTemplate "podtemplates"
        ReplicationController "replicationcontrollers" Service "services" Endpoints "endpoints"
        Secret "secrets" ConfigMap "configmaps" LimitRange "limitranges"
        PersistentVolumeClaim "persistentvolumeclaims" PersistentVolume "persistentvolumes"
        ResourceQuota "resourcequotas" ServiceAccount "serviceaccounts" Event "events"
    }
    apps::v1 "apps/v1" {
        DaemonSet "daemonsets" Deployment "deployments" ReplicaSet "replicasets"
        StatefulSet "statefulsets" ControllerRevision "controllerrevisions"
    }
    batch::v1 "batch/v1" { CronJob "cronjobs" Job "jobs" }
    autoscaling::v1 "autoscaling/v1" { HorizontalPodAutoscaler "horizontalpodautoscalers" }
    networking_k8s_io::v1 "networking.k8s.io/v1" {
        Ingress "ingresses" NetworkPolicy "networkpolicies"
    }
    policy::v1 "policy/v1" { PodDisruptionBudget "poddisruptionbudgets" }
    rbac_authorization_k8s_io::v1 "rbac.authorization.k8s.io/v1" {
        ClusterRole "clusterroles" ClusterRoleBinding "clusterrolebindings" Role "roles"
        RoleBinding "rolebindings"
    }
    storage_k8s_io::v1 "storage.k8s.io/v1" {
        StorageClass "storageclasses" CSIDriver "csidrivers" CSINode "csinodes"
        VolumeAttachment "volumeattachments"
    }
    coordination_k8s_io::v1 "coordination.k8s.io/v1" { Lease "leases" }
    apiregistration_k8s_io::v1 "apiregistration.k8s.io/v1" { APIService "apiservices" }
    scheduling_k8s_io::v1 "scheduling.k8s.io/v1" { PriorityClass "priorityclasses" }
}
