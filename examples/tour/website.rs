//! The custom resource of this operator: `Website`.

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A page under a host name, served by a number of replicas.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema, CustomResource)]
#[kube(
    group = "tour.windlass.dev",
    version = "v1",
    kind = "Website",
    namespaced,
    shortname = "site",
    status = "WebsiteStatus",
    printcolumn = r#"{"name":"Host","type":"string","jsonPath":".spec.host"}"#,
    printcolumn = r#"{"name":"Phase","type":"string","jsonPath":".status.phase"}"#,
    printcolumn = r#"{"name":"Age","type":"date","jsonPath":".metadata.creationTimestamp"}"#
)]
#[serde(rename_all = "camelCase")]
pub(crate) struct WebsiteSpec {
    /// The host name.
    pub(crate) host: String,

    /// The HTML.
    pub(crate) page: String,

    /// The number of servers.
    #[serde(default = "one")]
    pub(crate) replicas: i32,
}

/// The status of a website, which the operator writes.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct WebsiteStatus {
    /// `Published` after all owned objects and the host name have been created.
    pub(crate) phase: String,

    /// The address of the page.
    pub(crate) url: String,

    /// The generation of the spec that this status describes.
    pub(crate) observed_generation: Option<i64>,
}

fn one() -> i32 {
    1
}
