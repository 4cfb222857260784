//! The columns of the built-in kinds.

use super::Cell::{self, Count, Flag, Read, Text, TextOrNumber};
use super::{
    Column, cells,
    cells::{autoscaler, endpoint, event, job, network, node, pod, reference, workload},
};

mod policy;
mod storage;

pub(crate) use self::policy::{
    CERTIFICATE_REQUESTS, FLOW_SCHEMAS, MUTATING_POLICIES, POLICY_BINDINGS, PRIORITY_LEVELS,
    QUOTAS, VALIDATING_POLICIES, WEBHOOKS,
};
pub(crate) use self::storage::{
    ATTRIBUTES_CLASSES, DRIVERS, NODE_DRIVERS, RESOURCE_CLAIMS, RESOURCE_SLICES, STORAGE_CLASSES,
    VOLUME_ATTACHMENTS, VOLUME_CLAIMS, VOLUMES,
};

/// The first column of most kinds.
const NAME: Column = Column::name(0);

/// The last column of most kinds that `kubectl get` prints without `-o wide`.
const AGE: Column = column("Age", "string", Read(cells::age));

/// The columns of the kinds that have no others.
pub(crate) const DEFAULT: &[Column] = &[NAME, AGE];

/// The columns of the kinds whose age is a time.
pub(crate) const CREATED: &[Column] = &[
    NAME,
    column(
        "Created At",
        "date",
        Text("/metadata/creationTimestamp", ""),
    ),
];

pub(crate) const NAMESPACES: &[Column] = &[
    NAME,
    column("Status", "string", Text("/status/phase", "")),
    AGE,
];

pub(crate) const CONFIG_MAPS: &[Column] =
    &[NAME, column("Data", "string", Read(cells::entries)), AGE];

pub(crate) const SECRETS: &[Column] = &[
    NAME,
    column("Type", "string", Text("/type", "")),
    column("Data", "string", Read(cells::entries)),
    AGE,
];

pub(crate) const LEASES: &[Column] = &[
    NAME,
    column("Holder", "string", Text("/spec/holderIdentity", "")),
    AGE,
];

pub(crate) const SCALES: &[Column] = &[
    NAME,
    column("Desired", "integer", Count("/spec/replicas")),
    column("Available", "integer", Count("/status/replicas")),
    AGE,
];

pub(crate) const NETWORK_POLICIES: &[Column] = &[
    NAME,
    column("Pod-Selector", "string", Read(network::pod_selector)),
    AGE,
];

pub(crate) const INGRESS_CLASSES: &[Column] = &[
    NAME,
    column("Controller", "string", Text("/spec/controller", "")),
    column("Parameters", "string", Read(network::parameters)),
    AGE,
];

pub(crate) const ENDPOINTS: &[Column] = &[
    NAME,
    column("Endpoints", "string", Read(endpoint::endpoints)),
    AGE,
];

pub(crate) const RUNTIME_CLASSES: &[Column] =
    &[NAME, column("Handler", "string", Text("/handler", "")), AGE];

pub(crate) const SERVICE_CIDRS: &[Column] =
    &[NAME, column("CIDRs", "string", Read(reference::cidrs)), AGE];

/// As in Kubernetes, rows have an age without a column definition.
pub(crate) const IP_ADDRESSES: &[Column] = &[
    NAME,
    column("ParentRef", "string", Read(reference::parent)),
    column("", "string", Read(cells::age)),
];

pub(crate) const PODS: &[Column] = &[
    NAME,
    column("Ready", "string", Read(pod::ready)),
    column("Status", "string", Read(pod::status)),
    column("Restarts", "string", Read(pod::restarts)),
    AGE,
    wide("IP", Read(pod::ip)),
    wide("Node", Read(pod::node)),
    wide("Nominated Node", Read(pod::nominated_node)),
    wide("Readiness Gates", Read(pod::readiness_gates)),
];

pub(crate) const SERVICES: &[Column] = &[
    NAME,
    column("Type", "string", Read(network::service_type)),
    column("Cluster-IP", "string", Read(network::cluster_ip)),
    column("External-IP", "string", Read(network::external_ip)),
    column("Port(s)", "string", Read(network::ports)),
    AGE,
    wide("Selector", Read(network::service_selector)),
];

pub(crate) const NODES: &[Column] = &[
    NAME,
    column("Status", "string", Read(node::node_status)),
    column("Roles", "string", Read(node::node_roles)),
    AGE,
    column("Version", "string", Read(node::node_version)),
    wide(
        "Internal-IP",
        Read(|object, _| node::address(object, "InternalIP")),
    ),
    wide(
        "External-IP",
        Read(|object, _| node::address(object, "ExternalIP")),
    ),
    wide("OS-Image", Text("/status/nodeInfo/osImage", "<unknown>")),
    wide("Kernel-Version", Read(node::kernel)),
    wide(
        "Container-Runtime",
        Text("/status/nodeInfo/containerRuntimeVersion", "<unknown>"),
    ),
];

pub(crate) const DEPLOYMENTS: &[Column] = &[
    NAME,
    column("Ready", "string", Read(workload::ready_of_desired)),
    column("Up-to-date", "string", Count("/status/updatedReplicas")),
    column("Available", "string", Count("/status/availableReplicas")),
    AGE,
    wide("Containers", Read(workload::container_names)),
    wide("Images", Read(workload::container_images)),
    wide("Selector", Read(workload::selector)),
];

pub(crate) const REPLICA_SETS: &[Column] = &[
    NAME,
    column("Desired", "integer", Count("/spec/replicas")),
    column("Current", "integer", Count("/status/replicas")),
    column("Ready", "integer", Count("/status/readyReplicas")),
    AGE,
    wide("Containers", Read(workload::container_names)),
    wide("Images", Read(workload::container_images)),
    wide("Selector", Read(workload::selector)),
];

pub(crate) const STATEFUL_SETS: &[Column] = &[
    NAME,
    column("Ready", "string", Read(workload::ready_of_desired)),
    AGE,
    wide("Containers", Read(workload::container_names)),
    wide("Images", Read(workload::container_images)),
];

pub(crate) const DAEMON_SETS: &[Column] = &[
    NAME,
    column(
        "Desired",
        "integer",
        Count("/status/desiredNumberScheduled"),
    ),
    column(
        "Current",
        "integer",
        Count("/status/currentNumberScheduled"),
    ),
    column("Ready", "integer", Count("/status/numberReady")),
    column(
        "Up-to-date",
        "integer",
        Count("/status/updatedNumberScheduled"),
    ),
    column("Available", "integer", Count("/status/numberAvailable")),
    column("Node Selector", "string", Read(workload::node_selector)),
    AGE,
    wide("Containers", Read(workload::container_names)),
    wide("Images", Read(workload::container_images)),
    wide("Selector", Read(workload::selector)),
];

pub(crate) const JOBS: &[Column] = &[
    NAME,
    column("Status", "string", Read(job::job_status)),
    column("Completions", "string", Read(job::completions)),
    column("Duration", "string", Read(job::job_duration)),
    AGE,
    wide("Containers", Read(workload::container_names)),
    wide("Images", Read(workload::container_images)),
    wide("Selector", Read(workload::selector)),
];

pub(crate) const CRON_JOBS: &[Column] = &[
    NAME,
    column("Schedule", "string", Text("/spec/schedule", "")),
    column("Timezone", "string", Text("/spec/timeZone", "<none>")),
    column("Suspend", "boolean", Read(job::suspend)),
    column("Active", "integer", Read(job::active)),
    column("Last Schedule", "string", Read(job::last_schedule)),
    AGE,
    wide("Containers", Read(workload::scheduled_container_names)),
    wide("Images", Read(workload::scheduled_container_images)),
    wide(
        "Selector",
        Read(|object, _| workload::selector_at(object, "/spec/jobTemplate/spec/selector").into()),
    ),
];

pub(crate) const INGRESSES: &[Column] = &[
    NAME,
    column("Class", "string", Text("/spec/ingressClassName", "<none>")),
    column("Hosts", "string", Read(network::hosts)),
    column("Address", "string", Read(network::address)),
    column("Ports", "string", Read(network::ingress_ports)),
    AGE,
];

pub(crate) const ROLE_BINDINGS: &[Column] = &[
    NAME,
    column("Role", "string", Read(cells::role)),
    AGE,
    wide("Users", Read(|object, _| cells::subjects(object, "User"))),
    wide("Groups", Read(|object, _| cells::subjects(object, "Group"))),
    wide(
        "ServiceAccounts",
        Read(|object, _| cells::subjects(object, "ServiceAccount")),
    ),
];

pub(crate) const DISRUPTION_BUDGETS: &[Column] = &[
    NAME,
    column(
        "Min Available",
        "string",
        TextOrNumber("/spec/minAvailable", "N/A"),
    ),
    column(
        "Max Unavailable",
        "string",
        TextOrNumber("/spec/maxUnavailable", "N/A"),
    ),
    column(
        "Allowed Disruptions",
        "integer",
        Count("/status/disruptionsAllowed"),
    ),
    AGE,
];

pub(crate) const PRIORITY_CLASSES: &[Column] = &[
    NAME,
    column("Value", "integer", Count("/value")),
    column("Global-Default", "boolean", Flag("/globalDefault")),
    AGE,
    column("PreemptionPolicy", "string", Text("/preemptionPolicy", "")),
];

pub(crate) const AUTOSCALERS: &[Column] = &[
    NAME,
    column("Reference", "string", Read(autoscaler::reference)),
    column("Targets", "string", Read(autoscaler::targets)),
    column("MinPods", "string", Read(autoscaler::min_pods)),
    column("MaxPods", "string", Read(autoscaler::max_pods)),
    column("Replicas", "string", Read(autoscaler::replicas)),
    AGE,
];

pub(crate) const ENDPOINT_SLICES: &[Column] = &[
    NAME,
    column("AddressType", "string", Text("/addressType", "")),
    column("Ports", "string", Read(endpoint::slice_ports)),
    column("Endpoints", "string", Read(endpoint::slice_endpoints)),
    AGE,
];

pub(crate) const POD_TEMPLATES: &[Column] = &[
    NAME,
    column("Containers", "string", Read(workload::template_names)),
    column("Images", "string", Read(workload::template_images)),
    column("Pod Labels", "string", Read(workload::template_labels)),
];

pub(crate) const CONTROLLER_REVISIONS: &[Column] = &[
    NAME,
    column("Controller", "string", Read(reference::controller)),
    column("Revision", "string", Count("/revision")),
    AGE,
];

pub(crate) const API_SERVICES: &[Column] = &[
    NAME,
    column("Service", "string", Read(reference::api_service)),
    column("Available", "string", Read(reference::available)),
    AGE,
];

/// The first column of events is the time and not the name.
pub(crate) const EVENTS: &[Column] = &[
    column("Last Seen", "string", Read(event::last_seen)),
    column("Type", "string", Text("/type", "")),
    column("Reason", "string", Text("/reason", "")),
    column("Object", "string", Read(event::event_object)),
    wide("Subobject", Read(event::event_field)),
    wide("Source", Read(event::event_source)),
    column("Message", "string", Read(event::event_message)),
    wide("First Seen", Read(event::first_seen)),
    wide("Count", Read(event::event_count)),
    Column::name(1),
];

const fn column(name: &'static str, kind: &'static str, cell: Cell) -> Column {
    Column::builtin(name, kind, 0, cell)
}

/// A column that only `-o wide` prints.
const fn wide(name: &'static str, cell: Cell) -> Column {
    Column::builtin(name, "string", 1, cell)
}
