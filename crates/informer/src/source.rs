//! Sources of changes: the trait `Source`, and its implementations.
//!
//! A [`Source`] sends [`Change`]s; the store, the events and the handlers are the same for all
//! sources. [`ListWatch`] lists and watches an API server, and an [`Api`](kube::Api) alone is a
//! `ListWatch` with default settings. [`Scripted`] is for tests.

mod kind_name;
mod list_watch;
mod reflector;
mod request;
#[cfg(feature = "kube-runtime")]
mod runtime;
mod scripted;
mod timeouts;
mod workers;

use std::{fmt, future::Future, time::Duration};

use tokio::sync::mpsc;

#[cfg(feature = "kube-runtime")]
pub use self::runtime::WatcherStream;
pub(crate) use self::timeouts::until;
pub use self::{
    list_watch::{InvalidListWatch, ListWatch},
    request::resource_name,
    scripted::{Script, Scripted},
};
use crate::{
    DecodeError, HistoryWentBack, Identity, IncomingObject, LazyObject, ObjectIdentity, Store,
    Stored, Trim, WatchError, subscription::SubscriberCount,
};

/// Lists and watches the objects of a kind, and sends changes to an informer.
///
/// # Contract
///
/// - A list is sent as [`ListStarted`](Change::ListStarted), each object, and
///   [`ListEnded`](Change::ListEnded). A list that breaks is started again.
/// - Between lists, the changes of one object are sent in order.
/// - A transient failure is sent as [`Interrupted`](Change::Interrupted), and the source retries
///   after a wait. Only a permanent failure is returned as an error.
/// - The future of [`run`](Self::run) may be dropped at any `await`. Each call of `run` sends
///   a complete list before anything else, because changes that an earlier call had read may
///   not have reached the informer.
pub trait Source<K: Stored>: Send + 'static {
    /// The kind for logs and errors, as `plural.group`: `websites.example.io`.
    fn resource(&self) -> String;

    /// The namespaces whose objects it sends. `None`, the default, means all objects of the kind.
    fn namespaces(&self) -> Option<Vec<String>> {
        None
    }

    /// The fields that it removes from the objects. By default none.
    fn trim(&self) -> Trim {
        Trim::nothing()
    }

    /// Sends changes to `changes`. After it has returned `Ok`, the informer keeps running with the
    /// objects that it has.
    ///
    /// An informer calls this each time it starts or relists, never twice at the same time.
    ///
    /// # Errors
    ///
    /// A permanent failure. It ends the informer, for all callers of
    /// [`Informer::run`](crate::Informer::run).
    fn run(&mut self, changes: Changes<K>) -> impl Future<Output = Result<(), WatchError>> + Send;
}

/// A change that a [`Source`] reports.
#[non_exhaustive]
pub enum Change<K> {
    /// The history of the server went back, for example because a cluster was restored from a
    /// backup. A list follows. Earlier versions are not compared with later ones.
    HistoryWentBack(HistoryWentBack),

    /// A list begins.
    ListStarted,

    /// The list is complete. Objects that were not sent since it began were deleted.
    ListEnded {
        /// The version of the list, if it is known.
        resource_version: Option<String>,
    },

    /// A new state of an object.
    Applied(IncomingObject<K>),

    /// An object in the state that the store already has, as [`Changes::known`] returned it.
    Unchanged(LazyObject<K>),

    /// An object was deleted.
    Deleted {
        /// Its identity.
        identity: Identity,
        /// The last state, if it decodes.
        last: Option<IncomingObject<K>>,
    },

    /// An object does not decode. It is quarantined: the source requests it again later.
    Undecodable {
        /// Its identity.
        identity: Identity,
        /// Why it does not decode.
        error: DecodeError,
        /// The finalizers of an object that is being deleted, which keep it. Empty otherwise.
        finalizers: Vec<String>,
    },

    /// No change up to this version was missed, for example because of a bookmark.
    Progress {
        /// The version.
        resource_version: String,
    },

    /// The watch is connected.
    Connected,

    /// The list or watch broke. The source retries after a wait.
    Interrupted {
        /// Why it broke.
        error: WatchError,
        /// The time until the retry.
        retry_in: Duration,
    },

    /// The watch ended regularly, and the source opens the next one.
    Ended,
}

/// Receives the changes of a source. Bounded: sending waits while the informer is behind.
pub struct Changes<K> {
    sender: mpsc::Sender<Change<K>>,
    store: Store<K>,
    subscribers: SubscriberCount,
    /// The version of the store when the run began. `None` in the first run.
    version: Option<String>,
}

/// The informer has stopped, or was dropped, and takes no more changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the informer has stopped")]
pub struct Stopped;

// === impl Changes ===

impl<K: Stored> Changes<K> {
    pub(crate) fn new(
        sender: mpsc::Sender<Change<K>>,
        store: Store<K>,
        subscribers: SubscriberCount,
        version: Option<String>,
    ) -> Self {
        Self {
            sender,
            store,
            subscribers,
            version,
        }
    }

    /// The version up to which the previous run missed no change. A list with a lower version is
    /// stale.
    pub(crate) fn version(&self) -> Option<&str> {
        self.version.as_deref()
    }

    /// The number of subscriptions of the informer.
    pub(crate) const fn subscribers(&self) -> &SubscriberCount {
        &self.subscribers
    }

    /// Sends `change` to the informer.
    ///
    /// # Errors
    ///
    /// [`Stopped`] if the informer has stopped; the source should return.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future before it is ready sends nothing.
    pub async fn send(&self, change: Change<K>) -> Result<(), Stopped> {
        self.sender.send(change).await.map_err(|_| Stopped)
    }

    /// Returns the stored object if it has exactly this version and uid, so that it does not have
    /// to be decoded again.
    #[must_use]
    pub fn known(&self, object: &impl ObjectIdentity) -> Option<LazyObject<K>> {
        self.store.known(object)
    }

    /// Whether the store has an object with this key, in any state.
    pub(crate) fn has(&self, object: &impl ObjectIdentity) -> bool {
        self.store.has(object)
    }

    /// How many objects the current list has contained so far. The count lags behind the changes
    /// that were sent.
    pub(crate) fn shown(&self) -> usize {
        self.store.shown()
    }

    /// Whether the store is empty.
    pub(crate) fn is_empty(&self) -> bool {
        self.store.is_empty()
    }
}

impl<K> fmt::Debug for Changes<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Changes").finish_non_exhaustive()
    }
}

// === impl Change ===

/// Shows the type and the key, and never the content of the object, which may be secret.
impl<K: Stored> fmt::Debug for Change<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::HistoryWentBack(why) => write!(f, "HistoryWentBack: {why}"),
            Self::ListStarted => f.write_str("ListStarted"),
            Self::ListEnded { .. } => f.write_str("ListEnded"),
            Self::Applied(incoming) => write!(f, "Applied {}", incoming.lazy.key()),
            Self::Unchanged(object) => write!(f, "Unchanged {}", object.key()),
            Self::Deleted { identity, .. } => write!(f, "Deleted {}", identity.key),
            Self::Undecodable { identity, .. } => write!(f, "Undecodable {}", identity.key),
            Self::Progress { resource_version } => write!(f, "Progress {resource_version}"),
            Self::Connected => f.write_str("Connected"),
            Self::Interrupted { error, .. } => write!(f, "Interrupted: {error}"),
            Self::Ended => f.write_str("Ended"),
        }
    }
}
