//! The lock of `shuttle` with the face of `parking_lot`'s.

/// A mutex whose every lock is a point at which shuttle may let another thread go first.
#[derive(Debug)]
pub(crate) struct Mutex<T>(shuttle::sync::Mutex<T>);

impl<T> Mutex<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(shuttle::sync::Mutex::new(value))
    }

    pub(crate) fn lock(&self) -> shuttle::sync::MutexGuard<'_, T> {
        self.0.lock().expect("a panic ends the whole model")
    }
}
