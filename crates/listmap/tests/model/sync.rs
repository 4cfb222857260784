//! The mutex of `shuttle` with the interface of `parking_lot`.

/// A mutex. At each lock shuttle may switch to another thread.
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
