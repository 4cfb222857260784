//! What requests accept: the form of the objects, and no compression.

use std::time::Duration;

use http::header;
use tokio_util::sync::CancellationToken;
use windlass_informer::{Informer, ListWatch, ObjectKey, Source, Stored};

use crate::{
    server::{Answer, Server},
    text::{END, added, list, object},
    wire::source,
};

/// The types of an object in the form in which it is sent.
const WHOLE: &str = r#""kind":"ConfigMap","apiVersion":"v1""#;
const METADATA: &str = r#""kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1""#;

/// A compressed watch buys little and costs both sides.
#[tokio::test(start_paused = true)]
async fn no_request_accepts_compression() {
    for is_streamed in [true, false] {
        let server = server(is_streamed, WHOLE);
        run(source(&server).streamed_lists(is_streamed), &server).await;
        for headers in server.headers() {
            assert_eq!(headers[header::ACCEPT_ENCODING], "identity", "{headers:?}");
            assert_eq!(headers[header::ACCEPT], "application/json", "{headers:?}");
        }
    }
}

/// An informer of metadata does not request complete objects.
#[tokio::test(start_paused = true)]
async fn a_list_and_watch_of_metadata_asks_for_metadata_in_every_request() {
    for is_streamed in [true, false] {
        let server = server(is_streamed, METADATA);
        let source = source(&server).streamed_lists(is_streamed);
        run(ListWatch::metadata(source), &server).await;
        let asked = server.requests();
        for ((_, asked), headers) in asked.iter().zip(server.headers()) {
            let expected = if asked.contains("limit=") {
                "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
            } else {
                "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
            };
            assert_eq!(headers[header::ACCEPT], expected, "{asked}");
        }
    }
}

/// A server that has the object `a` of these types, and one that does not decode, in a list and a
/// watch.
fn server(is_streamed: bool, types: &str) -> Server {
    let in_form = |text: String| text.replace(WHOLE, types);
    let broken = object("b", 2, "1").replace(r#""name":"b""#, r#""name":"b","labels":7"#);
    assert_ne!(broken, object("b", 2, "1"));
    let watch = || Answer::lines([]).then_hang_for_good();
    if is_streamed {
        let broken = added("b", 2, "1").replace(&object("b", 2, "1"), &broken);
        let lines = [added("a", 1, "1"), broken, END.to_owned()];
        return Server::new([Answer::lines(lines.map(in_form)), watch()]);
    }
    let list = list("10", &[("a", 1), ("b", 2)]).replace(&object("b", 2, "1"), &broken);
    Server::new([Answer::json(200, &in_form(list)), watch()])
}

/// Runs a source until it has listed, watched, and requested the object that does not decode.
async fn run<K: Stored>(source: impl Source<K>, server: &Server) {
    let informer = Informer::builder(source).on_error(|_| {}).build();
    let stop = CancellationToken::new();
    let running = tokio::spawn({
        let (informer, stop) = (informer.clone(), stop.clone());
        async move { informer.run(stop).await }
    });
    // On paused time: a source that never lists ends the test.
    let synced = tokio::time::timeout(Duration::from_secs(3600), informer.synced());
    synced.await.expect("it lists").expect("it runs");
    // On paused time: the object is requested after half a minute.
    tokio::time::sleep(Duration::from_secs(60)).await;
    let asked: Vec<String> = server
        .requests()
        .into_iter()
        .map(|(_, asked)| asked)
        .collect();
    assert!(
        asked.iter().any(|asked| asked.ends_with("/configmaps/b")),
        "{asked:?}"
    );
    assert!(
        asked.iter().any(|asked| asked.contains("watch=true")),
        "{asked:?}"
    );
    assert!(
        informer
            .store()
            .contains(&ObjectKey::new("a").within("default"))
    );
    stop.cancel();
    running.await.expect("no panic").expect("it stops");
}
