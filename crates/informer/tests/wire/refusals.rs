//! Error responses, and the waits that they demand.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use windlass_informer::{HealthState, Informer};

use crate::{
    server::{Answer, Server},
    text::{END, added, list},
    wire::{Wire, source},
};

/// An overflow of a duration would end the process; a day would stall the watch for a day.
///
/// Rows: BO-51
#[tokio::test(start_paused = true)]
async fn a_retry_delay_of_the_server_is_limited_to_five_minutes() {
    let status = |seconds: &str| {
        format!(r#"{{"kind":"Status","code":429,"details":{{"retryAfterSeconds":{seconds}}}}}"#)
    };
    let event = |seconds: &str| format!(r#"{{"type":"ERROR","object":{}}}"#, status(seconds));
    let answers = [
        Answer::json(429, "").retry_after(u64::MAX),
        Answer::json(429, "").retry_after("99999999999999999999999"),
        Answer::json(503, "").retry_after(86_400),
        Answer::json(429, &status("18446744073709551615")),
        Answer::json(429, &status("86400")),
        Answer::lines([event("18446744073709551615")]),
    ];
    let mut wire = Wire::start(
        answers
            .into_iter()
            .chain([Answer::lines([END.to_owned()]).then_hang()]),
    );
    assert_eq!(wire.receive(1).await, ["synced"]);
    for wait in wire.waits() {
        assert!(wait.as_secs() >= 300 && wait.as_secs() <= 330, "{wait:?}");
    }
}

/// Rows: BO-51
#[tokio::test(start_paused = true)]
async fn the_limit_of_the_retry_delay_can_be_configured() {
    for (longest, expected) in [(10, 10), (3600, 1000)] {
        let server = Server::new([
            Answer::json(429, "").retry_after(1000),
            Answer::lines([END.to_owned()]).then_hang(),
        ]);
        let source = source(&server).max_retry_after(Duration::from_secs(longest));
        let mut wire = Wire::run(source, server);
        assert_eq!(wire.receive(1).await, ["synced"]);
        let wait = wire.waits()[0].as_secs();
        assert!(wait >= expected && wait <= expected + 30, "{wait} s");
    }
}

/// A proxy that is set up wrong answers with 400 to everything; when that is mended, the
/// informer must still be there.
///
/// Rows: BO-51
#[tokio::test(start_paused = true)]
async fn a_rejected_list_or_watch_is_reported_and_retried() {
    let server = Server::new([
        Answer::json(400, "bad request"),
        Answer::json(
            422,
            r#"{"kind":"Status","code":422,"message":"no such label"}"#,
        ),
        Answer::json(400, "<html>\n<b>proxy</b>\n</html>"),
        Answer::json(200, &list("7", &[("a", 1)])),
        Answer::json(400, ""),
        Answer::json(422, ""),
        Answer::lines([added("b", 8, "1")]),
        Answer::lines([]).then_hang(),
    ]);
    let problems = Arc::new(Mutex::new(Vec::new()));
    let informer = Informer::builder(source(&server))
        .on_error({
            let problems = Arc::clone(&problems);
            move |problem| problems.lock().expect("no panic").push(problem.to_string())
        })
        .build();
    let mut wire = Wire::follow(informer, server);
    assert_eq!(wire.receive(3).await, ["added a", "synced", "added b"]);
    let problems = problems.lock().expect("no panic").clone();
    // Without the first: a server without streamed lists refuses them too.
    assert_eq!(problems.len(), 4, "{problems:?}");
    assert!(problems[0].contains("no such label"), "{problems:?}");
    assert!(
        problems[0].contains("label and field selectors"),
        "{problems:?}"
    );
    assert!(
        wire.asked(6).contains("resourceVersion=7"),
        "{}",
        wire.asked(6)
    );
}

/// Not even the version that a watch resumes from may be what is refused.
#[tokio::test(start_paused = true)]
async fn a_watch_that_is_refused_three_times_begins_with_a_list() {
    let mut wire = Wire::start([
        Answer::lines([END.to_owned()]),
        Answer::json(400, "invalid resource version"),
        Answer::json(400, "invalid resource version"),
        Answer::json(400, "invalid resource version"),
        Answer::lines([added("b", 11, "1"), crate::text::end(12)]).then_hang(),
    ]);
    assert_eq!(wire.receive(2).await, ["synced", "added b"]);
}

/// An error page whose bytes trickle in must not keep the next request back.
#[tokio::test(start_paused = true)]
async fn an_endless_error_response_is_read_for_at_most_half_a_minute() {
    let mut wire = Wire::start([
        Answer::json(503, "").then_repeat(Duration::from_secs(20), "x"),
        Answer::lines([END.to_owned()]).then_hang(),
    ]);
    assert_eq!(wire.receive(1).await, ["synced"]);
    assert!(
        wire.waits()[0] < Duration::from_secs(40),
        "{:?}",
        wire.waits()
    );
}

/// A `Status` is short. What is longer is a page of a proxy, of which 64 KiB are read.
#[tokio::test(start_paused = true)]
async fn a_long_error_response_is_not_read_to_its_end() {
    for length in [64 * 1024, 20_000] {
        let chunk = "x".repeat(length);
        let mut wire = Wire::start([
            Answer::json(503, "").then_repeat(Duration::from_secs(1), &chunk),
            Answer::lines([END.to_owned()]).then_hang(),
        ]);
        assert_eq!(wire.receive(1).await, ["synced"]);
        let wait = wire.waits()[0];
        assert!(wait < Duration::from_secs(7), "{wait:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_error_response_is_read_to_its_end_with_any_chunking() {
    let status = r#"{"kind":"Status","code":403,"message":"not for you"}"#;
    let (start, end) = status.split_at(20);
    let wire = Wire::start([Answer::json(403, start).then(end)]);
    let down = |state: &HealthState| matches!(state, HealthState::Down { .. });
    let health = wire.informer.until(down).await.to_string();
    assert!(health.contains("not for you"), "{health}");
}

#[tokio::test(start_paused = true)]
async fn the_status_line_decides_how_an_error_is_classified() {
    for (status, code, expected) in [
        (503, 404, "503"),
        (404, 503, "does not serve this kind"),
        (401, 503, "not authenticated"),
    ] {
        let body = format!(r#"{{"kind":"Status","code":{code},"message":"no"}}"#);
        let wire = Wire::start([Answer::json(status, &body)]);
        let down = |state: &HealthState| matches!(state, HealthState::Down { .. });
        let health = wire.informer.until(down).await.to_string();
        assert!(health.contains(expected), "{status} {code}: {health}");
    }
}

/// The advice for an unknown kind, or for malformed JSON, would be wrong.
#[tokio::test(start_paused = true)]
async fn a_page_of_a_proxy_is_reported_as_one() {
    for status in [200, 401, 403, 404] {
        let wire = Wire::start([Answer::html(status)]);
        let down = |state: &HealthState| matches!(state, HealthState::Down { .. });
        let health = wire.informer.until(down).await.to_string();
        let expected = format!(
            "the response is not from an API server: HTTP {status} with the content type \
             text/html; charset=utf-8; check the URL of the cluster"
        );
        assert!(health.contains(&expected), "{health}");
    }
}
