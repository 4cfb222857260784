//! Where and when a watch resumes, and its requested duration.

use std::{collections::BTreeSet, time::Duration};

use crate::{
    server::{Answer, Server},
    text::{END, added, bad, bookmark, deleted, list, object},
    wire::{Wire, source},
};

/// Rows: BO-02
#[tokio::test(start_paused = true)]
async fn a_watch_resumes_at_the_last_bookmark() {
    let mut wire = Wire::start([
        Answer::lines([
            END.to_owned(),
            added("a", 11, "1"),
            bookmark(20),
            bookmark(15),
        ]),
        Answer::lines([bookmark(30)]),
        // Neither is a version to resume from.
        Answer::lines([
            bookmark(31).replace("31", ""),
            r#"{"type":"BOOKMARK","object":{}}"#.to_owned(),
        ]),
        Answer::lines([added("b", 32, "1")]).then_hang(),
    ]);
    assert_eq!(wire.receive(3).await, ["synced", "added a", "added b"]);
    for (request, version) in [(1, 20), (2, 30), (3, 30)] {
        let asked = wire.asked(request);
        let version = format!("resourceVersion={version}");
        assert!(
            asked.ends_with(&version) || asked.contains(&(version + "&")),
            "{asked}"
        );
    }
    assert_eq!(
        wire.informer.last_sync_resource_version().as_deref(),
        Some("32")
    );
}

/// Rows: BO-02
#[tokio::test(start_paused = true)]
async fn each_watch_requests_bookmarks_and_a_timeout() {
    let mut lengths = BTreeSet::new();
    for seed in 0..8 {
        let server = Server::new([Answer::lines([END.to_owned()]), Answer::never()]);
        let wire = Wire::run(source(&server).seed(seed), server);
        wire.requests(2).await;
        for request in 0..2 {
            let asked = wire.asked(request);
            assert!(asked.contains("allowWatchBookmarks=true"), "{asked}");
            let seconds = asked.split("timeoutSeconds=").nth(1).expect("an end");
            let seconds: u64 = seconds
                .split('&')
                .next()
                .expect("a number")
                .parse()
                .expect("one");
            assert!((300..600).contains(&seconds), "{asked}");
            lengths.insert(seconds);
        }
    }
    assert!(lengths.len() > 4, "watches end together: {lengths:?}");
}

/// The API server is restarted: nothing was missed, so nothing is listed.
#[tokio::test(start_paused = true)]
async fn a_watch_resumes_without_a_list_after_an_outage() {
    let mut answers = vec![Answer::lines([END.to_owned(), added("a", 11, "1")])];
    answers.extend(std::iter::repeat_with(Answer::refused).take(20));
    answers.push(Answer::lines([added("b", 12, "1")]).then_hang());
    let mut wire = Wire::start(answers);
    assert_eq!(wire.receive(3).await, ["synced", "added a", "added b"]);
    for request in 1..22 {
        let asked = wire.asked(request);
        assert!(asked.contains("resourceVersion=11"), "{asked}");
    }
    let waits = wire.waits();
    assert!(waits.iter().all(|wait| *wait <= Duration::from_secs(30)));
    let all: Duration = waits.iter().sum();
    println!("{} requests in {all:?}", waits.len());
}

/// A server that is not there yet says nothing about streamed lists.
#[tokio::test(start_paused = true)]
async fn lists_are_streamed_after_an_outage_at_the_start() {
    let mut answers: Vec<_> = std::iter::repeat_with(Answer::refused).take(3).collect();
    answers.push(Answer::lines([added("a", 1, "1"), END.to_owned()]).then_hang());
    let mut wire = Wire::start(answers);
    assert_eq!(wire.receive(2).await, ["added a", "synced"]);
    for request in 0..4 {
        let asked = wire.asked(request);
        assert!(asked.contains("sendInitialEvents"), "{request}: {asked}");
    }
}

/// Informers that lost one API server together must not come to the next together.
#[tokio::test(start_paused = true)]
async fn waits_differ_between_informers() {
    let mut waits = BTreeSet::new();
    for seed in 0..8 {
        let server = Server::new([Answer::json(500, ""), Answer::never()]);
        let wire = Wire::run(source(&server).seed(seed), server);
        wire.requests(2).await;
        waits.insert(wire.waits()[0]);
    }
    assert!(waits.len() > 4, "{waits:?}");
    assert!(waits.iter().all(|wait| *wait >= Duration::from_millis(400)));
}

/// A break once a day is not the hundredth failure in a row.
#[tokio::test(start_paused = true)]
async fn the_backoff_is_reset_after_a_working_watch() {
    let failures = std::iter::repeat_with(|| Answer::json(500, "")).take(10);
    let mut answers = vec![Answer::lines([END.to_owned()])];
    answers.extend(failures);
    answers.push(
        Answer::lines([added("a", 11, "1")])
            .then_after(Duration::from_secs(60), &added("b", 12, "1")),
    );
    answers.push(Answer::json(500, ""));
    answers.push(Answer::lines([]).then_hang());
    let wire = Wire::start(answers);
    wire.requests(14).await;
    let waits = wire.waits();
    assert!(waits[10] > Duration::from_secs(14), "{waits:?}");
    // The watch stood for a minute; then it ended, and the next was refused.
    assert_eq!(waits[11], Duration::from_secs(60), "{waits:?}");
    assert!(waits[12] < Duration::from_secs(1), "{waits:?}");
}

/// The same where the watch does not end cleanly.
#[tokio::test(start_paused = true)]
async fn the_backoff_is_reset_after_a_working_watch_that_broke() {
    let failures = std::iter::repeat_with(|| Answer::json(500, "")).take(10);
    let mut answers = vec![Answer::lines([END.to_owned()])];
    answers.extend(failures);
    answers.push(
        Answer::lines([added("a", 11, "1")]).then_after(Duration::from_secs(60), "no JSON\n"),
    );
    answers.push(Answer::lines([]).then_hang());
    let wire = Wire::start(answers);
    wire.requests(13).await;
    let waits = wire.waits();
    assert!(waits[10] > Duration::from_secs(14), "{waits:?}");
    assert!(waits[11] < Duration::from_secs(61), "{waits:?}");
}

/// One refused stream can be a temporary failure.
#[tokio::test(start_paused = true)]
async fn lists_are_streamed_after_one_aborted_stream() {
    let mut wire = Wire::start([
        Answer::lines([added("a", 1, "1")]),
        Answer::lines([added("a", 1, "1"), END.to_owned()]),
        Answer::json(410, ""),
        Answer::lines([added("a", 1, "1")]),
        Answer::lines([added("a", 1, "1"), END.replace("10", "20")]),
        Answer::json(410, ""),
        Answer::lines([]),
        Answer::json(200, &list("30", &[("a", 1)])),
    ]);
    assert_eq!(wire.receive(2).await, ["added a", "synced"]);
    wire.requests(8).await;
    for request in [0, 1, 3, 4, 6, 7] {
        let asked = wire.asked(request);
        assert!(asked.contains("sendInitialEvents"), "{request}: {asked}");
    }
}

/// A bookmark, a delete and an object that does not decode move the version too.
#[tokio::test(start_paused = true)]
async fn a_watch_resumes_after_its_last_line_of_any_type() {
    let broken = added("b", 15, "1").replace(&object("b", 15, "1"), &bad("b", 15));
    for line in [bookmark(15), deleted("a", 15), broken, added("b", 15, "1")] {
        let wire = Wire::start([
            Answer::lines([added("a", 1, "1"), END.to_owned(), line]),
            Answer::lines([]).then_hang(),
        ]);
        wire.requests(2).await;
        let asked = wire.asked(1);
        assert!(asked.ends_with("resourceVersion=15"), "{asked}");
    }
}
