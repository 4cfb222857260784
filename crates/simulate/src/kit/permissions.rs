//! The permissions that an operator lacks, from the responses of the server. *(pure)*

use std::fmt;

/// A rule of RBAC that the roles of an operator lack: the server denied a request because of it. See
/// [`Kit::start_as`](super::Kit::start_as).
///
/// `Display` and `Debug` show it as a rule of a role in YAML, and where it has to hold.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub struct MissingRule {
    /// The API group; empty for the core group.
    pub api_group: String,
    /// The resource with its subresource, such as `deployments/status`.
    pub resource: String,
    /// The verb, such as `patch`.
    pub verb: String,
    /// The namespace of the request; empty at the cluster scope, as for a list of all namespaces.
    pub namespace: String,
}

// === impl MissingRule ===

impl MissingRule {
    /// Reads the message of a response 403. `None` if it does not name a permission for a resource.
    pub(super) fn parse(message: &str) -> Option<Self> {
        let (_, denied) = message.split_once(" cannot ")?;
        let (verb, denied) = denied.split_once(" resource \"")?;
        let (resource, denied) = denied.split_once("\" in API group \"")?;
        let (api_group, place) = denied.split_once('"')?;
        let namespace = place.split_once("in the namespace \"");
        let namespace = namespace.and_then(|(_, rest)| rest.split_once('"'));
        Some(Self {
            api_group: api_group.to_owned(),
            resource: resource.to_owned(),
            verb: verb.to_owned(),
            namespace: namespace.map_or_else(String::new, |(namespace, _)| namespace.to_owned()),
        })
    }
}

impl fmt::Display for MissingRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            api_group,
            resource,
            verb,
            namespace,
        } = self;
        write!(
            f,
            "{{ apiGroups: [{api_group:?}], resources: [{resource:?}], verbs: [{verb:?}] }} "
        )?;
        match namespace.as_str() {
            "" => f.write_str("in a ClusterRole with a ClusterRoleBinding"),
            namespace => write!(f, "in the namespace {namespace}"),
        }
    }
}

impl fmt::Debug for MissingRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::MissingRule;

    #[test]
    fn a_message_of_the_server_names_the_missing_rule() {
        let check = |message: &str, expected: Option<&str>| {
            let rule = MissingRule::parse(message).map(|it| it.to_string());
            assert_eq!(rule.as_deref(), expected, "{message}");
        };
        check(
            r#"deployments.apps "a" is forbidden: User "u" cannot patch resource "deployments/status" in API group "apps" in the namespace "default""#,
            Some(
                r#"{ apiGroups: ["apps"], resources: ["deployments/status"], verbs: ["patch"] } in the namespace default"#,
            ),
        );
        check(
            r#"secrets is forbidden: User "u" cannot list resource "secrets" in API group "" at the cluster scope"#,
            Some(
                r#"{ apiGroups: [""], resources: ["secrets"], verbs: ["list"] } in a ClusterRole with a ClusterRoleBinding"#,
            ),
        );
        check(r#"forbidden: User "u" cannot get path "/metrics""#, None);
        check("pods is forbidden: exceeded quota", None);
    }
}
