//! The registry of the served resources, with the rules in which their kinds differ. *(pure)*

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::metadata::{Finalizers, NameRule};
use crate::selector::SelectableField;

mod builtin;
mod definition;
mod resource;

pub(crate) use crate::view::View;
pub(crate) use builtin::{posted, scale};
pub(crate) use definition::{CRD_FINALIZER, Definition};
pub(crate) use resource::Resource;

/// The served resources: the built-in ones, and those of custom resource definitions.
#[derive(Debug)]
pub(crate) struct Registry {
    /// The versions of each resource by group and plural name, the preferred version first.
    resources: BTreeMap<(String, String), Vec<Arc<Resource>>>,
}

/// The rules in which kinds differ.
#[derive(Debug, Clone)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a rule of its own, which a kind has or has not"
)]
pub(crate) struct Rules {
    /// The rule for object names.
    pub(crate) names: NameRule,
    /// The rule for finalizers.
    pub(crate) finalizers: Finalizers,
    /// The changes that increase the generation.
    pub(crate) generation: Generation,
    /// A field of the metadata whose changes also increase the generation.
    pub(crate) counted_metadata: Option<&'static str>,
    /// Whether an update may omit the resourceVersion.
    pub(crate) unconditional_update: bool,
    /// Whether an update of a missing object creates it.
    pub(crate) creates_on_update: bool,
    /// Whether a write to the status cannot change the metadata.
    pub(crate) status_alone: bool,
    /// Whether the response to a deletion is the object instead of a `Status`.
    pub(crate) returns_deleted: bool,
    /// The default propagation policy of a deletion.
    pub(crate) default_propagation: DefaultPropagation,
    /// The warning for a deletion without a propagation policy.
    pub(crate) deletion_warning: Option<&'static str>,
    /// The paths of the scale; `None` if the kind has no scale.
    pub(crate) scale: Option<ScalePaths>,
    /// The fields that field selectors support.
    pub(crate) fields: Vec<SelectableField>,
}

/// The paths of the fields of a scale in an object, as JSON pointers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ScalePaths {
    /// The desired number of replicas.
    pub(crate) wanted: String,
    /// The observed number of replicas.
    pub(crate) present: String,
    /// The selector of the replicas: a string in custom resources, an object in built-in kinds.
    pub(crate) selector: Option<String>,
}

/// The effect of a deletion without a propagation policy on the dependents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DefaultPropagation {
    /// The dependents are deleted after the object.
    Background,
    /// The dependents remain without an owner, for kinds that are older than garbage collection.
    Orphan,
    /// A deletion never waits for dependents, with any policy.
    Unsupported,
}

/// The changes that increase the generation of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Generation {
    /// None, because the kind has no generation.
    None,
    /// Changes of `spec`.
    Spec,
    /// Changes of all fields except `metadata`, and except `status` if it is a subresource.
    Content,
}

/// The names and verbs of a resource in one version, as in discovery documents.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ResourceInfo {
    /// The API group; empty for the core group.
    pub(crate) group: String,
    /// The API version, such as `v1`.
    pub(crate) version: String,
    /// The kind of the objects, such as `Pod`.
    pub(crate) kind: String,
    /// The kind of the lists, such as `PodList`.
    pub(crate) list_kind: String,
    /// The plural name, which URLs contain, such as `pods`.
    pub(crate) plural: String,
    /// The singular name, such as `pod`.
    pub(crate) singular: String,
    /// The short names for kubectl, such as `po`.
    pub(crate) short_names: Vec<String>,
    /// The categories for kubectl, such as `all`.
    pub(crate) categories: Vec<String>,
    /// Whether the resource is namespaced.
    pub(crate) namespaced: bool,
    /// The supported verbs, in the alphabetical order of discovery documents.
    pub(crate) verbs: Vec<String>,
    /// The served subresources.
    pub(crate) subresources: Vec<Subresource>,
    /// Whether this is the storage version.
    pub(crate) storage: bool,
    /// Whether a custom resource definition defines the resource.
    pub(crate) custom: bool,
    /// The deprecation warning of this version; `None` if it is not deprecated.
    pub(crate) deprecation: Option<String>,
    /// The schema of a custom resource, for `OpenAPI`; `None` for built-in kinds.
    pub(crate) open_api_schema: Option<serde_json::Value>,
}

/// A subresource, as in discovery documents.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Subresource {
    /// The last segment of the URL, such as `status`.
    pub(crate) name: String,
    /// The group of its objects, such as `autoscaling` for a scale.
    pub(crate) group: String,
    /// The version of its objects.
    pub(crate) version: String,
    /// The kind of its objects.
    pub(crate) kind: String,
    /// The supported verbs.
    pub(crate) verbs: Vec<String>,
}

// === impl ScalePaths ===

impl ScalePaths {
    /// The paths of built-in kinds.
    fn builtin() -> Self {
        Self {
            wanted: "/spec/replicas".to_owned(),
            present: "/status/replicas".to_owned(),
            selector: Some("/spec/selector".to_owned()),
        }
    }
}

// === impl ResourceInfo ===

impl ResourceInfo {
    /// Returns whether the server stores the objects of the resource, unlike those of reviews.
    pub(crate) fn is_stored(&self) -> bool {
        self.verbs.iter().any(|verb| verb == "get")
    }
}

// === impl Registry ===

impl Registry {
    /// Creates a registry of the built-in kinds.
    pub(crate) fn new() -> Self {
        let mut registry = Self {
            resources: BTreeMap::new(),
        };
        for resource in builtin::resources() {
            let key = (resource.info.group.clone(), resource.info.plural.clone());
            let versions = registry.resources.entry(key).or_default();
            versions.push(Arc::new(resource));
        }
        registry
    }

    /// Starts to serve a resource in `versions`, the preferred version first.
    pub(crate) fn insert(&mut self, versions: Vec<Arc<Resource>>) {
        if let Some(first) = versions.first() {
            let key = (first.info.group.clone(), first.info.plural.clone());
            self.resources.insert(key, versions);
        }
    }

    /// Stops to serve a resource.
    pub(crate) fn remove(&mut self, group: &str, plural: &str) {
        self.resources
            .remove(&(group.to_owned(), plural.to_owned()));
    }

    /// Returns the resource that a URL addresses.
    pub(crate) fn find(&self, group: &str, version: &str, plural: &str) -> Option<&Arc<Resource>> {
        self.versions(group, plural)
            .iter()
            .find(|resource| resource.info.version == version)
    }

    /// Returns all versions of a resource, the preferred version first; empty if it is not served.
    pub(crate) fn versions(&self, group: &str, plural: &str) -> &[Arc<Resource>] {
        self.resources
            .get(&(group.to_owned(), plural.to_owned()))
            .map_or(&[], |versions| versions.as_slice())
    }

    /// Returns whether this version of a group has built-in resources.
    pub(crate) fn has_built_in(&self, group: &str, version: &str) -> bool {
        self.iter().any(|resource| {
            !resource.info.custom
                && resource.info.group == group
                && resource.info.version == version
        })
    }

    /// Returns whether a version of `group` has built-in resources.
    pub(crate) fn has_built_in_group(&self, group: &str) -> bool {
        self.iter()
            .any(|resource| !resource.info.custom && resource.info.group == group)
    }

    /// Returns all resources in all versions.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Arc<Resource>> {
        self.resources.values().flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::Registry;

    #[test]
    fn every_built_in_kind_has_a_table_and_can_be_looked_up() {
        let registry = Registry::new();
        for resource in registry.iter() {
            let info = &resource.info;
            assert!(
                registry
                    .find(&info.group, &info.version, &info.plural)
                    .is_some()
            );
            if !info.is_stored() {
                continue;
            }
            let mut versions = registry
                .iter()
                .filter(|other| other.table == resource.table);
            assert!(
                versions.any(|other| other.info.storage),
                "{}",
                resource.table
            );
        }
        assert!(registry.find("apps", "v1", "deployments").is_some());
        assert!(registry.find("apps", "v2", "deployments").is_none());
        let autoscalers = registry.versions("autoscaling", "horizontalpodautoscalers");
        let versions = autoscalers
            .iter()
            .map(|it| (&*it.info.version, it.info.storage));
        assert!(versions.eq([("v2", true), ("v1", false)]));
    }
}
