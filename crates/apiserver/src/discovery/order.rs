//! The order of groups and of versions in discovery documents.
//!
//! kubectl uses the first resource with a matching name, so the order decides which resource
//! `kubectl get ev` prints.
//!
//! Source: the groups are in the order of kube-apiserver 1.36; versions are compared like in
//! apimachinery's `pkg/version`.

use std::cmp::Reverse;

/// The groups of Kubernetes, in order, the core group first.
const GROUPS: [&str; 22] = [
    "",
    "apiregistration.k8s.io",
    "apps",
    "events.k8s.io",
    "authentication.k8s.io",
    "authorization.k8s.io",
    "autoscaling",
    "batch",
    "certificates.k8s.io",
    "networking.k8s.io",
    "policy",
    "rbac.authorization.k8s.io",
    "storage.k8s.io",
    "admissionregistration.k8s.io",
    "apiextensions.k8s.io",
    "scheduling.k8s.io",
    "coordination.k8s.io",
    "node.k8s.io",
    "discovery.k8s.io",
    "resource.k8s.io",
    "flowcontrol.apiserver.k8s.io",
    "internal.apiserver.k8s.io",
];

/// The rank of a group: the groups of Kubernetes in the order above, then the others by name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Rank {
    place: usize,
    name: String,
}

/// The rank of a version: `v2`, `v1`, `v2beta1`, `v1beta2`, `v1alpha1`, then other texts.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum VersionRank {
    /// A Kubernetes version: ordered by stability, then by number, the highest first.
    Known(Reverse<(Stability, u64, u64)>),

    /// A text that is not a Kubernetes version, ordered by name.
    Other(String),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Stability {
    Alpha,
    Beta,
    Stable,
}

// === impl Rank ===

impl Rank {
    pub(super) fn of(group: &str) -> Self {
        let place = GROUPS.iter().position(|known| *known == group);
        Self {
            place: place.unwrap_or(GROUPS.len()),
            name: group.to_owned(),
        }
    }
}

// === impl VersionRank ===

impl VersionRank {
    pub(super) fn of(version: &str) -> Self {
        let known = || {
            let (major, rest) = number(version.strip_prefix('v')?)?;
            if rest.is_empty() {
                return Some((Stability::Stable, major, 0));
            }
            let (stability, minor) = match rest.strip_prefix("beta") {
                Some(minor) => (Stability::Beta, minor),
                None => (Stability::Alpha, rest.strip_prefix("alpha")?),
            };
            let (minor, rest) = number(minor)?;
            rest.is_empty().then_some((stability, major, minor))
        };
        known().map_or_else(
            || Self::Other(version.to_owned()),
            |rank| Self::Known(Reverse(rank)),
        )
    }
}

/// Splits `text` into its leading number and the rest.
fn number(text: &str) -> Option<(u64, &str)> {
    let end = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    Some((text[..end].parse().ok()?, &text[end..]))
}

#[cfg(test)]
mod tests {
    use super::{Rank, VersionRank};

    #[test]
    fn stable_versions_come_before_betas_and_new_ones_before_old_ones() {
        let mut versions = [
            "foo",
            "v1alpha1",
            "v10",
            "v1beta2",
            "v2beta1",
            "v2",
            "v11alpha2",
            "v1",
        ];
        versions.sort_by_cached_key(|version| VersionRank::of(version));
        assert_eq!(
            versions,
            [
                "v10",
                "v2",
                "v1",
                "v2beta1",
                "v1beta2",
                "v11alpha2",
                "v1alpha1",
                "foo"
            ]
        );
    }

    #[test]
    fn the_groups_of_kubernetes_come_before_those_of_others() {
        let mut groups = [
            "a.example.com",
            "events.k8s.io",
            "apps",
            "",
            "b.example.com",
        ];
        groups.sort_by_cached_key(|group| Rank::of(group));
        assert_eq!(
            groups,
            [
                "",
                "apps",
                "events.k8s.io",
                "a.example.com",
                "b.example.com"
            ]
        );
    }
}
