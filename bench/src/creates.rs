//! Creates objects on the embedded API server without a socket, to count instructions.
//!
//! Count them with `valgrind --tool=callgrind` for two numbers of created objects. The difference is
//! the cost of the creates, because both runs prepare the same number of requests.

use bytes::Bytes;
use clap::Args;
use http::{Method, Request};
use http_body_util::{BodyExt as _, Full};
use tower::ServiceExt as _;
use windlass_apiserver::ApiServer;

use crate::{
    Result,
    servers::{NAMESPACE, bodies, path},
};

/// The settings of a run.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct Creates {
    /// The number of prepared requests.
    #[arg(long, default_value_t = 2000)]
    prepared: usize,

    /// The number of created objects.
    #[arg(long)]
    created: usize,
}

// === impl Creates ===

impl Creates {
    /// Creates the objects one after the other, and reads the responses.
    pub(crate) fn run(self) -> Result<()> {
        let runtime = tokio::runtime::Builder::new_current_thread().build()?;
        let mut requests = bodies(0..self.prepared);
        requests.truncate(self.created);
        runtime.block_on(async {
            let server = ApiServer::new();
            let namespace = format!(r#"{{"metadata":{{"name":"{NAMESPACE}"}}}}"#);
            let first = ("/api/v1/namespaces".to_owned(), Bytes::from(namespace));
            for (path, body) in [first]
                .into_iter()
                .chain(requests.into_iter().map(|body| (path(), body)))
            {
                let request = Request::builder()
                    .method(Method::POST)
                    .uri(path)
                    .header(http::header::CONTENT_TYPE, "application/json")
                    .body(Full::new(body))?;
                let response = server.service().oneshot(request).await?;
                let status = response.status();
                let text = response.into_body().collect().await?.to_bytes();
                if !status.is_success() {
                    return Err(String::from_utf8_lossy(&text).into());
                }
            }
            Ok(())
        })
    }
}
