//! Counts the requests of a client.

use http::Request;
use kube::{Client, client::Body};
use windlass_controller::FenceClosed;

use crate::metrics::RequestMetrics;

// === impl RequestMetrics ===

impl RequestMetrics {
    /// Returns a client that counts the requests that `client` sends to the API server at `url`.
    /// One whose future is dropped before the response, by a time limit or a stop, is not counted.
    pub(crate) fn client(&self, client: Client, url: &http::Uri) -> Client {
        let host = url.authority().map_or("", |it| {
            // Without a user and password.
            it.as_str().rsplit('@').next().unwrap_or_default()
        });
        let (host, metrics) = (host.to_owned(), self.clone());
        let (namespace, valid_until) =
            (client.default_namespace().to_owned(), *client.valid_until());
        let service = tower::service_fn(move |request: Request<Body>| {
            let (client, metrics, host) = (client.clone(), metrics.clone(), host.clone());
            async move {
                let method = request.method().clone();
                let answer = client.send(request).await;
                match &answer {
                    Ok(response) => metrics.sent(response.status().as_str(), &method, &host),
                    Err(kube::Error::Service(error)) if error.is::<FenceClosed>() => {}
                    Err(_) => metrics.sent("<error>", &method, &host),
                }
                answer
            }
        });
        Client::new(service, namespace).with_valid_until(valid_until)
    }
}
