//! The order of the versions of a resource.

use std::cmp::Reverse;

/// The order of versions in discovery: `v2`, `v1`, `v1beta2`, `v1alpha1`, then the others in
/// alphabetical order.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Priority {
    Known {
        stage: u8,
        major: Reverse<u32>,
        minor: Reverse<u32>,
    },
    Other(String),
}

// === impl Priority ===

impl Priority {
    pub(super) fn of(version: &str) -> Self {
        Self::known(version).unwrap_or_else(|| Self::Other(version.to_owned()))
    }

    fn known(version: &str) -> Option<Self> {
        let rest = version.strip_prefix('v')?;
        let digits = rest
            .find(|c: char| !c.is_ascii_digit())
            .unwrap_or(rest.len());
        let (major, rest) = rest.split_at(digits);
        let (stage, minor) = if rest.is_empty() {
            (0, "0")
        } else if let Some(minor) = rest.strip_prefix("beta") {
            (1, minor)
        } else {
            (2, rest.strip_prefix("alpha")?)
        };
        Some(Self::Known {
            stage,
            major: Reverse(major.parse().ok()?),
            minor: Reverse(minor.parse().ok()?),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::Priority;

    #[test]
    fn versions_are_ordered_as_kubernetes_orders_them() {
        let mut versions = [
            "foo1",
            "v1",
            "v10",
            "v11beta2",
            "v2",
            "v3beta1",
            "v12alpha1",
            "foo10",
            "v11alpha2",
            "v10beta3",
        ];
        versions.sort_by_key(|version| Priority::of(version));
        assert_eq!(
            versions,
            [
                "v10",
                "v2",
                "v1",
                "v11beta2",
                "v10beta3",
                "v3beta1",
                "v12alpha1",
                "v11alpha2",
                "foo1",
                "foo10"
            ]
        );
    }
}
