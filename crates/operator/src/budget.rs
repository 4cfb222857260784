//! Request budgets: limit how many requests an operator sends per second.

use std::{
    fmt,
    num::NonZeroU32,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use http::{Request, Response};
use kube::{Client, client::Body};
use tokio::time::{Instant, sleep};
use windlass_informer::log;

/// A rate limit that several clients share: limits the requests that they send per second.
///
/// A budget is a token bucket: it allows a burst, and then a number of requests per second. Further
/// requests wait in the order in which they arrived. It protects the API server from handlers that
/// fail for every object at once, or that fight with another writer over the same fields. It
/// corresponds to `QPS` and `Burst` of client-go's `rest.Config`.
///
/// # Contract
///
/// *Guaranteed.* In `t` seconds, the clients of this budget start at most `burst + t * per_second`
/// requests. Each list page is one request, and each watch is one request. Each request is sent
/// once: a client of a budget does not use kube's retries (`Config::default_retry`: 15 retries
/// after 429, 503 or 504, also for a `POST` that may have been applied). The caller decides what to
/// do after such a response.
///
/// *Required.* Use one budget for the whole operator: clones share its tokens, separately created
/// budgets do not. Give the [`LeaderElection`](crate::LeaderElection) a client without a budget, so
/// that renewals do not wait.
///
/// *Not guaranteed.* Fairness between callers: a handler that sends many requests delays the
/// others. A request whose future is dropped while it waits has used its token.
///
/// By default an operator has no budget: API servers protect themselves by API Priority and
/// Fairness, and respond with 429 if necessary.
///
/// # Example
///
/// ```
/// use std::num::NonZeroU32;
///
/// use windlass_apiserver::ApiServer;
/// use windlass_operator::{LeaderElection, RequestBudget};
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let connected = ApiServer::new().client();
/// let election = LeaderElection::new(connected.clone(), "default", "website-operator")?;
/// let budget = RequestBudget::default();
/// // The fence wraps the budget: at the deadline, writes that wait for the budget are dropped.
/// let client = election.fence().client(budget.client(connected));
/// # drop(client);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct RequestBudget {
    shared: Arc<Shared>,
}

struct Shared {
    /// The time between two requests after the burst is used.
    interval: Duration,
    burst: u32,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// The time at which the bucket will be full again. None before the first request.
    full_at: Option<Instant>,
    /// The time at which a long wait was last logged.
    warned: Option<Instant>,
}

// === impl RequestBudget ===

impl RequestBudget {
    /// The requests per second of the default budget: enough for an operator that works on a few
    /// hundred objects. client-go's default is 5; one handler in a loop can send thousands.
    pub(crate) const DEFAULT_PER_SECOND: NonZeroU32 = NonZeroU32::new(50).expect("not zero");

    /// The burst of the default budget, in requests: two seconds of requests, as in client-go, so
    /// that the first lists of an operator with tens of kinds do not wait.
    pub(crate) const DEFAULT_BURST: NonZeroU32 = NonZeroU32::new(100).expect("not zero");

    /// Creates a budget that allows a burst of `burst` requests, and then `per_second` requests per
    /// second.
    #[must_use]
    pub fn new(per_second: NonZeroU32, burst: NonZeroU32) -> Self {
        let shared = Shared {
            interval: Duration::from_secs(1) / per_second.get(),
            burst: burst.get(),
            state: Mutex::default(),
        };
        Self {
            shared: Arc::new(shared),
        }
    }

    /// Returns a client that waits for this budget before it sends a request through `client`.
    ///
    /// Must be called within a tokio runtime, as [`Client::new`] must.
    #[must_use]
    pub fn client(&self, client: Client) -> Client {
        // kube retries a request only if it can clone the body. A response body cannot be cloned,
        // so each body passes through a service that returns the request body as its response.
        let echo = tower::service_fn(|request: Request<Body>| async {
            Ok::<_, std::convert::Infallible>(Response::new(request.into_body()))
        });
        let echo = Client::new(echo, "default");
        let (namespace, valid_until) =
            (client.default_namespace().to_owned(), *client.valid_until());
        let budget = self.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let (client, echo, budget) = (client.clone(), echo.clone(), budget.clone());
            async move {
                let (parts, body) = request.into_parts();
                let body = echo.send(Request::new(body)).await?.into_body();
                budget.take().await;
                client.send(Request::from_parts(parts, body)).await
            }
        });
        Client::new(service, namespace).with_valid_until(valid_until)
    }

    /// Waits until one more request is allowed.
    async fn take(&self) {
        let wait = self.reserve();
        if !wait.is_zero() {
            sleep(wait).await;
        }
    }

    /// Reserves the next token, and returns the time until it is available.
    fn reserve(&self) -> Duration {
        /// Waits of at least this time are logged.
        const LONG: Duration = Duration::from_secs(1);
        /// The shortest time between two such log lines.
        const PAUSE: Duration = Duration::from_secs(60);

        let Shared {
            interval,
            burst,
            state,
        } = &*self.shared;
        let now = Instant::now();
        let mut state = state.lock().unwrap_or_else(PoisonError::into_inner);
        // Each request moves the time at which the bucket is full by one interval.
        let full_at = state.full_at.map_or(now, |it| it.max(now));
        let full_at = full_at.checked_add(*interval).unwrap_or(full_at);
        state.full_at = Some(full_at);
        let wait = (full_at - now).saturating_sub(interval.saturating_mul(*burst));
        if wait >= LONG && state.warned.is_none_or(|it| now - it >= PAUSE) {
            state.warned = Some(now);
            log::warn!(?wait, "request budget exhausted, requests wait");
        }
        wait
    }
}

impl Default for RequestBudget {
    /// A burst of 100 requests, then 50 requests per second.
    fn default() -> Self {
        Self::new(Self::DEFAULT_PER_SECOND, Self::DEFAULT_BURST)
    }
}

impl fmt::Debug for RequestBudget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RequestBudget")
            .field("interval", &self.shared.interval)
            .field("burst", &self.shared.burst)
            .finish_non_exhaustive()
    }
}
