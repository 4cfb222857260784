//! Grants: who may refer to what in a namespace that is not its own.

use kube::CustomResource;
use serde::{Deserialize, Serialize};

/// Lets objects of other namespaces refer to objects of this one.
#[derive(CustomResource, Clone, Debug, Default, Deserialize, Serialize)]
#[kube(
    group = "gateway.networking.k8s.io",
    version = "v1",
    kind = "ReferenceGrant",
    plural = "referencegrants",
    namespaced,
    schema = "disabled"
)]
pub(crate) struct ReferenceGrantSpec {
    pub(crate) from: Vec<GrantFrom>,
    pub(crate) to: Vec<GrantTo>,
}

#[derive(Clone, Debug, Default, Deserialize, Serialize, PartialEq, Eq)]
pub(crate) struct GrantFrom {
    pub(crate) group: String,
    pub(crate) kind: String,
    pub(crate) namespace: String,
}

#[derive(Clone, Debug, Default, Deserialize, Serialize, PartialEq, Eq)]
pub(crate) struct GrantTo {
    pub(crate) group: String,
    pub(crate) kind: String,
    /// All of the kind, if there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) name: Option<String>,
}
