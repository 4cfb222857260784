//! The kind of this operator: a website.

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What somebody wants: a page, under a host name, on so many replicas.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema, CustomResource)]
#[kube(
    group = "quickstart.windlass.dev",
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
    /// The name that people type.
    pub(crate) host: String,

    /// What they see.
    pub(crate) page: String,

    /// How many servers show it.
    #[serde(default = "one")]
    pub(crate) replicas: i32,
}

/// How far it has come.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct WebsiteStatus {
    /// `Published` once everything below it is as it should be.
    pub(crate) phase: String,

    /// Where it can be seen.
    pub(crate) url: String,

    /// The generation of the wish that this status answers.
    pub(crate) observed_generation: Option<i64>,
}

fn one() -> i32 {
    1
}
