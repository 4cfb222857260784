//! Parses the path of a URL. *(pure)*

use percent_encoding::percent_decode_str;

/// The document or resource that the path of a URL addresses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Target {
    /// `/healthz`, `/livez` and `/readyz`, with or without the name of a check.
    Health {
        /// Such as `readyz`.
        endpoint: String,
        /// Such as `ping`.
        check: Option<String>,
    },
    /// `/version`.
    Version,
    /// `/metrics`.
    Metrics,
    /// `/api`.
    CoreVersions,
    /// `/apis`.
    Groups,
    /// `/apis/{group}`.
    Group(String),
    /// `/api/v1` and `/apis/{group}/{version}`.
    Resources {
        /// Empty for the core group.
        group: String,
        /// Such as `v1`.
        version: String,
    },
    /// `/openapi/v2`.
    OpenApiV2,
    /// `/openapi/v3`.
    OpenApi,
    /// `/openapi/v3/apis/{group}/{version}`.
    OpenApiOf {
        /// Empty for the core group.
        group: String,
        /// Such as `v1`.
        version: String,
    },
    /// A collection, an object or a subresource.
    Resource(ResourcePath),
    /// An unknown path.
    Unknown {
        /// The group below whose path it is, empty for the core group; `None` for other paths.
        group: Option<String>,
    },
}

/// The collection, object or subresource that a path addresses.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct ResourcePath {
    /// Empty for the core group.
    pub(crate) group: String,
    /// Such as `v1`.
    pub(crate) version: String,
    /// The plural name of the resource.
    pub(crate) resource: String,
    /// The namespace; `None` for cluster-scoped resources and for requests to all namespaces.
    pub(crate) namespace: Option<String>,
    /// The name of the object; `None` for a collection.
    pub(crate) name: Option<String>,
    /// The subresource, such as `status`.
    pub(crate) subresource: Option<String>,
}

// === impl Target ===

impl Target {
    /// Parses the path of a URL.
    pub(crate) fn parse(path: &str) -> Self {
        let path = path.strip_prefix('/').unwrap_or(path);
        // As in Kubernetes, an encoded slash separates segments too.
        let Ok(path) = percent_decode_str(path).decode_utf8() else {
            return Self::unknown(None);
        };
        // A path can end with slashes, except those of health checks and OpenAPI documents.
        let trimmed = path.trim_end_matches('/');
        let segments: Vec<&str> = trimmed.split('/').collect();
        let group = match segments.as_slice() {
            // Kubernetes answers below the path of the version as below that of a group.
            ["api" | "version", _, ..] => Some(""),
            ["apis", group, _, ..] if !group.is_empty() => Some(*group),
            _ => None,
        };
        if let [root @ .., "namespaces", "", resource] = segments.as_slice()
            && !resource.is_empty()
            && let ["api", version] | ["apis", _, version] = root
            && let Some(group) = group
        {
            // No namespace means all namespaces.
            return Self::versioned(group, version, &[resource]);
        }
        if segments.contains(&"") {
            return Self::unknown(group);
        }
        match segments.as_slice() {
            [endpoint @ ("healthz" | "livez" | "readyz"), check @ ..]
                if check.len() <= 1 && trimmed == &*path =>
            {
                Self::Health {
                    endpoint: (*endpoint).to_owned(),
                    check: check.first().map(|name| (*name).to_owned()),
                }
            }
            ["version"] => Self::Version,
            ["metrics"] if trimmed == &*path => Self::Metrics,
            ["api"] => Self::CoreVersions,
            ["apis"] => Self::Groups,
            ["openapi", ..] if trimmed != path => Self::unknown(None),
            ["openapi", "v2"] => Self::OpenApiV2,
            ["openapi", "v3"] => Self::OpenApi,
            ["openapi", "v3", "api", version] => Self::OpenApiOf {
                group: String::new(),
                version: (*version).to_owned(),
            },
            ["openapi", "v3", "apis", group, version] => Self::OpenApiOf {
                group: (*group).to_owned(),
                version: (*version).to_owned(),
            },
            ["api", version, rest @ ..] => Self::versioned("", version, rest),
            ["apis", group] => Self::Group((*group).to_owned()),
            ["apis", group, version, rest @ ..] => Self::versioned(group, version, rest),
            _ => Self::unknown(group),
        }
    }

    fn unknown(group: Option<&str>) -> Self {
        Self::Unknown {
            group: group.map(str::to_owned),
        }
    }

    fn versioned(group: &str, version: &str, rest: &[&str]) -> Self {
        let resource_path = |resource: &str, namespace: Option<&str>, rest: &[&str]| {
            let (name, subresource) = match rest {
                [] => (None, None),
                [name] => (Some(*name), None),
                [name, subresource] => (Some(*name), Some(*subresource)),
                _ => return Self::unknown(Some(group)),
            };
            Self::Resource(ResourcePath {
                group: group.to_owned(),
                version: version.to_owned(),
                resource: resource.to_owned(),
                namespace: namespace.map(str::to_owned),
                name: name.map(str::to_owned),
                subresource: subresource.map(str::to_owned),
            })
        };
        match rest {
            [] => Self::Resources {
                group: group.to_owned(),
                version: version.to_owned(),
            },
            // The namespace itself, or one of its two subresources. No namespaced resource has the
            // name of such a subresource.
            ["namespaces"] if group.is_empty() => resource_path("namespaces", None, &[]),
            ["namespaces", name] if group.is_empty() => resource_path("namespaces", None, &[name]),
            ["namespaces", name, part @ ("status" | "finalize")] if group.is_empty() => {
                resource_path("namespaces", None, &[name, part])
            }
            ["namespaces", namespace, resource, rest @ ..] => {
                resource_path(resource, Some(namespace), rest)
            }
            [resource, rest @ ..] => resource_path(resource, None, rest),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{ResourcePath, Target};

    #[test]
    fn urls_are_parsed_like_in_kubernetes() {
        for (path, expected) in [
            ("/api/v1/pods", "/v1 pods - - -"),
            ("/api/v1/namespaces", "/v1 namespaces - - -"),
            ("/api/v1/namespaces/a", "/v1 namespaces - a -"),
            ("/api/v1/namespaces/a/status", "/v1 namespaces - a status"),
            (
                "/api/v1/namespaces/a/finalize",
                "/v1 namespaces - a finalize",
            ),
            ("/api/v1/namespaces/a/pods", "/v1 pods a - -"),
            ("/api/v1/namespaces//pods", "/v1 pods - - -"),
            ("/api/v1/namespaces/a/pods/b", "/v1 pods a b -"),
            ("/api/v1/namespaces/a/pods/b/status", "/v1 pods a b status"),
            (
                "/apis/ex.io/v1/widgets/b/scale",
                "ex.io/v1 widgets - b scale",
            ),
            (
                "/apis/ex.io/v1/namespaces/a/widgets/",
                "ex.io/v1 widgets a - -",
            ),
            (
                "/apis/rbac/v1/roles/system%3Aadmin",
                "rbac/v1 roles - system:admin -",
            ),
        ] {
            let Target::Resource(ResourcePath {
                group,
                version,
                resource,
                namespace,
                name,
                subresource,
            }) = Target::parse(path)
            else {
                panic!("{path} is a resource");
            };
            let or = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
            let read = format!(
                "{group}/{version} {resource} {} {} {}",
                or(namespace),
                or(name),
                or(subresource)
            );
            assert_eq!(read, expected, "{path}");
        }
    }

    #[test]
    fn other_paths_are_unknown() {
        for (path, group) in [
            ("/", None),
            ("/nowhere", None),
            ("/api/v1/pods/a/b/c", Some("")),
            ("/api//v1", Some("")),
            ("/api/v1//pods", Some("")),
            ("/apis/a/b/c/d/e/f/g/h", Some("a")),
            ("/apis/a//b", Some("a")),
            ("/apis//a", None),
            ("/openapi/v1", None),
            ("/healthz/", None),
        ] {
            assert_eq!(Target::parse(path), Target::unknown(group), "{path}");
        }
        let (endpoint, check) = ("readyz".to_owned(), Some("ping".to_owned()));
        assert_eq!(
            Target::parse("/readyz/ping"),
            Target::Health { endpoint, check }
        );
        assert_eq!(
            Target::parse("/apis/apps"),
            Target::Group("apps".to_owned())
        );
    }
}
