//! Validation of objects of the built-in kinds, with the messages of Kubernetes.
//!
//! These are the rules of Kubernetes that users violate most often; `docs/apiserver.md` lists the
//! kinds. The objects have been decoded: each field has the type of its schema.
//!
//! Source: `validation.go` of the API groups of Kubernetes v1.36.3.

use serde_json::Value;

use super::Quantity;
use crate::metadata::syntax;
use crate::status::FieldError;

mod admission;
mod affinity;
mod autoscaler;
mod claim;
mod cluster;
mod container;
mod cron;
mod data;
mod env;
mod faults;
mod flow_control;
mod job;
mod limits;
mod network;
mod pod;
mod probe;
mod projected;
mod resources;
mod security;
mod selector;
mod service;
mod signing;
mod slice;
mod status;
mod storage;
mod update;
mod volume;
mod warnings;
mod workload;

pub(crate) use admission::conversion_client;
use faults::{At, Faults, percent};
pub(crate) use service::is_external;
pub(crate) use signing::invalid_certificate;
pub(crate) use status::validate_status;
pub(crate) use update::validate_update;
pub(crate) use warnings::warnings;

/// Returns the validation errors of an object of type `name`.
#[expect(clippy::too_many_lines, reason = "one arm for each kind")]
pub(crate) fn validate(name: &str, object: &Value) -> Vec<FieldError> {
    let mut faults = Faults::default();
    let root = At {
        value: object,
        path: "",
    };
    match name {
        "admissionregistration.v1.MutatingWebhookConfiguration"
        | "admissionregistration.v1.ValidatingWebhookConfiguration" => {
            admission::webhooks(root, &mut faults);
        }
        "admissionregistration.v1.ValidatingAdmissionPolicy" => {
            admission::policy(root, &mut faults);
        }
        "admissionregistration.v1.ValidatingAdmissionPolicyBinding" => {
            admission::binding(root, &mut faults);
        }
        "admissionregistration.v1.MutatingAdmissionPolicy" => {
            admission::mutating_policy(root, &mut faults);
        }
        "admissionregistration.v1.MutatingAdmissionPolicyBinding" => {
            admission::mutating_binding(root, &mut faults);
        }
        "apps.v1.ControllerRevision" => faults.not_negative(root, &["revision"]),
        "apps.v1.DaemonSet" => workload::daemon_set(root, &mut faults),
        "apps.v1.Deployment" => workload::deployment(root, &mut faults),
        "apps.v1.ReplicaSet" => workload::replica_set(root, &mut faults),
        "apps.v1.StatefulSet" => workload::stateful_set(root, &mut faults),
        "autoscaling.v2.HorizontalPodAutoscaler" => autoscaler::autoscaler(root, &mut faults),
        "batch.v1.CronJob" => job::cron_job(root, &mut faults),
        "batch.v1.Job" => job::job(root, &mut faults),
        "certificates.v1.CertificateSigningRequest" => signing::request(root, &mut faults),
        "coordination.v1.Lease" => cluster::lease(root, &mut faults),
        "core.v1.ConfigMap" => data::config_map(root, &mut faults),
        "core.v1.Endpoints" => network::endpoints(root, &mut faults),
        "core.v1.Event" => cluster::event(root, false, &mut faults),
        "core.v1.LimitRange" => limits::limit_range(root, &mut faults),
        "core.v1.PersistentVolume" => storage::volume(root, &mut faults),
        "core.v1.PersistentVolumeClaim" => storage::claim(root, &mut faults),
        "core.v1.Pod" => pod::pod(root, &mut faults),
        "core.v1.PodTemplate" => root.inner("template", |at| pod::template(at, &mut faults)),
        "core.v1.ReplicationController" => workload::replication_controller(root, &mut faults),
        "core.v1.ResourceQuota" => cluster::quota(root, &mut faults),
        "core.v1.Secret" => data::secret(root, &mut faults),
        "core.v1.Service" => service::service(root, &mut faults),
        "discovery.v1.EndpointSlice" => network::endpoint_slice(root, &mut faults),
        "events.v1.Event" => {
            cluster::event(root, true, &mut faults);
            cluster::reported_event(root, &mut faults);
        }
        "flowcontrol.v1.FlowSchema" => flow_control::flow_schema(root, &mut faults),
        "flowcontrol.v1.PriorityLevelConfiguration" => {
            flow_control::priority_level(root, &mut faults);
        }
        "networking.v1.IPAddress" => network::address(root, &mut faults),
        "networking.v1.IngressClass" => network::ingress_class(root, &mut faults),
        "networking.v1.Ingress" => network::ingress(root, &mut faults),
        "networking.v1.NetworkPolicy" => network::policy(root, &mut faults),
        "node.v1.RuntimeClass" => faults.needs_valid(root, "handler", syntax::label),
        "policy.v1.PodDisruptionBudget" => cluster::disruption_budget(root, &mut faults),
        "rbac.v1.ClusterRole" => cluster::role(root, false, &mut faults),
        "rbac.v1.ClusterRoleBinding" => cluster::binding(root, false, &mut faults),
        "rbac.v1.Role" => cluster::role(root, true, &mut faults),
        "rbac.v1.RoleBinding" => cluster::binding(root, true, &mut faults),
        "scheduling.v1.PriorityClass" => cluster::priority_class(root, &mut faults),
        "resource.v1.ResourceSlice" => slice::slice(root, &mut faults),
        "resource.v1.ResourceClaimTemplate" => {
            root.inner("spec", |at| claim::resource_claim(at, &mut faults));
        }
        "storage.v1.CSINode" => storage::node_drivers(root, &mut faults),
        "storage.v1.CSIStorageCapacity" => {
            if let Some(why) = syntax::subdomain(root.text("storageClassName")) {
                let class = root.text("storageClassName");
                faults.invalid("storageClassName", &class.into(), why);
            }
            if let Some(capacity) = root.get("capacity")
                && quantity(capacity).is_some_and(Quantity::is_negative)
            {
                let why = "must be greater than or equal to 0";
                faults.invalid("capacity", capacity, why);
            }
        }
        "storage.v1.VolumeAttachment" => storage::attachment(root, &mut faults),
        "storage.v1.StorageClass" => storage::class(root, &mut faults),
        "storage.v1.VolumeAttributesClass" => storage::attributes_class(root, &mut faults),
        _ => {}
    }
    faults.0
}

/// Additional rules for new objects. They concern fields that no update can change.
pub(crate) fn validate_new(name: &str, object: &Value) -> Vec<FieldError> {
    let mut faults = Faults::default();
    let root = At {
        value: object,
        path: "",
    };
    match name {
        "apps.v1.ControllerRevision" => data::new_revision(root, &mut faults),
        "apps.v1.StatefulSet" => workload::new_stateful_set(root, &mut faults),
        "batch.v1.CronJob" => job::new_cron_job(root, &mut faults),
        "batch.v1.Job" => job::new_job(root, &mut faults),
        "core.v1.Pod" => pod::new(root, &mut faults),
        "discovery.v1.EndpointSlice" => network::slice_endpoints(root, &mut faults),
        "events.v1.Event" => cluster::new_reported_event(root, &mut faults),
        "networking.v1.ServiceCIDR" => network::service_ranges(root, &mut faults),
        "resource.v1.ResourceClaim" => claim::resource_claim(root, &mut faults),
        _ => {}
    }
    faults.0
}

/// Parses a quantity of a resource list. `None` if it is malformed.
fn quantity(value: &Value) -> Option<Quantity> {
    Quantity::parse(value.as_str()?).ok()
}
