//! Events with type-erased objects, as the engine queues them.

use windlass_informer::{ErasedObject, Event};

/// An event of an object of any kind, in the form in which its store keeps it.
pub(crate) type AnyEvent = Event<dyn ErasedObject>;
