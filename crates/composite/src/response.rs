//! `SyncResponse` and `FinalizeResponse`: what a handler wants.

use std::{fmt, time::Duration};

use serde::Serialize;
use serde_json::Value;

/// The children that a parent should have, and its status.
#[derive(Clone, Default)]
#[must_use = "a response has an effect when the handler returns it"]
pub struct SyncResponse {
    pub(crate) status: Option<Value>,
    /// `None`: the existing children stay as they are.
    pub(crate) children: Option<Vec<Value>>,
    pub(crate) resync_after: Option<Duration>,
}

/// Whether a clean-up has finished, and what it wants meanwhile.
#[derive(Clone, Default)]
#[must_use = "a response has an effect when the handler returns it"]
pub struct FinalizeResponse {
    pub(crate) status: Option<Value>,
    pub(crate) children: Option<Vec<Value>>,
    /// `None`: it has finished.
    pub(crate) retry_after: Option<Duration>,
}

// === impl SyncResponse ===

impl SyncResponse {
    /// Creates a response without children. The controller adds `observedGeneration` to the status.
    /// For `null` no status is written.
    pub fn new(status: Value) -> Self {
        Self {
            status: Some(status).filter(|status| !status.is_null()),
            children: Some(Vec::new()),
            resync_after: None,
        }
    }

    /// Creates a response without children, with a status that is serialized.
    ///
    /// # Errors
    ///
    /// If the status does not serialize.
    pub fn from_status(status: impl Serialize) -> Result<Self, serde_json::Error> {
        Ok(Self::new(serde_json::to_value(status)?))
    }

    /// Creates a response without children that leaves the status as it is.
    pub fn without_status() -> Self {
        Self::new(Value::Null)
    }

    /// Adds a child: its `apiVersion`, its `kind`, its name, and the fields that the handler decides.
    /// Fields that it does not have are left to others. Without a namespace it gets that of the
    /// parent.
    ///
    /// # Errors
    ///
    /// If the child does not serialize.
    pub fn add_child(&mut self, child: impl Serialize) -> Result<(), serde_json::Error> {
        let child = serde_json::to_value(child)?;
        self.children.get_or_insert_default().push(child);
        Ok(())
    }

    /// Leaves all existing children as they are. Without this call, children that are not in the
    /// response are deleted.
    pub fn keep_children(self) -> Self {
        Self {
            children: None,
            ..self
        }
    }

    /// Calls `sync` again after `delay`, although nothing has changed. An earlier call replaces it.
    pub const fn resync_after(&mut self, delay: Duration) {
        self.resync_after = Some(delay);
    }
}

// === impl FinalizeResponse ===

impl FinalizeResponse {
    /// The default delay of a repeated clean-up.
    pub const RETRY_AFTER: Duration = Duration::from_secs(3);

    /// The clean-up has finished: the finalizer is removed.
    pub fn finished() -> Self {
        Self::default()
    }

    /// The clean-up has not finished: `finalize` is called again after
    /// [`RETRY_AFTER`](Self::RETRY_AFTER), or after a change of a child.
    pub const fn unfinished() -> Self {
        Self::retry_after(Self::RETRY_AFTER)
    }

    /// The clean-up has not finished: `finalize` is called again after `delay`, counted from the end
    /// of the call, or after a change of a child.
    pub const fn retry_after(delay: Duration) -> Self {
        Self {
            status: None,
            children: None,
            retry_after: Some(delay),
        }
    }

    /// Sets the status of the parent. By default it stays as it is.
    pub fn status(self, status: Value) -> Self {
        Self {
            status: Some(status).filter(|status| !status.is_null()),
            ..self
        }
    }

    /// Sets the children that the parent should still have: others are deleted. A clean-up in several
    /// steps returns fewer children in each. By default the children stay, and Kubernetes deletes
    /// them after their parent.
    pub fn children(self, children: Vec<Value>) -> Self {
        Self {
            children: Some(children),
            ..self
        }
    }
}

/// Shows the number of children and no content, which may be secret.
impl fmt::Debug for SyncResponse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SyncResponse")
            .field("children", &self.children.as_ref().map(Vec::len))
            .field("resync_after", &self.resync_after)
            .finish_non_exhaustive()
    }
}

/// Shows the number of children and no content, which may be secret.
impl fmt::Debug for FinalizeResponse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FinalizeResponse")
            .field("children", &self.children.as_ref().map(Vec::len))
            .field("retry_after", &self.retry_after)
            .finish_non_exhaustive()
    }
}
