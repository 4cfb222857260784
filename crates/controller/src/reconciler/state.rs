//! `State`: a value that a call leaves for the next call of the same request.

use std::{any::Any, fmt, sync::Arc};

/// A value that a handler receives again when its call is repeated, for example its progress.
///
/// It has any type of the handler's choice, and is kept in memory as long as the request.
///
/// # Example
///
/// ```
/// use windlass_controller::State;
///
/// #[derive(Debug, PartialEq)]
/// struct Ordered { id: u32 }
///
/// let state = State::new(Ordered { id: 7 });
/// assert_eq!(state.get(), Some(&Ordered { id: 7 }));
/// assert_eq!(state.get::<String>(), None);
/// ```
#[derive(Clone)]
pub struct State {
    value: Arc<dyn Any + Send + Sync>,
    type_name: &'static str,
}

// === impl State ===

impl State {
    /// Creates a state with `value`.
    pub fn new<T: Send + Sync + 'static>(value: T) -> Self {
        Self {
            value: Arc::new(value),
            type_name: std::any::type_name::<T>(),
        }
    }

    /// The value, if it is a `T`.
    #[must_use]
    pub fn get<T: 'static>(&self) -> Option<&T> {
        self.value.downcast_ref()
    }
}

/// Shows the type, and never the value, which may be secret.
impl fmt::Debug for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "State({})", self.type_name)
    }
}
