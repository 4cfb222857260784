//! The kinds: `Issue`, and `Team`.

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema, CustomResource)]
#[kube(group = "tracker.example.io", version = "v1", kind = "Issue")]
#[kube(namespaced, status = "IssueStatus")]
pub(crate) struct IssueSpec {
    pub(crate) title: String,
    /// The name of a team in the same namespace.
    pub(crate) team: String,
}

#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
pub(crate) struct IssueStatus {
    /// `Open` or `Failed`.
    phase: String,
}

#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema, CustomResource)]
#[kube(group = "tracker.example.io", version = "v1", kind = "Team")]
#[kube(namespaced)]
pub(crate) struct TeamSpec {}

pub(crate) fn issue(name: &str, title: &str) -> Issue {
    let (title, team) = (title.to_owned(), "blue".to_owned());
    Issue::new(name, IssueSpec { title, team })
}

/// The part of an issue that has its phase.
pub(crate) fn phase(phase: &str) -> Value {
    json!({ "status": { "phase": phase } })
}
