//! The error of a closed fence.

use std::{error::Error, fmt, time::Duration};

/// A call or write was refused because this replica does not hold its lease.
///
/// A retry in this process does not help: another replica may be the leader. A fenced client
/// returns this as the source of a [`kube::Error`]; [`find`](Self::find) finds it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct FenceClosed {
    /// How long ago the deadline of the lease passed. `None` if the lease was never held or was
    /// released.
    pub expired: Option<Duration>,
    /// The method and path of the request; `None` for a call.
    pub request: Option<String>,
}

// === impl FenceClosed ===

impl FenceClosed {
    pub(super) const fn new(expired: Option<Duration>) -> Self {
        Self {
            expired,
            request: None,
        }
    }

    pub(crate) fn of_request(self, request: &str) -> Self {
        Self {
            request: Some(request.to_owned()),
            ..self
        }
    }

    /// Looks for this error in `error` and its sources.
    ///
    /// ```
    /// use windlass_controller::{Fence, FenceClosed};
    ///
    /// let refused = Fence::new().try_permit().expect_err("no deadline was set");
    /// let error = kube::Error::Service(Box::new(refused));
    /// assert!(FenceClosed::find(&error).is_some());
    /// ```
    #[must_use]
    pub fn find<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a Self> {
        let mut next = Some(error);
        while let Some(error) = next {
            if let Some(found) = error.downcast_ref() {
                return Some(found);
            }
            next = error.source();
        }
        None
    }
}

impl Error for FenceClosed {}

impl fmt::Display for FenceClosed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.request {
            Some(request) => write!(f, "{request} was not sent: ")?,
            None => f.write_str("the call did not begin: ")?,
        }
        match self.expired {
            Some(expired) => write!(f, "the lease of this replica expired {expired:?} ago")?,
            None => f.write_str("this replica does not hold the lease")?,
        }
        f.write_str("; another replica may be the leader")
    }
}
