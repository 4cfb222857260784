//! The aggregated discovery document, with all groups, versions and resources.
//!
//! Source: KEP-3352, aggregated discovery.

use serde_json::{Value, json};

use super::groups;
use crate::registry::ResourceInfo;

/// The media type of the aggregated document.
pub(crate) const AGGREGATED: &str =
    "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

/// Returns the aggregated document at `/api` (`core`) or `/apis`.
pub(crate) fn aggregated<'a>(
    resources: impl IntoIterator<Item = &'a ResourceInfo>,
    core: bool,
) -> Value {
    let groups = groups(resources)
        .into_iter()
        .filter(|group| group.name.is_empty() == core);
    let items = groups.map(|group| {
        let versions = group.versions.iter().map(|(version, resources)| {
            let resources: Vec<_> = resources.iter().map(|info| resource(info)).collect();
            json!({ "version": version, "freshness": "Current", "resources": resources })
        });
        let metadata = if core {
            json!({})
        } else {
            json!({ "name": group.name })
        };
        json!({ "metadata": metadata, "versions": versions.collect::<Vec<_>>() })
    });
    json!({
        "kind": "APIGroupDiscoveryList",
        "apiVersion": "apidiscovery.k8s.io/v2",
        "metadata": {},
        "items": items.collect::<Vec<_>>(),
    })
}

fn resource(info: &ResourceInfo) -> Value {
    let mut entry = json!({
        "resource": info.plural,
        "singularResource": info.singular,
        "scope": if info.namespaced { "Namespaced" } else { "Cluster" },
        "responseKind": response_kind(info, &info.group, &info.version, &info.kind),
        "verbs": info.verbs,
    });
    for (field, names) in [
        ("shortNames", &info.short_names),
        ("categories", &info.categories),
    ] {
        if !names.is_empty() {
            entry[field] = names.as_slice().into();
        }
    }
    if !info.subresources.is_empty() {
        let mut subresources: Vec<_> = info.subresources.iter().collect();
        subresources.sort_by(|a, b| a.name.cmp(&b.name));
        let subresources = subresources.into_iter().map(|sub| {
            json!({
                "subresource": sub.name,
                "responseKind": response_kind(info, &sub.group, &sub.version, &sub.kind),
                "verbs": sub.verbs,
            })
        });
        entry["subresources"] = subresources.collect();
    }
    entry
}

/// As in Kubernetes, a built-in kind omits a group and a version that equal those of its list.
fn response_kind(info: &ResourceInfo, group: &str, version: &str, kind: &str) -> Value {
    if !info.custom && group == info.group && version == info.version {
        json!({ "group": "", "version": "", "kind": kind })
    } else {
        json!({ "group": group, "version": version, "kind": kind })
    }
}
