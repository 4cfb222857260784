//! `Calls`: the calls of the engine, as requests to the stream of `run`.
//!
//! The closures of `run` are neither `Send` nor `'static`, so that only the stream can call them. A
//! worker of the engine asks the stream to call the reconciler, and runs the future itself.

use std::{hash::Hash, pin::pin, sync::Arc, time::Duration};

use futures::{TryFuture, TryFutureExt};
use kube::Resource;
use tokio::{
    sync::{
        mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel},
        oneshot,
    },
    time::Instant,
};
use windlass_controller::{Failure, Outcome, Reasons, State};
use windlass_informer::{GuardedSpan, ObjectKey};

use super::{Action, action::Next, debounce::Debounced};
use crate::reflector::{ObjectRef, Store};

/// What a worker sends to the stream.
///
/// The channel is not bounded, but what is in it is: each worker waits for the reply to its request,
/// and the stream limits how many calls begin before their results are read.
pub(super) enum Request<K: Resource, Fut: TryFuture> {
    /// Call the reconciler.
    Begin(Begin<K, Fut>),
    /// A call has succeeded.
    Succeeded(ObjectRef<K>, Action),
    /// A call has failed: call the error policy.
    Failed(Failed<K, Fut::Error>),
}

/// A request to call the reconciler.
pub(super) struct Begin<K, Fut> {
    pub(super) key: ObjectKey,
    pub(super) object: Arc<K>,
    pub(super) reasons: Reasons,
    /// The span of the engine in which the call was requested.
    pub(super) cause: GuardedSpan,
    /// Dropped if no call begins any more.
    pub(super) reply: oneshot::Sender<Begun<Fut>>,
}

/// A call that has begun.
pub(super) struct Begun<Fut> {
    /// The span of the call.
    pub(super) span: GuardedSpan,
    /// The future of the call, or the message of its panic.
    pub(super) future: Result<Fut, String>,
}

/// A request to call the error policy.
pub(super) struct Failed<K, E> {
    pub(super) object: Arc<K>,
    pub(super) error: E,
    pub(super) span: GuardedSpan,
    pub(super) reply: oneshot::Sender<Action>,
}

/// The calls of a controller.
pub(super) struct Calls<K: Resource, Fut: TryFuture> {
    debounce: Duration,
    dyntype: K::DynamicType,
    requests: UnboundedSender<Request<K, Fut>>,
}

/// Why a call is repeated after a backoff, for the engine.
#[derive(Debug, thiserror::Error)]
enum Repeated {
    #[error("the call requested a backoff")]
    Backoff,
    #[error("the reconciler panicked: {0}")]
    Panicked(String),
}

// === impl Calls ===

impl<K, Fut> Calls<K, Fut>
where
    K: Resource,
    K::DynamicType: Clone,
    Fut: TryFuture<Ok = Action>,
{
    #[expect(
        clippy::disallowed_methods,
        reason = "each worker has at most one request in it"
    )]
    pub(super) fn new(
        debounce: Duration,
        dyntype: K::DynamicType,
    ) -> (Arc<Self>, UnboundedReceiver<Request<K, Fut>>) {
        let (requests, receiver) = unbounded_channel();
        let calls = Self {
            debounce,
            dyntype,
            requests,
        };
        (Arc::new(calls), receiver)
    }

    /// Whether the call waits for a quiet period, with the state that an earlier deferral left.
    pub(super) fn deferred(&self, state: Option<&State>) -> Option<Outcome> {
        if self.debounce.is_zero() {
            return None;
        }
        let now = Instant::now();
        let waiting = state.and_then(|state| state.get::<Debounced>()).copied();
        let waiting = Debounced::next(self.debounce, waiting, now)?;
        Some(Outcome::deferred(waiting.left(now)).state(State::new(waiting)))
    }

    /// The object of `store` with this key.
    pub(super) fn find(&self, store: &Store<K>, key: &ObjectKey) -> Option<Arc<K>>
    where
        K: Clone + 'static,
        K::DynamicType: Eq + Hash,
    {
        store.get_key(key, &self.dyntype)
    }

    /// Makes one call, and returns when the next one is. Without a stream that reads the requests
    /// nothing happens, and the call is over.
    pub(super) async fn call(
        &self,
        key: ObjectKey,
        object: Arc<K>,
        reasons: Reasons,
    ) -> Result<Outcome, Failure> {
        let (reply, begun) = oneshot::channel();
        _ = self.requests.send(Request::Begin(Begin {
            key,
            object: Arc::clone(&object),
            reasons,
            cause: GuardedSpan::current(),
            reply,
        }));
        let (span, future) = match begun.await {
            Ok(Begun {
                span,
                future: Ok(future),
            }) => (span, future),
            Ok(Begun {
                future: Err(panic), ..
            }) => return Err(Repeated::Panicked(panic).into()),
            Err(_) => return Ok(Outcome::done()),
        };
        let future = pin!(TryFutureExt::into_future(future));
        let error = match span.within(future).await {
            Ok(action) => {
                let target = ObjectRef::from_obj_with(&*object, self.dyntype.clone());
                let next = action.next;
                _ = self.requests.send(Request::Succeeded(target, action));
                return outcome(next);
            }
            Err(error) => error,
        };
        let (reply, decided) = oneshot::channel();
        _ = self.requests.send(Request::Failed(Failed {
            object,
            error,
            span,
            reply,
        }));
        match decided.await {
            Ok(action) => outcome(action.next),
            Err(_) => Ok(Outcome::done()),
        }
    }
}

/// When the engine repeats a call. Only a backoff is a failed call for the engine, because a failed
/// call delays the next changes of its object, and those of kube-runtime do not.
fn outcome(next: Next) -> Result<Outcome, Failure> {
    match next {
        Next::After(delay) => Ok(Outcome::requeue_after(delay)),
        Next::OnChange => Ok(Outcome::done()),
        Next::AfterBackoff => Err(Repeated::Backoff.into()),
    }
}
