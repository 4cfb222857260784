//! The registry: all kinds that are served, and the rules that differ between them. *(pure)*

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::metadata::{Finalizers, NameRule};
use crate::selector::SelectableField;

mod autoscaler;
mod builtin;
mod definition;
mod resource;
mod view;

pub(crate) use builtin::{posted, scale};
pub(crate) use definition::{CRD_FINALIZER, Definition};
pub(crate) use resource::Resource;
pub(crate) use view::View;

/// Every kind that is served.
#[derive(Debug)]
pub(crate) struct Registry {
    /// The versions of each resource by group and plural name, the preferred one first.
    resources: BTreeMap<(String, String), Vec<Arc<Resource>>>,
}

/// The rules of a kind that differ between kinds.
#[derive(Debug, Clone)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a rule of its own, which a kind has or has not"
)]
pub(crate) struct Rules {
    /// How objects are named.
    pub(crate) names: NameRule,
    /// Which finalizers are allowed.
    pub(crate) finalizers: Finalizers,
    /// Which changes increase the generation.
    pub(crate) generation: Generation,
    /// The field of the metadata whose changes also increase the generation.
    pub(crate) counted_metadata: Option<&'static str>,
    /// Whether an update may omit the resourceVersion.
    pub(crate) unconditional_update: bool,
    /// Whether an update of a missing object creates it.
    pub(crate) creates_on_update: bool,
    /// Whether a write to the status cannot change the metadata.
    pub(crate) status_alone: bool,
    /// Whether the response to a deletion is the object instead of a `Status`.
    pub(crate) returns_deleted: bool,
    /// What a deletion without a propagation policy does to the dependents.
    pub(crate) default_propagation: DefaultPropagation,
    /// The warning for a deletion without a propagation policy.
    pub(crate) deletion_warning: Option<&'static str>,
    /// Where the numbers of its scale are. `None` if it has no scale.
    pub(crate) scale: Option<ScalePaths>,
    /// By which fields objects can be selected.
    pub(crate) fields: Vec<SelectableField>,
}

/// Where the numbers of a scale are in an object, as JSON pointers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ScalePaths {
    /// How many replicas are wanted.
    pub(crate) wanted: String,
    /// How many replicas there are.
    pub(crate) present: String,
    /// The selector of the replicas: a text in custom resources, an object in built-in kinds.
    pub(crate) selector: Option<String>,
}

/// What a deletion without a propagation policy does to the dependents of an object of a kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DefaultPropagation {
    /// They are deleted after the object.
    Background,
    /// They stay without an owner, for kinds that are older than garbage collection.
    Orphan,
    /// A deletion never waits for dependents, with any policy.
    Unsupported,
}

/// Which changes increase the generation of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Generation {
    /// Nothing: these kinds have no generation.
    None,
    /// A change to `spec`.
    Spec,
    /// A change to anything but `metadata`, and `status` if it has a URL of its own.
    Content,
}

/// One resource in one version, as discovery and requests name it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ResourceInfo {
    /// The API group; empty for the core group.
    pub(crate) group: String,
    /// The version, such as `v1`.
    pub(crate) version: String,
    /// The kind of an object, such as `Pod`.
    pub(crate) kind: String,
    /// The kind of a list, such as `PodList`.
    pub(crate) list_kind: String,
    /// The name in URLs, such as `pods`.
    pub(crate) plural: String,
    /// The name of one, such as `pod`.
    pub(crate) singular: String,
    /// What kubectl also understands, such as `po`.
    pub(crate) short_names: Vec<String>,
    /// Groups of resources, such as `all`.
    pub(crate) categories: Vec<String>,
    /// Whether objects live in namespaces.
    pub(crate) namespaced: bool,
    /// What may be done, in the order of discovery documents (alphabetical).
    pub(crate) verbs: Vec<String>,
    /// The subresources that are served.
    pub(crate) subresources: Vec<Subresource>,
    /// Whether this is the version in which objects are stored.
    pub(crate) storage: bool,
    /// Whether a custom resource definition made it.
    pub(crate) custom: bool,
    /// Whether this version is deprecated, and what to say about it.
    pub(crate) deprecation: Option<String>,
    /// The schema of a custom resource, for `OpenAPI`; nothing for built-in kinds.
    pub(crate) open_api_schema: Option<serde_json::Value>,
}

/// A part of a resource with a URL of its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Subresource {
    /// The last segment of the URL, such as `status`.
    pub(crate) name: String,
    /// The group of the objects sent and answered, as in `autoscaling` for a scale.
    pub(crate) group: String,
    /// The version of the objects sent and answered.
    pub(crate) version: String,
    /// Their kind.
    pub(crate) kind: String,
    /// What may be done.
    pub(crate) verbs: Vec<String>,
}

// === impl ScalePaths ===

impl ScalePaths {
    /// Those of built-in kinds.
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
    /// Whether its objects are stored, and not only answered.
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

    /// Serves a resource in `versions`, the preferred one first.
    pub(crate) fn insert(&mut self, versions: Vec<Arc<Resource>>) {
        if let Some(first) = versions.first() {
            let key = (first.info.group.clone(), first.info.plural.clone());
            self.resources.insert(key, versions);
        }
    }

    /// Stops serving a resource.
    pub(crate) fn remove(&mut self, group: &str, plural: &str) {
        self.resources
            .remove(&(group.to_owned(), plural.to_owned()));
    }

    /// The resource that a URL names.
    pub(crate) fn find(&self, group: &str, version: &str, plural: &str) -> Option<&Arc<Resource>> {
        self.versions(group, plural)
            .iter()
            .find(|resource| resource.info.version == version)
    }

    /// All versions of a resource, the preferred one first; none if it isn't served.
    pub(crate) fn versions(&self, group: &str, plural: &str) -> &[Arc<Resource>] {
        self.resources
            .get(&(group.to_owned(), plural.to_owned()))
            .map_or(&[], |versions| versions.as_slice())
    }

    /// Whether there are built-in kinds in this version of a group.
    pub(crate) fn has_built_in(&self, group: &str, version: &str) -> bool {
        self.iter().any(|resource| {
            !resource.info.custom
                && resource.info.group == group
                && resource.info.version == version
        })
    }

    /// Every resource in every version.
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
