//! The controllers and tasks that were added to an operator.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use windlass_controller::{ErasedRunnable, FinalizerRegistry};

use crate::AddControllerError;

/// What was added to an operator.
#[derive(Clone, Default)]
pub(super) struct Added {
    pub(super) controllers: Vec<Arc<dyn ErasedRunnable>>,
    /// The tasks that also run in a replica that does not lead.
    pub(super) each_replica: Vec<Arc<dyn ErasedRunnable>>,
}

/// Which replicas run it.
#[derive(Clone, Copy, Debug)]
pub(super) enum Place {
    Leader,
    EachReplica,
}

/// The controllers and tasks, and whether more can be added.
#[derive(Default)]
pub(super) struct ControllerRegistry {
    state: Mutex<State>,
    finalizers: FinalizerRegistry,
}

#[derive(Default)]
struct State {
    added: Added,
    closed: bool,
}

// === impl Added ===

impl Added {
    pub(super) fn all(&self) -> impl Iterator<Item = &Arc<dyn ErasedRunnable>> {
        self.controllers.iter().chain(&self.each_replica)
    }
}

// === impl ControllerRegistry ===

impl ControllerRegistry {
    /// Adds a controller or task, unless the registry was closed or has one with the same name, or with
    /// the same finalizer for the same objects.
    pub(super) fn add(
        &self,
        added: Arc<dyn ErasedRunnable>,
        place: Place,
    ) -> Result<(), AddControllerError> {
        let controller = added.name().to_owned();
        let mut state = self.lock();
        if state.closed {
            return Err(AddControllerError::AlreadyRan { controller });
        }
        if state.added.all().any(|other| other.name() == controller) {
            return Err(AddControllerError::NameTaken { controller });
        }
        (added.register_finalizers(&self.finalizers))
            .map_err(Box::new)
            .map_err(|source| AddControllerError::Finalizer { controller, source })?;
        match place {
            Place::Leader => state.added.controllers.push(added),
            Place::EachReplica => state.added.each_replica.push(added),
        }
        Ok(())
    }

    /// All controllers and tasks, each in the order in which they were added.
    pub(super) fn all(&self) -> Vec<Arc<dyn ErasedRunnable>> {
        self.lock().added.all().cloned().collect()
    }

    /// Whether a task runs in each replica.
    pub(super) fn has_tasks(&self) -> bool {
        !self.lock().added.each_replica.is_empty()
    }

    /// Closes the registry, so that nothing can be added any more. Returns what was added, or none if the
    /// registry was closed before.
    pub(super) fn close(&self) -> Option<Added> {
        let mut state = self.lock();
        if state.closed {
            return None;
        }
        state.closed = true;
        Some(state.added.clone())
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // A panic of a controller under the lock changes nothing.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
