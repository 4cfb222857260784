//! The columns of the built-in kinds.

use jiff::Timestamp;
use serde_json::Value;

use super::{
    Column, cells,
    cells::{autoscaler, endpoint, event, job, network, node, pod, reference, workload},
};

mod policy;
mod storage;

/// Returns the columns of the resource `plural` in `group`.
#[expect(clippy::too_many_lines, reason = "one arm for each kind")]
pub(super) fn columns(group: &str, plural: &str) -> Vec<Column> {
    match (group, plural) {
        ("" | "events.k8s.io", "events") => return events(),
        ("apiextensions.k8s.io", "customresourcedefinitions") => {
            let created = column("Created At", "date", cells::created);
            return vec![Column::name(), created];
        }
        _ => {}
    }
    let mut columns = vec![Column::name()];
    columns.extend(match (group, plural) {
        ("", "pods") => pods(),
        ("", "services") => services(),
        ("", "nodes") => nodes(),
        ("", "namespaces") => vec![column("Status", "string", cells::phase), age()],
        ("", "configmaps") => vec![column("Data", "string", cells::entries), age()],
        ("", "secrets") => vec![
            column("Type", "string", cells::kind),
            column("Data", "string", cells::entries),
            age(),
        ],
        ("apps", "deployments") => deployments(),
        ("apps", "replicasets") | ("", "replicationcontrollers") => replica_sets(),
        ("apps", "statefulsets") => stateful_sets(),
        ("apps", "daemonsets") => daemon_sets(),
        ("batch", "jobs") => jobs(),
        ("batch", "cronjobs") => cron_jobs(),
        ("coordination.k8s.io", "leases") => {
            vec![column("Holder", "string", cells::holder), age()]
        }
        ("networking.k8s.io", "ingresses") => ingresses(),
        ("rbac.authorization.k8s.io", "rolebindings" | "clusterrolebindings") => role_bindings(),
        ("", "limitranges")
        | ("rbac.authorization.k8s.io", "roles" | "clusterroles")
        | ("storage.k8s.io", "csistoragecapacities") => {
            vec![column("Created At", "date", cells::created)]
        }
        ("autoscaling", "scales") => vec![
            column("Desired", "integer", |object, _| {
                cells::count(object, "/spec/replicas")
            }),
            column("Available", "integer", |object, _| {
                cells::count(object, "/status/replicas")
            }),
            age(),
        ],
        ("policy", "poddisruptionbudgets") => disruption_budgets(),
        ("networking.k8s.io", "networkpolicies") => {
            vec![
                column("Pod-Selector", "string", network::pod_selector),
                age(),
            ]
        }
        ("networking.k8s.io", "ingressclasses") => vec![
            column("Controller", "string", |object, _| {
                cells::text(object, "/spec/controller", "")
            }),
            column("Parameters", "string", network::parameters),
            age(),
        ],
        ("scheduling.k8s.io", "priorityclasses") => priority_classes(),
        ("autoscaling", "horizontalpodautoscalers") => autoscalers(),
        ("", "endpoints") => vec![column("Endpoints", "string", endpoint::endpoints), age()],
        ("discovery.k8s.io", "endpointslices") => endpoint_slices(),
        ("", "podtemplates") => pod_templates(),
        ("apps", "controllerrevisions") => controller_revisions(),
        ("apiregistration.k8s.io", "apiservices") => api_services(),
        ("node.k8s.io", "runtimeclasses") => vec![
            column("Handler", "string", |object, _| {
                cells::text(object, "/handler", "")
            }),
            age(),
        ],
        ("networking.k8s.io", "servicecidrs") => {
            vec![column("CIDRs", "string", reference::cidrs), age()]
        }
        // As in Kubernetes, rows have an age without a column definition.
        ("networking.k8s.io", "ipaddresses") => vec![
            column("ParentRef", "string", reference::parent),
            column("", "string", cells::age),
        ],
        _ => policy::columns(group, plural)
            .or_else(|| storage::columns(group, plural))
            .unwrap_or_else(|| vec![age()]),
    });
    columns
}

fn pods() -> Vec<Column> {
    vec![
        column("Ready", "string", pod::ready),
        column("Status", "string", pod::status),
        column("Restarts", "string", pod::restarts),
        age(),
        wide("IP", pod::ip),
        wide("Node", pod::node),
        wide("Nominated Node", pod::nominated_node),
        wide("Readiness Gates", pod::readiness_gates),
    ]
}

fn services() -> Vec<Column> {
    vec![
        column("Type", "string", network::service_type),
        column("Cluster-IP", "string", network::cluster_ip),
        column("External-IP", "string", network::external_ip),
        column("Port(s)", "string", network::ports),
        age(),
        wide("Selector", network::service_selector),
    ]
}

fn nodes() -> Vec<Column> {
    vec![
        column("Status", "string", node::node_status),
        column("Roles", "string", node::node_roles),
        age(),
        column("Version", "string", node::node_version),
        wide("Internal-IP", |object, _| {
            node::address(object, "InternalIP")
        }),
        wide("External-IP", |object, _| {
            node::address(object, "ExternalIP")
        }),
        wide("OS-Image", |object, _| {
            cells::text(object, "/status/nodeInfo/osImage", "<unknown>")
        }),
        wide("Kernel-Version", node::kernel),
        wide("Container-Runtime", |object, _| {
            cells::text(
                object,
                "/status/nodeInfo/containerRuntimeVersion",
                "<unknown>",
            )
        }),
    ]
}

fn deployments() -> Vec<Column> {
    let mut columns = vec![
        column("Ready", "string", workload::ready_of_desired),
        column("Up-to-date", "string", |object, _| {
            cells::count(object, "/status/updatedReplicas")
        }),
        column("Available", "string", |object, _| {
            cells::count(object, "/status/availableReplicas")
        }),
        age(),
    ];
    columns.extend(template(true));
    columns
}

fn replica_sets() -> Vec<Column> {
    let mut columns = vec![
        column("Desired", "integer", |object, _| {
            cells::count(object, "/spec/replicas")
        }),
        column("Current", "integer", |object, _| {
            cells::count(object, "/status/replicas")
        }),
        column("Ready", "integer", |object, _| {
            cells::count(object, "/status/readyReplicas")
        }),
        age(),
    ];
    columns.extend(template(true));
    columns
}

fn stateful_sets() -> Vec<Column> {
    let mut columns = vec![column("Ready", "string", workload::ready_of_desired), age()];
    columns.extend(template(false));
    columns
}

fn daemon_sets() -> Vec<Column> {
    let mut columns = vec![
        column("Desired", "integer", |object, _| {
            cells::count(object, "/status/desiredNumberScheduled")
        }),
        column("Current", "integer", |object, _| {
            cells::count(object, "/status/currentNumberScheduled")
        }),
        column("Ready", "integer", |object, _| {
            cells::count(object, "/status/numberReady")
        }),
        column("Up-to-date", "integer", |object, _| {
            cells::count(object, "/status/updatedNumberScheduled")
        }),
        column("Available", "integer", |object, _| {
            cells::count(object, "/status/numberAvailable")
        }),
        column("Node Selector", "string", workload::node_selector),
        age(),
    ];
    columns.extend(template(true));
    columns
}

fn jobs() -> Vec<Column> {
    let mut columns = vec![
        column("Status", "string", job::job_status),
        column("Completions", "string", job::completions),
        column("Duration", "string", job::job_duration),
        age(),
    ];
    columns.extend(template(true));
    columns
}

fn cron_jobs() -> Vec<Column> {
    vec![
        column("Schedule", "string", |object, _| {
            cells::text(object, "/spec/schedule", "")
        }),
        column("Timezone", "string", |object, _| {
            cells::text(object, "/spec/timeZone", "<none>")
        }),
        column("Suspend", "boolean", job::suspend),
        column("Active", "integer", job::active),
        column("Last Schedule", "string", job::last_schedule),
        age(),
        wide("Containers", workload::scheduled_container_names),
        wide("Images", workload::scheduled_container_images),
        wide("Selector", |object, _| {
            workload::selector_at(object, "/spec/jobTemplate/spec/selector").into()
        }),
    ]
}

fn ingresses() -> Vec<Column> {
    vec![
        column("Class", "string", |object, _| {
            cells::text(object, "/spec/ingressClassName", "<none>")
        }),
        column("Hosts", "string", network::hosts),
        column("Address", "string", network::address),
        column("Ports", "string", network::ingress_ports),
        age(),
    ]
}

fn role_bindings() -> Vec<Column> {
    vec![
        column("Role", "string", cells::role),
        age(),
        wide("Users", |object, _| cells::subjects(object, "User")),
        wide("Groups", |object, _| cells::subjects(object, "Group")),
        wide("ServiceAccounts", |object, _| {
            cells::subjects(object, "ServiceAccount")
        }),
    ]
}

fn disruption_budgets() -> Vec<Column> {
    vec![
        column("Min Available", "string", |object, _| {
            cells::text_or_number(object, "/spec/minAvailable", "N/A")
        }),
        column("Max Unavailable", "string", |object, _| {
            cells::text_or_number(object, "/spec/maxUnavailable", "N/A")
        }),
        column("Allowed Disruptions", "integer", |object, _| {
            cells::count(object, "/status/disruptionsAllowed")
        }),
        age(),
    ]
}

fn priority_classes() -> Vec<Column> {
    vec![
        column("Value", "integer", |object, _| {
            cells::count(object, "/value")
        }),
        column("Global-Default", "boolean", |object, _| {
            cells::flag(object, "/globalDefault")
        }),
        age(),
        column("PreemptionPolicy", "string", |object, _| {
            cells::text(object, "/preemptionPolicy", "")
        }),
    ]
}

fn autoscalers() -> Vec<Column> {
    vec![
        column("Reference", "string", autoscaler::reference),
        column("Targets", "string", autoscaler::targets),
        column("MinPods", "string", autoscaler::min_pods),
        column("MaxPods", "string", autoscaler::max_pods),
        column("Replicas", "string", autoscaler::replicas),
        age(),
    ]
}

fn endpoint_slices() -> Vec<Column> {
    vec![
        column("AddressType", "string", |object, _| {
            cells::text(object, "/addressType", "")
        }),
        column("Ports", "string", endpoint::slice_ports),
        column("Endpoints", "string", endpoint::slice_endpoints),
        age(),
    ]
}

fn pod_templates() -> Vec<Column> {
    vec![
        column("Containers", "string", workload::template_names),
        column("Images", "string", workload::template_images),
        column("Pod Labels", "string", workload::template_labels),
    ]
}

fn controller_revisions() -> Vec<Column> {
    vec![
        column("Controller", "string", reference::controller),
        column("Revision", "string", |object, _| {
            cells::count(object, "/revision")
        }),
        age(),
    ]
}

fn api_services() -> Vec<Column> {
    vec![
        column("Service", "string", reference::api_service),
        column("Available", "string", reference::available),
        age(),
    ]
}

/// Returns the columns of events, whose first column is the time and not the name.
fn events() -> Vec<Column> {
    let mut name = Column::name();
    name.priority = 1;
    vec![
        column("Last Seen", "string", event::last_seen),
        column("Type", "string", |object, _| {
            cells::text(object, "/type", "")
        }),
        column("Reason", "string", |object, _| {
            cells::text(object, "/reason", "")
        }),
        column("Object", "string", event::event_object),
        wide("Subobject", event::event_field),
        wide("Source", event::event_source),
        column("Message", "string", event::event_message),
        wide("First Seen", event::first_seen),
        wide("Count", event::event_count),
        name,
    ]
}

/// Returns the columns of the pod template, which `-o wide` prints.
fn template(with_selector: bool) -> Vec<Column> {
    let mut columns = vec![
        wide("Containers", workload::container_names),
        wide("Images", workload::container_images),
    ];
    if with_selector {
        columns.push(wide("Selector", workload::selector));
    }
    columns
}

fn age() -> Column {
    column("Age", "string", cells::age)
}

fn column(name: &str, kind: &str, read: fn(&Value, Timestamp) -> Value) -> Column {
    Column::builtin(name, kind, 0, read)
}

fn wide(name: &str, read: fn(&Value, Timestamp) -> Value) -> Column {
    Column::builtin(name, "string", 1, read)
}
