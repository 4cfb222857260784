//! Calls routes: reads the body of a request, and runs the route on the runtime of the operator.

use std::{sync::Arc, time::Duration};

use bytes::{Bytes, BytesMut};
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
    /// The timeout for reading a body. [`AdminLimits::read_timeout`] is that between two parts of it.
    pub(crate) body_timeout: Duration,
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
        let (parts, body) = request.into_parts();
        let late = |limit| {
            let text = format!("the body did not arrive within {limit:?}\n");
            (StatusCode::REQUEST_TIMEOUT, text)
        };
        let body = timeout(self.body_timeout, self.read(body)).await;
        let refused = match body.map_err(|_| late(self.body_timeout)) {
            Ok(Ok(body)) => {
                let request = Request::from_parts(parts, body);
                return self.call(path, route, request).await;
            }
            Ok(Err(refused)) | Err(refused) => refused,
        };
        page::text(refused.0, refused.1)
    }

    /// Reads a body. The error is the status and the text of the response.
    async fn read(&self, body: Incoming) -> Result<Bytes, (StatusCode, String)> {
        let AdminLimits {
            body: most,
            read_timeout,
            ..
        } = self.limits;
        let (mut body, mut read) = (Limited::new(body, most.get()), BytesMut::new());
        loop {
            let frame = match timeout(read_timeout, body.frame()).await {
                Ok(None) => return Ok(read.freeze()),
                Ok(Some(Ok(frame))) => frame,
                Ok(Some(Err(error))) if error.is::<LengthLimitError>() => {
                    let text = format!("a body has at most {most} bytes\n");
                    return Err((StatusCode::PAYLOAD_TOO_LARGE, text));
                }
                Ok(Some(Err(_))) => {
                    let text = "the body of the request is incomplete\n".to_owned();
                    return Err((StatusCode::BAD_REQUEST, text));
                }
                Err(_) => {
                    let text = format!("no part of the body arrived within {read_timeout:?}\n");
                    return Err((StatusCode::REQUEST_TIMEOUT, text));
                }
            };
            if let Ok(part) = frame.into_data() {
                read.extend_from_slice(&part);
            }
        }
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
