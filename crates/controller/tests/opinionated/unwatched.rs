//! The HTTP requests of `Finalizers::unwatched`: pages of objects, and the limit of a response.

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
use serde_json::json;
use windlass_controller::{FinalizerName, Finalizers, PatchClient};
use windlass_informer::{ErrorChain, ObjectKey, Uid};

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
async fn an_unwatched_object_is_found_on_any_page() {
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
        .unwatched(&Api::all(pages), |key| key.name() == "lease-4")
        .await
        .expect("a list");
    let found: Vec<_> = found
        .iter()
        .map(|object| {
            let uid = object.uid.as_ref().map(Uid::as_str);
            (object.key.to_string(), uid, object.terminating)
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

/// Pages can overlap: an API server that is behind a cache may show an object twice.
#[tokio::test]
async fn an_unwatched_object_that_is_shown_twice_is_returned_once() {
    let pages = client(|request| match parameter(request, "continue") {
        None => page(0..50, &[30], "next"),
        Some(_) => page(25..75, &[30, 70], ""),
    });
    let found = finalizers(&pages)
        .unwatched(&Api::all(pages), |_| false)
        .await
        .expect("a list");
    let found: Vec<_> = found.iter().map(|object| object.key.name()).collect();
    assert_eq!(found, ["lease-30", "lease-70"]);
}

/// A partial list would keep the objects that it lacks from being deleted.
#[tokio::test]
async fn an_endless_list_is_an_error_after_eight_pages_without_a_new_object() {
    type Pages = fn(usize) -> (std::ops::Range<usize>, String);
    let endless: [Pages; 5] = [
        |_| (0..1, "again".to_owned()),
        |number| (0..1, ["a", "b"][number % 2].to_owned()),
        |number| (0..1, number.to_string()),
        |number| {
            let first = number % 2;
            (first..first + 1, number.to_string())
        },
        |number| (0..0, number.to_string()),
    ];
    for (case, pages) in endless.into_iter().enumerate() {
        let requests = Arc::new(AtomicUsize::new(0));
        let asked = Arc::clone(&requests);
        let endless = client(move |_| {
            let (names, token) = pages(asked.fetch_add(1, Ordering::Relaxed));
            page(names, &[0], &token)
        });
        let error = finalizers(&endless)
            .unwatched(&Api::all(endless), |_| false)
            .await
            .expect_err("the list has no end");
        let text = ErrorChain::new(&error).to_string();
        assert!(
            text.contains("cannot list leases.coordination.k8s.io"),
            "{text}"
        );
        let requests = requests.load(Ordering::Relaxed);
        assert!(
            (8..=10).contains(&requests),
            "case {case}: {requests} requests"
        );
    }
}

/// The maximum number of pages without a new object, followed by others.
#[tokio::test]
async fn a_list_with_a_few_pages_without_a_new_object_is_read_to_its_end() {
    let requests = Arc::new(AtomicUsize::new(0));
    let asked = Arc::clone(&requests);
    let slow = client(move |_| match asked.fetch_add(1, Ordering::Relaxed) {
        number @ 0..=20 if number % 8 > 0 => page(0..0, &[], "more"),
        21 => page(21..22, &[21], ""),
        number => page(std::iter::once(number), &[], "more"),
    });
    let found = finalizers(&slow)
        .unwatched(&Api::all(slow), |_| false)
        .await
        .expect("a list");
    assert_eq!(found.len(), 1);
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
