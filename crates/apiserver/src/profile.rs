//! The Kubernetes version whose behavior the server reproduces.

/// The Kubernetes version whose behavior the server reproduces where versions differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
#[non_exhaustive]
pub enum Profile {
    /// Kubernetes 1.31, without watch-list.
    V1_31,
    /// Kubernetes 1.33, without watch-list.
    V1_33,
    /// Kubernetes 1.34, with watch-list, also for a watch without a resourceVersion.
    V1_34,
    /// Kubernetes 1.36, with watch-list, also for a watch without a resourceVersion.
    #[default]
    V1_36,
}

// === impl Profile ===

impl Profile {
    /// Returns the `gitVersion` that the server reports at `/version`, such as `v1.36.3`.
    ///
    /// # Example
    ///
    /// ```
    /// use windlass_apiserver::Profile;
    ///
    /// assert_eq!(Profile::default().git_version(), "v1.36.3");
    /// ```
    #[must_use]
    pub const fn git_version(self) -> &'static str {
        match self {
            Self::V1_31 => "v1.31.0",
            Self::V1_33 => "v1.33.0",
            Self::V1_34 => "v1.34.4",
            Self::V1_36 => "v1.36.3",
        }
    }

    /// Returns whether a watch can request the current objects first (`sendInitialEvents`).
    pub(crate) const fn has_watch_list(self) -> bool {
        matches!(self, Self::V1_34 | Self::V1_36)
    }
}
