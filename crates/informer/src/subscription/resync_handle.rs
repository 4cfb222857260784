//! Resyncs that a subscriber requests: each key once, in request order.

use std::{
    collections::{HashSet, VecDeque},
    fmt,
    sync::Arc,
};

use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::ObjectKey;

/// Requests resyncs of single objects for one [`Subscription`](crate::Subscription).
///
/// # Contract
///
/// *Guaranteed.* An object that is in the store is delivered once more, to this subscription only,
/// as [`Resynced`](crate::Event::Resynced) with `requested` set, after all its earlier events. An
/// object that is requested several times before the delivery is delivered once. An object that is
/// not in the store at delivery time is skipped.
///
/// *Not guaranteed.* A time limit: changes and requests alternate.
///
/// Clones belong to the same subscription. A request never waits.
///
/// # Example
///
/// ```
/// use k8s_openapi::api::core::v1::ConfigMap;
/// use windlass_informer::{Informer, ObjectKey, Scripted};
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let (script, source) = Scripted::<ConfigMap>::new();
/// let configs = Informer::new(source);
/// let mut events = configs.subscribe();
/// let resync = events.resync_handle();
/// # tokio::spawn({ let configs = configs.clone(); async move { configs.run(Default::default()).await } });
/// let mut web = ConfigMap::default();
/// web.metadata.name = Some("web".into());
/// script.list([web]).await?;
/// configs.synced().await?;
///
/// resync.request([ObjectKey::new("web")]);
/// while let Some(envelope) = events.next_envelope().await {
///     if envelope.requested {
///         break;
///     }
/// }
/// # Ok(())
/// # }
/// ```
#[doc(hidden)]
#[derive(Clone)]
pub struct ResyncHandle {
    requested_keys: Arc<RequestedKeys>,
}

/// The requested keys of one subscriber.
pub(super) struct RequestedKeys {
    keys: Mutex<KeyQueue>,
    /// Notified on each request. Shared by all subscribers of an informer.
    asked: Arc<Notify>,
}

#[derive(Default)]
struct KeyQueue {
    order: VecDeque<ObjectKey>,
    /// The same keys.
    known: HashSet<ObjectKey>,
}

// === impl ResyncHandle ===

#[doc(hidden)]
impl ResyncHandle {
    pub(super) const fn new(requested_keys: Arc<RequestedKeys>) -> Self {
        Self { requested_keys }
    }

    /// Requests resyncs of the objects with these keys.
    pub fn request(&self, keys: impl IntoIterator<Item = ObjectKey>) {
        for key in keys {
            self.requested_keys.keys.lock().push(key);
        }
        self.requested_keys.asked.notify_one();
    }
}

impl fmt::Debug for ResyncHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResyncHandle")
            .field(
                "requested_keys",
                &self.requested_keys.keys.lock().order.len(),
            )
            .finish_non_exhaustive()
    }
}

// === impl RequestedKeys ===

impl RequestedKeys {
    pub(super) fn new(asked: Arc<Notify>) -> Self {
        Self {
            keys: Mutex::default(),
            asked,
        }
    }

    /// Takes the oldest key.
    pub(super) fn pop(&self) -> Option<ObjectKey> {
        self.keys.lock().pop()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.keys.lock().order.is_empty()
    }
}

// === impl KeyQueue ===

impl KeyQueue {
    fn push(&mut self, key: ObjectKey) {
        if self.known.insert(key.clone()) {
            self.order.push_back(key);
        }
    }

    fn pop(&mut self) -> Option<ObjectKey> {
        let key = self.order.pop_front()?;
        self.known.remove(&key);
        Some(key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_that_is_requested_twice_is_delivered_once() {
        check("a b a", "a b");
        check("a - a", "a a");
        check("b a - b", "b a b");
    }

    /// Requests keys, and takes one (`-`); `envelope` is the expected list of taken keys.
    #[track_caller]
    fn check(script: &str, envelope: &str) {
        let mut keys = KeyQueue::default();
        let mut taken = Vec::new();
        for step in script.split(' ') {
            match step {
                "-" => taken.extend(keys.pop()),
                key => keys.push(ObjectKey::new(key)),
            }
        }
        taken.extend(std::iter::from_fn(|| keys.pop()));
        let taken: Vec<_> = taken.iter().map(ObjectKey::name).collect();
        assert_eq!(taken.join(" "), envelope, "{script}");
        assert!(keys.known.is_empty());
    }
}
