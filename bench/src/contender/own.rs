//! A custom Pod type that declares only the fields that an operator reads.

use k8s_openapi::{api::core::v1::Pod, apimachinery::pkg::apis::meta::v1::ObjectMeta};
use kube::Resource;
use serde::{Deserialize, Serialize};

use super::floor::{BareMeta, Decoded};

/// A Pod with only the fields that an operator reads: node, containers and status.
#[derive(Clone, Debug, Deserialize, Serialize, Resource)]
#[resource(inherit = Pod)]
pub(crate) struct OwnPod {
    metadata: ObjectMeta,
    spec: Option<OwnSpec>,
    status: Option<OwnStatus>,
}

/// The same type for the floor.
#[derive(Deserialize)]
#[expect(dead_code, reason = "it is kept, and not looked at")]
pub(crate) struct BareOwnPod {
    metadata: BareMeta,
    spec: Option<OwnSpec>,
    status: Option<OwnStatus>,
}

#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
struct OwnSpec {
    node_name: Option<String>,
    containers: Vec<OwnContainer>,
}

#[derive(Clone, Debug, Deserialize, Serialize)]
struct OwnContainer {
    name: String,
    image: Option<String>,
}

#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
struct OwnStatus {
    phase: Option<String>,
    #[serde(rename = "podIP")]
    pod_ip: Option<String>,
    #[serde(default)]
    container_statuses: Vec<OwnContainerStatus>,
}

#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
struct OwnContainerStatus {
    name: String,
    ready: bool,
    restart_count: i32,
}

impl Decoded for BareOwnPod {
    fn name(&self) -> &str {
        self.metadata.name()
    }
}
