//! Subresources and deletion of pods: binding, eviction, grace period, resize and ephemeral
//! containers.

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::delete::finalizers_of_deletion;
use super::scale::selector_text;
use super::{Cluster, Deleted};
use crate::metadata;
use crate::registry::Resource;
use crate::selector::LabelSelector;
use crate::status::{About, FieldError, Status};
use crate::store::{Key, Stored};
use crate::wire::DeleteOptions;

/// The table of pods in the store.
pub(super) const PODS: &str = "pods";

/// The table of disruption budgets in the store.
const BUDGETS: &str = "poddisruptionbudgets.policy";

/// The default of `terminationGracePeriodSeconds`.
const DEFAULT_GRACE: i64 = 30;

/// The `retryAfterSeconds` of a refused eviction, as in Kubernetes.
const RETRY_EVICTION: u32 = 10;

// === impl Cluster ===

impl Cluster {
    /// Binds the pod at `key` to a node, for a scheduler.
    ///
    /// # Errors
    ///
    /// 404 if the pod does not exist, 409 if it is terminating or has a node or scheduling gates,
    /// and 500 for a binding without a node, as in Kubernetes.
    pub(crate) fn bind(
        &mut self,
        resource: &Resource,
        key: &Key,
        binding: &Value,
        dry_run: bool,
        now: &str,
    ) -> Result<(), Status> {
        let target = &binding["target"];
        let node = target["name"].as_str().unwrap_or_default();
        if node.is_empty() {
            return Err(Status::untyped("target.name: Required value"));
        }
        let kind = target["kind"].as_str().unwrap_or_default();
        if !matches!(kind, "" | "Node") {
            return Err(Status::untyped(format!(
                "target.kind: Unsupported value: {kind:?}: supported values: \"Node\", \"<empty>\""
            )));
        }
        let old = self.get(resource, key)?.clone();
        let spec = &old.value()["spec"];
        let name = &key.name;
        let refused = match spec["nodeName"].as_str().unwrap_or_default() {
            _ if old.is_terminating() => Some(format!(
                "pod {name} is being deleted, cannot be assigned to a host"
            )),
            "" if is_list(&spec["schedulingGates"]) => {
                Some(format!("pod {name} has non-empty .spec.schedulingGates"))
            }
            "" => None,
            node => Some(format!("pod {name} is already assigned to node {node:?}")),
        };
        if let Some(why) = refused {
            let about = About {
                resource: "pods/binding",
                ..resource.about(name)
            };
            return Err(Status::conflict(&about, &why));
        }
        let mut pod = old.value().clone();
        pod["spec"]["nodeName"] = node.into();
        for field in ["annotations", "labels"] {
            for (name, value) in binding["metadata"][field].as_object().into_iter().flatten() {
                pod["metadata"][field][name] = value.clone();
            }
        }
        set_condition(
            &mut pod,
            json!({
                "type": "PodScheduled",
                "status": "True",
                "lastProbeTime": null,
                "lastTransitionTime": now,
            }),
        );
        if !dry_run {
            self.store.put(&resource.table, key, pod, 0);
        }
        Ok(())
    }

    /// Evicts the pod at `key`: deletes it if its disruption budget allows this.
    ///
    /// # Errors
    ///
    /// 404 if the pod does not exist, 429 if its budget does not allow the disruption now, 500 if
    /// it has more than one budget, and the errors of a delete.
    pub(crate) fn evict(
        &mut self,
        resource: &Resource,
        key: &Key,
        options: &DeleteOptions,
        now: &str,
    ) -> Result<Deleted, Status> {
        let pod = self.get(resource, key)?.clone();
        let phase = pod.value().pointer("/status/phase");
        let phase = phase.and_then(Value::as_str).unwrap_or_default();
        let is_free = matches!(phase, "Succeeded" | "Failed" | "Pending") || pod.is_terminating();
        if !is_free {
            self.spend_budget(key, &pod, options.dry_run, now)?;
        }
        if !options.dry_run && !pod.is_terminating() {
            let mut marked = pod.value().clone();
            set_condition(
                &mut marked,
                json!({
                    "type": "DisruptionTarget",
                    "status": "True",
                    "lastProbeTime": null,
                    "lastTransitionTime": now,
                    "reason": "EvictionByEvictionAPI",
                    "message": "Eviction API: evicting",
                }),
            );
            self.store.put(&resource.table, key, marked, 0);
        }
        self.delete(resource, key, options, now)
    }

    /// Takes one disruption from the budget of a pod, if it has a budget.
    fn spend_budget(
        &mut self,
        key: &Key,
        pod: &Stored,
        dry_run: bool,
        now: &str,
    ) -> Result<(), Status> {
        let budgets = self.store.objects(BUDGETS).filter(|(at, budget)| {
            at.namespace == key.namespace && selects(&budget.value()["spec"]["selector"], pod)
        });
        let budgets: Vec<_> = budgets
            .map(|(at, budget)| (at.clone(), budget.clone()))
            .collect();
        let (at, budget) = match budgets.as_slice() {
            [] => return Ok(()),
            [one] => one,
            _ => {
                return Err(Status::untyped(
                    "This pod has more than one PodDisruptionBudget, which the eviction \
                     subresource does not support.",
                ));
            }
        };
        let number = |path: &str| {
            let number = budget.value().pointer(path).and_then(Value::as_i64);
            number.unwrap_or_default()
        };
        let (healthy, desired) = (
            number("/status/currentHealthy"),
            number("/status/desiredHealthy"),
        );
        if !is_ready(pod) {
            let policy = &budget.value()["spec"]["unhealthyPodEvictionPolicy"];
            if policy == "AlwaysAllow" || (healthy >= desired && desired > 0) {
                return Ok(());
            }
        }
        let name = &at.name;
        if number("/status/observedGeneration") < number("/metadata/generation") {
            let why =
                format!("The disruption budget {name} is still being processed by the server.");
            return Err(Status::disruption_budget(&why, Some(RETRY_EVICTION)));
        }
        let allowed = number("/status/disruptionsAllowed");
        if allowed <= 0 {
            let why = format!(
                "The disruption budget {name} needs {desired} healthy pods and has {healthy} \
                 currently"
            );
            return Err(Status::disruption_budget(&why, None));
        }
        if !dry_run {
            let mut spent = budget.value().clone();
            spent["status"]["disruptionsAllowed"] = (allowed - 1).into();
            spent["status"]["disruptedPods"][&*key.name] = now.into();
            self.store.put(&BUDGETS.into(), at, spent, 0);
        }
        Ok(())
    }
}

/// The state of a running pod after a delete: marked for deletion, with a grace period. `None` if
/// the pod is deleted without a grace period, like other objects.
pub(super) fn stopping(pod: &Stored, options: &DeleteOptions, now: &str) -> Option<Value> {
    let now: Timestamp = now.parse().ok()?;
    let object = pod.value();
    let written = |time: Timestamp| time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    let after = |time: Timestamp, seconds: i64| {
        let later = time.checked_add(SignedDuration::from_secs(seconds));
        written(later.unwrap_or(Timestamp::MAX))
    };
    let at_least_one = |seconds: i64| if seconds < 0 { 1 } else { seconds };
    let mut dying = object.clone();
    if pod.is_terminating() {
        let left = grace(object).filter(|left| *left > 0)?;
        let Some(wanted) = options
            .grace
            .map(at_least_one)
            .filter(|wanted| *wanted < left)
        else {
            return Some(dying);
        };
        if wanted == 0 && !pod.has_finalizers() {
            return None;
        }
        let end: Timestamp = pod.metadata("deletionTimestamp")?.as_str()?.parse().ok()?;
        let metadata = metadata::of(&mut dying);
        let end = after(end, wanted - left);
        metadata.insert("deletionTimestamp".to_owned(), end.into());
        metadata.insert("deletionGracePeriodSeconds".to_owned(), wanted.into());
        return Some(dying);
    }
    let spec = &object["spec"];
    let phase = object.pointer("/status/phase").and_then(Value::as_str);
    let is_running = spec["nodeName"]
        .as_str()
        .is_some_and(|node| !node.is_empty())
        && !matches!(phase, Some("Succeeded" | "Failed"));
    let own = spec["terminationGracePeriodSeconds"].as_i64();
    let wanted = options.grace.or(own).unwrap_or(DEFAULT_GRACE);
    let wanted = at_least_one(wanted);
    if !is_running || wanted == 0 {
        return None;
    }
    let finalizers = finalizers_of_deletion(pod, options);
    let end = after(now, wanted);
    metadata::mark_dying(&mut dying, &end);
    let metadata = metadata::of(&mut dying);
    metadata.insert("deletionGracePeriodSeconds".to_owned(), wanted.into());
    if !finalizers.is_empty() {
        metadata.insert("finalizers".to_owned(), finalizers.into());
    }
    Some(dying)
}

/// The last state of a pod that is deleted immediately. `None` if that state is stored already.
pub(super) fn marked(pod: &Stored, options: &DeleteOptions, now: &str) -> Option<Value> {
    let mut dying = pod.value().clone();
    if metadata::mark_dying(&mut dying, now) {
        return Some(dying);
    }
    let is_shorter = is_stopping(pod.value()) && options.grace == Some(0);
    is_shorter.then(|| {
        let metadata = metadata::of(&mut dying);
        metadata.insert("deletionGracePeriodSeconds".to_owned(), 0.into());
        dying
    })
}

/// Whether the grace period of a pod keeps it, so that it is not removed with its last finalizer.
pub(super) fn is_stopping(pod: &Value) -> bool {
    grace(pod).is_some_and(|grace| grace > 0)
}

/// The grace period of a terminating pod, in seconds.
fn grace(pod: &Value) -> Option<i64> {
    metadata::field(pod, "deletionGracePeriodSeconds")?.as_i64()
}

/// Copies only the resources and resize policies of containers into `spec`.
pub(super) fn copy_resources(pod: &Value, spec: &mut Value) {
    for list in ["containers", "initContainers"] {
        let Some(containers) = spec.get_mut(list).and_then(Value::as_array_mut) else {
            continue;
        };
        for container in containers {
            let sent = pod["spec"][list].as_array().into_iter().flatten();
            let mut sent = sent.filter(|sent| sent["name"] == container["name"]);
            let Some((sent, container)) = sent.next().zip(container.as_object_mut()) else {
                continue;
            };
            for field in ["resources", "resizePolicy"] {
                match sent.get(field) {
                    Some(value) => _ = container.insert(field.to_owned(), value.clone()),
                    None => _ = container.remove(field),
                }
            }
        }
    }
}

/// The errors of a resize.
pub(super) fn check_resize(before: &Value, pod: &Value) -> Vec<FieldError> {
    let quality = |pod: &Value| super::strategy::quality(&pod["spec"]);
    let mut errors = Vec::new();
    let old = quality(before);
    if old != quality(pod) {
        let why = "Pod QOS Class may not change as a result of resizing";
        errors.push(FieldError::invalid("spec", &old.into(), why));
    }
    for list in ["containers", "initContainers"] {
        let containers = |pod: &Value| pod["spec"][list].as_array().cloned().unwrap_or_default();
        let pairs = containers(before).into_iter().zip(containers(pod));
        for (at, (old, new)) in pairs.enumerate() {
            for field in ["requests", "limits"] {
                let amounts = |container: &Value| container["resources"][field].clone();
                let (old, new) = (amounts(&old), amounts(&new));
                let mut names = old.as_object().into_iter().flatten().map(|(name, _)| name);
                if names.any(|name| new.get(name).is_none()) {
                    let path = format!("spec.{list}[{at}].resources.{field}");
                    let why = format!("resource {field} cannot be removed");
                    errors.push(FieldError::forbidden(path, why));
                }
            }
        }
    }
    errors
}

/// The errors of an update of ephemeral containers, in addition to those of their types.
pub(super) fn check_ephemeral(before: &Value, pod: &Value) -> Vec<FieldError> {
    let containers = |pod: &Value| {
        let list = pod.pointer("/spec/ephemeralContainers");
        list.and_then(Value::as_array).cloned().unwrap_or_default()
    };
    let new = containers(pod);
    let mut errors = Vec::new();
    for old in containers(before) {
        let name = old["name"].as_str().unwrap_or_default();
        let why = match new.iter().find(|new| new["name"] == old["name"]) {
            None => format!("existing ephemeral containers {name:?} may not be removed\n"),
            Some(new) if *new != old => {
                format!("existing ephemeral containers {name:?} may not be changed\n")
            }
            Some(_) => continue,
        };
        errors.push(FieldError::forbidden("spec.ephemeralContainers", why));
    }
    errors
}

/// Whether a label selector, as a JSON object, matches an object.
pub(super) fn selects(selector: &Value, object: &Stored) -> bool {
    let parsed = LabelSelector::parse(&selector_text(selector));
    selector.is_object() && parsed.is_ok_and(|selector| selector.matches(object.value()))
}

fn is_list(value: &Value) -> bool {
    value.as_array().is_some_and(|list| !list.is_empty())
}

fn is_ready(pod: &Stored) -> bool {
    let conditions = pod.value().pointer("/status/conditions");
    let conditions = conditions.and_then(Value::as_array).into_iter().flatten();
    let mut ready = conditions.filter(|condition| condition["type"] == "Ready");
    ready.any(|condition| condition["status"] == "True")
}

/// Adds a condition, or replaces the one of the same type.
fn set_condition(pod: &mut Value, condition: Value) {
    let conditions = &mut pod["status"]["conditions"];
    if !conditions.is_array() {
        *conditions = json!([]);
    }
    if let Some(conditions) = conditions.as_array_mut() {
        match (conditions.iter_mut()).find(|old| old["type"] == condition["type"]) {
            Some(old) => *old = condition,
            None => conditions.push(condition),
        }
    }
}
