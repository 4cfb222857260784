//! A stream of kube's own watcher as a source.

use std::{fmt, pin::pin, sync::Arc, time::Duration};

use futures::{Stream, StreamExt as _, future};
use kube::{
    Resource,
    runtime::watcher::{self, Event},
};

use tokio::time::{Instant, sleep_until};

use super::{Change, Changes, Source};
use crate::{
    Identity, ObjectKey, Uid, WatchError,
    watch::{Answer, Verb},
};

/// A stream of `kube::runtime::watcher` events as a source, for code that has one already.
///
/// After an error the watch counts as down until the stream yields an event, or yields no
/// further error for [`QUIET`](Self::QUIET): kube's watcher does not say when it is connected
/// again.
///
/// *Not promised:* what kube's watcher does not see is not seen here either. It skips an
/// object that does not decode, and a list with one such object fails whole; and it does not
/// say which version a list has, so that a cluster that was restored from a backup is not
/// found out. Our own [`ListWatch`](crate::ListWatch) does better in all three. Deletes found
/// by a relist are made good here as everywhere, because the store finds them.
pub struct WatcherStream<S> {
    resource: String,
    stream: S,
}

// === impl WatcherStream ===

impl<S> WatcherStream<S> {
    /// Longer than kube's watcher waits between two tries, and for a connection.
    pub const QUIET: Duration = Duration::from_secs(120);

    /// Takes the events of `stream`; `resource` names their kind for people, as
    /// `plural.group`.
    pub fn new(resource: impl Into<String>, stream: S) -> Self {
        Self {
            resource: resource.into(),
            stream,
        }
    }
}

impl<K, S> Source<K> for WatcherStream<S>
where
    K: Resource + Send + Sync + 'static,
    S: Stream<Item = Result<Event<K>, watcher::Error>> + Send + 'static,
{
    fn resource(&self) -> String {
        self.resource.clone()
    }

    async fn run(self, changes: Changes<K>) -> Result<(), WatchError> {
        let resource = Arc::from(self.resource.as_str());
        let mut stream = pin!(self.stream);
        // Whether a list is being taken, and until when a watch that broke counts as down.
        let (mut is_listing, mut down) = (true, None);
        loop {
            let connected = async {
                match down {
                    Some(until) if !is_listing => sleep_until(until).await,
                    _ => future::pending().await,
                }
            };
            let event = tokio::select! {
                biased;
                event = stream.next() => event,
                () = connected => {
                    down = None;
                    if changes.send(Change::Connected).await.is_err() {
                        break;
                    }
                    continue;
                }
            };
            let Some(event) = event else { break };
            let is_change = matches!(event, Ok(Event::Apply(_) | Event::Delete(_)));
            if event.is_ok() && down.take().is_some() && is_change && !is_listing {
                // It comes out of a watch that stands again.
                if changes.send(Change::Connected).await.is_err() {
                    break;
                }
            }
            let change = match event {
                Ok(Event::Init) => {
                    is_listing = true;
                    Change::ListStarted
                }
                Ok(Event::InitApply(object) | Event::Apply(object)) => {
                    Change::Applied(object.into())
                }
                Ok(Event::InitDone) => {
                    is_listing = false;
                    Change::ListEnded {
                        resource_version: None,
                    }
                }
                Ok(Event::Delete(object)) => Change::Deleted {
                    identity: Identity {
                        key: ObjectKey::of(&object),
                        uid: Uid::of(&object),
                        resource_version: object.meta().resource_version.clone(),
                    },
                    last: Some(object.into()),
                },
                Err(error) => {
                    down = Some(Instant::now() + Self::QUIET);
                    Change::Interrupted {
                        error: WatchError::answered(&resource, Verb::Watch, answer(&error)),
                        // The stream itself knows, and does not say.
                        retry_in: Duration::ZERO,
                    }
                }
            };
            if changes.send(change).await.is_err() {
                break;
            }
        }
        Ok(())
    }
}

fn answer(error: &watcher::Error) -> Answer {
    let (watcher::Error::InitialListFailed(kube::Error::Api(status))
    | watcher::Error::WatchStartFailed(kube::Error::Api(status))
    | watcher::Error::WatchFailed(kube::Error::Api(status))
    | watcher::Error::WatchError(status)) = error
    else {
        return Answer {
            message: error.to_string(),
            ..Answer::default()
        };
    };
    Answer {
        code: status.code,
        reason: status.reason.clone(),
        message: status.message.clone(),
        retry_after: None,
    }
}

impl<S> fmt::Debug for WatcherStream<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WatcherStream")
            .field("resource", &self.resource)
            .finish_non_exhaustive()
    }
}
