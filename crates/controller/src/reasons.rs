//! `Reasons`: why a call was queued.

use std::{fmt, ops};

/// Why a call was queued: one or several reasons, because queued causes are combined into one call.
///
/// For logs and tests. A reconciler must not decide by reasons: after a restart, a call for the same
/// state has others.
///
/// # Example
///
/// ```
/// use windlass_controller::Reasons;
///
/// let reasons = Reasons::CHANGED | Reasons::RELATED;
/// assert!(reasons.contains(Reasons::RELATED) && !reasons.contains(Reasons::RETRY));
/// assert_eq!(reasons.to_string(), "changed, related");
/// ```
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Reasons(u8);

// === impl Reasons ===

impl Reasons {
    /// The object was created or changed, or was marked for deletion.
    pub const CHANGED: Self = Self(1);
    /// An object of another kind changed, and a mapper returned the key of this one.
    pub const RELATED: Self = Self(1 << 1);
    /// A trigger outside of the API server: a stream, an interval or a channel.
    pub const TRIGGER: Self = Self(1 << 2);
    /// The call repeats a failed one.
    pub const RETRY: Self = Self(1 << 3);
    /// An earlier call requested a requeue, or was deferred: then its reasons are kept.
    pub const REQUEUE: Self = Self(1 << 4);
    /// The longest interval between two calls has passed.
    pub const INTERVAL: Self = Self(1 << 5);
    /// The object was in the first list.
    pub const FIRST_LIST: Self = Self(1 << 6);

    const NAMES: [(Self, &str); 7] = [
        (Self::CHANGED, "changed"),
        (Self::RELATED, "related"),
        (Self::TRIGGER, "trigger"),
        (Self::RETRY, "retry"),
        (Self::REQUEUE, "requeue"),
        (Self::INTERVAL, "interval"),
        (Self::FIRST_LIST, "first list"),
    ];

    /// Whether all reasons in `other` are among these.
    #[must_use]
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// These reasons except for `other`.
    pub(crate) const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }
}

impl ops::BitOr for Reasons {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl ops::BitOrAssign for Reasons {
    fn bitor_assign(&mut self, other: Self) {
        self.0 |= other.0;
    }
}

impl fmt::Display for Reasons {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = Self::NAMES.iter().filter(|(it, _)| self.contains(*it));
        for (at, (_, name)) in names.enumerate() {
            let comma = if at == 0 { "" } else { ", " };
            write!(f, "{comma}{name}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for Reasons {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Reasons({self})")
    }
}
