//! An event about an object of any kind: what the engine carries.

use windlass_informer::{ErasedObject, Event};

/// An event about an object of any kind, in the form in which its store keeps it.
pub(crate) type AnyEvent = Event<dyn ErasedObject>;
