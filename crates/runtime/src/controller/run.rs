//! `Reconciled`: the stream that runs a controller.

use std::{
    collections::VecDeque,
    fmt::Debug,
    hash::Hash,
    panic::{AssertUnwindSafe, catch_unwind},
    pin::Pin,
    sync::{Arc, atomic::Ordering},
    task::{Context, Poll},
};

use futures::{Stream, TryFuture};
use kube::Resource;
use serde::de::DeserializeOwned;
use tokio::sync::mpsc::UnboundedReceiver;
use tracing::{Span, info_span};
use windlass_controller::Reasons;
use windlass_informer::{GuardedSpan, ObjectKey, log, panic_message};

use super::{
    Action, Error, RunnerError,
    call::{Begin, Begun, Failed, Request},
    start::{Ended, Running, Start},
    watch_errors::{self, WatchErrors},
};
use crate::{
    reflector::{ObjectRef, Store, store::writer_dropped},
    watcher,
};

/// An item of the stream.
type Item<K, E> = Result<(ObjectRef<K>, Action), Error<E, watcher::Error>>;

/// The stream of [`Controller::run`](super::Controller::run).
pub(super) struct Reconciled<K, Fut, R, P, Ctx>
where
    K: Clone + Resource + Debug + Send + Sync + 'static,
    K::DynamicType: Eq + Hash + Clone,
    Fut: TryFuture,
    Fut::Error: 'static,
{
    stage: Stage<K, Fut>,
    requests: UnboundedReceiver<Request<K, Fut>>,
    errors: Arc<WatchErrors>,
    store: Store<K>,
    dyntype: K::DynamicType,
    /// How many items wait to be read before no other call begins.
    most_items: usize,
    /// The requests of calls that have not begun: at most one of each worker.
    waiting: VecDeque<Begin<K, Fut>>,
    items: VecDeque<Item<K, Fut::Error>>,
    closures: Closures<R, P, Ctx>,
}

/// What the user passed to `run`.
pub(super) struct Closures<R, P, Ctx> {
    pub(super) reconciler: R,
    pub(super) error_policy: P,
    pub(super) context: Arc<Ctx>,
}

enum Stage<K, Fut>
where
    K: Clone + Resource + Debug + Send + Sync + 'static,
    K::DynamicType: Eq + Hash + Clone,
    Fut: TryFuture,
{
    /// Before the first poll.
    New(Start<K, Fut>),
    Running(Running),
    /// All calls have ended, and the last items are read.
    Ended,
}

// === impl Reconciled ===

impl<K, Fut, R, P, Ctx> Reconciled<K, Fut, R, P, Ctx>
where
    K: Clone + Resource + DeserializeOwned + Debug + Send + Sync + 'static,
    K::DynamicType: Eq + Hash + Clone,
    Fut: TryFuture<Ok = Action> + Send + 'static,
    Fut::Error: std::error::Error + Send + 'static,
    R: FnMut(Arc<K>, Arc<Ctx>) -> Fut,
    P: Fn(Arc<K>, &Fut::Error, Arc<Ctx>) -> Action,
{
    pub(super) fn new(
        start: Start<K, Fut>,
        requests: UnboundedReceiver<Request<K, Fut>>,
        closures: Closures<R, P, Ctx>,
    ) -> Self {
        let controller = start.controller();
        Self {
            errors: Arc::clone(&controller.errors),
            store: controller.store(),
            dyntype: controller.dyntype.clone(),
            most_items: controller.config.workers().get(),
            stage: Stage::New(start),
            requests,
            waiting: VecDeque::new(),
            items: VecDeque::new(),
            closures,
        }
    }

    /// Starts the controller at the first poll.
    fn start(&mut self) {
        match std::mem::replace(&mut self.stage, Stage::Ended) {
            Stage::New(start) => match start.start() {
                Ok(running) => self.stage = Stage::Running(running),
                Err(message) => {
                    let error = kube::Error::Service(message.into());
                    let error = Error::QueueError(watcher::Error::WatchFailed(error));
                    self.items.push_back(Err(error));
                }
            },
            stage => self.stage = stage,
        }
    }

    /// Handles all requests of the workers.
    fn handle_requests(&mut self, cx: &mut Context<'_>) {
        while let Poll::Ready(Some(request)) = self.requests.poll_recv(cx) {
            match request {
                Request::Begin(begin) => self.waiting.push_back(begin),
                Request::Succeeded(target, action) => self.items.push_back(Ok((target, action))),
                Request::Failed(failed) => self.decide(failed),
            }
        }
    }

    /// Calls the error policy.
    fn decide(&mut self, failed: Failed<K, Fut::Error>) {
        let Failed {
            object,
            error,
            span,
            reply,
        } = failed;
        let target = ObjectRef::from_obj_with(&*object, self.dyntype.clone());
        let Closures {
            error_policy,
            context,
            ..
        } = &self.closures;
        let decide = || error_policy(object, &error, Arc::clone(context));
        let decided = span.in_scope(|| catch_unwind(AssertUnwindSafe(decide)));
        let action = decided.unwrap_or_else(|panic| {
            let (error, object) = (panic_message(panic), &target.name);
            log::error!(%object, error, "error policy panicked, repeating after a backoff");
            Action::backoff()
        });
        // Without a receiver the run was aborted.
        _ = reply.send(action);
        let error = Error::ReconcilerFailed(error, Box::new(target.erase()));
        self.items.push_back(Err(error));
    }

    /// Begins calls, unless too many items wait to be read.
    fn begin_calls(&mut self) {
        let Stage::Running(running) = &self.stage else {
            return;
        };
        if running.state.stop.is_cancelled() {
            // The workers end these calls, because the replies are dropped.
            self.waiting.clear();
            return;
        }
        if !running.state.is_ready.load(Ordering::Acquire) {
            return;
        }
        while self.items.len() < self.most_items
            && let Some(begin) = self.waiting.pop_front()
        {
            let newest = |key: &_, object| self.store.newest(key, object, &self.dyntype);
            begin_call(begin, newest, &self.dyntype, &mut self.closures);
        }
    }

    /// Looks at the tasks that have ended. Returns whether the stream ends at once.
    fn check_tasks(&mut self, cx: &mut Context<'_>) -> bool {
        let Stage::Running(running) = &mut self.stage else {
            return false;
        };
        let mut ended = None;
        while let Poll::Ready(Some(task)) = running.tasks.poll_join_next(cx) {
            if let Ok(Ended::Engine(result)) = task {
                ended = Some(result);
            }
        }
        if running.state.is_forced.load(Ordering::Acquire) {
            return true;
        }
        let Some(result) = ended else { return false };
        let is_dropped = running.state.is_writer_dropped.load(Ordering::Acquire);
        let panicked = running.state.panicked.lock().take();
        // The last results of calls precede the error that ends the stream.
        self.handle_requests(cx);
        self.stage = Stage::Ended;
        if is_dropped {
            let dropped = writer_dropped();
            let error = dropped.map(|it| Err(Error::RunnerError(RunnerError::Readiness(it))));
            self.items.extend(error);
        }
        let ended = result.err().map(|error| watch_errors::ended(&error));
        let error = panicked.as_deref().map(watch_errors::panicked).or(ended);
        self.items
            .extend(error.map(|error| Err(Error::QueueError(error))));
        false
    }
}

/// Calls the reconciler for the newest object. An object that was deleted since is not reconciled.
fn begin_call<K, Fut, R, P, Ctx>(
    begin: Begin<K, Fut>,
    newest: impl FnOnce(&ObjectKey, Arc<K>) -> Option<Arc<K>>,
    dyntype: &K::DynamicType,
    closures: &mut Closures<R, P, Ctx>,
) where
    K: Resource,
    K::DynamicType: Clone,
    R: FnMut(Arc<K>, Arc<Ctx>) -> Fut,
{
    let Begin {
        key,
        object,
        reasons,
        cause,
        reply,
    } = begin;
    if reply.is_closed() {
        return;
    }
    let Some(object) = newest(&key, object) else {
        return;
    };
    let Closures {
        reconciler,
        context,
        ..
    } = closures;
    let polled_in = GuardedSpan::current();
    let span = GuardedSpan::new(|| {
        let target = ObjectRef::from_obj_with(&*object, dyntype.clone());
        span_of_call(&target, reasons, &cause, &polled_in)
    });
    let call = || reconciler(object, Arc::clone(context));
    let called = span.in_scope(|| catch_unwind(AssertUnwindSafe(call)));
    let future = called.map_err(panic_message);
    _ = reply.send(Begun { span, future });
}

/// The span of a call, as in kube-runtime: a child of the span in which the stream is polled or, if
/// there is none, of the span of the engine.
fn span_of_call<K: Resource>(
    target: &ObjectRef<K>,
    reasons: Reasons,
    cause: &GuardedSpan,
    polled_in: &GuardedSpan,
) -> Span {
    let parent = if polled_in.is_none() {
        cause.as_span()
    } else {
        polled_in.as_span()
    };
    let span = info_span!(
        parent: parent,
        "reconciling object",
        object.ref = %target,
        object.reason = %reasons,
    );
    span.follows_from(cause.as_span());
    span
}

impl<K, Fut, R, P, Ctx> Stream for Reconciled<K, Fut, R, P, Ctx>
where
    K: Clone + Resource + DeserializeOwned + Debug + Send + Sync + 'static,
    K::DynamicType: Eq + Hash + Clone,
    Fut: TryFuture<Ok = Action> + Send + 'static,
    Fut::Error: std::error::Error + Send + 'static,
    R: FnMut(Arc<K>, Arc<Ctx>) -> Fut,
    P: Fn(Arc<K>, &Fut::Error, Arc<Ctx>) -> Action,
{
    type Item = Item<K, Fut::Error>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = &mut *self;
        this.start();
        this.handle_requests(cx);
        if this.check_tasks(cx) {
            this.stage = Stage::Ended;
            this.items.clear();
            return Poll::Ready(None);
        }
        this.begin_calls();
        if let Some(item) = this.items.pop_front() {
            return Poll::Ready(Some(item));
        }
        let errors = this.errors.take(cx.waker()).into_iter();
        (this.items).extend(errors.map(|error| Err(Error::QueueError(error))));
        match (this.items.pop_front(), &this.stage) {
            (Some(item), _) => Poll::Ready(Some(item)),
            (None, Stage::Ended) => Poll::Ready(None),
            (None, _) => Poll::Pending,
        }
    }
}

/// Nothing in it is pinned: the futures of the calls run in the workers.
impl<K, Fut, R, P, Ctx> Unpin for Reconciled<K, Fut, R, P, Ctx>
where
    K: Clone + Resource + Debug + Send + Sync + 'static,
    K::DynamicType: Eq + Hash + Clone,
    Fut: TryFuture,
    Fut::Error: 'static,
{
}
