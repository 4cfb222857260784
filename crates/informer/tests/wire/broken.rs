//! Streams that break each time, and what is requested and reported then.

use std::{
    io::ErrorKind,
    sync::{Arc, Mutex},
    time::Duration,
};

use crate::{
    polled::reporting,
    server::{Answer, Server},
    text::{END, added, list, page},
    wire::{Wire, source},
};

/// A proxy that ends each response after 15 s, or a client with a `read_timeout` of 15 s and a server
/// that does not end the list.
#[tokio::test(start_paused = true)]
async fn a_streamed_list_that_breaks_each_time_falls_back_to_pages() {
    for error in [ErrorKind::ConnectionReset, ErrorKind::TimedOut] {
        let server = Server::new([]).otherwise(move |asked| {
            if asked.contains("sendInitialEvents") {
                Answer::lines([added("a", 1, "1")]).then_break(Duration::from_secs(15), error)
            } else if asked.contains("watch=true") {
                Answer::lines([]).then_hang()
            } else {
                Answer::json(200, &list("7", &[("a", 1)]))
            }
        });
        let mut wire = Wire::run(source(&server), server);
        let synced = tokio::time::timeout(Duration::from_secs(35), wire.receive(2)).await;
        let requests = wire.server.requests().len();
        let received = synced.unwrap_or_else(|_| panic!("{error}: {requests} requests, no list"));
        assert_eq!(received, ["added a", "synced"], "{error}");
    }
}

/// An aggregated API server whose pages have the version of their time.
#[tokio::test(start_paused = true)]
async fn a_list_whose_pages_differ_in_their_versions_is_requested_in_one_page() {
    let version = Arc::new(Mutex::new(7));
    let server = Server::new([]).otherwise(move |asked| {
        let mut version = version.lock().expect("no panic");
        *version += 1;
        if asked.contains("watch=true") {
            return Answer::lines([]).then_hang();
        }
        let version = version.to_string();
        Answer::json(
            200,
            &if asked.contains("continue=") {
                list(&version, &[("b", 2)])
            } else if asked.contains("limit=") {
                page(&version, &[("a", 1)], "more")
            } else {
                list(&version, &[("a", 1), ("b", 2)])
            },
        )
    });
    let mut wire = Wire::run(source(&server).streamed_lists(false), server);
    let synced = tokio::time::timeout(Duration::from_secs(120), wire.until("synced")).await;
    let requests = wire.server.requests().len();
    assert!(synced.is_ok(), "{requests} requests, no list");
    assert_eq!(wire.informer.store().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_a_proxy_refuses_once_is_tried_again() {
    let server = Server::new([
        Answer::lines([added("a", 1, "1"), END.to_owned()]),
        Answer::json(405, ""),
    ])
    .otherwise(|asked| {
        if asked.contains("sendInitialEvents") {
            Answer::lines([added("a", 1, "1"), END.to_owned()]).then_hang()
        } else if asked.contains("watch=true") {
            Answer::lines([]).then_hang()
        } else {
            Answer::json(200, &list("10", &[("a", 1)]))
        }
    });
    let mut wire = Wire::run(source(&server), server);
    assert_eq!(wire.receive(2).await, ["added a", "synced"]);
    // On paused time.
    tokio::time::sleep(Duration::from_secs(3600)).await;
    let lists = wire.server.requests();
    let lists = lists.iter().filter(|it| !it.1.contains("watch=true"));
    assert!(
        lists.clone().count() < 30,
        "{} lists in an hour",
        lists.count()
    );
}

#[tokio::test(start_paused = true)]
async fn a_kind_is_polled_at_most_once_a_second() {
    let requests = Arc::new(Mutex::new(0));
    let server = Server::new([]).otherwise(move |asked| {
        let mut requests = requests.lock().expect("no panic");
        *requests += 1;
        if *requests > 100 {
            // The paused clock advances only when nothing else happens.
            Answer::never()
        } else if asked.contains("watch=true") {
            Answer::json(405, "")
        } else {
            Answer::json(200, &list("7", &[("a", 1)]))
        }
    });
    let source = source(&server).poll_interval(Duration::ZERO);
    let mut wire = Wire::run(source, server);
    assert_eq!(wire.receive(2).await, ["added a", "synced"]);
    let requests = wire.requests_within(10).await;
    assert!(requests < 20, "{requests} requests");
}

/// A server that is away for an hour.
#[tokio::test(start_paused = true)]
async fn an_outage_costs_few_requests_and_reports() {
    let server = Server::new([Answer::lines([END.to_owned()])]).otherwise(|_| Answer::refused());
    let (wire, problems) = reporting(server);
    let requests = wire.requests_within(3600).await;
    assert!((120..=250).contains(&requests), "{requests} requests");
    let problems = problems.lock().expect("no panic").len();
    assert!(problems <= requests, "{problems} reports");
}
