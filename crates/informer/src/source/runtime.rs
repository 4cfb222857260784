//! `WatcherStream`: a stream of kube's watcher as a source.

use std::{fmt, pin::pin, sync::Arc, time::Duration};

use futures::{Stream, StreamExt as _, future};
use kube::{
    Resource,
    runtime::watcher::{self, Event},
};

use rand::{SeedableRng as _, rngs::StdRng};
use tokio::time::{Instant, sleep, sleep_until};

use super::{Change, Changes, Source};
use crate::{
    Backoff, DecodeError, Identity, ObjectKey, Uid, WatchError, WatchErrorCause,
    api_request::ServerStatus, random_seed, watch::Verb,
};

/// A stream of `kube::runtime::watcher` events as a source. Prefer [`ListWatch`](crate::ListWatch),
/// unless you need a feature of kube's watcher.
///
/// After an error the watch counts as down until the stream yields an event, or yields no further
/// error for 2 minutes, because kube's watcher does not report when it is
/// connected again.
///
/// *Guaranteed.* After an error the stream is polled again after a wait, because kube's watcher sends
/// its next request at once: [`Backoff::CLIENT_GO`], which starts again after
/// 2 minutes without an error. A backoff of the stream adds to it.
///
/// *Not guaranteed.* Events that kube's watcher does not yield. It skips objects that do not
/// decode, and a list with such an object fails. It does not report the version of a list, so that
/// a cluster that was restored from a backup is not detected. [`ListWatch`](crate::ListWatch) has
/// none of these limits. Deletes that only a relist shows are reported, because the store detects
/// them.
///
/// # Example
///
/// ```
/// use k8s_openapi::api::core::v1::Pod;
/// use kube::{Api, Client, runtime::watcher};
/// use windlass_informer::{Informer, WatcherStream};
///
/// # fn pods(client: Client) {
/// let api = Api::<Pod>::all(client);
/// let source = WatcherStream::new("pods", move || watcher(api.clone(), watcher::Config::default()));
/// let pods: Informer<Pod> = Informer::new(source);
/// # }
/// ```
pub struct WatcherStream<F> {
    resource: String,
    open: F,
}

// === impl WatcherStream ===

impl<F> WatcherStream<F> {
    /// Longer than kube's watcher waits between two attempts, and for a connection.
    pub(crate) const MAX_SILENCE: Duration = Duration::from_secs(120);

    /// Creates a source from the stream that `open` returns. `resource` is the name of the kind, as
    /// `plural.group`.
    ///
    /// `open` is called each time the informer starts. Its stream must begin with a list, as each
    /// new stream of kube's watcher does.
    pub fn new(resource: impl Into<String>, open: F) -> Self {
        Self {
            resource: resource.into(),
            open,
        }
    }
}

impl<K, S, F> Source<K> for WatcherStream<F>
where
    K: Resource + Send + Sync + 'static,
    S: Stream<Item = Result<Event<K>, watcher::Error>> + Send + 'static,
    F: FnMut() -> S + Send + 'static,
{
    fn resource(&self) -> String {
        self.resource.clone()
    }

    async fn run(&mut self, changes: Changes<K>) -> Result<(), WatchError> {
        let resource = Arc::from(self.resource.as_str());
        let mut stream = pin!((self.open)());
        // Whether a list is in progress, and until when a broken watch counts as down.
        let (mut is_listing, mut down) = (true, None);
        let mut rng = StdRng::seed_from_u64(random_seed());
        // The failures in a row, and the time of the last one.
        let (mut failures, mut failed_at) = (0_u32, None::<Instant>);
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
                // An event of a watch shows that the watch is connected again.
                if changes.send(Change::Connected).await.is_err() {
                    break;
                }
            }
            let mut wait = Duration::ZERO;
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
                    if failed_at.is_some_and(|at| at.elapsed() > Self::MAX_SILENCE) {
                        failures = 0;
                    }
                    wait = Backoff::CLIENT_GO.wait(failures, &mut rng);
                    failures = failures.saturating_add(1);
                    failed_at = Some(Instant::now());
                    down = Some(Instant::now() + Self::MAX_SILENCE);
                    Change::Interrupted {
                        error: watch_error(&resource, error),
                        retry_in: wait,
                    }
                }
            };
            if changes.send(change).await.is_err() {
                break;
            }
            if !wait.is_zero() {
                sleep(wait).await;
            }
        }
        Ok(())
    }
}

fn watch_error(resource: &Arc<str>, error: watcher::Error) -> WatchError {
    let verb = match &error {
        watcher::Error::InitialListFailed(_) => Verb::List,
        _ => Verb::Watch,
    };
    let cause = match error {
        watcher::Error::InitialListFailed(kube::Error::Api(status))
        | watcher::Error::WatchStartFailed(kube::Error::Api(status))
        | watcher::Error::WatchFailed(kube::Error::Api(status))
        | watcher::Error::WatchError(status) => {
            let status = ServerStatus {
                code: status.code,
                reason: status.reason,
                message: status.message,
                ..ServerStatus::default()
            };
            return WatchError::from_status(resource, verb, status);
        }
        // Not kube's error, which may quote an object.
        watcher::Error::InitialListFailed(kube::Error::SerdeError(error))
        | watcher::Error::WatchStartFailed(kube::Error::SerdeError(error))
        | watcher::Error::WatchFailed(kube::Error::SerdeError(error)) => {
            WatchErrorCause::Malformed {
                source: DecodeError::of(&error, "response"),
            }
        }
        watcher::Error::InitialListFailed(source)
        | watcher::Error::WatchStartFailed(source)
        | watcher::Error::WatchFailed(source) => WatchErrorCause::Connection {
            source: Box::new(source),
        },
        other @ watcher::Error::NoResourceVersion => WatchErrorCause::Inconsistent {
            why: other.to_string(),
        },
    };
    WatchError::new(Arc::clone(resource), verb, cause)
}

impl<F> fmt::Debug for WatcherStream<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WatcherStream")
            .field("resource", &self.resource)
            .finish_non_exhaustive()
    }
}
