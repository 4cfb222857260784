//! Brings one child to its desired state: `Children`, and the result.

use std::{fmt, sync::Arc, time::Duration};

use parking_lot::Mutex;
use windlass_informer::{LazyObject, ObjectKey};

use super::{
    CheckedChild, ChildError, ChildMemory, ChildObject, Parent, memory::ChildId,
    observed::Observed, plan::Step, requests::ObjectRequests, write::ChildWrite,
};

/// Writes the children of one parent.
pub struct Children {
    /// The client of the call.
    pub client: kube::Client,
    /// The parent.
    pub parent: Parent,
    /// What earlier calls for this parent remembered.
    pub memory: Arc<Mutex<ChildMemory>>,
}

/// The result of an apply.
#[derive(Debug)]
pub struct Applied<C> {
    /// The newest known state of the child.
    pub object: Arc<C>,
    /// What was done.
    pub outcome: ChildOutcome,
    /// Another writer reverts the changes. Pass it to `Context::report_contention`.
    pub contention: Option<Contention>,
    /// When the child has to be applied again, if no event causes that.
    pub repeat_after: Option<Duration>,
}

/// What was done with a child.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ChildOutcome {
    /// It was created.
    Created,
    /// It was changed.
    Changed,
    /// It is as desired: nothing was sent, or the request changed nothing.
    Unchanged,
    /// It is being deleted, and is created again after that.
    Terminating,
    /// It was deleted, and is created again after that.
    Replaced,
    /// Another writer reverts the changes, and the next change is made after this time.
    Delayed(Duration),
}

/// Another writer reverts the changes of this controller.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Contention {
    /// The kind of the child, as `plural.group`.
    pub resource: String,
    /// The namespace and name of the child.
    pub key: ObjectKey,
    /// The managers of the fields and the fields, as the API server names them, cut to one line.
    /// Empty if no other manager is known.
    pub conflicts: Vec<String>,
}

/// When a child is applied again whose end the watch does not show.
const UNSHOWN_END: Duration = Duration::from_secs(10);

// === impl Children ===

impl Children {
    /// Brings the child to its desired state. `stored` is the object with its key in the store.
    ///
    /// # Errors
    ///
    /// [`ChildError`], except for [`ChildError::Invalid`].
    ///
    /// # Cancel safety
    ///
    /// After the future is dropped, the child may or may not be written. The next call detects it.
    pub async fn apply<C: ChildObject>(
        &self,
        child: &CheckedChild,
        stored: Option<LazyObject<C>>,
    ) -> Result<Applied<C>, ChildError> {
        let CheckedChild { kind, desired } = child;
        let write = ChildWrite {
            children: self,
            kind,
            desired,
            id: ChildId {
                resource: kind.resource(),
                key: desired.key.clone(),
            },
            requests: ObjectRequests {
                client: &self.client,
                kind,
                key: &desired.key,
                manager: &self.parent.manager,
                subresource: "",
            },
        };
        let is_shown = stored.is_some();
        let mut existing = stored.map(Observed::stored);
        let mut step = write.plan(existing.as_ref(), false)?;
        if step == Step::Read {
            existing = match write.requests.get().await? {
                Some(body) => Some(write.decode("get", &body)?),
                None => None,
            };
            step = write.plan(existing.as_ref(), true)?;
        }
        let mut applied = match existing {
            Some(existing) => write.execute(step, existing).await?,
            None => write.create().await?,
        };
        applied.repeat_after = match applied.outcome {
            ChildOutcome::Delayed(wait) => Some(wait),
            // No event of the watch shows the end of a child that the watch does not show.
            ChildOutcome::Replaced | ChildOutcome::Terminating if !is_shown => Some(UNSHOWN_END),
            _ => None,
        };
        Ok(applied)
    }
}

impl fmt::Debug for Children {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Children")
            .field("parent", &self.parent)
            .field("memory", &self.memory)
            .finish_non_exhaustive()
    }
}

// === impl Applied ===

impl<C> Applied<C> {
    pub(super) const fn without_write(object: Arc<C>, outcome: ChildOutcome) -> Self {
        Self {
            object,
            outcome,
            contention: None,
            repeat_after: None,
        }
    }
}
