//! Lists without an end, and how many requests they cost.

use std::{
    num::NonZeroUsize,
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};

use windlass_informer::{HealthState, Informer, ObjectIdentity as _};

use crate::{
    server::{Answer, Server},
    text::{END, added, bad, end, error, list, modified, object, page},
    wire::{Wire, source},
};

#[tokio::test(start_paused = true)]
async fn a_repeated_continue_token_aborts_the_list() {
    let server = Server::new([]).otherwise(|_| Answer::json(200, &page("7", &[("a", 1)], "on")));
    check(
        server,
        "its pages repeat their `continue` and show no new object",
        120,
    )
    .await;
}

/// The tokens differ, and the pages do not.
#[tokio::test(start_paused = true)]
async fn the_number_of_pages_without_new_objects_is_limited() {
    let count = AtomicUsize::new(0);
    let server = Server::new([]).otherwise(move |_| {
        let token = count.fetch_add(1, Ordering::Relaxed).to_string();
        Answer::json(200, &page("7", &[("a", 1), ("b", 2)], &token))
    });
    check(server, "its pages show no new object", 280).await;
}

#[tokio::test(start_paused = true)]
async fn the_number_of_empty_pages_is_limited() {
    let count = AtomicUsize::new(0);
    let server = Server::new([]).otherwise(move |_| {
        let token = count.fetch_add(1, Ordering::Relaxed).to_string();
        Answer::json(200, &page("7", &[], &token))
    });
    check(server, "its pages show no new object", 280).await;
}

/// One object decodes on every second page only, so that the number of undecodable objects goes up
/// and down.
#[tokio::test(start_paused = true)]
async fn the_number_of_pages_with_an_alternately_decodable_object_is_limited() {
    for repeats in [false, true] {
        let count = AtomicUsize::new(0);
        let server = Server::new([]).otherwise(move |_| {
            let number = count.fetch_add(1, Ordering::Relaxed);
            let token = if repeats { 0 } else { number };
            let page = page("7", &[("a", number + 1)], &token.to_string());
            let good = object("a", number + 1, "1");
            assert!(page.contains(&good), "{page} has {good}");
            let page = match number % 2 {
                0 => page,
                _ => page.replace(&good, &bad("a", number + 1)),
            };
            Answer::json(200, &page)
        });
        check(server, "show no new object", 340).await;
    }
}

/// One response that repeats its objects, faster than a limit on time would end it.
#[tokio::test(start_paused = true)]
async fn a_page_that_repeats_its_objects_is_not_read_to_its_end() {
    for objects in [
        vec![object("a", 1, "1"), object("b", 2, "2")],
        vec![bad("a", 1)],
    ] {
        let page = format!(
            r#"{{"metadata":{{"resourceVersion":"7"}},"items":[{}]}}"#,
            vec![objects.join(","); 25_000].join(",")
        );
        let server = Server::new([
            Answer::json(200, &page),
            Answer::json(200, &list("7", &[("a", 1)])),
            Answer::lines([]).then_hang_for_good(),
        ]);
        repeated(Wire::run(source(&server).streamed_lists(false), server)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_streamed_list_that_repeats_its_objects_is_not_read_to_its_end() {
    for objects in [
        vec![added("a", 1, "1"), added("b", 2, "2")],
        vec![format!(r#"{{"type":"ADDED","object":{}}}"#, bad("a", 1))],
    ] {
        let stream = || Answer::lines(objects.iter().cycle().take(25_000).cloned());
        let server = Server::new([
            stream(),
            stream(),
            Answer::json(200, &list("30", &[("a", 20)])),
            Answer::lines([]).then_hang_for_good(),
        ]);
        repeated(Wire::run(source(&server), server)).await;
    }
}

/// All objects of a relist were shown by the list before, and none of them by the relist.
#[tokio::test(start_paused = true)]
async fn a_relist_of_many_unchanged_objects_is_complete() {
    let names: Vec<String> = (0..25_000).map(|number| format!("o-{number}")).collect();
    let objects: Vec<(&str, usize)> = names.iter().map(|name| (&**name, 1)).collect();
    let lines = || {
        let added = names.iter().map(|name| added(name, 1, "1"));
        added.chain([end(999)])
    };
    for is_streamed in [false, true] {
        let answer = || {
            if is_streamed {
                Answer::lines(lines())
            } else {
                Answer::json(200, &list("999", &objects))
            }
        };
        let server = Server::new([
            answer(),
            Answer::lines([error(410, "Expired")]),
            answer(),
            Answer::lines([]).then_hang_for_good(),
        ]);
        let mut wire = Wire::run(source(&server).streamed_lists(is_streamed), server);
        wire.receive(names.len() + 1).await;
        wire.requests(4).await;
        let resumed = wire.asked(3);
        assert!(
            resumed.contains("watch=") && !resumed.contains("sendInitialEvents"),
            "{resumed}"
        );
        assert_eq!(wire.informer.store().len(), names.len());
    }
}

/// A long list is not an endless one, even if its pages are small and some are empty.
#[tokio::test(start_paused = true)]
async fn a_long_list_is_listed_without_a_pause() {
    let mut answers: Vec<Answer> = Vec::new();
    for number in 0..300_usize {
        let name = format!("o-{number:03}");
        let objects = [(&*name, number + 1)];
        let objects = if number % 7 == 0 {
            &objects[..0]
        } else {
            &objects[..]
        };
        answers.push(Answer::json(
            200,
            &page("999", objects, &number.to_string()),
        ));
    }
    answers.push(Answer::json(200, &list("999", &[])));
    answers.push(Answer::lines([]).then_hang());
    let mut wire = Wire::pages(answers);
    let began = tokio::time::Instant::now();
    let received = wire.receive(258).await;
    assert_eq!(received[257], "synced");
    assert_eq!(began.elapsed(), Duration::ZERO);
}

/// A new version of a CRD that the operator does not know yet makes all objects undecodable.
#[tokio::test(start_paused = true)]
async fn a_list_of_many_pages_that_do_not_decode_syncs() {
    const PAGES: usize = 10;
    let mut answers: Vec<Answer> = Vec::new();
    for number in 0..PAGES {
        let names: Vec<String> = (0..500).map(|at| format!("o-{number}-{at}")).collect();
        let objects: Vec<(&str, usize)> = names.iter().map(|name| (&**name, 1)).collect();
        let next = if number + 1 < PAGES {
            number.to_string()
        } else {
            String::new()
        };
        let page = page("999", &objects, &next).replace(r#"{"value":"1"}"#, "7");
        answers.push(Answer::json(200, &page));
    }
    answers.push(Answer::lines([]).then_hang_for_good());
    let server = Server::new(answers);
    let informer = Informer::builder(source(&server).streamed_lists(false))
        .on_error(|_| {})
        .build();
    let mut wire = Wire::follow(informer, server);
    let began = tokio::time::Instant::now();
    assert_eq!(wire.receive(1).await, ["synced"]);
    assert_eq!(began.elapsed(), Duration::ZERO);
    assert_eq!(wire.informer.health().undecodable.len(), PAGES * 500);
}

/// A page whose bytes keep coming, but never end.
#[tokio::test(start_paused = true)]
async fn an_endless_page_times_out() {
    let endless = || Answer::json(200, "{").then_repeat(Duration::from_secs(1), " ");
    let mut wire = Wire::pages([
        endless(),
        endless(),
        Answer::json(200, &list("7", &[("a", 1)])),
        Answer::lines([]).then_hang(),
    ]);
    assert_eq!(wire.receive(2).await, ["added a", "synced"]);
    for wait in &wire.waits()[..2] {
        assert!(wait.as_secs() >= 300 && wait.as_secs() < 335, "{wait:?}");
    }

    let server = Server::new([endless()]);
    let wire = Wire::run(
        source(&server)
            .streamed_lists(false)
            .list_timeout(Duration::from_secs(20)),
        server,
    );
    let down = |state: &HealthState| matches!(state, HealthState::Down { .. });
    let health = wire.informer.until(down).await.to_string();
    assert!(
        health.contains("timed out after 20s before the list was complete"),
        "{health}"
    );
}

/// A proxy swallows the closing bookmark while objects change all the time.
#[tokio::test(start_paused = true)]
async fn a_streamed_list_without_an_end_times_out_while_objects_change() {
    let change = modified("a", 20, "1") + "\n";
    let churn = || Answer::lines([added("a", 1, "1")]).then_repeat(Duration::from_secs(1), &change);
    let mut wire = Wire::start([
        churn(),
        churn(),
        Answer::json(200, &list("30", &[("a", 20)])),
        Answer::lines([]).then_hang(),
    ]);
    let began = tokio::time::Instant::now();
    wire.until("synced").await;
    assert!(
        began.elapsed() < Duration::from_secs(90),
        "{:?}",
        began.elapsed()
    );
    assert!(wire.asked(2).contains("limit=500"), "{}", wire.asked(2));
}

/// The same behind the first hundreds of objects, where other threads decode them.
#[tokio::test(start_paused = true)]
async fn a_long_streamed_list_without_an_end_times_out_while_objects_change() {
    let change = modified("o-1", 2000, "1") + "\n";
    let churn = || many(600).then_repeat(Duration::from_secs(1), &change);
    let server = Server::new([
        churn(),
        churn(),
        Answer::json(200, &list("3000", &[("a", 20)])),
        Answer::lines([]).then_hang(),
    ]);
    let source = source(&server).decoders(NonZeroUsize::new(4).expect("above zero"));
    let mut wire = Wire::run(source, server);
    let began = tokio::time::Instant::now();
    wire.until("synced").await;
    assert!(
        began.elapsed() < Duration::from_secs(90),
        "{:?}",
        began.elapsed()
    );
}

/// Other threads decode the objects behind the first hundreds. Each is a sign of life.
#[tokio::test(start_paused = true)]
async fn a_slow_long_streamed_list_is_accepted() {
    let mut answer = many(600);
    for number in 600..700 {
        let line = added(&format!("o-{number}"), number + 1, "1") + "\n";
        answer = answer.then_after(Duration::from_secs(1), &line);
    }
    let server = Server::new([answer
        .then_after(Duration::from_secs(1), &(END.replace("10", "999") + "\n"))
        .then_hang()]);
    let source = source(&server).decoders(NonZeroUsize::new(4).expect("above zero"));
    let mut wire = Wire::run(source, server);
    assert_eq!(wire.receive(701).await[700], "synced");
    assert_eq!(wire.server.requests().len(), 1);
}

/// A streamed list with this number of objects, without its end.
fn many(objects: usize) -> Answer {
    Answer::lines((0..objects).map(|number| added(&format!("o-{number}"), number + 1, "1")))
}

/// New objects all the time look like a list that has not ended.
#[tokio::test(start_paused = true)]
async fn an_endless_streamed_list_times_out() {
    let one = added("a", 1, "1") + "\n";
    let churn = || Answer::lines([]).then_repeat(Duration::from_secs(1), &one);
    let mut wire = Wire::start([
        churn(),
        churn(),
        Answer::json(200, &list("30", &[("a", 20)])),
        Answer::lines([]).then_hang(),
    ]);
    wire.until("synced").await;
    for wait in &wire.waits()[..2] {
        assert!(wait.as_secs() >= 300 && wait.as_secs() < 335, "{wait:?}");
    }
}

/// A handler that is slow is no reason to give a list up.
#[tokio::test(start_paused = true)]
async fn the_time_in_which_the_informer_waits_for_a_handler_is_not_counted() {
    let mut lines: Vec<String> = (0..600)
        .map(|number| added(&format!("o-{number}"), number + 1, "1"))
        .collect();
    lines.push(END.replace("10", "999"));
    let mut wire = Wire::start([Answer::lines(lines).then_hang()]);
    for _ in 0..6 {
        // On paused time: six of them are longer than a list may take.
        tokio::time::sleep(Duration::from_secs(200)).await;
        wire.receive(100).await;
    }
    assert_eq!(wire.receive(1).await, ["synced"]);
    let streams = wire.server.requests();
    let streams = streams
        .iter()
        .filter(|(_, asked)| asked.contains("sendInitialEvents"));
    assert_eq!(streams.count(), 1);
}

/// The first list is rejected because it repeats its objects, and a later one is complete.
async fn repeated(wire: Wire) {
    let down = |state: &HealthState| matches!(state, HealthState::Down { .. });
    let health = wire.informer.until(down).await.to_string();
    let why = "it is endless: 10000 objects in a row were shown before";
    assert!(health.contains(why), "{health}");
    assert!(!wire.informer.has_synced());
    wire.informer.synced().await.expect("the informer runs");
    assert_eq!(wire.informer.store().list()[0].name(), "a");
}

/// The answers of `server` cause at most `most` requests in ten minutes, and are reported.
async fn check(server: Server, why: &str, most: usize) {
    let wire = Wire::run(source(&server).streamed_lists(false), server);
    let down = |state: &HealthState| matches!(state, HealthState::Down { .. });
    let health = wire.informer.until(down).await.to_string();
    assert!(health.contains("it is endless"), "{health}");
    assert!(health.contains(why), "{health}");
    let requests = wire.requests_within(600).await;
    println!("{requests} requests in ten minutes");
    assert!(requests <= most, "{requests} requests in ten minutes");
    assert!(requests >= 20, "{requests} requests: it is tried again");
    assert!(!wire.informer.has_synced());
}
