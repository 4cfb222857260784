//! The status of a pod.

use std::net::IpAddr;

use serde_json::{Value, json};

use super::super::{At, Faults};
use super::{addresses, not_above_most, within_most};
use crate::metadata::syntax;
use crate::status::FieldError;

const LISTS: [&str; 3] = [
    "containerStatuses",
    "initContainerStatuses",
    "ephemeralContainerStatuses",
];

pub(super) fn status(pod: &Value, old: At<'_>, at: At<'_>, faults: &mut Faults) {
    at.each("conditions", |at| {
        generation(at, faults);
        // The path in the error of the real server has a capital letter.
        let name = at.text("type");
        faults.wrong(at.path("Type"), &name.into(), syntax::qualified_name(name));
    });
    faults.follows(at, "nominatedNodeName", syntax::subdomain);
    generation(at, faults);
    if at.get("qosClass") != old.get("qosClass") {
        let class = at.text("qosClass");
        faults.invalid(at.path("qosClass"), &class.into(), "field is immutable");
    }
    for list in &LISTS[..2] {
        ended(list, pod, old, at, faults);
    }
    claims(pod, at, faults);
    pod_addresses(old, at, faults);
    host_addresses(old, at, faults);
    for list in LISTS {
        at.each(list, |at| user(pod, at, faults));
    }
    at.each(LISTS[0], |at| allocated(pod, at, faults));
    at.inner("extendedResourceClaimStatus", |at| {
        extended(pod, at, faults);
    });
}

/// The health of the resources that are allocated to a container.
fn allocated(pod: &Value, at: At<'_>, faults: &mut Faults) {
    let mut containers = pod["spec"]["containers"].as_array().into_iter().flatten();
    let Some(container) = containers.find(|it| it["name"] == at.text("name")) else {
        return;
    };
    let resources = &container["resources"];
    let claims = resources["claims"].as_array().into_iter().flatten();
    let claims = claims.map(|claim| {
        let text = |field: &str| claim[field].as_str().unwrap_or_default();
        match text("request") {
            "" => format!("claim:{}", text("name")),
            request => format!("claim:{}/{request}", text("name")),
        }
    });
    let claims: Vec<_> = claims.collect();
    at.each("allocatedResourcesStatus", |at| {
        let name = at.text("name");
        let (is_known, why) = if name.starts_with("claim:") {
            let why = "must match one of the container's resource claims in a format \
                       'claim:<claimName>/<request>' or 'claim:<claimName>' if request is empty";
            (claims.iter().any(|claim| claim == name), why)
        } else {
            let why = "must match one of the container's resource requests";
            (resources["requests"].get(name).is_some(), why)
        };
        if !is_known {
            faults.invalid(at.path("name"), &name.into(), why);
        }
        let mut seen = Vec::new();
        at.each("resources", |at| {
            let (health, known) = (at.text("health"), ["Healthy", "Unhealthy", "Unknown"]);
            if !known.contains(&health) {
                let path = at.path("health");
                faults.add(FieldError::not_supported(path, &health.into(), known));
            }
            let id = at.text("resourceID").to_owned();
            if seen.contains(&id) {
                let path = at.path("resourceID");
                faults.add(FieldError::duplicate(path, &id.as_str().into()));
            }
            seen.push(id);
        });
    });
}

/// The claim for the extended resources of the pod, and its requests for the containers.
fn extended(pod: &Value, at: At<'_>, faults: &mut Faults) {
    let lists = ["initContainers", "containers"].map(|list| pod["spec"][list].as_array());
    let containers: Vec<_> = lists.into_iter().flatten().flatten().collect();
    if at.list("requestMappings").is_empty() {
        let why = "at least one request mapping is required";
        faults.required(at.path("requestMappings"), why);
    }
    let fields = ["containerName", "resourceName", "requestName"];
    let mut seen = Vec::new();
    at.each("requestMappings", |mapping| {
        let own = fields.map(|field| mapping.text(field).to_owned());
        if !containers.iter().any(|it| it["name"] == own[0]) {
            let why = "must match the name of an entry in spec.initContainers.name or \
                       spec.containers.name";
            faults.invalid(mapping.path(fields[0]), &own[0].as_str().into(), why);
        }
        if seen.contains(&own) {
            for (field, value) in fields.into_iter().zip(&own) {
                let value = value.as_str().into();
                faults.add(FieldError::duplicate(mapping.path(field), &value));
            }
        }
        // The path in the error of the real server lacks the mapping.
        let name = own[2].as_str();
        faults.wrong(at.path(fields[2]), &name.into(), syntax::label(name));
        seen.push(own);
    });
    faults.must_follow(at, "resourceClaimName", syntax::subdomain);
}

fn generation(at: At<'_>, faults: &mut Faults) {
    if let Some(number) = at.number("observedGeneration").filter(|it| *it < 0) {
        let why = "must be a non-negative integer";
        faults.invalid(at.path("observedGeneration"), &number.into(), why);
    }
}

/// A container that ended and is not restarted remains ended.
fn ended(list: &str, pod: &Value, old: At<'_>, at: At<'_>, faults: &mut Faults) {
    for (number, before) in old.list(list).iter().enumerate() {
        let end = &before["state"]["terminated"];
        if end.is_null() || is_restarted(pod, &before["name"], &end["exitCode"]) {
            continue;
        }
        let mut same = at
            .list(list)
            .iter()
            .filter(|it| it["name"] == before["name"]);
        if same.any(|now| now["state"]["terminated"].is_null()) {
            let path = format!("{}[{number}].state", at.path(list));
            let why = "may not be transitioned to non-terminated state";
            faults.forbidden(path, why);
        }
    }
}

/// Whether a container that ended with this code can run again. Its own policy has priority over
/// that of the pod.
fn is_restarted(pod: &Value, name: &Value, code: &Value) -> bool {
    let spec = &pod["spec"];
    let lists = ["containers", "initContainers"].map(|list| spec[list].as_array());
    let mut containers = lists.into_iter().flatten().flatten();
    // A container that the pod does not have is not restarted.
    let Some(container) = containers.find(|it| it["name"] == *name) else {
        return false;
    };
    let own = &container["restartPolicy"];
    let has_rules = !container["restartPolicyRules"].is_null();
    let policy = if own.is_null() {
        &spec["restartPolicy"]
    } else {
        own
    };
    // The codes of rules are not compared.
    has_rules || policy == "Always" || policy == "OnFailure" && *code != 0
}

/// The user of a container.
fn user(pod: &Value, at: At<'_>, faults: &mut Faults) {
    let is_windows = pod["spec"]["os"]["name"] == "windows";
    at.inner("user", |at| {
        if is_windows && at.get("linux").is_some() {
            faults.forbidden(at.path("linux"), "cannot be set for a windows pod");
            return;
        }
        at.inner("linux", |at| {
            not_above_most(at, &["uid", "gid"], faults);
            for (number, group) in at.list("supplementalGroups").iter().enumerate() {
                let path = format!("{}[{number}]", at.path("supplementalGroups"));
                within_most(path, group, faults);
            }
        });
    });
}

/// The claims that were created for the pod.
fn claims(pod: &Value, at: At<'_>, faults: &mut Faults) {
    let known = pod["spec"]["resourceClaims"].as_array();
    at.each("resourceClaimStatuses", |at| {
        let name = at.text("name");
        if !known.into_iter().flatten().any(|it| it["name"] == name) {
            let why = "must match the name of an entry in `spec.resourceClaims`";
            faults.invalid(at.path("name"), &name.into(), why);
        }
        faults.follows(at, "resourceClaimName", syntax::subdomain);
    });
}

fn items(at: At<'_>, list: &str) -> Vec<Value> {
    let items = at.list(list).iter();
    items.filter_map(|it| it.get("ip")).cloned().collect()
}

fn pod_addresses(old: At<'_>, at: At<'_>, faults: &mut Faults) {
    each_address("podIPs", old, at, faults);
    one_of_each_family("podIPs", at, faults);
}

fn host_addresses(old: At<'_>, at: At<'_>, faults: &mut Faults) {
    let first = at.list("hostIPs").first();
    if let Some(first) = first.map(|it| it["ip"].as_str().unwrap_or_default())
        && first != at.text("hostIP")
    {
        let path = format!("{}[0].ip", at.path("hostIPs"));
        faults.invalid(path, &first.into(), "must be equal to `hostIP`");
    }
    each_address("hostIPs", old, at, faults);
    one_of_each_family("hostIPs", at, faults);
}

fn each_address(list: &str, old: At<'_>, at: At<'_>, faults: &mut Faults) {
    let known = items(old, list);
    for (number, item) in at.list(list).iter().enumerate() {
        let path = format!("{}[{number}]", at.path(list));
        let address = item["ip"].as_str().unwrap_or_default().into();
        addresses::strict(path, &address, &known, faults);
    }
}

fn one_of_each_family(list: &str, at: At<'_>, faults: &mut Faults) {
    let items = items(at, list);
    let family = |item: &Value| {
        let address = item.as_str().and_then(|it| it.parse::<IpAddr>().ok());
        address.map(|address| address.is_ipv6())
    };
    let is_right = match items.as_slice() {
        [one, other] => family(one) != family(other),
        items => items.len() < 2,
    };
    if !is_right {
        let shown = items.iter().map(|item| json!({ "IP": item }));
        let why = "may specify no more than one IP for each IP family";
        faults.invalid(at.path(list), &shown.collect::<Vec<_>>().into(), why);
    }
}
