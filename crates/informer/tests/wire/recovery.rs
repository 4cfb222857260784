//! Refusals that end, objects that other tests do not send, and changes between a list and its watch.

use crate::{
    server::Answer,
    text::{END, added, deleted, list, object},
    wire::Wire,
};

/// A token that expired, a role that was removed, a server that crashes, stops or is too slow: the
/// watch resumes where it was.
#[tokio::test(start_paused = true)]
async fn a_watch_that_is_refused_for_a_time_resumes_without_a_list() {
    let unavailable = r#"{"kind":"Status","code":500,"reason":"ServerTimeout","details":{"retryAfterSeconds":1}}"#;
    for (code, body) in [
        (
            401,
            r#"{"kind":"Status","code":401,"reason":"Unauthorized"}"#,
        ),
        (403, r#"{"kind":"Status","code":403,"reason":"Forbidden"}"#),
        (
            500,
            "This request caused apiserver to panic. Look in the logs for details.",
        ),
        (500, unavailable),
        (503, ""),
        (504, r#"{"kind":"Status","code":504,"reason":"Timeout"}"#),
    ] {
        let mut answers = vec![Answer::lines([END.to_owned(), added("a", 11, "1")])];
        answers.extend(std::iter::repeat_with(|| Answer::json(code, body)).take(10));
        answers.push(Answer::lines([added("b", 12, "1")]).then_hang());
        let mut wire = Wire::start(answers);
        let received = wire.receive(3).await;
        assert_eq!(received, ["synced", "added a", "added b"], "{code} {body}");
        for request in 1..=11 {
            let asked = wire.asked(request);
            let resumes = asked.contains("watch=true") && asked.contains("resourceVersion=11");
            assert!(resumes, "{code} {body}: {asked}");
        }
        // The backoff is at most 30 s, and a refusal causes no burst.
        let waits = wire.waits();
        let longest = waits.iter().max().expect("some");
        assert!(longest.as_secs() <= 30, "{code} {body}: {waits:?}");
        assert!(waits[5].as_secs() >= 5, "{code} {body}: {waits:?}");
    }
}

/// The version of the list is the version from which the watch begins.
#[tokio::test(start_paused = true)]
async fn a_delete_between_a_list_and_its_watch_is_reported() {
    let mut wire = Wire::pages([
        Answer::json(200, &list("7", &[("a", 1), ("b", 2)])),
        Answer::lines([deleted("a", 8)]).then_hang(),
    ]);
    let received = wire.receive(4).await;
    assert_eq!(received, ["added a", "added b", "synced", "deleted a"]);
    assert!(
        wire.asked(1).contains("resourceVersion=7"),
        "{}",
        wire.asked(1)
    );
}

#[tokio::test(start_paused = true)]
async fn an_object_that_a_list_contains_twice_is_reported_once() {
    let mut wire = Wire::pages([
        Answer::json(200, &list("7", &[("a", 1), ("b", 2), ("a", 1)])),
        Answer::lines([added("c", 8, "1")]).then_hang(),
    ]);
    let received = wire.receive(4).await;
    assert_eq!(received, ["added a", "added b", "synced", "added c"]);
}

#[tokio::test(start_paused = true)]
async fn an_object_without_a_uid_is_reported() {
    let page = list("7", &[("a", 1)]).replace(r#""uid":"uid-a","#, "");
    let mut wire = Wire::pages([
        Answer::json(200, &page),
        Answer::lines([added("c", 8, "1")]).then_hang(),
    ]);
    assert_eq!(wire.receive(3).await, ["added a", "synced", "added c"]);
}

/// An object of another kind, and the table that `kubectl` asks for.
#[tokio::test(start_paused = true)]
async fn an_event_with_an_object_of_another_kind_is_ignored() {
    let secret = object("s", 11, "1").replace("ConfigMap", "Secret");
    let table = r#"{"kind":"Table","apiVersion":"meta.k8s.io/v1","metadata":{"resourceVersion":"11"},"rows":[]}"#;
    for other in [&*secret, table] {
        let event = format!(r#"{{"type":"ADDED","object":{other}}}"#);
        let mut answers = vec![Answer::lines([END.to_owned(), event])];
        // These answer the next request, which is for the object or for a list.
        answers.extend(std::iter::repeat_with(|| Answer::json(404, "")).take(3));
        answers.push(Answer::lines([crate::text::end(12), added("b", 13, "1")]).then_hang());
        answers.push(Answer::lines([added("b", 13, "1")]).then_hang());
        let mut wire = Wire::start(answers);
        assert_eq!(wire.receive(2).await, ["synced", "added b"], "{other}");
    }
}
