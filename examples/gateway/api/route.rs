//! Routes: they forward the requests of a gateway to services.
//!
//! The five kinds of routes differ only in their match rules, which do not affect the status. So one
//! type is enough for all of them.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::api::{ApiResource, GroupVersionKind};
use serde::{Deserialize, Serialize};
use windlass::ObjectKey;

use super::{GROUP, Protocol, group};

/// A route of any kind.
pub(crate) type Route = kube::core::Object<RouteSpec, RouteStatus>;

/// The kinds of routes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum RouteKind {
    Http,
    Grpc,
    Tls,
    Tcp,
    Udp,
}

#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct RouteSpec {
    pub(crate) parent_refs: Vec<ParentRef>,
    pub(crate) hostnames: Vec<String>,
    pub(crate) rules: Vec<Rule>,
}

/// A parent: the gateway or listener to which a route attaches.
#[derive(Clone, Debug, Deserialize, Serialize, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ParentRef {
    #[serde(default = "group")]
    pub(crate) group: String,
    #[serde(default = "gateway")]
    pub(crate) kind: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) namespace: Option<String>,
    pub(crate) name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) section_name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) port: Option<i32>,
}

fn gateway() -> String {
    "Gateway".to_owned()
}

#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct Rule {
    pub(crate) backend_refs: Vec<BackendRef>,
    pub(crate) filters: Vec<Filter>,
}

/// The target of a reference. Without a namespace it is in that of the referrer.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub(crate) struct Target {
    #[serde(default)]
    group: String,
    /// The default depends on the reference.
    kind: Option<String>,
    name: String,
    namespace: Option<String>,
}

/// A backend: the target of requests.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub(crate) struct BackendRef {
    #[serde(flatten)]
    pub(crate) target: Target,
    pub(crate) port: Option<i32>,
    #[serde(default)]
    pub(crate) filters: Vec<Filter>,
}

/// A filter of requests. Only the filter with a backend is relevant here.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Filter {
    pub(crate) request_mirror: Option<RequestMirror>,
}

#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RequestMirror {
    pub(crate) backend_ref: BackendRef,
}

#[derive(Clone, Debug, Default, Deserialize, Serialize, PartialEq)]
pub(crate) struct RouteStatus {
    #[serde(default)]
    pub(crate) parents: Vec<ParentStatus>,
}

/// The status of a route at one of its parents, written by one controller.
#[derive(Clone, Debug, Deserialize, Serialize, PartialEq)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ParentStatus {
    pub(crate) parent_ref: ParentRef,
    pub(crate) controller_name: String,
    #[serde(default)]
    pub(crate) conditions: Vec<Condition>,
}

// === impl RouteKind ===

impl RouteKind {
    pub(crate) const ALL: [Self; 5] = [Self::Http, Self::Grpc, Self::Tls, Self::Tcp, Self::Udp];

    /// The name of the kind, as manifests have it.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Http => "HTTPRoute",
            Self::Grpc => "GRPCRoute",
            Self::Tls => "TLSRoute",
            Self::Tcp => "TCPRoute",
            Self::Udp => "UDPRoute",
        }
    }

    /// Where the API server keeps them.
    pub(crate) fn resource(self) -> ApiResource {
        let gvk = GroupVersionKind::gvk(GROUP, "v1", self.name());
        ApiResource::from_gvk_with_plural(&gvk, &format!("{}s", self.name().to_lowercase()))
    }

    /// Those that a listener of `protocol` can have.
    pub(crate) const fn of(protocol: Protocol) -> &'static [Self] {
        match protocol {
            Protocol::Http | Protocol::Https => &[Self::Http, Self::Grpc],
            Protocol::Tls => &[Self::Tls],
            Protocol::Tcp => &[Self::Tcp],
            Protocol::Udp => &[Self::Udp],
        }
    }
}

// === impl ParentRef ===

impl ParentRef {
    /// Whether it names a gateway: services and others can be parents too, of controllers
    /// that care for them.
    pub(crate) fn is_gateway(&self) -> bool {
        self.group == GROUP && self.kind == "Gateway"
    }
}

// === impl Target ===

impl Target {
    /// The kind, with the group if it has one.
    pub(crate) fn type_name(&self, default: &str) -> String {
        let kind = self.kind.as_deref().unwrap_or(default);
        match &*self.group {
            "" => kind.to_owned(),
            group => format!("{kind} of {group}"),
        }
    }

    /// The key, for a referrer in `namespace`.
    pub(crate) fn key(&self, namespace: &str) -> ObjectKey {
        ObjectKey::new(&*self.name).within(self.namespace.as_deref().unwrap_or(namespace))
    }
}

// === impl RouteStatus ===

impl RouteStatus {
    /// What `controller` says of the route at `parent`.
    pub(crate) fn entry(&self, parent: &ParentRef, controller: &str) -> Option<&ParentStatus> {
        let mut entries = self.parents.iter();
        entries.find(|entry| entry.controller_name == controller && entry.parent_ref == *parent)
    }
}

// === impl RouteSpec ===

impl RouteSpec {
    /// All backends that it names, those of mirrors included.
    pub(crate) fn backends(&self) -> impl Iterator<Item = &BackendRef> {
        fn mirrors(filters: &[Filter]) -> impl Iterator<Item = &BackendRef> {
            (filters.iter()).filter_map(|filter| Some(&filter.request_mirror.as_ref()?.backend_ref))
        }
        self.rules.iter().flat_map(|rule| {
            let own = rule.backend_refs.iter();
            let own =
                own.flat_map(|backend| std::iter::once(backend).chain(mirrors(&backend.filters)));
            own.chain(mirrors(&rule.filters))
        })
    }
}
