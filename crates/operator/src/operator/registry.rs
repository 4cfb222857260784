//! The controllers that were added to an operator.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use windlass_controller::{ErasedRunnable, FinalizerRegistry};

use crate::AddControllerError;

/// The controllers, and whether more can be added.
#[derive(Default)]
pub(super) struct ControllerRegistry {
    state: Mutex<State>,
    finalizers: FinalizerRegistry,
}

#[derive(Default)]
struct State {
    controllers: Vec<Arc<dyn ErasedRunnable>>,
    closed: bool,
}

// === impl ControllerRegistry ===

impl ControllerRegistry {
    /// Adds a controller, unless the registry was closed or has a controller with the same name, or
    /// with the same finalizer for the same objects.
    pub(super) fn add(&self, added: Arc<dyn ErasedRunnable>) -> Result<(), AddControllerError> {
        let controller = added.name().to_owned();
        let mut state = self.lock();
        if state.closed {
            return Err(AddControllerError::AlreadyRan { controller });
        }
        let mut others = state.controllers.iter();
        if others.any(|other| other.name() == controller) {
            return Err(AddControllerError::NameTaken { controller });
        }
        (added.register_finalizers(&self.finalizers))
            .map_err(Box::new)
            .map_err(|source| AddControllerError::Finalizer { controller, source })?;
        state.controllers.push(added);
        Ok(())
    }

    /// All controllers, in the order in which they were added.
    pub(super) fn all(&self) -> Vec<Arc<dyn ErasedRunnable>> {
        self.lock().controllers.clone()
    }

    /// Closes the registry, so that no controller can be added any more. Returns all controllers,
    /// or none if the registry was closed before.
    pub(super) fn close(&self) -> Option<Vec<Arc<dyn ErasedRunnable>>> {
        let mut state = self.lock();
        if state.closed {
            return None;
        }
        state.closed = true;
        Some(state.controllers.clone())
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // A panic of a controller under the lock changes nothing.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
