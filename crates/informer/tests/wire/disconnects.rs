//! Failed requests, and when the next one is sent.

use std::time::Duration;

use kube::Client;
use windlass_informer::HealthState;

use crate::{
    server::{Answer, Server},
    text::{END, added, error, list},
    wire::Wire,
};

/// The default of `ListWatch::silence`.
const DEFAULT_SILENCE: Duration = Duration::from_secs(180);

#[tokio::test(start_paused = true)]
async fn immediate_disconnects_cause_no_busy_loop() {
    let mut answers = vec![Answer::lines([END.to_owned()])];
    answers.extend((0..20).map(|_| Answer::lines([])));
    let mut wire = Wire::start(answers);
    assert_eq!(wire.receive(1).await, ["synced"]);
    wire.requests(21).await;
    let waits = wire.waits();
    assert!(waits[0] >= Duration::from_millis(400), "{waits:?}");
    assert!(waits[19] >= Duration::from_secs(15), "{waits:?}");
    let lists = (0..21).filter(|i| wire.asked(*i).contains("sendInitialEvents"));
    assert_eq!(lists.count(), 1, "a hang-up is no reason to list again");
}

/// Rows: BO-02
#[tokio::test(start_paused = true)]
async fn a_silent_watch_is_aborted_and_resumed() {
    let mut wire = Wire::start([
        Answer::lines([END.to_owned()]).then_hang(),
        Answer::json(200, &list("10", &[])),
        Answer::lines([added("a", 11, "1")]).then_hang(),
    ]);
    assert_eq!(wire.receive(2).await, ["synced", "added a"]);
    let silence = wire.waits()[0];
    assert!(silence >= DEFAULT_SILENCE, "{silence:?}");
    assert!(silence < DEFAULT_SILENCE * 2, "{silence:?}");
    assert!(
        wire.asked(2).contains("resourceVersion=10"),
        "{}",
        wire.asked(2)
    );
}

#[tokio::test(start_paused = true)]
async fn a_response_without_a_head_times_out() {
    let mut wire = Wire::start([Answer::never(), Answer::lines([END.to_owned()]).then_hang()]);
    assert_eq!(wire.receive(1).await, ["synced"]);
}

#[tokio::test(start_paused = true)]
async fn each_form_of_an_expired_error_causes_a_relist() {
    for answer in [
        Answer::lines([error(410, "Expired")]),
        Answer::json(410, r#"{"kind":"Status","code":410,"reason":"Expired"}"#),
        Answer::json(410, "gone"),
        Answer::lines([added("b", 11, "1"), error(410, "Expired")]),
    ] {
        let mut wire = Wire::start([
            Answer::lines([END.to_owned()]),
            answer,
            Answer::lines([added("c", 12, "1"), END.replace("10", "20")]).then_hang(),
        ]);
        assert_eq!(wire.receive(1).await, ["synced"]);
        wire.until("added c").await;
        assert!(
            wire.asked(2).contains("sendInitialEvents"),
            "{}",
            wire.asked(2)
        );
    }
}

#[tokio::test(start_paused = true)]
async fn an_error_other_than_expired_resumes_the_watch() {
    for answer in [
        Answer::lines([error(500, "InternalError")]),
        Answer::lines([r#"{"type":"ERROR","object":{"what":"ever"}}"#.to_owned()]),
        Answer::json(
            500,
            "This request caused apiserver to panic. Look in the logs for details.",
        ),
        Answer::json(503, ""),
        Answer::json(200, "<html>maintenance</html>\n"),
    ] {
        let mut wire = Wire::start([
            Answer::lines([END.to_owned()]),
            answer,
            Answer::lines([added("a", 11, "1")]).then_hang(),
        ]);
        assert_eq!(wire.receive(2).await, ["synced", "added a"]);
        assert!(
            wire.asked(2).contains("resourceVersion=10"),
            "{}",
            wire.asked(2)
        );
    }
}

/// Rows: BO-51
#[tokio::test(start_paused = true)]
async fn a_requested_retry_delay_is_respected() {
    let mut wire = Wire::start([
        Answer::json(429, "Too many requests, please try again later.").retry_after(7),
        Answer::json(
            429,
            r#"{"kind":"Status","code":429,"details":{"retryAfterSeconds":3}}"#,
        ),
        Answer::json(429, "slow down"),
        Answer::lines([END.to_owned()]).then_hang(),
    ]);
    assert_eq!(wire.receive(1).await, ["synced"]);
    let waits = wire.waits();
    assert!(waits[0] >= Duration::from_secs(7), "{waits:?}");
    assert!(waits[1] >= Duration::from_secs(3), "{waits:?}");
    assert!(waits[2] >= Duration::from_millis(400), "{waits:?}");
}

/// kube's own client repeats such answers by itself, up to fifteen times, and reports none.
#[tokio::test(start_paused = true)]
async fn requests_are_not_repeated_by_a_middleware() {
    let server = Server::new([
        Answer::json(503, "").retry_after(1),
        Answer::lines([END.to_owned()]).then_hang(),
    ]);
    let retry = tower::retry::RetryLayer::new(kube::client::retry::RetryPolicy::server_retry());
    let service = tower::Layer::layer(&retry, server.clone());
    let mut wire = Wire::of(Client::new(service, "default"), server);
    let down = |state: &HealthState| matches!(state, HealthState::Down { .. });
    let health = wire.informer.until(down).await;
    assert!(health.to_string().contains("503"), "{health}");
    assert_eq!(wire.receive(1).await, ["synced"]);
    assert_eq!(wire.server.requests().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_kind_that_is_not_served_is_requested_rarely() {
    let wire = Wire::start((0..10).map(|_| Answer::json(404, "404 page not found\n")));
    wire.requests(10).await;
    let waits = wire.waits();
    assert!(waits[8] >= Duration::from_secs(15), "{waits:?}");
    assert!(waits[8] <= Duration::from_secs(30), "{waits:?}");
    let health = wire.informer.health();
    assert!(
        health.to_string().contains("does not serve this kind"),
        "{health}"
    );
    assert!(!wire.informer.has_synced());
}
