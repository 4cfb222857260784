//! Watches that are silent, or that last too long.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use windlass_informer::{Health, HealthState, Informer};

use crate::{
    server::{Answer, Server},
    text::{END, added, bookmark, list},
    wire::{Wire, source},
};

/// A proxy that keeps connections open with empty lines does not prove that the API server
/// responds.
#[tokio::test(start_paused = true)]
async fn empty_and_partial_lines_do_not_end_a_silence() {
    for noise in ["\n", "x"] {
        let mut wire = Wire::start([
            Answer::lines([END.to_owned(), bookmark(11)])
                .then_repeat(Duration::from_secs(1), noise),
            Answer::json(200, &list("11", &[])),
            Answer::lines([added("a", 12, "1")]).then_hang(),
        ]);
        assert_eq!(wire.receive(2).await, ["synced", "added a"]);
        let wait = wire.waits()[0].as_secs();
        assert!((180..185).contains(&wait), "{noise:?}: {wait} s");
    }
}

/// The cluster was restored, and its bookmarks say so.
#[tokio::test(start_paused = true)]
async fn bookmarks_from_the_past_do_not_end_a_silence() {
    let mut wire = Wire::start([
        Answer::lines([added("a", 9, "1"), END.to_owned()])
            .then_repeat(Duration::from_secs(60), &(bookmark(5) + "\n")),
        Answer::json(200, &list("5", &[])),
        Answer::json(200, &list("5", &[])),
        Answer::lines([added("b", 6, "1")]).then_hang(),
    ]);
    assert_eq!(
        wire.receive(5).await,
        ["added a", "synced", "missed a", "synced", "added b"]
    );
    assert!(wire.informer.history_went_back().is_some());
}

/// Events and bookmarks both end a silence.
#[tokio::test(start_paused = true)]
async fn a_watch_with_bookmarks_stays_open_until_its_timeout() {
    let mut wire = Wire::start([
        Answer::lines([END.to_owned()])
            .then_repeat(Duration::from_secs(60), &(bookmark(11) + "\n")),
        Answer::lines([added("a", 12, "1")]).then_hang(),
    ]);
    assert_eq!(wire.receive(2).await, ["synced", "added a"]);
    let wait = wire.waits()[0].as_secs();
    let asked = seconds(&wire.asked(0));
    assert!(
        (asked + 30..=asked + 31).contains(&wait),
        "asked for {asked} s, and lasted {wait} s"
    );
    assert!(
        wire.asked(1).contains("resourceVersion=11"),
        "{}",
        wire.asked(1)
    );
}

/// Some servers send no bookmarks. A quiet watch of theirs is not down.
#[tokio::test(start_paused = true)]
async fn a_server_without_bookmarks_and_events_stays_healthy() {
    let server = Server::new([Answer::lines([added("a", 1, "1"), END.to_owned()]).then_hang()])
        .otherwise(|asked| {
            if asked.contains("watch=true") {
                Answer::lines([]).then_hang()
            } else {
                Answer::json(200, &list("10", &[("a", 1)]))
            }
        });
    let problems = Arc::new(Mutex::new(Vec::new()));
    let informer = Informer::builder(source(&server))
        .on_error({
            let problems = Arc::clone(&problems);
            move |problem| problems.lock().expect("no panic").push(problem.to_string())
        })
        .build();
    let mut wire = Wire::follow(informer, server);
    assert_eq!(wire.receive(2).await, ["added a", "synced"]);
    let is_down = |health: &Health| !matches!(health.state, HealthState::Watching);
    for _ in 0..3600 {
        // On paused time: the health is looked at in each second.
        tokio::time::sleep(Duration::from_secs(1)).await;
        let health = wire.informer.health();
        assert!(!is_down(&health), "{health}");
    }
    let problems = problems.lock().expect("no panic").clone();
    assert!(problems.is_empty(), "{problems:?}");
    let requests = wire.server.requests().len();
    println!("{requests} requests in an hour");
    assert!(
        (20..=42).contains(&requests),
        "{requests} requests in an hour"
    );
}

/// The server sent a bookmark once. Then another replica answers, or a proxy that keeps bookmarks to
/// itself.
#[tokio::test(start_paused = true)]
async fn a_server_that_sends_no_bookmarks_any_more_is_reported_once() {
    let server = Server::new([Answer::lines([END.to_owned(), bookmark(11)]).then_hang()])
        .otherwise(|asked| {
            if asked.contains("watch=true") {
                Answer::lines([]).then_hang()
            } else {
                Answer::json(200, &list("11", &[]))
            }
        });
    let problems = Arc::new(Mutex::new(Vec::new()));
    let informer = Informer::builder(source(&server))
        .on_error({
            let problems = Arc::clone(&problems);
            move |problem| problems.lock().expect("no panic").push(problem.to_string())
        })
        .build();
    let mut wire = Wire::follow(informer, server);
    assert_eq!(wire.receive(1).await, ["synced"]);
    // In virtual time.
    tokio::time::sleep(Duration::from_secs(3600)).await;
    let problems = problems.lock().expect("no panic").clone();
    assert_eq!(problems.len(), 1, "{problems:?}");
    let health = wire.informer.health();
    assert!(matches!(health.state, HealthState::Watching), "{health}");
}

/// From a server that sends bookmarks, silence means that the connection is half open.
///
/// Rows: BO-02
#[tokio::test(start_paused = true)]
async fn a_half_open_connection_to_a_server_with_bookmarks_is_reported() {
    let wire = Wire::start([
        Answer::lines([END.to_owned(), bookmark(11)]).then_hang(),
        Answer::never(),
    ]);
    let began = tokio::time::Instant::now();
    let down = |state: &HealthState| matches!(state, HealthState::Down { .. });
    let health = wire.informer.until(down).await.to_string();
    assert!(
        health.contains("timed out after 180s without data"),
        "{health}"
    );
    assert_eq!(began.elapsed().as_secs(), 180);
}

/// If the server is away, that it sends no bookmarks is no excuse.
#[tokio::test(start_paused = true)]
async fn a_half_open_connection_to_any_other_server_is_reported_half_a_minute_later() {
    let wire = Wire::start([Answer::lines([END.to_owned()]).then_hang(), Answer::never()]);
    let began = tokio::time::Instant::now();
    let down = |state: &HealthState| matches!(state, HealthState::Down { .. });
    let health = wire.informer.until(down).await.to_string();
    assert!(
        health.contains("timed out after 30s without data"),
        "{health}"
    );
    assert_eq!(began.elapsed().as_secs(), 210);
}

/// The `timeoutSeconds` of a request.
fn seconds(asked: &str) -> u64 {
    let seconds = asked
        .split("timeoutSeconds=")
        .nth(1)
        .expect("it is asked for");
    let seconds = seconds.split('&').next().expect("a number");
    seconds.parse().expect("a number")
}

/// The bytes of a page must keep coming: it is not only its total time that is limited.
#[tokio::test(start_paused = true)]
async fn a_page_that_breaks_off_without_an_end_is_reported_as_silent() {
    let page = list("7", &[("a", 1)]);
    let (half, _) = page.split_at(page.len() / 2);
    let server = Server::new([Answer::json(200, half).then_hang_for_good()]);
    let wire = Wire::run(source(&server).streamed_lists(false), server);
    let down = |state: &HealthState| matches!(state, HealthState::Down { .. });
    let began = tokio::time::Instant::now();
    let health = wire.informer.until(down).await;
    assert_eq!(began.elapsed().as_secs(), 30);
    match &health.state {
        HealthState::Down { error } => assert_eq!(error.reason(), "silent"),
        other => panic!("{other:?}"),
    }
}
