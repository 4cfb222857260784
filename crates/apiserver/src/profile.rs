//! Profiles: the Kubernetes version that the server behaves like.

/// The Kubernetes version that the server behaves like where versions differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
#[non_exhaustive]
pub enum Profile {
    /// Kubernetes 1.31: no watch-list.
    V1_31,
    /// Kubernetes 1.33: no watch-list.
    V1_33,
    /// Kubernetes 1.34: watch-list, also for a watch that names no resourceVersion.
    V1_34,
    /// Kubernetes 1.36: watch-list, also for a watch that names no resourceVersion.
    #[default]
    V1_36,
}

// === impl Profile ===

impl Profile {
    /// The version that `/version` returns, such as `v1.36.3`.
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

    /// Whether a watch may begin with the current objects (`sendInitialEvents`).
    pub(crate) const fn has_watch_list(self) -> bool {
        matches!(self, Self::V1_34 | Self::V1_36)
    }
}
