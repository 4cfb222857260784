//! Calls routes: reads the body of a request, and runs the route on the runtime of the operator.

use std::sync::Arc;

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full, LengthLimitError, Limited};
use hyper::body::Incoming;
use tokio::{runtime::Handle, task::JoinError, time::timeout};
use tokio_util::task::AbortOnDropHandle;
use windlass_informer::panic_message;

use super::{
    AdminLimits,
    page::{self, Answer},
    route::ErasedRoute,
};

/// How routes are called.
#[derive(Clone)]
pub(crate) struct RouteCall {
    pub(crate) limits: AdminLimits,
    /// The runtime of the operator.
    pub(crate) operator_runtime: Handle,
}

// === impl RouteCall ===

impl RouteCall {
    /// Answers a request for `path` with `route`.
    pub(crate) async fn answer(
        &self,
        path: &str,
        route: &Arc<dyn ErasedRoute>,
        request: Request<Incoming>,
    ) -> Answer {
        let AdminLimits {
            body: most,
            read_timeout,
            ..
        } = self.limits;
        let (parts, body) = request.into_parts();
        let body = Limited::new(body, most.get()).collect();
        let refused = match timeout(read_timeout, body).await {
            Ok(Ok(body)) => {
                let request = Request::from_parts(parts, body.to_bytes());
                return self.call(path, route, request).await;
            }
            Ok(Err(error)) if error.is::<LengthLimitError>() => (
                StatusCode::PAYLOAD_TOO_LARGE,
                format!("a body has at most {most} bytes\n"),
            ),
            Ok(Err(_)) => (
                StatusCode::BAD_REQUEST,
                "the body of the request is incomplete\n".to_owned(),
            ),
            Err(_) => (
                StatusCode::REQUEST_TIMEOUT,
                format!("the body did not arrive within {read_timeout:?}\n"),
            ),
        };
        page::text(refused.0, refused.1)
    }

    async fn call(
        &self,
        path: &str,
        route: &Arc<dyn ErasedRoute>,
        request: Request<Bytes>,
    ) -> Answer {
        let answer = self
            .operator_runtime
            .spawn(Arc::clone(route).answer(request));
        match AbortOnDropHandle::new(answer)
            .await
            .map_err(JoinError::try_into_panic)
        {
            Ok(answer) => answer.map(Full::new),
            Err(Ok(panic)) => page::panicked(path, &panic_message(panic)),
            Err(Err(_)) => {
                let mut answer = Response::new(Full::default());
                *answer.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
                answer
            }
        }
    }
}
