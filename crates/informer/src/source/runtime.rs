//! A stream of kube's own watcher as a source.

use std::{fmt, pin::pin, sync::Arc, time::Duration};

use futures::{Stream, StreamExt as _};
use kube::{
    Resource,
    runtime::watcher::{self, Event},
};

use super::{Change, Changes, Source};
use crate::{
    Identity, ObjectKey, Uid, WatchError,
    watch::{Answer, Verb},
};

/// A stream of `kube::runtime::watcher` events as a source, for whoever has one already.
///
/// *Not promised:* what kube's watcher does not see is not seen here either. It skips an
/// object that does not decode, and a list with one such object fails whole; our own
/// [`ListWatch`](crate::ListWatch) does neither. Deletes found by a relist are made good
/// here as everywhere, because the store is what finds them.
pub struct WatcherStream<S> {
    resource: String,
    stream: S,
}

// === impl WatcherStream ===

impl<S> WatcherStream<S> {
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
        while let Some(event) = stream.next().await {
            let change = match event {
                Ok(Event::Init) => Change::ListStarted,
                Ok(Event::InitApply(object) | Event::Apply(object)) => {
                    Change::Applied(object.into())
                }
                Ok(Event::InitDone) => Change::ListEnded {
                    resource_version: None,
                },
                Ok(Event::Delete(object)) => Change::Deleted {
                    identity: Identity {
                        key: ObjectKey::of(&object),
                        uid: Uid::of(&object),
                        resource_version: object.meta().resource_version.clone(),
                    },
                    last: Some(object.into()),
                },
                Err(error) => Change::Interrupted {
                    error: WatchError::answered(&resource, Verb::Watch, answer(&error)),
                    // The stream itself knows, and does not say.
                    retry_in: Duration::ZERO,
                },
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
