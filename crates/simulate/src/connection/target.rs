//! The target of a request: its verb, and its object or collection. *(pure)*

use std::fmt;

use http::{Method, Uri};
use serde_json::Value;

use crate::{change, fault::StepKind};

/// The target of a request: its verb, and its object or collection.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    pub(crate) verb: &'static str,
    pub(crate) group: String,
    /// The plural name; empty for discovery.
    pub(crate) resource: String,
    pub(crate) namespace: String,
    /// Empty for a collection.
    pub(crate) name: String,
    pub(crate) subresource: String,
    /// The path without the subresource.
    pub(crate) path: String,
    query: String,
}

// === impl Target ===

impl Target {
    pub(crate) fn parse(method: &Method, uri: &Uri) -> Self {
        let path = uri.path();
        let query = uri.query().unwrap_or_default().to_owned();
        let mut parts = path.split('/').filter(|it| !it.is_empty());
        let group = match parts.next() {
            Some("apis") => parts.next().unwrap_or_default().to_owned(),
            _ => String::new(),
        };
        _ = parts.next();
        let rest: Vec<_> = parts.collect();
        let (namespace, rest) = match rest.as_slice() {
            ["namespaces", namespace, rest @ ..] if !rest.is_empty() && !is_subresource(rest) => {
                (*namespace, rest)
            }
            rest => ("", rest),
        };
        let part = |index: usize| rest.get(index).copied().unwrap_or_default();
        let subresource = part(2);
        let watches = form_urlencoded::parse(query.as_bytes())
            .any(|(key, value)| key == "watch" && (value == "true" || value == "1"));
        let verb = match (method.as_str(), part(1)) {
            ("GET", "") if watches => "watch",
            ("GET", "") => "list",
            ("GET", _) => "get",
            ("POST", _) => "create",
            ("PUT", _) => "update",
            ("PATCH", _) => "patch",
            ("DELETE", _) => "delete",
            _ => "send",
        };
        let whole = path.strip_suffix(subresource).unwrap_or(path);
        Self {
            verb,
            group,
            resource: part(0).to_owned(),
            namespace: namespace.to_owned(),
            name: part(1).to_owned(),
            subresource: subresource.to_owned(),
            path: whole.trim_end_matches('/').to_owned(),
            query,
        }
    }

    pub(crate) fn kind(&self) -> StepKind {
        match self.verb {
            "watch" => StepKind::Watch,
            "list" | "get" => StepKind::Read,
            _ if self.resource == "leases" && self.group == "coordination.k8s.io" => {
                StepKind::Lease
            }
            "create" => StepKind::Create,
            _ => StepKind::Change,
        }
    }

    /// The resource with its group, as in `sites.example.io`.
    pub(crate) fn full_resource(&self) -> String {
        match self.group.as_str() {
            "" => self.resource.clone(),
            group => format!("{}.{group}", self.resource),
        }
    }

    /// The value of an option of the query.
    pub(crate) fn option(&self, name: &str) -> Option<String> {
        let mut pairs = form_urlencoded::parse(self.query.as_bytes());
        pairs
            .find(|(key, _)| key == name)
            .map(|(_, value)| value.into_owned())
    }

    /// The path of the collection with the selectors of the request.
    pub(crate) fn selection(&self) -> String {
        let mut selection = form_urlencoded::Serializer::new(String::new());
        let pairs = form_urlencoded::parse(self.query.as_bytes());
        let selectors = pairs.filter(|(key, _)| key == "labelSelector" || key == "fieldSelector");
        selection.extend_pairs(selectors);
        format!("{}?{}", self.path, selection.finish())
    }

    /// The path of the object of the request. `None` for a collection.
    pub(crate) fn subject(&self) -> Option<&str> {
        let named = !self.name.is_empty() || self.kind() == StepKind::Lease;
        named.then_some(self.path.as_str())
    }

    /// The path of an object of this kind.
    pub(crate) fn object_path(&self, object: &Value) -> String {
        if !self.name.is_empty() {
            return self.path.clone();
        }
        let metadata = &object["metadata"];
        let name = metadata["name"].as_str().unwrap_or_default();
        match metadata["namespace"].as_str() {
            // A watch of all namespaces.
            Some(namespace) if self.namespace.is_empty() => {
                let (base, plural) = self.path.rsplit_once('/').unwrap_or_default();
                format!("{base}/namespaces/{namespace}/{plural}/{name}")
            }
            _ => format!("{}/{name}", self.path),
        }
    }

    /// The verb, the resource and the object, by which writes are counted. A name that the server
    /// generated is replaced by its prefix.
    pub(crate) fn described(&self, answer: &Value) -> String {
        let metadata = &answer["metadata"];
        let generated = metadata["generateName"].as_str().map(|it| format!("{it}*"));
        let name = generated.as_deref().or_else(|| metadata["name"].as_str());
        let name = name.filter(|_| self.name.is_empty()).unwrap_or(&self.name);
        format!("{} {} {}/{name}", self.verb, self.resource, self.namespace)
    }

    /// The text of the request in a trace.
    pub(crate) fn text(&self, body: &[u8]) -> String {
        let query = if self.query.is_empty() { "" } else { "?" };
        let body = String::from_utf8_lossy(body);
        let space = if body.is_empty() { "" } else { " " };
        let body = change::shortened(&body);
        format!("{self}{query}{}{space}{body}", self.query)
    }
}

/// Whether the path continues with a subresource of the namespace itself.
fn is_subresource(rest: &[&str]) -> bool {
    matches!(rest, ["status" | "finalize"])
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.verb, self.resource)?;
        if !self.namespace.is_empty() || !self.name.is_empty() {
            write!(f, " {}/{}", self.namespace, self.name)?;
        }
        if !self.subresource.is_empty() {
            write!(f, "/{}", self.subresource)?;
        }
        Ok(())
    }
}
