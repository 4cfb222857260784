//! Objects that do not decode: reported, requested again, and without an effect on other objects.

use std::{
    num::{NonZeroU32, NonZeroUsize},
    sync::{Arc, Mutex},
    time::Duration,
};

use windlass_informer::{Informer, ObjectKey};

use crate::{
    polled::reporting,
    server::{Answer, Server},
    text::{END, added, bad, bookmark, deleted, end, error, list, modified, object},
    wire::{Wire, source},
};

/// Rows: BO-27
#[tokio::test(start_paused = true)]
async fn a_deleted_undecodable_object_is_removed_from_the_health() {
    let broken = |name| added(name, 1, "1").replace(&object(name, 1, "1"), &bad(name, 1));
    let mut wire = Wire::start([Answer::lines([
        broken("a"),
        broken("b"),
        END.to_owned(),
        deleted("a", 11),
        added("c", 12, "1"),
    ])
    .then_hang()]);
    assert_eq!(wire.receive(2).await, ["synced", "added c"]);
    let health = wire.informer.health();
    assert_eq!(health.undecodable, [ObjectKey::new("b").within("default")]);
}

/// A list shows it no more, or in a state that decodes.
#[tokio::test(start_paused = true)]
async fn an_undecodable_object_missing_from_a_list_is_removed_from_the_health() {
    let broken = |name| added(name, 1, "1").replace(&object(name, 1, "1"), &bad(name, 1));
    let mut wire = Wire::start([
        Answer::lines([broken("a"), broken("b"), END.to_owned()]),
        Answer::lines([error(410, "Expired")]),
        Answer::lines([added("b", 11, "1"), end(20)]).then_hang(),
    ]);
    assert_eq!(wire.receive(2).await, ["synced", "added b"]);
    wire.requests(3).await;
    assert!(wire.informer.health().undecodable.is_empty());
}

/// Behind the first few hundred objects of a list, other threads decode them.
#[tokio::test(start_paused = true)]
async fn an_object_that_does_not_decode_is_reported_wherever_in_a_list_it_is() {
    for at in [0, 499, 500, 501, 550, 599] {
        for is_streamed in [false, true] {
            let names: Vec<String> = (0..600).map(|number| format!("o-{number:03}")).collect();
            let text = |number: usize| {
                if number == at {
                    bad(&names[number], number + 1)
                } else {
                    object(&names[number], number + 1, "1")
                }
            };
            let answer = if is_streamed {
                let lines = (0..600)
                    .map(|number| added("x", 1, "1").replace(&object("x", 1, "1"), &text(number)));
                Answer::lines(lines.chain([end(999)])).then_hang()
            } else {
                let items: Vec<String> = (0..600).map(text).collect();
                let empty = list("999", &[]);
                let page = empty.replace(
                    r#""items":[]"#,
                    &format!(r#""items":[{}]"#, items.join(",")),
                );
                Answer::json(200, &page)
            };
            let server = Server::new([answer, Answer::lines([]).then_hang()]);
            let source = source(&server)
                .streamed_lists(is_streamed)
                .page_size(NonZeroU32::new(1000).expect("above zero"))
                .decoders(NonZeroUsize::new(4).expect("above zero"));
            let problems = Arc::new(Mutex::new(Vec::new()));
            let informer = Informer::builder(source)
                .on_error({
                    let problems = Arc::clone(&problems);
                    move |problem| problems.lock().expect("no panic").push(problem.to_string())
                })
                .build();
            let mut wire = Wire::follow(informer, server);
            let received = wire.receive(600).await;
            assert_eq!(received[599], "synced");
            let key = ObjectKey::new(&*names[at]).within("default");
            let undecodable = wire.informer.health().undecodable;
            assert_eq!(undecodable, std::slice::from_ref(&key));
            let problems = problems.lock().expect("no panic").clone();
            assert_eq!(problems.len(), 1, "{problems:?}");
            assert!(problems[0].contains(&key.to_string()), "{problems:?}");
        }
    }
}

/// A new version of a CRD that the operator does not know yet makes all objects undecodable.
#[tokio::test(start_paused = true)]
async fn many_objects_that_do_not_decode_cost_one_request_a_second() {
    let names: Vec<String> = (0..5000).map(|number| format!("o-{number}")).collect();
    let objects: Vec<(&str, usize)> = names.iter().map(|name| (&**name, 1)).collect();
    let bad_list = list("10", &objects).replace(r#"{"value":"1"}"#, "7");
    let server = Server::new([Answer::json(200, &bad_list)]).otherwise(|asked| {
        match asked.rsplit_once('/') {
            Some((_, name)) if !asked.contains('?') => Answer::json(200, &bad(name, 1)),
            _ => Answer::lines([]).then_hang_for_good(),
        }
    });
    let source = source(&server)
        .streamed_lists(false)
        .silence(Duration::from_secs(3600));
    let informer = Informer::builder(source).on_error(|_| {}).build();
    let mut wire = Wire::follow(informer, server);
    assert_eq!(wire.receive(1).await, ["synced"]);
    assert_eq!(wire.informer.health().undecodable.len(), 5000);
    let requests = wire.requests_within(230).await;
    assert!((195..=205).contains(&requests), "{requests} requests");
    let mut each_second = std::collections::BTreeMap::new();
    let requests = wire.server.requests();
    for (at, asked) in &requests {
        if !asked.contains('?') {
            *each_second
                .entry((*at - requests[0].0).as_secs())
                .or_insert(0) += 1;
        }
    }
    let most = each_second.values().max();
    assert_eq!(most, Some(&1), "requests in one second");
}

/// The bound of an object holds for one that is requested alone.
#[tokio::test(start_paused = true)]
async fn a_requested_object_above_the_size_limit_stays_quarantined() {
    let broken = added("a", 1, "1").replace(&object("a", 1, "1"), &bad("a", 1));
    let long = object("a", 1, &"x".repeat(1024 * 1024));
    let server = Server::new([
        Answer::lines([broken, END.to_owned()]).then_hang(),
        Answer::json(200, &long),
    ]);
    let informer = Informer::builder(source(&server).max_bytes(1024))
        .on_error(|_| {})
        .build();
    let mut wire = Wire::follow(informer, server);
    assert_eq!(wire.receive(1).await, ["synced"]);
    wire.requests(2).await;
    // On paused time: until the answer was taken.
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(wire.informer.store().is_empty());
    let undecodable = wire.informer.health().undecodable;
    assert_eq!(undecodable, [ObjectKey::new("a").within("default")]);
}

/// A request for such an object that is not answered keeps no event back.
#[tokio::test(start_paused = true)]
async fn a_watch_continues_while_an_undecodable_object_is_requested() {
    let broken = added("a", 1, "1").replace(&object("a", 1, "1"), &bad("a", 1));
    let mut wire = Wire::start([
        Answer::lines([broken, END.to_owned()])
            .then_after(Duration::from_secs(31), &(added("b", 11, "1") + "\n"))
            .then_hang(),
        Answer::never(),
    ]);
    let began = tokio::time::Instant::now();
    assert_eq!(wire.receive(2).await, ["synced", "added b"]);
    assert_eq!(began.elapsed().as_secs(), 31);
    assert!(
        wire.asked(1).ends_with("/configmaps/a"),
        "{}",
        wire.asked(1)
    );
}

/// The answer to the request is from before the delete.
#[tokio::test(start_paused = true)]
async fn an_object_deleted_during_its_request_does_not_reappear() {
    let broken = added("a", 1, "1").replace(&object("a", 1, "1"), &bad("a", 1));
    let wire = Wire::start([
        Answer::lines([broken, END.to_owned()])
            .then_after(Duration::from_secs(35), &(deleted("a", 11) + "\n"))
            .then_hang(),
        Answer::json(200, "").then_after(Duration::from_secs(20), &object("a", 1, "1")),
    ]);
    wire.requests(2).await;
    // On paused time: until both late answers have come.
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert!(wire.informer.store().is_empty());
    assert!(wire.informer.health().undecodable.is_empty());
}

/// A proxy sends the answer of another request. No event of this watch would remove its object.
#[tokio::test(start_paused = true)]
async fn a_response_with_another_object_is_ignored_and_the_request_repeated() {
    let broken = added("a", 1, "1").replace(&object("a", 1, "1"), &bad("a", 1));
    let elsewhere = object("a", 1, "1").replace("\"default\"", "\"other\"");
    for misrouted in [object("b", 1, "1"), elsewhere] {
        let mut wire = Wire::start([
            Answer::lines([broken.clone(), END.to_owned()]).then_hang(),
            Answer::json(200, &misrouted),
            Answer::json(200, &object("a", 1, "1")),
        ]);
        assert_eq!(wire.receive(1).await, ["synced"]);
        wire.requests(2).await;
        // On paused time: until the answer was taken, and before the next request.
        tokio::time::sleep(Duration::from_secs(10)).await;
        assert!(wire.informer.store().is_empty());
        let undecodable = wire.informer.health().undecodable;
        assert_eq!(undecodable, [ObjectKey::new("a").within("default")]);
        assert_eq!(wire.receive(1).await, ["added a"]);
        assert_eq!(wire.informer.store().len(), 1);
        assert!(
            wire.asked(2).ends_with("/configmaps/a"),
            "{}",
            wire.asked(2)
        );
    }
}

/// Only the `Status` of an API server says that an object does not exist. A proxy can answer 404 by
/// mistake.
#[tokio::test(start_paused = true)]
async fn only_a_404_of_the_api_server_ends_the_requests_of_an_object() {
    let broken = added("a", 1, "1").replace(&object("a", 1, "1"), &bad("a", 1));
    let missing = r#"{"kind":"Status","status":"Failure","reason":"NotFound","code":404}"#;
    for (body, is_requested_again) in [("<html>no backend</html>", true), (missing, false)] {
        let mut wire = Wire::start([
            Answer::lines([broken.clone(), END.to_owned()]).then_hang(),
            Answer::json(404, body),
            Answer::json(200, &object("a", 1, "1")),
        ]);
        assert_eq!(wire.receive(1).await, ["synced"]);
        wire.requests(2).await;
        // On paused time: longer than any wait before the next request.
        tokio::time::sleep(Duration::from_secs(600)).await;
        let is_decoded = wire.informer.store().len() == 1;
        assert_eq!(is_decoded, is_requested_again, "{body}");
    }
}

/// The answer to the request is older than what the watch has shown.
#[tokio::test(start_paused = true)]
async fn a_requested_object_does_not_decrease_the_resume_version() {
    let broken = added("a", 1, "1").replace(&object("a", 1, "1"), &bad("a", 1));
    let mut wire = Wire::start([
        Answer::lines([broken, END.to_owned(), added("b", 11, "1")]).then_hang(),
        Answer::json(200, &object("a", 5, "1")),
    ]);
    assert_eq!(wire.receive(3).await, ["synced", "added b", "added a"]);
    let version = wire.informer.last_sync_resource_version();
    assert_eq!(version.as_deref(), Some("11"));
}

/// A watch event shows it in a state that decodes.
#[tokio::test(start_paused = true)]
async fn an_object_that_decodes_again_is_not_requested() {
    let broken = added("a", 1, "1").replace(&object("a", 1, "1"), &bad("a", 1));
    let mut wire =
        Wire::start([
            Answer::lines([broken, END.to_owned(), added("a", 11, "1"), bookmark(12)])
                .then_hang_for_good(),
        ]);
    assert_eq!(wire.receive(2).await, ["synced", "added a"]);
    assert!(
        wire.informer.health().is_healthy(),
        "{}",
        wire.informer.health()
    );
    // Less than a silent watch lasts.
    assert_eq!(wire.requests_within(170).await, 1);
}

/// Which decoders a list has plays no part in the watch after it: each event is delivered when it
/// comes.
#[tokio::test(start_paused = true)]
async fn events_of_a_watch_do_not_wait_for_others() {
    let events = (0..600).map(|number| added(&format!("o-{number}"), 11 + number, "1"));
    let lines = std::iter::once(END.to_owned()).chain(events);
    let server = Server::new([Answer::lines(lines).then_hang()]);
    let source = source(&server).decoders(NonZeroUsize::new(4).expect("above zero"));
    let mut wire = Wire::run(source, server);
    let received = wire.receive(601).await;
    assert_eq!(received[600], "added o-599");
}

#[tokio::test(start_paused = true)]
async fn a_requested_object_can_be_as_large_as_the_limit() {
    let broken = added("a", 1, "1").replace(&object("a", 1, "1"), &bad("a", 1));
    let longest = object("a", 1, &"x".repeat(1000));
    let server = Server::new([
        Answer::lines([broken, END.to_owned()]).then_hang(),
        Answer::json(200, &longest),
    ]);
    let informer = Informer::builder(source(&server).max_bytes(longest.len()))
        .on_error(|_| {})
        .build();
    let mut wire = Wire::follow(informer, server);
    assert_eq!(wire.receive(2).await, ["synced", "added a"]);
}

/// Only that it does not decode is a problem, not that it still does not.
#[tokio::test(start_paused = true)]
async fn an_object_that_stays_undecodable_is_reported_once() {
    let broken = added("a", 1, "1").replace(&object("a", 1, "1"), &bad("a", 1));
    let server = Server::new([
        Answer::lines([broken, END.to_owned()]).then_hang_for_good(),
        Answer::json(200, &bad("a", 1)),
        Answer::json(200, "no object"),
    ]);
    let problems = Arc::new(Mutex::new(Vec::new()));
    let reported = Arc::clone(&problems);
    let informer = Informer::builder(source(&server))
        .on_error(move |problem| {
            let mut reported = reported.lock().expect("no panic");
            reported.push(problem.to_string());
        })
        .build();
    let wire = Wire::follow(informer, server);
    wire.requests(3).await;
    // On paused time: until the last answer was taken.
    tokio::time::sleep(Duration::from_secs(1)).await;
    let problems = problems.lock().expect("no panic");
    assert_eq!(problems.len(), 1, "{problems:?}");
    assert_eq!(wire.informer.health().undecodable.len(), 1);
}

/// The metrics of Pods, read into a type that does not fit.
#[tokio::test(start_paused = true)]
async fn an_undecodable_object_of_a_polled_kind_is_reported_once() {
    let server = Server::new([]).otherwise(|asked| {
        if asked.contains("watch=true") {
            Answer::json(405, "")
        } else {
            let page = list("7", &[("a", 1)]).replace(&object("a", 1, "1"), &bad("a", 1));
            Answer::json(200, &page)
        }
    });
    let (mut wire, problems) = reporting(server);
    assert_eq!(wire.receive(1).await, ["synced"]);
    // On paused time.
    for _ in 0..600 {
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(wire.informer.health().undecodable.len(), 1);
    }
    let problems = problems.lock().expect("no panic").clone();
    assert_eq!(problems.len(), 1, "{problems:?}");
}

#[tokio::test(start_paused = true)]
async fn an_undecodable_object_that_changes_often_is_reported_once() {
    let changes = (11..111).map(|at| modified("a", at, "1").replace(r#"{"value":"1"}"#, "7"));
    let first = added("a", 1, "1").replace(r#"{"value":"1"}"#, "7");
    let lines = [first, END.to_owned()]
        .into_iter()
        .chain(changes)
        .chain([added("b", 200, "1")]);
    let server = Server::new([Answer::lines(lines).then_hang()]);
    let (mut wire, problems) = reporting(server);
    assert_eq!(wire.receive(2).await, ["synced", "added b"]);
    let problems = problems.lock().expect("no panic").clone();
    assert_eq!(problems.len(), 1, "{} problems", problems.len());
}
