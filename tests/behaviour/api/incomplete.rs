//! A create whose body is not complete until the test says so.

use std::convert::Infallible;

use bytes::Bytes;
use futures::{StreamExt as _, channel::mpsc};
use http::{Method, Request, header::AUTHORIZATION};
use http_body::Frame;
use http_body_util::StreamBody;
use hyper_util::{client::legacy, rt::TokioExecutor};
use kube::{Config, client::ConfigExt as _};
use tokio::task::JoinHandle;

use super::raw::{Raw, named};

/// A create of a config map whose body is not complete.
pub(super) struct IncompleteCreate {
    body: mpsc::Sender<Bytes>,
    code: JoinHandle<u16>,
}

// === impl IncompleteCreate ===

impl IncompleteCreate {
    /// Starts a create that counts as the only write that the server runs at a time: then the
    /// deletion of `none` by a user with the headers `user` is rejected with 429.
    pub(super) async fn occupy(
        config: &Config,
        token: Option<&str>,
        raw: &Raw,
        none: &str,
        user: &[(&str, &str)],
    ) -> Self {
        /// After this number of other responses, another request ran when the create arrived, and the
        /// create, of an administrator, does not count.
        const TRIES: usize = 200;
        /// Only the create can hold the place for this number of requests: a server that has just started
        /// writes objects of its own, one after the other.
        const IN_A_ROW: usize = 20;
        let mut number = 0;
        loop {
            let create = Self::start(config, token, &raw.maps(), &format!("occupies-{number}"));
            let mut rejected = 0;
            for _ in 0..TRIES {
                let code = raw.ask(Method::DELETE, none, user, "").await.code;
                rejected = if code == 429 { rejected + 1 } else { 0 };
                if rejected == IN_A_ROW {
                    return create;
                }
            }
            create.finish().await;
            number += 1;
        }
    }

    fn start(config: &Config, token: Option<&str>, path: &str, name: &str) -> Self {
        let (mut body, pieces) = mpsc::channel(1);
        let object = named(name).to_string();
        body.try_send(object.into()).expect("it is empty");
        let pieces = pieces.map(|piece| Ok::<_, Infallible>(Frame::data(piece)));
        let url = config.cluster_url.to_string();
        let url = format!("{}{path}", url.trim_end_matches('/'));
        let mut request = Request::post(url).header("content-type", "application/json");
        if let Some(token) = token {
            request = request.header(AUTHORIZATION, format!("Bearer {token}"));
        }
        let request = request.body(StreamBody::new(pieces)).expect("a request");
        let connector = config.rustls_https_connector().expect("a connector");
        let client = legacy::Client::builder(TokioExecutor::new()).build(connector);
        let code = tokio::spawn(async move {
            let response = client.request(request).await.expect("a response");
            response.status().as_u16()
        });
        Self { body, code }
    }

    /// Completes the body, and returns the code of the response.
    pub(super) async fn finish(self) -> u16 {
        drop(self.body);
        self.code.await.expect("it does not panic")
    }
}
