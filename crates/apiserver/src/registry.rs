//! Which kinds of objects there are, and where their rules differ.

/// One resource in one version, as discovery and requests name it.
#[derive(Debug, Clone, PartialEq)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a fact of its own about a resource"
)]
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
