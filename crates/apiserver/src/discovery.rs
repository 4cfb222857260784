//! The discovery, version and `OpenAPI` documents.
//!
//! The service calls these functions. Clients read the documents to find the resources of the server;
//! kubectl reads them before each command. They depend only on the served resources:
//!
//! | path | document |
//! |--|--|
//! | `/api` | [`api_versions`] |
//! | `/apis`, `/apis/{group}` | [`group_list`], [`group`] |
//! | `/api/v1`, `/apis/{group}/{version}` | [`resource_list`] |
//! | `/api` and `/apis`, with the media type [`AGGREGATED`] | [`aggregated()`], with its [`etag`] |
//! | `/version` | [`version`] |
//! | `/openapi/v3` and below | [`openapi_index()`], [`openapi()`] |
//! | `/openapi/v2` | [`openapi_v2()`], [`openapi_v2_protobuf()`] |
//!
//! Each function takes all versions of all resources, in any order.
//!
//! # Not supported
//!
//! Aggregated documents have the version `v2`. A client that accepts only `v2beta1`, which Kubernetes
//! 1.35 removed, receives the plain documents.

use serde_json::{Map, Value, json};

use crate::registry::{ResourceInfo, Subresource};

mod aggregated;
mod hash;
mod openapi;
mod order;
mod text;

#[cfg(test)]
mod tests;

pub(crate) use aggregated::{AGGREGATED, aggregated};
pub(crate) use hash::etag;
pub(crate) use openapi::{openapi, openapi_index, openapi_v2, openapi_v2_protobuf};
use order::{Rank, VersionRank};
pub(crate) use text::text;

/// Returns the document at `/api`; `address` is the `host:port` of the server.
pub(crate) fn api_versions(address: &str) -> Value {
    json!({
        "kind": "APIVersions",
        "versions": ["v1"],
        "serverAddressByClientCIDRs": [{ "clientCIDR": "0.0.0.0/0", "serverAddress": address }],
    })
}

/// Returns the document at `/apis`: all groups except the core group.
pub(crate) fn group_list<'a>(resources: impl IntoIterator<Item = &'a ResourceInfo>) -> Value {
    let groups = groups(resources)
        .into_iter()
        .filter(|group| !group.name.is_empty());
    let groups: Vec<_> = groups
        .map(|group| Value::Object(group.document()))
        .collect();
    json!({ "kind": "APIGroupList", "apiVersion": "v1", "groups": groups })
}

/// Returns the document at `/apis/{name}`; `None` if the group is not served.
pub(crate) fn group<'a>(
    resources: impl IntoIterator<Item = &'a ResourceInfo>,
    name: &str,
) -> Option<Value> {
    let mut groups = groups(resources).into_iter();
    let group = groups.find(|group| group.name == name && !name.is_empty())?;
    let mut document = group.document();
    document.insert("kind".to_owned(), "APIGroup".into());
    document.insert("apiVersion".to_owned(), "v1".into());
    Some(document.into())
}

/// Returns the document at `/api/v1` or `/apis/{group}/{version}`; `None` if the version is not
/// served.
pub(crate) fn resource_list<'a>(
    resources: impl IntoIterator<Item = &'a ResourceInfo>,
    group: &str,
    version: &str,
) -> Option<Value> {
    // The hash is computed from the stored version, which can be another version.
    let all: Vec<_> = resources
        .into_iter()
        .filter(|info| info.group == group)
        .collect();
    let mut served: Vec<_> = all
        .iter()
        .copied()
        .filter(|info| info.version == version)
        .collect();
    if served.is_empty() {
        return None;
    }
    served.sort_by(|a, b| a.plural.cmp(&b.plural));
    let mut entries = Vec::new();
    for info in served {
        let stored = all
            .iter()
            .find(|other| other.plural == info.plural && other.storage);
        entries.push(resource(info, stored.copied().unwrap_or(info)));
        let mut subresources: Vec<_> = info.subresources.iter().collect();
        subresources.sort_by(|a, b| a.name.cmp(&b.name));
        if info.custom {
            // The status comes before the scale.
            subresources.reverse();
        }
        entries.extend(subresources.into_iter().map(|sub| subresource(info, sub)));
    }
    let mut document = json!({
        "kind": "APIResourceList",
        "groupVersion": group_version(group, version),
        "resources": entries,
    });
    if !group.is_empty() {
        // That of the core group has none, for old clients.
        document["apiVersion"] = "v1".into();
    }
    Some(document)
}

/// Returns the document at `/version`, for a `git_version` such as `v1.36.3`.
pub(crate) fn version(git_version: &str) -> Value {
    let mut parts = git_version.trim_start_matches('v').split('.');
    let (major, minor) = (
        parts.next().unwrap_or_default(),
        parts.next().unwrap_or_default(),
    );
    let previous = minor.parse::<u32>().unwrap_or_default().saturating_sub(1);
    json!({
        "major": major,
        "minor": minor,
        "emulationMajor": major,
        "emulationMinor": minor,
        "minCompatibilityMajor": major,
        "minCompatibilityMinor": previous.to_string(),
        "gitVersion": git_version,
        "gitCommit": "",
        "gitTreeState": "clean",
        "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "",
        "compiler": "rustc",
        "platform": platform(),
    })
}

/// Returns the platform of the server in Go's notation, such as `linux/amd64`.
fn platform() -> String {
    let arch = match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        arch => arch,
    };
    format!("{}/{arch}", std::env::consts::OS)
}

/// A group, with the resources of its versions, the preferred version first.
#[derive(Debug)]
struct Group<'a> {
    name: &'a str,
    versions: Vec<(&'a str, Vec<&'a ResourceInfo>)>,
}

/// Returns the groups in the order in which kubectl searches for a name, the core group first.
fn groups<'a>(resources: impl IntoIterator<Item = &'a ResourceInfo>) -> Vec<Group<'a>> {
    let mut resources: Vec<_> = resources.into_iter().collect();
    resources.sort_by_cached_key(|info| {
        (
            Rank::of(&info.group),
            VersionRank::of(&info.version),
            info.plural.clone(),
        )
    });
    let mut groups: Vec<Group<'a>> = Vec::new();
    for info in resources {
        if groups.last().is_none_or(|group| group.name != info.group) {
            groups.push(Group {
                name: &info.group,
                versions: Vec::new(),
            });
        }
        let Some(group) = groups.last_mut() else {
            continue;
        };
        match group.versions.last_mut() {
            Some((version, resources)) if *version == info.version => resources.push(info),
            _ => group.versions.push((&info.version, vec![info])),
        }
    }
    groups
}

/// Returns `apps/v1`, or `v1` in the core group.
fn group_version(group: &str, version: &str) -> String {
    if group.is_empty() {
        version.to_owned()
    } else {
        format!("{group}/{version}")
    }
}

// === impl Group ===

impl Group<'_> {
    fn document(&self) -> Map<String, Value> {
        let versions = self.versions.iter().map(|(version, _)| {
            json!({ "groupVersion": group_version(self.name, version), "version": version })
        });
        let versions: Vec<_> = versions.collect();
        let mut document = Map::new();
        document.insert("name".to_owned(), self.name.into());
        document.insert(
            "preferredVersion".to_owned(),
            versions.first().cloned().unwrap_or_default(),
        );
        document.insert("versions".to_owned(), versions.into());
        document
    }
}

fn resource(info: &ResourceInfo, stored: &ResourceInfo) -> Value {
    let mut entry = json!({
        "name": info.plural,
        "singularName": info.singular,
        "namespaced": info.namespaced,
        "kind": info.kind,
        "verbs": info.verbs,
    });
    if info.is_stored() {
        let (group, version) = stored_version(stored);
        entry["storageVersionHash"] = hash::storage_version(group, version, &stored.kind).into();
    }
    for (field, names) in [
        ("shortNames", &info.short_names),
        ("categories", &info.categories),
    ] {
        if !names.is_empty() {
            entry[field] = names.as_slice().into();
        }
    }
    entry
}

/// Returns the group and version in which kube-apiserver 1.36 stores a kind. For some built-in kinds,
/// it is not the version that is served.
fn stored_version(stored: &ResourceInfo) -> (&str, &str) {
    match (stored.group.as_str(), stored.kind.as_str()) {
        ("events.k8s.io", "Event") => ("", "v1"),
        (group @ "apiextensions.k8s.io", "CustomResourceDefinition")
        | (
            group @ "admissionregistration.k8s.io",
            "MutatingAdmissionPolicy" | "MutatingAdmissionPolicyBinding",
        ) => (group, "v1beta1"),
        (group, _) => (group, &stored.version),
    }
}

fn subresource(info: &ResourceInfo, sub: &Subresource) -> Value {
    let mut entry = json!({
        "name": format!("{}/{}", info.plural, sub.name),
        "singularName": "",
        "namespaced": info.namespaced,
        "kind": sub.kind,
        "verbs": sub.verbs,
    });
    // As in Kubernetes, omitted if they equal those of the list.
    if (&sub.group, &sub.version) != (&info.group, &info.version) {
        entry["group"] = sub.group.as_str().into();
        entry["version"] = sub.version.as_str().into();
    }
    entry
}
