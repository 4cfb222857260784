//! The lines of a watch, and malformed lines.

use k8s_openapi::api::core::v1::ConfigMap;
use kube::{Api, Client};
use windlass_informer::ListWatch;

use crate::{
    server::{Answer, Server},
    text::{END, added, deleted, modified},
    wire::Wire,
};

#[tokio::test(start_paused = true)]
async fn lines_are_complete_with_any_chunking() {
    let stream = [added("a", 1, "1"), END.to_owned(), added("\u{e9}", 11, "1")].join("\n") + "\n";
    let bytes = stream.as_bytes().chunks(1).map(<[u8]>::to_vec);
    let mut wire = Wire::start([Answer::watch(bytes.collect()).then_hang()]);
    assert_eq!(wire.receive(3).await, ["added a", "synced", "added \u{e9}"]);
}

#[tokio::test(start_paused = true)]
async fn a_partial_line_at_the_end_is_dropped_and_received_again() {
    let broken = added("b", 11, "1");
    let (half, _) = broken.split_at(40);
    let mut wire = Wire::start([
        Answer::lines([added("a", 1, "1"), END.to_owned()]).then(half),
        Answer::lines([broken.clone()]).then_hang(),
    ]);
    assert_eq!(wire.receive(3).await, ["added a", "synced", "added b"]);
    assert!(
        wire.asked(1).contains("resourceVersion=10"),
        "{}",
        wire.asked(1)
    );
}

/// A line that cannot be read may be a change that must not be missed: the watch does not
/// read on past it.
#[tokio::test(start_paused = true)]
async fn a_malformed_line_is_requested_again() {
    let mut wire = Wire::start([
        Answer::lines([END.to_owned(), "{garbage".to_owned(), added("c", 13, "1")]),
        Answer::lines([added("b", 12, "1"), added("c", 13, "1")]).then_hang(),
    ]);
    assert_eq!(wire.receive(3).await, ["synced", "added b", "added c"]);
    assert!(
        wire.asked(1).contains("resourceVersion=10"),
        "{}",
        wire.asked(1)
    );
}

#[tokio::test(start_paused = true)]
async fn an_event_of_an_unknown_type_is_not_skipped() {
    let strange = added("b", 11, "1").replace("ADDED", "MERGED");
    let mut wire = Wire::start([
        Answer::lines([END.to_owned(), strange]),
        Answer::lines([added("b", 11, "1")]).then_hang(),
    ]);
    assert_eq!(wire.receive(2).await, ["synced", "added b"]);
    assert!(
        wire.asked(1).contains("resourceVersion=10"),
        "{}",
        wire.asked(1)
    );
}

#[tokio::test(start_paused = true)]
async fn a_duplicate_event_is_delivered_once() {
    let mut wire = Wire::start([Answer::lines([
        added("a", 1, "1"),
        END.to_owned(),
        added("a", 1, "1"),
        modified("a", 11, "2"),
        modified("a", 11, "2"),
        modified("a", 1, "1"),
        deleted("unknown", 12),
        deleted("a", 13),
    ])
    .then_hang()]);
    assert_eq!(
        wire.receive(4).await,
        ["added a", "synced", "updated a", "deleted a"]
    );
}

#[tokio::test(start_paused = true)]
async fn a_line_without_end_is_an_error_and_not_a_memory_leak() {
    let endless = vec![b'x'; 4096];
    let server = Server::new([
        Answer::lines([END.to_owned()]),
        Answer::watch(vec![endless; 16]).then_hang(),
        Answer::lines([added("a", 11, "1")]).then_hang(),
    ]);
    let api: Api<ConfigMap> = Api::default_namespaced(Client::new(server.clone(), "default"));
    let mut wire = Wire::run(ListWatch::new(api).seed(7).max_bytes(16 * 1024), server);
    assert_eq!(wire.receive(2).await, ["synced", "added a"]);
}
