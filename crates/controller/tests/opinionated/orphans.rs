//! What finalizers ask an API server over HTTP: pages of orphans, and how much of a response is
//! read.

use std::{
    convert::Infallible,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use futures::stream;
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full, StreamBody, combinators::BoxBody};
use hyper::body::{Bytes, Frame};
use k8s_openapi::api::coordination::v1::Lease;
use kube::{Api, Client, client::Body};
use parking_lot::Mutex;
use serde_json::json;
use windlass_controller::{FinalizerName, Finalizers, PatchClient};
use windlass_informer::{ObjectKey, Uid};

use crate::world::OWN;

const MIB: usize = 1024 * 1024;

/// A client whose requests are answered by `answer`.
fn client<B>(answer: impl Fn(&Request<Body>) -> Response<B> + Clone + Send + 'static) -> Client
where
    B: hyper::body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let service = tower::service_fn(move |request: Request<Body>| {
        let response = answer(&request);
        async move { Ok::<_, Infallible>(response) }
    });
    Client::new(service, "default")
}

/// The value of a parameter of the request's query.
fn parameter(request: &Request<Body>, name: &str) -> Option<String> {
    let query = request.uri().query().unwrap_or_default();
    let mut pairs = query.split('&').filter_map(|pair| pair.split_once('='));
    pairs
        .find(|(known, _)| *known == name)
        .map(|(_, value)| value.to_owned())
}

/// A page of the metadata of leases, of which those in `held` have our finalizer.
fn page(names: impl Iterator<Item = usize>, held: &[usize], token: &str) -> Response<Full<Bytes>> {
    let items: Vec<_> = names
        .map(|number| {
            let finalizers = held.contains(&number).then_some(OWN);
            let metadata = json!({
                "name": format!("lease-{number}"),
                "namespace": "shop",
                "uid": format!("uid-{number}"),
                "finalizers": Vec::from_iter(finalizers),
            });
            json!({
                "kind": "PartialObjectMetadata",
                "apiVersion": "meta.k8s.io/v1",
                "metadata": metadata,
            })
        })
        .collect();
    let list = json!({
        "kind": "PartialObjectMetadataList",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": { "resourceVersion": "7", "continue": token },
        "items": items,
    });
    Response::new(Full::from(list.to_string()))
}

fn finalizers(client: &Client) -> Finalizers<Lease> {
    let name = FinalizerName::new(OWN).expect("a name");
    Finalizers::new(client.clone(), name).expect("a finalizer")
}

#[tokio::test]
async fn an_orphan_is_found_on_any_page() {
    const OBJECTS: usize = 1_201;
    let pages = client(|request| {
        let number = |name| parameter(request, name).and_then(|value| value.parse().ok());
        let first: usize = number("continue").unwrap_or(0);
        let end = OBJECTS.min(first + number("limit").unwrap_or(OBJECTS));
        let token = if end < OBJECTS {
            end.to_string()
        } else {
            String::new()
        };
        page(first..end, &[3, 4, 700, OBJECTS - 1], &token)
    });
    let found = finalizers(&pages)
        .orphans(&Api::all(pages), |key| key.name() == "lease-4")
        .await
        .expect("a list");
    let found: Vec<_> = found
        .iter()
        .map(|orphan| {
            let uid = orphan.uid.as_ref().map(Uid::as_str);
            (orphan.key.to_string(), uid, orphan.terminating)
        })
        .collect();
    assert_eq!(
        found,
        [
            ("shop/lease-3".to_owned(), Some("uid-3"), false),
            ("shop/lease-700".to_owned(), Some("uid-700"), false),
            ("shop/lease-1200".to_owned(), Some("uid-1200"), false),
        ]
    );
}

#[tokio::test]
async fn a_server_that_repeats_a_token_is_not_asked_for_ever() {
    let tokens = Arc::new(Mutex::new(Vec::new()));
    let asked = Arc::clone(&tokens);
    let repeats = client(move |request| {
        asked.lock().push(parameter(request, "continue"));
        page(0..1, &[0], "again")
    });
    let found = finalizers(&repeats)
        .orphans(&Api::all(repeats), |_| true)
        .await
        .expect("a list");
    assert_eq!(found, []);
    assert_eq!(*tokens.lock(), [None, Some("again".to_owned())]);
}

/// An object is smaller than 16 MiB, and a status than 64 KiB.
#[tokio::test]
async fn a_response_that_is_far_too_long_is_not_read_to_its_end() {
    for (status, most) in [(StatusCode::OK, 17 * MIB), (StatusCode::FORBIDDEN, MIB)] {
        let read = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&read);
        let long = client(move |_| {
            let mut response = Response::new(endless(Arc::clone(&counted)));
            *response.status_mut() = status;
            response
        });
        let key = ObjectKey::new("web").within("shop");
        let error = PatchClient::<Lease>::get(&long, &key)
            .await
            .expect_err("it is too long");
        match &error {
            kube::Error::Api(refused) => assert_eq!(refused.code, status.as_u16()),
            error => assert_eq!(status, StatusCode::OK, "{error:?}"),
        }
        let read = read.load(Ordering::Relaxed);
        assert!(read <= most, "{read} bytes of a {status}");
    }
}

/// An object, and 32 MiB of white space behind it, in chunks of 64 KiB, which are counted.
fn endless(read: Arc<AtomicUsize>) -> BoxBody<Bytes, Infallible> {
    let object = json!({
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": { "name": "web", "namespace": "shop" },
    });
    let first = Bytes::from(object.to_string());
    let spaces = Bytes::from(vec![b' '; MIB / 16]);
    let chunks = std::iter::once(first).chain(std::iter::repeat_n(spaces, 32 * 16));
    let frames = chunks.map(move |chunk| {
        read.fetch_add(chunk.len(), Ordering::Relaxed);
        Ok(Frame::data(chunk))
    });
    StreamBody::new(stream::iter(frames)).boxed()
}
