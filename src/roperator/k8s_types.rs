//! Kinds: `k8s_types::core::v1::Pod`, or a [`K8sType`] of your own.

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
pub(super) const CLUSTER_SCOPED: [&str; 7] = [
    "namespaces",
    "nodes",
    "persistentvolumes",
    "clusterroles",
    "clusterrolebindings",
    "storageclasses",
    "priorityclasses",
];

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
        ResourceQuota "resourcequotas" ServiceAccount "serviceaccounts"
    }
    apps::v1 "apps/v1" {
        DaemonSet "daemonsets" Deployment "deployments" ReplicaSet "replicasets"
        StatefulSet "statefulsets"
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
    storage_k8s_io::v1 "storage.k8s.io/v1" { StorageClass "storageclasses" }
    scheduling_k8s_io::v1 "scheduling.k8s.io/v1" { PriorityClass "priorityclasses" }
}
