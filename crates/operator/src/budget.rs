//! Request budgets: a bound of the requests that an operator sends in a second.

use std::{
    fmt,
    num::NonZeroU32,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use http::{Request, Response};
use kube::{Client, client::Body};
use tokio::time::{Instant, sleep};

/// Bounds the requests that all clients with this budget send in a second.
///
/// A budget is a token bucket: it allows a burst, and then a number of requests a second. Requests
/// beyond it wait, in the order in which they came. It protects the API server from handlers that
/// fail, or that write what another client changes back, on every object at once.
///
/// # Contract
///
/// *Guaranteed.* In `t` seconds, clients of this budget begin at most `burst + t * per_second`
/// requests. A list page is one request, and so is a watch for as long as it stands. Each request
/// is sent once: kube's own retries (`Config::default_retry`: 15 of them where the answer is 429,
/// 503 or 504, also for a `POST` that may have been carried out) are turned off, so that the caller
/// decides what such an answer means.
///
/// *Required.* One budget for the whole operator: clones share it, and budgets that are created
/// separately do not. The client of a [`LeaderElection`](crate::LeaderElection) has none, so that
/// renewals do not wait.
///
/// *Not guaranteed.* Fairness between callers: a handler that sends many requests delays the
/// others. A request whose future is dropped while it waits has used its place.
///
/// An operator has no budget unless its clients are given one: API servers protect themselves by
/// API Priority and Fairness, and answer 429 where they have to.
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
/// // The fence is outside: a write that waits for its place is dropped at the deadline.
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
    /// Between two requests, once the burst is used.
    interval: Duration,
    burst: u32,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// When the bucket will be full again; none before the first request.
    full_at: Option<Instant>,
    /// When a long wait was last logged.
    warned: Option<Instant>,
}

// === impl RequestBudget ===

impl RequestBudget {
    /// More than client-go's 5 and less than what one handler in a loop can send (thousands): the
    /// size of an operator that is busy with a few hundred objects.
    pub const DEFAULT_PER_SECOND: NonZeroU32 = NonZeroU32::new(50).expect("not zero");

    /// Two seconds' worth, as client-go has: the first lists of an operator with tens of kinds do
    /// not wait.
    pub const DEFAULT_BURST: NonZeroU32 = NonZeroU32::new(100).expect("not zero");

    /// Creates a budget of `per_second` requests a second, after `burst` requests at once.
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

    /// A client that sends its requests through `client`, each when this budget allows it.
    ///
    /// Must be called within a tokio runtime, as [`Client::new`] must.
    #[must_use]
    pub fn client(&self, client: Client) -> Client {
        // kube repeats a request if it can clone the body. The body of an answer cannot be cloned,
        // so bodies pass through a client whose service answers with what it was sent.
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

    /// Takes the next place, and returns how long it is until then.
    fn reserve(&self) -> Duration {
        /// A wait that is worth a line in the log.
        const LONG: Duration = Duration::from_secs(1);
        /// Between two such lines.
        const PAUSE: Duration = Duration::from_secs(60);

        let Shared {
            interval,
            burst,
            state,
        } = &*self.shared;
        let now = Instant::now();
        let mut state = state.lock().unwrap_or_else(PoisonError::into_inner);
        // The bucket empties by one interval a request, and fills as time passes.
        let full_at = state.full_at.map_or(now, |it| it.max(now));
        let full_at = full_at.checked_add(*interval).unwrap_or(full_at);
        state.full_at = Some(full_at);
        let wait = (full_at - now).saturating_sub(interval.saturating_mul(*burst));
        if wait >= LONG && state.warned.is_none_or(|it| now - it >= PAUSE) {
            state.warned = Some(now);
            tracing::warn!(
                ?wait,
                "requests wait for the request budget of this operator"
            );
        }
        wait
    }
}

impl Default for RequestBudget {
    /// 50 requests a second, after 100 at once.
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
