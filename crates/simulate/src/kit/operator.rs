//! An operator that a test has started.

use std::{
    collections::BTreeMap, fmt, future::Future, panic::AssertUnwindSafe, sync::Arc, time::Duration,
};

use futures::{FutureExt as _, future::BoxFuture};
use kube::Client;
use parking_lot::Mutex;
use tokio::time::timeout;
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};
use windlass_informer::panic_message;

use super::{Core, MissingRule, connection::KitConnection};

/// An operator that runs in a kit. Dropping this does not stop the operator.
pub struct KitOperator {
    core: Arc<Core>,
    process: Arc<OperatorProcess>,
}

/// One operator: its function, and its current start.
pub(super) struct OperatorProcess {
    start: Box<dyn Fn(Client, CancellationToken) -> BoxFuture<'static, String> + Send + Sync>,
    current: Mutex<Option<Running>>,
    /// How the operator ended by itself.
    ended: Arc<Mutex<Option<String>>>,
    /// The user whose permissions it has, if it was started with those of a service account.
    pub(super) account: Option<String>,
    /// The rules that its roles lack, and whether the test knows of them.
    missing: Mutex<BTreeMap<MissingRule, bool>>,
}

struct Running {
    task: AbortOnDropHandle<()>,
    stop: CancellationToken,
    crashed: CancellationToken,
}

/// The time that an operator has to stop gracefully.
const GRACE: Duration = Duration::from_secs(30);

// === impl KitOperator ===

impl KitOperator {
    pub(super) fn start<F, Fut>(core: &Arc<Core>, account: Option<String>, operator: F) -> Self
    where
        F: Fn(Client, CancellationToken) -> Fut + Send + Sync + 'static,
        Fut: Future<Output: fmt::Debug> + Send + 'static,
    {
        let start = move |client, stop| operator(client, stop).map(|it| format!("{it:?}")).boxed();
        let process = Arc::new(OperatorProcess {
            start: Box::new(start),
            current: Mutex::default(),
            ended: Arc::default(),
            account,
            missing: Mutex::default(),
        });
        core.operators.lock().push(Arc::clone(&process));
        let operator = Self {
            core: Arc::clone(core),
            process,
        };
        operator.restart();
        operator
    }

    /// Ends the operator at once, as a crash does: its future is dropped, and none of its later
    /// requests reaches the server.
    pub fn crash(&self) {
        if let Some(running) = self.process.current.lock().take() {
            running.crashed.cancel();
            running.task.abort();
        }
    }

    /// Starts the operator again, with an empty memory. If it runs, it [crashes](Self::crash) first.
    pub fn restart(&self) {
        self.crash();
        let (stop, crashed) = (CancellationToken::new(), CancellationToken::new());
        let connection = KitConnection {
            core: Arc::clone(&self.core),
            process: Arc::clone(&self.process),
            crashed: crashed.clone(),
        };
        let client = Client::new(connection, &*self.core.namespace);
        let ended = Arc::clone(&self.process.ended);
        *ended.lock() = None;
        self.core.journal.touch();
        let exit = crashed.clone();
        let run = {
            let (process, stop) = (Arc::clone(&self.process), stop.clone());
            async move { (process.start)(client, stop).await }
        };
        let task = tokio::spawn(async move {
            let how = match AssertUnwindSafe(run).catch_unwind().await {
                Ok(result) => result,
                Err(panic) => format!("a panic: {}", panic_message(panic)),
            };
            // A task that the operator has left behind sends nothing more, as after the end of a process.
            exit.cancel();
            *ended.lock() = Some(how);
        });
        *self.process.current.lock() = Some(Running {
            task: AbortOnDropHandle::new(task),
            stop,
            crashed,
        });
    }

    /// Stops the operator gracefully, and returns what it returned, as `Debug` shows it.
    ///
    /// # Panics
    ///
    /// If the operator still runs after 30 s.
    pub async fn stop(&self) -> String {
        let running = self.process.current.lock().take();
        if let Some(running) = running {
            running.stop.cancel();
            let ended = timeout(GRACE, running.task).await;
            assert!(
                ended.is_ok(),
                "the operator still runs {GRACE:?} after it was asked to stop"
            );
        }
        self.ended().unwrap_or_default()
    }

    /// The rules that the roles of the operator lack: one for each kind of request that the server
    /// denied since the first start. Empty without [`Kit::start_as`](super::Kit::start_as).
    #[must_use]
    pub fn missing_rules(&self) -> Vec<MissingRule> {
        let mut missing = self.process.missing.lock();
        missing.values_mut().for_each(|known| *known = true);
        missing.keys().cloned().collect()
    }

    /// What the operator returned, as `Debug` shows it, if it has ended and did not crash.
    #[must_use]
    pub fn ended(&self) -> Option<String> {
        // It is known to the test now.
        let ended = self.process.ended.lock().clone();
        if ended.is_some() {
            self.process.current.lock().take();
        }
        ended
    }
}

impl fmt::Debug for KitOperator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KitOperator")
            .field("state", &self.process.describe())
            .finish_non_exhaustive()
    }
}

// === impl OperatorProcess ===

impl OperatorProcess {
    pub(super) fn describe(&self) -> String {
        let state = match (&*self.ended.lock(), &*self.current.lock()) {
            (Some(how), _) => format!("ended with {how}"),
            (None, Some(_)) => "runs".to_owned(),
            (None, None) => "crashed".to_owned(),
        };
        let missing = self.missing.lock();
        let Some(account) = &self.account else {
            return state;
        };
        if missing.is_empty() {
            return format!("{state}, as {account}");
        }
        let text = format!("{state}; the roles of {account} lack:");
        missing
            .keys()
            .fold(text, |text, it| text + &format!("\n    {it}"))
    }

    /// Notes that the server denied a request with this message.
    pub(super) fn deny(&self, message: &str) {
        if let Some(rule) = MissingRule::parse(message) {
            self.missing.lock().entry(rule).or_default();
        }
    }

    /// What the test did not notice: that the operator ended by itself, or lacks a permission.
    pub(super) fn unnoticed(&self) -> Option<String> {
        if self.missing.lock().values().any(|known| !known) {
            return Some(format!(
                "an operator lacks permissions: it {}",
                self.describe()
            ));
        }
        let current = self.current.lock();
        let ended = self.ended.lock();
        let how = ended.as_ref().filter(|_| current.is_some())?;
        Some(format!("an operator ended by itself: {how}"))
    }
}
