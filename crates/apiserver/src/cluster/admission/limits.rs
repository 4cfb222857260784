//! Limit ranges: defaults for the resources of containers, and the limits of pods, containers and
//! claims.

use std::sync::Arc;

use serde_json::{Map, Value};

use super::amounts::{self, Amounts, containers};
use crate::cluster::{Cluster, Part};
use crate::metadata;
use crate::registry::Resource;
use crate::status::Status;
use crate::store::{Key, Stored};
use crate::typed::Quantity;

/// The table of limit ranges in the store.
const LIMIT_RANGES: &str = "limitranges";

/// The annotation that describes the amounts that were filled in.
const ANNOTATION: &str = "kubernetes.io/limit-ranger";

// === impl Cluster ===

impl Cluster {
    /// Sets the default resources of the containers of a new pod, from the limit ranges of its
    /// namespace.
    pub(in crate::cluster) fn default_limits(&self, pod: &mut Value) {
        for range in self.limit_ranges(metadata::text(pod, "namespace")) {
            let (mut requests, mut limits) = (Map::new(), Map::new());
            for item in items(&range, "Container") {
                let members = |field: &str| item[field].as_object().cloned().unwrap_or_default();
                requests.extend(members("defaultRequest"));
                limits.extend(members("default"));
            }
            let mut notes = Vec::new();
            for (list, name) in [
                ("containers", "container"),
                ("initContainers", "init container"),
            ] {
                let list = pod["spec"].get_mut(list).and_then(Value::as_array_mut);
                for container in list.into_iter().flatten() {
                    for (field, defaults) in [("requests", &requests), ("limits", &limits)] {
                        let set = fill_in(container, field, defaults);
                        if !set.is_empty() {
                            let own = container["name"].as_str().unwrap_or_default();
                            let what = field.trim_end_matches('s');
                            notes.push(format!("{} {what} for {name} {own}", set.join(", ")));
                        }
                    }
                }
            }
            if !notes.is_empty() {
                let note = format!("LimitRanger plugin set: {}", notes.join("; "));
                let annotations = metadata::of(pod)
                    .entry("annotations")
                    .or_insert_with(|| Map::new().into());
                if let Some(annotations) = annotations.as_object_mut() {
                    annotations.insert(ANNOTATION.to_owned(), note.into());
                }
            }
        }
    }

    /// Checks the resources of a pod or a claim against the limit ranges of its namespace.
    ///
    /// # Errors
    ///
    /// 403 for an object outside the limits.
    pub(in crate::cluster) fn check_limits(
        &self,
        resource: &Resource,
        part: Part,
        is_new: bool,
        object: &Value,
    ) -> Result<(), Status> {
        let is_checked = match (&*resource.table, part) {
            ("pods", Part::Main) => is_new,
            ("pods", Part::Resize) | ("persistentvolumeclaims", Part::Main) => true,
            _ => false,
        };
        if !is_checked {
            return Ok(());
        }
        let spec = &object["spec"];
        for range in self.limit_ranges(metadata::text(object, "namespace")) {
            let mut faults = Vec::new();
            if &*resource.table == "pods" {
                for item in items(&range, "Container") {
                    let all = ["containers", "initContainers"].into_iter();
                    for container in all.flat_map(|list| containers(spec, list)) {
                        let read = |field: &str| amounts::read(&container["resources"][field]);
                        check(item, &read("requests"), &read("limits"), &mut faults);
                    }
                }
                for item in items(&range, "Pod") {
                    let whole = |field: &str| amounts::of_pod(spec, field);
                    check(item, &whole("requests"), &whole("limits"), &mut faults);
                }
            } else {
                let requests = amounts::read(&spec["resources"]["requests"]);
                for item in items(&range, "PersistentVolumeClaim") {
                    check_claim(item, &requests, &mut faults);
                }
            }
            if let Some(detail) = joined(&faults) {
                let name = metadata::text(object, "name");
                return Err(Status::forbidden(&resource.about(name), &detail));
            }
        }
        Ok(())
    }

    fn limit_ranges(&self, namespace: &str) -> Vec<Arc<Stored>> {
        let ranges = self.store.objects(LIMIT_RANGES);
        let ranges = ranges.filter(|(key, _): &(&Key, _)| &*key.namespace == namespace);
        ranges.map(|(_, range)| range.clone()).collect()
    }
}

/// The items of a limit range with the type `kind`.
fn items<'a>(range: &'a Stored, kind: &str) -> impl Iterator<Item = &'a Value> {
    let items = range.value().pointer("/spec/limits");
    let items = items.and_then(Value::as_array).into_iter().flatten();
    items.filter(move |item| item["type"] == kind)
}

/// Fills in the missing amounts of a container, and returns their names.
fn fill_in(container: &mut Value, field: &str, defaults: &Map<String, Value>) -> Vec<String> {
    let mut set = Vec::new();
    for (name, amount) in defaults {
        if container["resources"][field].get(name).is_none() {
            container["resources"][field][name] = amount.clone();
            set.push(name.clone());
        }
    }
    set
}

/// Adds the errors of the resources of a pod or a container.
fn check(item: &Value, requests: &Amounts, limits: &Amounts, faults: &mut Vec<String>) {
    let kind = item["type"].as_str().unwrap_or_default();
    for (name, least) in amounts::read(&item["min"]) {
        let about = format!("minimum {name} usage per {kind} is {least}");
        faults.extend(below(&about, least, requests.get(&name), limits.get(&name)));
    }
    for (name, most) in amounts::read(&item["max"]) {
        let about = format!("maximum {name} usage per {kind} is {most}");
        let fault = match (limits.get(&name), requests.get(&name)) {
            (None, _) => format!("{about}.  No limit is specified"),
            (Some(limit), _) if limit.nanos() > most.nanos() => {
                format!("{about}, but limit is {limit}")
            }
            (_, Some(request)) if request.nanos() > most.nanos() => {
                format!("{about}, but request is {request}")
            }
            _ => continue,
        };
        faults.push(fault);
    }
    for (name, most) in amounts::read(&item["maxLimitRequestRatio"]) {
        let about = format!("{name} max limit to request ratio per {kind} is {most}, but");
        let given = |amounts: &Amounts| {
            let amount = amounts.get(&name).map(|amount| amount.nanos());
            amount.filter(|nanos| *nanos != 0)
        };
        let fault = match (given(requests), given(limits)) {
            (None, _) => format!("{about} no request is specified or request is 0"),
            (_, None) => format!("{about} no limit is specified or limit is 0"),
            (Some(request), Some(limit)) => {
                let ratio = number(limit) / number(request);
                // The maximum is in billionths, and the ratio is not.
                if ratio <= number(most.nanos()) / 1e9 {
                    continue;
                }
                format!("{about} provided ratio is {ratio:.6}")
            }
        };
        faults.push(fault);
    }
}

/// Adds the errors of the size of a claim.
fn check_claim(item: &Value, requests: &Amounts, faults: &mut Vec<String>) {
    for (name, least) in amounts::read(&item["min"]) {
        let about = format!("minimum {name} usage per PersistentVolumeClaim is {least}");
        faults.extend(below(&about, least, requests.get(&name), None));
    }
    for (name, most) in amounts::read(&item["max"]) {
        let about = format!("maximum {name} usage per PersistentVolumeClaim is {most}");
        match requests.get(&name) {
            None => faults.push(format!("{about}.  No request is specified")),
            Some(request) if request.nanos() > most.nanos() => {
                faults.push(format!("{about}, but request is {request}"));
            }
            Some(_) => {}
        }
    }
}

/// The error if an amount is below the minimum.
fn below(
    about: &str,
    least: Quantity,
    request: Option<&Quantity>,
    limit: Option<&Quantity>,
) -> Option<String> {
    let is_less = |amount: &Quantity| amount.nanos() < least.nanos();
    match (request, limit) {
        (None, _) => Some(format!("{about}.  No request is specified")),
        (Some(request), _) if is_less(request) => {
            Some(format!("{about}, but request is {request}"))
        }
        (_, Some(limit)) if is_less(limit) => Some(format!("{about}, but limit is {limit}")),
        _ => None,
    }
}

#[expect(
    clippy::cast_precision_loss,
    reason = "the real server computes ratios as floating-point numbers too"
)]
fn number(nanos: i128) -> f64 {
    nanos as f64
}

/// Joins the errors into one text, without duplicates.
fn joined(faults: &[String]) -> Option<String> {
    let mut distinct: Vec<&str> = Vec::new();
    for fault in faults {
        if !distinct.contains(&fault.as_str()) {
            distinct.push(fault);
        }
    }
    match distinct.as_slice() {
        [] => None,
        [one] => Some((*one).to_owned()),
        several => Some(format!("[{}]", several.join(", "))),
    }
}
