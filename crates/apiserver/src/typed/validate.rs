//! Validation of objects of the built-in kinds, with the messages of Kubernetes.
//!
//! The rules are those of Kubernetes' validation that users meet most; `docs/apiserver.md` says
//! of which kinds. An object is in the form of its type when it comes here.
//!
//! Source: `validation.go` of the API groups of Kubernetes v1.36.3.

use std::net::IpAddr;

use serde_json::{Map, Value};

use super::Quantity;
use crate::metadata::syntax;
use crate::status::FieldError;

mod admission;
mod cluster;
mod container;
mod data;
mod network;
mod pod;
mod selector;
mod service;
mod storage;
mod update;
mod volume;
mod workload;

pub(crate) use update::validate_update;

/// The faults of an object, in the order in which Kubernetes finds them.
#[derive(Debug, Default)]
struct Faults(Vec<FieldError>);

/// An object at a place.
#[derive(Clone, Copy)]
struct At<'a> {
    value: &'a Value,
    path: &'a str,
}

/// Everything that is wrong with an object of the type called `name`.
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
        "apps.v1.DaemonSet" => workload::daemon_set(root, &mut faults),
        "apps.v1.Deployment" => workload::deployment(root, &mut faults),
        "apps.v1.ReplicaSet" => workload::replica_set(root, &mut faults),
        "apps.v1.StatefulSet" => workload::stateful_set(root, &mut faults),
        "autoscaling.v2.HorizontalPodAutoscaler" => cluster::autoscaler(root, &mut faults),
        "batch.v1.CronJob" => workload::cron_job(root, &mut faults),
        "batch.v1.Job" => workload::job(root, &mut faults),
        "coordination.v1.Lease" => cluster::lease(root, &mut faults),
        "core.v1.ConfigMap" => data::config_map(root, &mut faults),
        "core.v1.Endpoints" => network::endpoints(root, &mut faults),
        "core.v1.Event" => cluster::event(root, false, &mut faults),
        "core.v1.LimitRange" => cluster::limit_range(root, &mut faults),
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
        "flowcontrol.v1.FlowSchema" => admission::flow_schema(root, &mut faults),
        "flowcontrol.v1.PriorityLevelConfiguration" => {
            admission::priority_level(root, &mut faults);
        }
        "networking.v1.IngressClass" => network::ingress_class(root, &mut faults),
        "networking.v1.Ingress" => network::ingress(root, &mut faults),
        "networking.v1.NetworkPolicy" => network::policy(root, &mut faults),
        "policy.v1.PodDisruptionBudget" => cluster::disruption_budget(root, &mut faults),
        "rbac.v1.ClusterRole" => cluster::role(root, false, &mut faults),
        "rbac.v1.ClusterRoleBinding" => cluster::binding(root, false, &mut faults),
        "rbac.v1.Role" => cluster::role(root, true, &mut faults),
        "rbac.v1.RoleBinding" => cluster::binding(root, true, &mut faults),
        "scheduling.v1.PriorityClass" => cluster::priority_class(root, &mut faults),
        "storage.v1.CSINode" => root.inner("spec", |at| {
            at.each("drivers", |at| {
                faults.needs(at, "name");
                faults.needs(at, "nodeID");
            });
        }),
        "storage.v1.CSIStorageCapacity" => {
            if let Some(why) = syntax::subdomain(root.text("storageClassName")) {
                let class = root.text("storageClassName");
                faults.invalid("storageClassName", &class.into(), why);
            }
        }
        "storage.v1.VolumeAttachment" => storage::attachment(root, &mut faults),
        "storage.v1.StorageClass" => storage::class(root, &mut faults),
        _ => {}
    }
    faults.0
}

/// What is wrong with a new object besides: rules about what no update can change.
pub(crate) fn validate_new(name: &str, object: &Value) -> Vec<FieldError> {
    let mut faults = Faults::default();
    let root = At {
        value: object,
        path: "",
    };
    match name {
        "apps.v1.StatefulSet" => root.inner("spec", |at| {
            at.each("volumeClaimTemplates", |at| storage::claim(at, &mut faults));
        }),
        "resource.v1.ResourceClaim" => cluster::resource_claim(root, &mut faults),
        "resource.v1.ResourceClaimTemplate" => {
            root.inner("spec", |at| cluster::resource_claim(at, &mut faults));
        }
        _ => {}
    }
    faults.0
}

// === impl At ===

impl<'a> At<'a> {
    /// The path of a field.
    fn path(&self, field: &str) -> String {
        if self.path.is_empty() {
            field.to_owned()
        } else {
            format!("{}.{field}", self.path)
        }
    }

    /// The value of a field, if it is set.
    fn get(&self, field: &str) -> Option<&'a Value> {
        self.value.get(field).filter(|value| !value.is_null())
    }

    /// A text; empty if it is not set.
    fn text(&self, field: &str) -> &'a str {
        self.get(field).and_then(Value::as_str).unwrap_or_default()
    }

    fn number(&self, field: &str) -> Option<i64> {
        self.get(field).and_then(Value::as_i64)
    }

    fn list(&self, field: &str) -> &'a [Value] {
        let list = self.get(field).and_then(Value::as_array);
        list.map_or(&[], Vec::as_slice)
    }

    fn map(&self, field: &str) -> Option<&'a Map<String, Value>> {
        self.get(field).and_then(Value::as_object)
    }

    /// Calls `check` with the object in a field, if it is set.
    fn inner(&self, field: &str, check: impl FnOnce(At<'_>)) {
        if let Some(value) = self.get(field) {
            check(At {
                value,
                path: &self.path(field),
            });
        }
    }

    /// Calls `check` with each item of a list.
    fn each(&self, field: &str, mut check: impl FnMut(At<'_>)) {
        for (at, value) in self.list(field).iter().enumerate() {
            let path = format!("{}[{at}]", self.path(field));
            check(At { value, path: &path });
        }
    }
}

// === impl Faults ===

impl Faults {
    fn add(&mut self, error: FieldError) {
        self.0.push(error);
    }

    fn invalid(&mut self, path: impl Into<String>, value: &Value, why: impl Into<String>) {
        self.add(FieldError::invalid(path, value, why));
    }

    fn required(&mut self, path: impl Into<String>, why: &str) {
        self.add(FieldError::required(path, why));
    }

    fn forbidden(&mut self, path: impl Into<String>, why: &str) {
        self.add(FieldError::forbidden(path, why));
    }

    /// A text that must be there; whether it is.
    fn needs(&mut self, at: At<'_>, field: &str) -> bool {
        let is_there = !at.text(field).is_empty();
        if !is_there {
            self.required(at.path(field), "");
        }
        is_there
    }

    /// A text that must be one of `values`, if it is there.
    fn one_of(&mut self, at: At<'_>, field: &str, values: &[&str]) {
        let text = at.text(field);
        if !text.is_empty() && !values.contains(&text) {
            self.add(FieldError::not_supported(
                at.path(field),
                &text.into(),
                values,
            ));
        }
    }

    /// A number that must not be less than `least`.
    fn at_least(&mut self, at: At<'_>, field: &str, least: i64) {
        if let Some(number) = at.number(field)
            && number < least
        {
            let why = format!("must be greater than or equal to {least}");
            self.invalid(at.path(field), &number.into(), why);
        }
    }

    /// Numbers that must not be negative.
    fn not_negative(&mut self, at: At<'_>, fields: &[&str]) {
        for field in fields {
            self.at_least(at, field, 0);
        }
    }

    /// A text that must be as `rule` says, if it is there.
    fn follows(&mut self, at: At<'_>, field: &str, rule: fn(&str) -> Option<String>) {
        let text = at.text(field);
        if !text.is_empty()
            && let Some(why) = rule(text)
        {
            self.invalid(at.path(field), &text.into(), why);
        }
    }

    /// A qualified name that must be there: an empty one breaks two rules.
    fn qualified(&mut self, path: String, name: &str) {
        if let Some(why) = syntax::qualified_name(name) {
            self.invalid(path.as_str(), &name.into(), why);
        }
        if name.is_empty() {
            let why = format!("name part {}", syntax::QUALIFIED);
            self.invalid(path, &name.into(), why);
        }
    }

    /// The number of a port.
    fn port(&mut self, path: String, number: &Value) {
        let is_port = number
            .as_i64()
            .is_some_and(|port| (1..=65_535).contains(&port));
        if !is_port {
            self.invalid(path, number, "must be between 1 and 65535, inclusive");
        }
    }

    /// A port by its number or its name.
    fn port_or_name(&mut self, path: &str, port: &Value) {
        match port.as_str() {
            Some(name) => {
                if let Some(why) = port_name(name) {
                    self.invalid(path, port, why);
                }
            }
            None => self.port(path.to_owned(), port),
        }
    }

    /// A number or a share.
    fn share(&mut self, at: At<'_>, field: &str) {
        const FORM: &str = "a valid percent string must be a numeric string followed by an ending \
                            '%' (e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')";
        let Some(value) = at.get(field) else {
            return;
        };
        match value.as_str() {
            Some(text) if percent(text).is_none() => self.invalid(at.path(field), value, FORM),
            Some(_) => {}
            None => self.at_least(at, field, 0),
        }
    }

    /// A share that must not be more than everything.
    fn not_above_all(&mut self, at: At<'_>, field: &str) {
        if let Some(value) = at.get(field)
            && value.as_str().and_then(percent).is_some_and(|it| it > 100)
        {
            self.invalid(at.path(field), value, "must not be greater than 100%");
        }
    }

    fn address(&mut self, path: String, value: &Value) {
        let is_address = value
            .as_str()
            .is_some_and(|it| it.parse::<IpAddr>().is_ok());
        if !is_address {
            let why = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)";
            self.invalid(path, value, why);
        }
    }

    /// Labels, or what has their form.
    fn labels(&mut self, at: At<'_>, field: &str) {
        let path = at.path(field);
        for (key, value) in at.map(field).into_iter().flatten() {
            if let Some(why) = syntax::qualified_name(key) {
                self.invalid(path.as_str(), &key.as_str().into(), why);
            }
            if let Some(why) = value.as_str().and_then(syntax::label_value) {
                self.invalid(path.as_str(), value, why);
            }
        }
    }
}

/// The number before a percent sign.
fn percent(text: &str) -> Option<u64> {
    let digits = text.strip_suffix('%')?;
    let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| digits.parse().unwrap_or(u64::MAX))
}

/// What is wrong with the name of a port.
fn port_name(name: &str) -> Option<String> {
    let is_known = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    let why = if name.len() > 15 {
        "must be no more than 15 characters"
    } else if !name.bytes().all(is_known) || name.is_empty() {
        "must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)"
    } else if !name.bytes().any(|byte| byte.is_ascii_lowercase()) {
        "must contain at least one letter (a-z)"
    } else if name.contains("--") {
        "must not contain consecutive hyphens"
    } else if name.starts_with('-') || name.ends_with('-') {
        "must not begin or end with a hyphen"
    } else {
        return None;
    };
    Some(why.to_owned())
}

/// A valid quantity in a map.
fn quantity(value: &Value) -> Option<Quantity> {
    Quantity::parse(value.as_str()?).ok()
}
