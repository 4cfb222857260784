//! `AnyEvent`: an event with a type-erased object, as the engine queues it.

use windlass_informer::{ErasedObject, Event};

/// An event of an object of any kind, in the form in which its store keeps it.
pub(crate) type AnyEvent = Event<dyn ErasedObject>;
