//! Calls of handlers that may block, each on a thread of its own, and at most one for each parent.

use std::{
    collections::HashMap,
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    sync::{Arc, Weak},
};

use kube::Resource;
use parking_lot::Mutex;
use serde_json::Value;
use tokio::{
    runtime::{Handle, RuntimeFlavor},
    sync::Mutex as Turn,
    task::block_in_place,
};
use tokio_util::task::TaskTracker;
use tracing::dispatcher::{get_default, with_default};
use windlass_controller::{Failure, HandlerError, is_time_simulated};

use crate::{AsyncCompositeHandler, CompositeHandler, FinalizeResponse, SyncRequest, SyncResponse};

/// A [`CompositeHandler`] as an [`AsyncCompositeHandler`].
pub(crate) struct OnThreads<H> {
    handler: Arc<H>,
    threads: Arc<Threads>,
}

/// The threads of the calls.
///
/// A call that has exceeded its time limit still runs, because a thread cannot be stopped. It holds
/// the turn of its parent until it ends.
#[derive(Debug, Default)]
pub(crate) struct Threads {
    /// By uid. Only of parents with a call.
    turns: Mutex<HashMap<String, Weak<Turn<()>>>>,
    running: TaskTracker,
}

// === impl Threads ===

impl Threads {
    /// Calls `function` on another thread, after the call for the same parent has ended. In simulated
    /// time it is called on this thread: another one would be outside of the simulation.
    ///
    /// # Panics
    ///
    /// If `function` panics.
    async fn call<T: Send + 'static>(
        &self,
        uid: &str,
        function: impl FnOnce() -> T + Send + 'static,
    ) -> T {
        if is_time_simulated() {
            return function();
        }
        let turn = self.turn(uid).lock_owned().await;
        let running = self.running.token();
        let subscriber = get_default(Clone::clone);
        let call = move || {
            let _until_its_end = (turn, running);
            with_default(&subscriber, || catch_unwind(AssertUnwindSafe(function)))
        };
        match tokio::task::spawn_blocking(call).await {
            Ok(Ok(output)) => output,
            Ok(Err(panic)) => resume_unwind(panic),
            // The runtime shuts down: this task is dropped at its next await.
            Err(_) => std::future::pending().await,
        }
    }

    /// The turn of the parent with this uid.
    fn turn(&self, uid: &str) -> Arc<Turn<()>> {
        let mut turns = self.turns.lock();
        if let Some(turn) = turns.get(uid).and_then(Weak::upgrade) {
            return turn;
        }
        turns.retain(|_, turn| turn.strong_count() > 0);
        let turn = Arc::default();
        turns.insert(uid.to_owned(), Arc::downgrade(&turn));
        turn
    }

    /// Waits until no call runs.
    pub(crate) async fn idle(&self) {
        self.running.close();
        self.running.wait().await;
        self.running.reopen();
    }
}

// === impl OnThreads ===

impl<H> OnThreads<H> {
    pub(crate) fn new(handler: H, threads: Arc<Threads>) -> Self {
        Self {
            handler: Arc::new(handler),
            threads,
        }
    }
}

impl<P, H> AsyncCompositeHandler<P> for OnThreads<H>
where
    P: Resource + Send + Sync + 'static,
    H: CompositeHandler<P>,
{
    async fn sync(&self, request: SyncRequest<P>) -> Result<SyncResponse, Failure> {
        let (handler, uid) = (Arc::clone(&self.handler), request.uid().to_owned());
        let call = move || handler.sync(&request);
        self.threads.call(&uid, call).await
    }

    async fn finalize(&self, request: SyncRequest<P>) -> Result<FinalizeResponse, Failure> {
        let (handler, uid) = (Arc::clone(&self.handler), request.uid().to_owned());
        let call = move || handler.finalize(&request);
        self.threads.call(&uid, call).await
    }

    /// Called on the thread of the task, because it gets a reference to the error. The other tasks of
    /// the thread move to another one meanwhile, if the runtime has several.
    async fn error_status(&self, request: SyncRequest<P>, error: &HandlerError) -> Option<Value> {
        let call = || self.handler.error_status(&request, error);
        match Handle::current().runtime_flavor() {
            RuntimeFlavor::MultiThread if !is_time_simulated() => block_in_place(call),
            _ => call(),
        }
    }
}
