//! The authorizer: a function that allows or denies each request.
//!
//! The builder registers it; the service calls it before each request is executed.

use std::fmt;

use crate::status::{About, Status};

/// The attributes of a request, which an authorizer receives.
///
/// The fields and their values are those that Kubernetes' RBAC authorizer evaluates.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Attributes {
    /// The user of the request: [`Attributes::USER`], the service account of a token, or the user
    /// that the request impersonates.
    pub user: String,
    /// The groups of the user, such as `system:masters`.
    pub groups: Vec<String>,
    /// The verb: `get`, `list`, `watch`, `create`, `update`, `patch`, `delete`, `deletecollection`
    /// or `impersonate`.
    pub verb: String,
    /// The API group; empty for the core group.
    pub group: String,
    /// The API version, such as `v1`.
    pub version: String,
    /// The plural name of the resource.
    pub resource: String,
    /// The subresource, such as `status`; empty for the object itself.
    pub subresource: String,
    /// The namespace; empty for cluster-scoped resources and for requests to all namespaces.
    pub namespace: String,
    /// The name of the object; empty for requests to a collection.
    pub name: String,
}

/// The decision of an authorizer on a request.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Decision {
    /// The server executes the request.
    Allow,
    /// The server responds with 403 Forbidden and does not execute the request.
    Deny,
}

/// The function that decides whether the server executes a request.
pub(crate) struct Authorizer(Box<dyn Fn(&Attributes) -> Decision + Send + Sync>);

// === impl Attributes ===

impl Attributes {
    /// The user name of a request without a token.
    pub const USER: &'static str = "system:admin";

    /// Returns the 403 status for a denied request.
    pub(crate) fn forbidden(&self) -> Status {
        let about = About {
            group: &self.group,
            resource: &self.resource,
            kind: "",
            name: &self.name,
        };
        Status::forbidden(&about, &self.denied_message())
    }

    /// Returns the message of the 403 status, worded like kube-apiserver's.
    fn denied_message(&self) -> String {
        let resource = if self.subresource.is_empty() {
            self.resource.clone()
        } else {
            format!("{}/{}", self.resource, self.subresource)
        };
        let scope = if self.namespace.is_empty() {
            "at the cluster scope".to_owned()
        } else {
            format!("in the namespace {:?}", self.namespace)
        };
        format!(
            "User {:?} cannot {} resource {resource:?} in API group {:?} {scope}",
            self.user, self.verb, self.group
        )
    }
}

// === impl Authorizer ===

impl Authorizer {
    pub(crate) fn new(decide: impl Fn(&Attributes) -> Decision + Send + Sync + 'static) -> Self {
        Self(Box::new(decide))
    }

    pub(crate) fn allows(&self, attributes: &Attributes) -> bool {
        (self.0)(attributes) == Decision::Allow
    }
}

impl fmt::Debug for Authorizer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Authorizer(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::Attributes;

    #[test]
    fn a_denied_request_has_the_message_of_kubernetes() {
        let mut attributes = Attributes {
            user: "u".to_owned(),
            verb: "list".to_owned(),
            group: "ex.io".to_owned(),
            resource: "widgets".to_owned(),
            namespace: "default".to_owned(),
            ..Attributes::default()
        };
        assert_eq!(
            attributes.denied_message(),
            r#"User "u" cannot list resource "widgets" in API group "ex.io" in the namespace "default""#
        );
        attributes.namespace.clear();
        attributes.subresource = "status".to_owned();
        assert!(
            attributes.denied_message().ends_with(
                r#"resource "widgets/status" in API group "ex.io" at the cluster scope"#
            )
        );
    }
}
