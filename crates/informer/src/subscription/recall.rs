//! What a subscriber asks to be told again: each key once, in the order of asking.

use std::{
    collections::{HashSet, VecDeque},
    fmt,
    sync::Arc,
};

use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::ObjectKey;

/// Asks that one [`Subscription`](crate::Subscription) be told again of objects that have not
/// changed.
///
/// # Contract
///
/// *Promised.* An object that is there is told once more, to this subscription alone, as
/// [`Resynced`](crate::Event::Resynced) with [`recalled`](crate::Told::recalled) set, and in its
/// turn: after everything that has happened to it by then. However often it is asked for before
/// it is told, it is told once. One that is not there when its turn comes is not told.
///
/// *Not promised.* That it is told soon: changes take turns with what is asked for.
///
/// Clones ask for the same subscription. Asking never waits.
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
/// let recall = events.recall();
/// # tokio::spawn({ let configs = configs.clone(); async move { configs.run(Default::default()).await } });
/// let mut web = ConfigMap::default();
/// web.metadata.name = Some("web".into());
/// script.list([web]).await?;
/// configs.synced().await;
///
/// recall.ask([ObjectKey::new("web")]);
/// while let Some(told) = events.told().await {
///     if told.recalled {
///         break;
///     }
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Recall {
    wanted: Arc<Wanted>,
}

/// What one subscriber asks for.
pub(super) struct Wanted {
    keys: Mutex<Keys>,
    /// Told when anybody asks.
    asked: Arc<Notify>,
}

#[derive(Default)]
struct Keys {
    order: VecDeque<ObjectKey>,
    /// The same keys.
    known: HashSet<ObjectKey>,
}

// === impl Recall ===

impl Recall {
    pub(super) const fn new(wanted: Arc<Wanted>) -> Self {
        Self { wanted }
    }

    /// Asks for the objects of these keys.
    pub fn ask(&self, keys: impl IntoIterator<Item = ObjectKey>) {
        for key in keys {
            self.wanted.keys.lock().push(key);
        }
        self.wanted.asked.notify_one();
    }
}

impl fmt::Debug for Recall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Recall")
            .field("wanted", &self.wanted.keys.lock().order.len())
            .finish_non_exhaustive()
    }
}

// === impl Wanted ===

impl Wanted {
    pub(super) fn new(asked: Arc<Notify>) -> Self {
        Self {
            keys: Mutex::default(),
            asked,
        }
    }

    /// The key that was asked for first.
    pub(super) fn pop(&self) -> Option<ObjectKey> {
        self.keys.lock().pop()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.keys.lock().order.is_empty()
    }
}

// === impl Keys ===

impl Keys {
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
    fn what_is_asked_for_twice_is_told_once() {
        check("a b a", "a b");
        check("a - a", "a a");
        check("b a - b", "b a b");
    }

    /// Asks for keys, and takes one (`-`); `told` is what was taken, then and at the end.
    #[track_caller]
    fn check(script: &str, told: &str) {
        let mut keys = Keys::default();
        let mut taken = Vec::new();
        for step in script.split(' ') {
            match step {
                "-" => taken.extend(keys.pop()),
                key => keys.push(ObjectKey::new(key)),
            }
        }
        taken.extend(std::iter::from_fn(|| keys.pop()));
        let taken: Vec<_> = taken.iter().map(ObjectKey::name).collect();
        assert_eq!(taken.join(" "), told, "{script}");
        assert!(keys.known.is_empty());
    }
}
