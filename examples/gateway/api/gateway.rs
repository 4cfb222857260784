//! Gateways, their classes and their listeners.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, LabelSelector};
use kube::CustomResource;
use serde::{Deserialize, Serialize};
use windlass::ObjectKey;

use super::{RouteKind, Target, group};
use crate::conditions::ours;

/// A class: it names the controller of its gateways.
#[derive(CustomResource, Clone, Debug, Default, Deserialize, Serialize)]
#[kube(
    group = "gateway.networking.k8s.io",
    version = "v1",
    kind = "GatewayClass",
    plural = "gatewayclasses",
    status = "GatewayClassStatus",
    schema = "disabled"
)]
#[serde(rename_all = "camelCase")]
pub(crate) struct GatewayClassSpec {
    pub(crate) controller_name: String,
}

#[derive(Clone, Debug, Default, Deserialize, Serialize, PartialEq)]
pub(crate) struct GatewayClassStatus {
    #[serde(default, deserialize_with = "ours")]
    pub(crate) conditions: Vec<Condition>,
}

/// A gateway: an entry point for traffic.
#[derive(CustomResource, Clone, Debug, Default, Deserialize, Serialize)]
#[kube(
    group = "gateway.networking.k8s.io",
    version = "v1",
    kind = "Gateway",
    plural = "gateways",
    namespaced,
    status = "GatewayStatus",
    schema = "disabled"
)]
#[serde(rename_all = "camelCase")]
pub(crate) struct GatewaySpec {
    pub(crate) gateway_class_name: String,
    #[serde(default)]
    pub(crate) listeners: Vec<Listener>,
    #[serde(default)]
    pub(crate) addresses: Vec<Address>,
}

/// One port, protocol and hostname of a gateway.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Listener {
    pub(crate) name: String,
    pub(crate) port: i32,
    pub(crate) protocol: String,
    pub(crate) hostname: Option<String>,
    pub(crate) tls: Option<ListenerTls>,
    #[serde(default)]
    pub(crate) allowed_routes: AllowedRoutes,
}

/// The protocols that this controller supports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protocol {
    Http,
    Https,
    Tls,
    Tcp,
    Udp,
}

#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct ListenerTls {
    pub(crate) mode: TlsMode,
    pub(crate) certificate_refs: Vec<Target>,
}

#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize, PartialEq, Eq)]
pub(crate) enum TlsMode {
    #[default]
    Terminate,
    Passthrough,
}

/// The routes that may attach to a listener.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(default)]
pub(crate) struct AllowedRoutes {
    pub(crate) namespaces: AllowedNamespaces,
    /// Empty means all kinds of the protocol.
    pub(crate) kinds: Vec<RouteGroupKind>,
}

#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(default)]
pub(crate) struct AllowedNamespaces {
    pub(crate) from: AllowedFrom,
    pub(crate) selector: Option<LabelSelector>,
}

#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize, PartialEq, Eq)]
pub(crate) enum AllowedFrom {
    All,
    #[default]
    Same,
    Selector,
}

#[derive(Clone, Debug, Deserialize, Serialize, PartialEq, Eq)]
pub(crate) struct RouteGroupKind {
    #[serde(default = "group")]
    pub(crate) group: String,
    pub(crate) kind: String,
}

impl From<&RouteKind> for RouteGroupKind {
    fn from(kind: &RouteKind) -> Self {
        Self {
            group: group(),
            kind: kind.name().to_owned(),
        }
    }
}

#[derive(Clone, Debug, Default, Deserialize, Serialize, PartialEq)]
#[serde(default)]
pub(crate) struct GatewayStatus {
    pub(crate) addresses: Vec<Address>,
    #[serde(deserialize_with = "ours")]
    pub(crate) conditions: Vec<Condition>,
    pub(crate) listeners: Vec<ListenerStatus>,
}

#[derive(Clone, Debug, Default, Deserialize, Serialize, PartialEq, Eq)]
pub(crate) struct Address {
    #[serde(rename = "type", default = "ip_address")]
    pub(crate) kind: String,
    #[serde(default)]
    pub(crate) value: String,
}

fn ip_address() -> String {
    "IPAddress".to_owned()
}

#[derive(Clone, Debug, Default, Deserialize, Serialize, PartialEq)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct ListenerStatus {
    pub(crate) name: String,
    pub(crate) supported_kinds: Vec<RouteGroupKind>,
    pub(crate) attached_routes: i32,
    #[serde(deserialize_with = "ours")]
    pub(crate) conditions: Vec<Condition>,
}

// === impl Gateway ===

impl Gateway {
    /// The key of its class.
    pub(crate) fn class(&self) -> ObjectKey {
        ObjectKey::new(&*self.spec.gateway_class_name)
    }
}

// === impl Listener ===

impl Listener {
    /// The protocol, if this controller supports it. The API allows others too.
    pub(crate) fn protocol(&self) -> Option<Protocol> {
        Some(match self.protocol.as_str() {
            "HTTP" => Protocol::Http,
            "HTTPS" => Protocol::Https,
            "TLS" => Protocol::Tls,
            "TCP" => Protocol::Tcp,
            "UDP" => Protocol::Udp,
            _ => return None,
        })
    }

    /// The hostname. None means all hostnames.
    pub(crate) fn hostname(&self) -> Option<&str> {
        self.hostname.as_deref().filter(|name| !name.is_empty())
    }

    /// The required certificates. Empty if TLS is passed through.
    pub(crate) fn certificates(&self) -> &[Target] {
        match &self.tls {
            Some(tls) if tls.mode == TlsMode::Terminate => &tls.certificate_refs,
            _ => &[],
        }
    }
}
