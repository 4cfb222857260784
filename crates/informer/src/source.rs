//! Sources of changes: the trait, and the list and watch behind it.
//!
//! A [`Source`] tells what it sees as [`Change`]s; everything behind it (store, events,
//! handlers) is the same for all of them. [`ListWatch`] is the one that talks to an API
//! server, and an [`Api`](kube::Api) alone is a `ListWatch` with its defaults;
//! [`Scripted`] is for tests.

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
pub use self::{
    list_watch::{InvalidListWatch, ListWatch},
    scripted::{Script, Scripted},
};
use crate::{
    DecodeError, Identity, IncomingObject, LazyObject, ObjectIdentity, Store, Stored, WatchError,
    subscription::SubscriberCount,
};

/// Lists and watches the objects of a kind, and sends what it sees to an informer.
///
/// # Contract
///
/// - A list is sent as [`ListStarted`](Change::ListStarted), each object, and
///   [`ListEnded`](Change::ListEnded). A list that breaks off is started again.
/// - Between lists, the changes of one object are sent in order.
/// - A failure that may pass is sent as [`Interrupted`](Change::Interrupted), and the source
///   retries after a wait. Only a permanent failure is returned as an error.
/// - The future of [`run`](Self::run) may be dropped at any `await`. Each call of `run` sends
///   a complete list before anything else, because changes that an earlier call had read may
///   not have reached the informer.
pub trait Source<K: Stored>: Send + 'static {
    /// The kind, for logs and errors: `websites.example.io`.
    fn resource(&self) -> String;

    /// Sends what it sees to `changes`, until it has nothing more to send.
    ///
    /// An informer calls this each time it starts, never twice at the same time.
    ///
    /// # Errors
    ///
    /// A permanent failure; it ends the informer, for all callers of
    /// [`Informer::run`](crate::Informer::run).
    fn run(&mut self, changes: Changes<K>) -> impl Future<Output = Result<(), WatchError>> + Send;
}

/// One thing that a [`Source`] saw.
#[non_exhaustive]
pub enum Change<K> {
    /// The history of the server went back, as that of a cluster that was restored from a
    /// backup does. A list follows. Versions that were seen before are not compared with
    /// those that follow, and the store begins a new [epoch](Store::epoch).
    HistoryWentBack,

    /// A whole picture begins.
    ListStarted,

    /// The picture is whole, as of this version: whatever was not told since it began is
    /// gone.
    ListEnded {
        /// The version of the list, if there is one.
        resource_version: Option<String>,
    },

    /// An object is there, in this state.
    Applied(IncomingObject<K>),

    /// An object is there, in the state that the store has already: what it
    /// [knows](Changes::known).
    Unchanged(LazyObject<K>),

    /// An object is gone.
    Deleted {
        /// Which.
        identity: Identity,
        /// Its last state, unless that does not decode.
        last: Option<IncomingObject<K>>,
    },

    /// An object is there, and does not decode. It is set aside; the source looks at it
    /// again by itself.
    Undecodable {
        /// Which.
        identity: Identity,
        /// Why not.
        error: DecodeError,
    },

    /// Nothing was missed up to this version.
    Progress {
        /// The version.
        resource_version: String,
    },

    /// The watch stands.
    Connected,

    /// The source broke off, and goes on after a wait.
    Interrupted {
        /// Why.
        error: WatchError,
        /// When it goes on.
        retry_in: Duration,
    },

    /// The watch ended as watches do, and goes on.
    Ended,
}

/// Where a source tells what it sees. Bounded: telling waits while the informer is behind.
pub struct Changes<K> {
    sender: mpsc::Sender<Change<K>>,
    store: Store<K>,
    subscribers: SubscriberCount,
    /// The version of the store when the run began; none if it is the first run.
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

    /// The version up to which the run before this one missed nothing. A list that is older is
    /// from the past, though this run has seen nothing yet.
    pub(crate) fn version(&self) -> Option<&str> {
        self.version.as_deref()
    }

    /// How many subscriptions the informer has.
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

    /// The object as the store holds it, if it holds exactly this state of it, so that decoding
    /// it again would be for nothing.
    #[must_use]
    pub fn known(&self, object: &impl ObjectIdentity) -> Option<LazyObject<K>> {
        self.store.known(object)
    }

    /// Whether the store has an object of this name, in whatever state.
    pub(crate) fn has(&self, object: &impl ObjectIdentity) -> bool {
        self.store.has(object)
    }

    /// How many objects the list that is being taken has shown, or did not long ago: it
    /// grows behind what is sent here.
    pub(crate) fn shown(&self) -> usize {
        self.store.shown()
    }

    /// Whether the store holds nothing, so that everything is news.
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

/// Shows the change's type and the object's key, and never the object's content, which may be
/// secret.
impl<K: Stored> fmt::Debug for Change<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::HistoryWentBack => f.write_str("HistoryWentBack"),
            Self::ListStarted => f.write_str("ListStarted"),
            Self::ListEnded { .. } => f.write_str("ListEnded"),
            Self::Applied(fresh) => write!(f, "Applied {}", fresh.kept.key()),
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
