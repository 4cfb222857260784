//! `State`: a value that a call leaves for the next call of the same request.

use std::{any::Any, fmt, sync::Arc};

use crate::work::call_user_code;

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

/// A value whose panic while it is dropped is caught: the last reference to a state is dropped by a
/// task of the controller.
struct Contained<T>(Option<T>);

// === impl State ===

impl State {
    /// Creates a state with `value`.
    pub fn new<T: Send + Sync + 'static>(value: T) -> Self {
        Self {
            value: Arc::new(Contained(Some(value))),
            type_name: std::any::type_name::<T>(),
        }
    }

    /// The value, if it is a `T`.
    #[must_use]
    pub fn get<T: 'static>(&self) -> Option<&T> {
        let contained = self.value.downcast_ref::<Contained<T>>()?;
        contained.0.as_ref()
    }
}

/// Shows the type, and never the value, which may be secret.
impl fmt::Debug for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "State({})", self.type_name)
    }
}

// === impl Contained ===

impl<T> Drop for Contained<T> {
    fn drop(&mut self) {
        let value = self.0.take();
        call_user_code("drop of a state", || drop(value));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_of_a_state_that_is_dropped_is_caught() {
        struct Bomb;
        impl Drop for Bomb {
            fn drop(&mut self) {
                panic!("test");
            }
        }
        let state = State::new(Bomb);
        assert!(state.get::<Bomb>().is_some() && state.get::<String>().is_none());
        drop(state.clone());
        drop(state);
    }
}
