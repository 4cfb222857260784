//! Changes that the server makes to objects of built-in kinds at creation and update, in addition
//! to the defaults of their types.
//!
//! Source: the strategies of the registry (`pkg/registry`) and the admission plugins that are
//! on by default (`plugin/pkg/admission`) of Kubernetes v1.36.3.

use serde_json::{Map, Value, json};

use super::{Cluster, Part};
use crate::metadata;
use crate::registry::Resource;
use crate::status::{FieldError, Status};
use crate::store::Key;
use crate::typed;
use crate::wire::WriteOptions;

pub(super) use pod::quality;

mod allocation;
mod claim;
mod job;
mod pod;
mod runtime_class;
mod service;
pub(super) mod signing;

/// The annotation of daemon sets that counts the changes of their template.
const TEMPLATE_GENERATION: &str = "deprecated.daemonset.template.generation";

/// The table of priority classes in the store.
pub(super) const PRIORITY_CLASSES: &str = "priorityclasses.scheduling.k8s.io";

/// The table of certificate signing requests in the store.
pub(super) const SIGNING_REQUESTS: &str = "certificatesigningrequests.certificates.k8s.io";

/// The table of deployments in the store.
pub(super) const DEPLOYMENTS: &str = "deployments.apps";

/// The table of runtime classes in the store.
const RUNTIME_CLASSES: &str = "runtimeclasses.node.k8s.io";

// === impl Cluster ===

impl Cluster {
    /// Sets the fields of a new object that only the server may set.
    ///
    /// # Errors
    ///
    /// 403 for a pod whose priority class or service account does not exist.
    pub(super) fn prepare_create(
        &mut self,
        resource: &Resource,
        object: &mut Value,
        options: &WriteOptions,
        now: &str,
    ) -> Result<(), Status> {
        if resource.info.custom {
            return Ok(());
        }
        if resource.has_subresource("status")
            && object.get("status").is_none()
            && let Some(status) = resource
                .stored_type()
                .and_then(|kind| typed::empty(kind, "status"))
        {
            object["status"] = status;
        }
        drop_disabled(&resource.table, object);
        match &*resource.table {
            "jobs.batch" => job::select_own_pods(object),
            "daemonsets.apps" => set_template_generation(object, 1),
            SIGNING_REQUESTS => {
                let spec = object.get_mut("spec").and_then(Value::as_object_mut);
                if let Some(spec) = spec {
                    for field in ["username", "uid", "groups", "extra"] {
                        spec.remove(field);
                    }
                    spec.extend(options.user.clone());
                }
            }
            "nodes" => taint(object),
            "limitranges" if metadata::text(object, "name").is_empty() => {
                let name = self.uid();
                metadata::of(object).insert("name".to_owned(), name.into());
            }
            "ingresses.networking.k8s.io" => self.default_ingress_class(object),
            "persistentvolumeclaims" => {
                self.default_storage_class(object);
                claim::fill_sources(None, object);
            }
            "persistentvolumes" => object["status"]["lastPhaseTransitionTime"] = now.into(),
            "pods" => {
                self.default_limits(object);
                if self.contents_seen.is_some() {
                    self.admit_account(resource, object)?;
                }
                self.admit_pod(resource, object)?;
                pod::prepare(object, now);
            }
            _ => {}
        }
        Ok(())
    }

    /// Allocates addresses and ports for a new object. They are not reserved: the next write finds
    /// them in the stored object.
    pub(super) fn allocate(
        &mut self,
        resource: &Resource,
        object: &mut Value,
        before: Option<&Value>,
    ) -> Vec<FieldError> {
        match &*resource.table {
            "services" => self.allocate_service(object, before),
            _ => Vec::new(),
        }
    }

    /// Sets the priority of a pod, and its tolerations of failed nodes.
    fn admit_pod(&self, resource: &Resource, pod: &mut Value) -> Result<(), Status> {
        let name = metadata::text(pod, "name").to_owned();
        let Some(spec) = pod.get_mut("spec").and_then(Value::as_object_mut) else {
            return Ok(());
        };
        let runtime = spec.get("runtimeClassName").and_then(Value::as_str);
        let runtime = runtime.map(str::to_owned);
        let class_of = |runtime: String| {
            let class = self.store.get(RUNTIME_CLASSES, &Key::new("", &runtime));
            class.ok_or_else(|| format!("pod rejected: RuntimeClass {runtime:?} not found"))
        };
        let runtime = runtime.map(class_of).transpose();
        let admitted = runtime.and_then(|class| {
            let class = class.map_or(&Value::Null, |class| class.value());
            runtime_class::admit(class, spec)
        });
        admitted.map_err(|detail| Status::forbidden(&resource.about(&name), &detail))?;
        let class = spec
            .get("priorityClassName")
            .and_then(Value::as_str)
            .unwrap_or_default();
        let (class, value, preemption) = self.priority(class).ok_or_else(|| {
            let detail = format!("no PriorityClass with name {class} was found");
            Status::forbidden(&resource.about(&name), &detail)
        })?;
        let own = spec.get("priority").and_then(Value::as_i64);
        if let Some(own) = own.filter(|own| *own != value) {
            let detail = format!(
                "the integer value of priority ({own}) must not be provided in pod spec; \
                 priority admission controller computed {value} from the given PriorityClass name"
            );
            return Err(Status::forbidden(&resource.about(&name), &detail));
        }
        if !class.is_empty() {
            spec.insert("priorityClassName".to_owned(), class.into());
        }
        spec.insert("priority".to_owned(), value.into());
        spec.entry("preemptionPolicy").or_insert(preemption);
        pod::tolerate_failing_nodes(spec);
        Ok(())
    }

    /// The priority class of a pod, with its value and its preemption policy.
    fn priority(&self, name: &str) -> Option<(String, i64, Value)> {
        let policy = "PreemptLowerPriority";
        let classes = self.store.objects(PRIORITY_CLASSES);
        let is_default = |class: &Value| class["globalDefault"] == true;
        let found = classes
            .filter(|(key, class)| match name {
                "" => is_default(class.value()),
                name => &*key.name == name,
            })
            .min_by_key(|(_, class)| class.value()["value"].as_i64());
        match found {
            Some((key, class)) => {
                let class = class.value();
                let value = class["value"].as_i64().unwrap_or_default();
                let own = class.get("preemptionPolicy").cloned();
                Some((
                    key.name.to_string(),
                    value,
                    own.unwrap_or_else(|| policy.into()),
                ))
            }
            None if name.is_empty() => Some((String::new(), 0, policy.into())),
            None => None,
        }
    }
}

/// Copies fields from the old object that an update cannot remove or that it omits.
pub(super) fn prepare_update(
    resource: &Resource,
    part: Part,
    before: &Value,
    object: &mut Value,
    now: &str,
) {
    if !resource.info.custom {
        drop_disabled(&resource.table, object);
    }
    match (&*resource.table, part) {
        ("daemonsets.apps", Part::Main) => {
            let template = |object: &Value| object.pointer("/spec/template").cloned();
            let generation = template_generation(before);
            let has_changed = template(before) != template(object);
            set_template_generation(object, generation + i64::from(has_changed));
        }
        ("daemonsets.apps", Part::Status) => {
            // The annotation is a part of the spec, which a write to the status keeps.
            set_template_generation(object, template_generation(before));
        }
        ("pods", Part::Main) => {
            if let Some(spec) = object.get_mut("spec").and_then(Value::as_object_mut) {
                pod::tolerate_failing_nodes(spec);
                // A client that sends the pod as it was created does not know its priority.
                for field in ["priority", "preemptionPolicy"] {
                    let old = before["spec"].get(field).filter(|old| !old.is_null());
                    if let Some(old) = old
                        && spec.get(field).is_none_or(Value::is_null)
                    {
                        spec.insert(field.to_owned(), old.clone());
                    }
                }
            }
        }
        ("pods", Part::Status) => {
            if let (Some(class), Some(Value::Object(status))) =
                (before.pointer("/status/qosClass"), object.get_mut("status"))
            {
                let found = status.entry("qosClass").or_insert_with(|| class.clone());
                if found == "" {
                    *found = class.clone();
                }
            }
        }
        ("persistentvolumes", Part::Status) => {
            const TIME: &str = "lastPhaseTransitionTime";
            let [old, status] = [before, &*object].map(|it| &it["status"]);
            if status["phase"] != old["phase"] {
                // A time that the writer has not set is that of the former phase.
                if status[TIME].is_null() || status[TIME] == old[TIME] {
                    object["status"][TIME] = now.into();
                }
            } else if status[TIME].is_null() && !old[TIME].is_null() {
                object["status"][TIME] = old[TIME].clone();
            }
        }
        (DEPLOYMENTS, Part::Status) => {
            // A write to the status keeps the labels; the other metadata is that of the request.
            let labels = metadata::field(before, "labels").cloned();
            let metadata = metadata::of(object);
            metadata.remove("labels");
            metadata.extend(labels.map(|labels| ("labels".to_owned(), labels)));
        }
        (SIGNING_REQUESTS, Part::Status | Part::Approval) => {
            signing::prepare(before, object, part == Part::Approval, now);
        }
        ("services", Part::Main) => service::keep_allocated(before, object),
        ("persistentvolumeclaims", Part::Main) => {
            // A claim remains bound to its volume.
            let volume = before.pointer("/spec/volumeName").cloned();
            if let (Some(volume), Some(Value::Object(spec))) = (volume, object.get_mut("spec")) {
                spec.entry("volumeName").or_insert(volume);
            }
            claim::fill_sources(Some(before), object);
        }
        _ => {}
    }
}

/// Drops the fields of a spec whose feature gate is off.
fn drop_disabled(table: &str, object: &mut Value) {
    const DISABLED: [(&str, &str); 4] = [
        ("leases.coordination.k8s.io", "preferredHolder"),
        ("leases.coordination.k8s.io", "strategy"),
        ("nodes", "configSource"),
        ("csidrivers.storage.k8s.io", "preventPodSchedulingIfMissing"),
    ];
    for (_, field) in DISABLED.iter().filter(|(of, _)| *of == table) {
        if let Some(spec) = object.get_mut("spec").and_then(Value::as_object_mut) {
            spec.remove(*field);
        }
    }
}

fn template_generation(object: &Value) -> i64 {
    let annotations = metadata::field(object, "annotations");
    let text = annotations.and_then(|annotations| annotations.get(TEMPLATE_GENERATION));
    let number = text
        .and_then(Value::as_str)
        .and_then(|text| text.parse().ok());
    number.unwrap_or_default()
}

/// Writes the template generation of a daemon set into its annotation.
pub(super) fn set_template_generation(object: &mut Value, generation: i64) {
    let annotations = metadata::of(object)
        .entry("annotations")
        .or_insert_with(|| Map::new().into());
    if let Some(annotations) = annotations.as_object_mut() {
        let text = generation.to_string();
        annotations.insert(TEMPLATE_GENERATION.to_owned(), text.into());
    }
}

/// Adds the annotation of the template generation to a daemon set.
pub(super) fn mark_template(object: &mut Value) {
    let generation = template_generation(object);
    set_template_generation(object, generation);
}

/// A new node has the taint `not-ready` until it is ready.
fn taint(node: &mut Value) {
    const NOT_READY: &str = "node.kubernetes.io/not-ready";
    let Some(spec) = node.get_mut("spec").and_then(Value::as_object_mut) else {
        return;
    };
    let taints = spec.entry("taints").or_insert_with(|| json!([]));
    if let Some(taints) = taints.as_array_mut()
        && !taints
            .iter()
            .any(|taint| taint["key"] == NOT_READY && taint["effect"] == "NoSchedule")
    {
        taints.push(json!({ "key": NOT_READY, "effect": "NoSchedule" }));
    }
}
