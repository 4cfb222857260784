//! `Scripted`: a source for tests, which sends the changes that the test gives it.

use std::{fmt, time::Duration};

use tokio::sync::mpsc;

use super::{Change, Changes, Source, Stopped};
use crate::{Identity, ObjectKey, Stored, Uid, WatchError};

/// A source that sends the changes of its [`Script`]: for tests of handlers, without a server.
///
/// When the informer is stopped and run again, the script continues. What it sends then is
/// dropped until its next list begins, because each run begins with a list ([`Source`]).
///
/// # Example
///
/// ```
/// use k8s_openapi::api::core::v1::ConfigMap;
/// use tokio_util::sync::CancellationToken;
/// use windlass_informer::{Event, Informer, Scripted};
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let (script, source) = Scripted::<ConfigMap>::new();
/// let informer = Informer::new(source);
/// let mut events = informer.subscribe();
/// let stop = CancellationToken::new();
/// let running = tokio::spawn(informer.run(stop.clone()));
///
/// let mut config = ConfigMap::default();
/// config.metadata.name = Some("web".to_owned());
/// script.list([config]).await?;
///
/// assert!(matches!(events.next().await, Some(Event::Added(_))));
/// assert!(matches!(events.next().await, Some(Event::Synced)));
/// assert_eq!(informer.store().len(), 1);
///
/// stop.cancel();
/// running.await??;
/// # Ok(())
/// # }
/// ```
pub struct Scripted<K> {
    script: mpsc::Receiver<Change<K>>,

    /// Whether it ran before, so that half a list may be left in the script.
    has_run: bool,
}

/// Writes the changes of a [`Scripted`] source.
///
/// Each call waits while the informer is behind or does not run. Dropping the script ends the
/// source, and the informer continues with the objects that it has.
pub struct Script<K> {
    changes: mpsc::Sender<Change<K>>,
}

// === impl Scripted ===

impl<K: Stored> Scripted<K> {
    /// Creates a source and its script.
    #[must_use]
    pub fn new() -> (Script<K>, Self) {
        let (changes, script) = mpsc::channel(1);
        let has_run = false;
        (Script { changes }, Self { script, has_run })
    }
}

impl<K> Source<K> for Scripted<K>
where
    K: Stored,
{
    fn resource(&self) -> String {
        "scripted".to_owned()
    }

    async fn run(&mut self, changes: Changes<K>) -> Result<(), WatchError> {
        let mut is_stale = std::mem::replace(&mut self.has_run, true);
        while let Some(change) = self.script.recv().await {
            match change {
                Change::ListStarted => is_stale = false,
                // `HistoryWentBack` precedes its list. The others do not concern objects.
                Change::HistoryWentBack(_)
                | Change::Interrupted { .. }
                | Change::Connected
                | Change::Ended => {}
                _ if is_stale => continue,
                _ => {}
            }
            if changes.send(change).await.is_err() {
                break;
            }
        }
        Ok(())
    }
}

impl<K> fmt::Debug for Scripted<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scripted").finish_non_exhaustive()
    }
}

// === impl Script ===

impl<K: Stored> Script<K> {
    /// Sends a list: these objects and no others.
    ///
    /// # Errors
    ///
    /// [`Stopped`] if the informer was dropped.
    pub async fn list(&self, objects: impl IntoIterator<Item = K>) -> Result<(), Stopped> {
        self.change(Change::ListStarted).await?;
        for object in objects {
            self.apply(object).await?;
        }
        self.change(Change::ListEnded {
            resource_version: None,
        })
        .await
    }

    /// Sends that `object` exists, in this state.
    ///
    /// # Errors
    ///
    /// [`Stopped`] if the informer was dropped.
    pub async fn apply(&self, object: K) -> Result<(), Stopped> {
        self.change(Change::Applied(object.into())).await
    }

    /// Sends that `object` was deleted, and that this was its last state.
    ///
    /// # Errors
    ///
    /// [`Stopped`] if the informer was dropped.
    pub async fn delete(&self, object: K) -> Result<(), Stopped> {
        let identity = Identity {
            key: ObjectKey::of(&object),
            uid: Uid::of(&object),
            resource_version: object.resource_version().map(str::to_owned),
        };
        let last = Some(object.into());
        self.change(Change::Deleted { identity, last }).await
    }

    /// Sends that the source failed, and retries after `retry_in`.
    ///
    /// # Errors
    ///
    /// [`Stopped`] if the informer was dropped.
    pub async fn interrupt(&self, error: WatchError, retry_in: Duration) -> Result<(), Stopped> {
        self.change(Change::Interrupted { error, retry_in }).await
    }

    /// Sends any change.
    ///
    /// # Errors
    ///
    /// [`Stopped`] if the informer was dropped.
    pub async fn change(&self, change: Change<K>) -> Result<(), Stopped> {
        self.changes.send(change).await.map_err(|_| Stopped)
    }
}

impl<K> fmt::Debug for Script<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Script").finish_non_exhaustive()
    }
}
