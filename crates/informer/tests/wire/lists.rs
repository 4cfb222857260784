//! Streamed and paged lists, and which of them are accepted.

use std::time::Duration;

use crate::{
    server::Answer,
    text::{added, list, page},
    wire::Wire,
};

/// A proxy that swallows bookmarks would make a streamed list wait for ever.
#[tokio::test(start_paused = true)]
async fn a_streamed_list_without_an_end_falls_back_to_pages() {
    let mut wire = Wire::start([
        Answer::lines([added("a", 1, "1")]).then_hang(),
        Answer::lines([added("a", 1, "1")]).then_hang(),
        Answer::json(200, &list("7", &[("a", 1)])),
        Answer::lines([]).then_hang(),
    ]);
    let began = tokio::time::Instant::now();
    assert_eq!(wire.receive(2).await, ["added a", "synced"]);
    assert!(
        began.elapsed() < Duration::from_secs(90),
        "{:?}",
        began.elapsed()
    );
    assert!(wire.asked(2).contains("limit=500"), "{}", wire.asked(2));
    wire.requests(4).await;
    assert!(
        wire.asked(3).contains("resourceVersion=7"),
        "{}",
        wire.asked(3)
    );
}

#[tokio::test(start_paused = true)]
async fn a_server_without_streamed_lists_is_tried_once() {
    let refusal = r#"{"kind":"Status","code":422,"reason":"Invalid","message":"sendInitialEvents is forbidden for watch unless the WatchList feature gate is enabled"}"#;
    let mut wire = Wire::start([
        Answer::json(422, refusal),
        Answer::json(200, &list("7", &[("a", 1)])),
        Answer::json(410, r#"{"kind":"Status","code":410,"reason":"Gone"}"#),
        Answer::json(200, &list("9", &[("b", 8)])),
        Answer::lines([]).then_hang(),
    ]);
    assert_eq!(
        wire.receive(4).await,
        ["added a", "synced", "added b", "missed a"]
    );
    let streams = (0..4).filter(|i| wire.asked(*i).contains("sendInitialEvents"));
    assert_eq!(streams.count(), 1);
}

#[tokio::test(start_paused = true)]
async fn an_inconsistent_list_is_not_accepted() {
    let page = |version: &str, name: &str, next: &str| page(version, &[(name, 1)], next);
    let mut wire = Wire::pages([
        Answer::json(200, &page("7", "a", "more")),
        Answer::json(200, &page("8", "b", "")),
        Answer::json(200, &page("9", "b", "")),
        Answer::lines([]).then_hang(),
    ]);
    // `a` was there when its page came, so it is reported, and then missed.
    assert_eq!(
        wire.receive(4).await,
        ["added a", "added b", "missed a", "synced"]
    );
    let mut wire = Wire::pages([
        Answer::json(200, r#"{"kind":"ConfigMapList","metadata":{},"items":[]}"#),
        Answer::json(
            200,
            r#"{"kind":"ConfigMapList","metadata":{"resourceVersion":"7"},"items":null}"#,
        ),
        Answer::lines([]).then_hang(),
    ]);
    assert_eq!(wire.receive(1).await, ["synced"]);
}

/// The second page is of another version and has no end: in one piece or two, the list begins anew.
#[tokio::test(start_paused = true)]
async fn a_page_with_two_errors_has_the_same_one_in_whatever_chunks_it_arrives() {
    let first = list("7", &[("a", 1)]).replace(r#""continue":"""#, r#""continue":"more""#);
    let (metadata, rest) = (
        r#"{"kind":"ConfigMapList","metadata":{"resourceVersion":"8"},"#,
        r#""items":[7]}"#,
    );
    let whole = Answer::json(200, &format!("{metadata}{rest}"));
    let in_chunks = Answer::json(200, metadata).then(rest);
    for second in [whole, in_chunks] {
        let mut wire = Wire::pages([
            Answer::json(200, &first),
            second,
            Answer::json(200, &list("9", &[("a", 1)])),
            Answer::lines([]).then_hang(),
        ]);
        assert_eq!(wire.receive(2).await, ["added a", "synced"]);
        let requests = wire.server.requests();
        let third = &requests.get(2).expect("a third request").1;
        assert!(!third.contains("continue="), "the list continues: {third}");
    }
}

/// A list from another, older API server would bring back deleted objects.
#[tokio::test(start_paused = true)]
async fn a_stale_list_does_not_replace_the_store() {
    let mut wire = Wire::pages([
        Answer::json(200, &list("20", &[("a", 20)])),
        Answer::json(410, ""),
        Answer::json(200, &list("5", &[("ghost", 4)])),
        Answer::json(200, &list("21", &[("a", 20)])),
        Answer::lines([added("b", 22, "1")]).then_hang(),
    ]);
    assert_eq!(wire.receive(3).await, ["added a", "synced", "added b"]);
}

#[tokio::test(start_paused = true)]
async fn unchanged_objects_of_a_relist_are_neither_decoded_nor_dispatched() {
    // The second list holds an object that would not decode, in a state that is known.
    let undecodable = list("30", &[("a", 1), ("b", 12)]).replacen(r#"{"value":"1"}"#, "7", 1);
    let mut wire = Wire::pages([
        Answer::json(200, &list("10", &[("a", 1), ("b", 2)])),
        Answer::json(410, ""),
        Answer::json(200, &undecodable),
        Answer::lines([]).then_hang(),
    ]);
    assert_eq!(
        wire.receive(4).await,
        ["added a", "added b", "synced", "updated b"]
    );
    wire.requests(4).await;
    assert!(wire.informer.health().undecodable.is_empty());
}

/// In one piece it may be too long for the server, each time.
#[tokio::test(start_paused = true)]
async fn a_failed_unpaged_list_is_followed_by_a_paged_list() {
    let gone = || Answer::json(410, r#"{"kind":"Status","code":410,"reason":"Expired"}"#);
    let mut wire = Wire::pages([
        Answer::json(200, &page("7", &[("a", 1)], "more")),
        gone(),
        Answer::json(500, ""),
        Answer::json(200, &page("8", &[("a", 1)], "more")),
        Answer::json(200, &list("8", &[("b", 2)])),
        Answer::lines([]).then_hang(),
    ]);
    assert_eq!(wire.receive(3).await, ["added a", "added b", "synced"]);
    let paged: Vec<_> = (0..5).map(|at| wire.asked(at).contains("limit=")).collect();
    assert_eq!(paged, [true, true, false, true, true]);
}
