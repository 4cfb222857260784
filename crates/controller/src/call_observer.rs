//! The observer of the calls of all controllers on one thread, for a test kit.

use std::{cell::RefCell, sync::Arc};

use windlass_informer::ObjectKey;

use crate::CallReport;

/// Receives the calls of all controllers on a thread.
#[doc(hidden)]
pub trait CallObserver {
    /// A call for the object `key` of `kind` begins. It is followed by [`ended`](Self::ended).
    fn began(&self, kind: &str, key: &ObjectKey);

    /// A call has ended, or was abandoned. Without a report it has not taken place.
    fn ended(&self, kind: &str, key: &ObjectKey, report: Option<&CallReport<'_>>);
}

thread_local! {
    static OBSERVER: RefCell<Option<Arc<dyn CallObserver>>> = const { RefCell::new(None) };
}

/// Sets the observer of the calling thread, or removes it.
#[doc(hidden)]
pub fn observe_calls(observer: Option<Arc<dyn CallObserver>>) {
    OBSERVER.set(observer);
}

/// The observer of the calling thread.
pub(crate) fn observer() -> Option<Arc<dyn CallObserver>> {
    // A thread that ends drops its values in any order.
    OBSERVER.try_with(|it| it.borrow().clone()).ok().flatten()
}
