//! Pausing single objects with an annotation.

use http::{Method, Request, header};
use kube::{Client, api::ObjectMeta, client::Body};
use tower::BoxError;

/// The annotation that pauses an object: with the value `true`, nothing is written for it except its
/// status and Events.
pub(crate) const PAUSED: &str = "windlass.dev/paused";

/// A write was refused because the object of the call is paused.
///
/// A paused client returns it as the source of a [`kube::Error`]; [`find`](Self::find) finds it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{request} was not sent: the object has the annotation {PAUSED}=true; remove it to continue"
)]
#[non_exhaustive]
pub struct ObjectPaused {
    /// The method and path of the request.
    pub request: String,
}

/// Whether the object with `metadata` is paused.
pub(crate) fn is_paused(metadata: &ObjectMeta) -> bool {
    let annotations = metadata.annotations.as_ref();
    annotations
        .and_then(|annotations| annotations.get(PAUSED))
        .is_some_and(|it| it == "true")
}

/// Returns a client that sends reads, writes of statuses and Events through `client`, and refuses
/// all other writes with [`ObjectPaused`]. Call it within a tokio runtime, like [`Client::new`].
pub(crate) fn paused_client(client: Client) -> Client {
    let namespace = client.default_namespace().to_owned();
    let valid_until = *client.valid_until();
    let service = tower::service_fn(move |request: Request<Body>| {
        let client = client.clone();
        let refused = refusal(&request);
        async move {
            match refused {
                Some(refused) => Err(BoxError::from(refused)),
                None => Ok(client.send(request).await?),
            }
        }
    });
    Client::new(service, namespace).with_valid_until(valid_until)
}

/// Why `request` is refused; `None` if it is sent.
fn refusal(request: &Request<Body>) -> Option<ObjectPaused> {
    let path = request.uri().path();
    let is_read = matches!(
        *request.method(),
        Method::GET | Method::HEAD | Method::OPTIONS
    ) && !request.headers().contains_key(header::UPGRADE);
    let query = request.uri().query().unwrap_or_default();
    let mut parts = path.split('/').rev();
    let last = parts.next().unwrap_or_default();
    // `/api/v1/namespaces/shop/status` is no status of an object in `shop`.
    let is_status = last == "status";
    let is_event = path.contains("/events");
    if is_read || is_status || is_event || query.contains("dryRun=") {
        return None;
    }
    Some(ObjectPaused {
        request: format!("{} {path}", request.method()),
    })
}

// === impl ObjectPaused ===

impl ObjectPaused {
    /// Looks for this error in `error` and its sources.
    #[must_use]
    pub fn find<'a>(error: &'a (dyn std::error::Error + 'static)) -> Option<&'a Self> {
        std::iter::successors(Some(error), |error| (*error).source())
            .find_map(|error| error.downcast_ref())
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use http::Response;

    use super::*;

    /// Rows: BO-44
    #[tokio::test]
    async fn for_a_paused_object_only_its_status_and_events_are_written() {
        let server = tower::service_fn(|_: Request<Body>| async {
            Ok::<_, Infallible>(Response::new(Body::empty()))
        });
        let client = paused_client(Client::new(server, "shop"));
        let maps = "/api/v1/namespaces/shop/configmaps";
        for (method, path, is_sent) in [
            ("GET", format!("{maps}/web"), true),
            ("POST", maps.to_owned(), false),
            ("PUT", format!("{maps}/web"), false),
            ("PATCH", format!("{maps}/web?fieldManager=a"), false),
            ("DELETE", format!("{maps}/web"), false),
            ("DELETE", maps.to_owned(), false),
            ("PATCH", format!("{maps}/web?dryRun=All"), true),
            (
                "PATCH",
                "/apis/a.io/v1/namespaces/shop/webs/x/status".to_owned(),
                true,
            ),
            (
                "POST",
                "/apis/events.k8s.io/v1/namespaces/shop/events".to_owned(),
                true,
            ),
            (
                "PATCH",
                "/api/v1/namespaces/shop/events/a.1".to_owned(),
                true,
            ),
        ] {
            let request = Request::builder()
                .method(method)
                .uri(&path)
                .body(Body::empty());
            let sent = client.send(request.expect("a request")).await;
            assert_eq!(sent.is_ok(), is_sent, "{method} {path}");
            if let Err(error) = sent {
                let refused = ObjectPaused::find(&error).expect("the reason");
                assert!(refused.request.starts_with(method), "{refused}");
            }
        }
    }

    /// Rows: BO-44
    #[test]
    fn an_object_is_paused_by_its_annotation() {
        let paused = |value: Option<&str>| {
            let annotation = value.map(|value| (PAUSED.to_owned(), value.to_owned()));
            is_paused(&ObjectMeta {
                annotations: Some(annotation.into_iter().collect()),
                ..ObjectMeta::default()
            })
        };
        assert!(paused(Some("true")));
        assert!(!paused(Some("false")));
        assert!(!paused(Some("")));
        assert!(!paused(None));
        assert!(!is_paused(&ObjectMeta::default()));
    }
}
