//! The controllers that were added to an operator.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::erased_controller::ErasedController;

/// The controllers, and whether more can be added.
#[derive(Default)]
pub(super) struct ControllerRegistry {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    controllers: Vec<Arc<dyn ErasedController>>,
    closed: bool,
}

/// Why a controller was not added.
pub(super) enum Refused {
    /// The registry was closed.
    Closed,
    /// A controller with the same name is in the registry already.
    NameTaken,
}

// === impl ControllerRegistry ===

impl ControllerRegistry {
    pub(super) fn add(&self, controller: Arc<dyn ErasedController>) -> Result<(), Refused> {
        let mut state = self.lock();
        if state.closed {
            return Err(Refused::Closed);
        }
        let mut others = state.controllers.iter();
        if others.any(|other| other.name() == controller.name()) {
            return Err(Refused::NameTaken);
        }
        state.controllers.push(controller);
        Ok(())
    }

    /// All controllers, in the order in which they were added.
    pub(super) fn all(&self) -> Vec<Arc<dyn ErasedController>> {
        self.lock().controllers.clone()
    }

    /// Closes the registry, so that no controller can be added any more. Returns all controllers,
    /// or none if the registry was closed before.
    pub(super) fn close(&self) -> Option<Vec<Arc<dyn ErasedController>>> {
        let mut state = self.lock();
        if state.closed {
            return None;
        }
        state.closed = true;
        Some(state.controllers.clone())
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing that can panic happens under the lock.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
