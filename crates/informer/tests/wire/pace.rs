//! Late and repeated deliveries: quarantined objects, resyncs, and slow subscribers.

use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::{Api, Client};
use windlass_informer::{Backoff, Informer, ObjectKey, Trim};

use crate::{
    server::{Answer, Server},
    text::{END, added, object},
    wire::{Wire, source},
};

/// An object that does not decode is requested again without a new event: its cure may be
/// something that no watch shows.
#[tokio::test(start_paused = true)]
async fn a_quarantined_object_is_requested_again() {
    let bad = added("a", 1, "1").replace(r#"{"value":"1"}"#, "7");
    let mut wire = Wire::start([
        Answer::lines([bad, END.to_owned()]).then_hang(),
        Answer::json(200, &object("a", 1, "1")),
        Answer::lines([]).then_hang(),
    ]);
    assert_eq!(wire.receive(1).await, ["synced"]);
    assert_eq!(wire.informer.health().undecodable.len(), 1);
    assert_eq!(wire.receive(1).await, ["added a"]);
    assert!(
        wire.asked(1).ends_with("/configmaps/a"),
        "{}",
        wire.asked(1)
    );
    assert!(wire.informer.health().undecodable.is_empty());
}

/// Rows: GA-91
#[tokio::test(start_paused = true)]
async fn a_resync_delivers_each_object_once_per_period_spread_over_it() {
    let server =
        Server::new([
            Answer::lines([added("a", 1, "1"), added("b", 2, "1"), END.to_owned()])
                .then_hang_for_good(),
        ]);
    let api: Api<ConfigMap> = Api::default_namespaced(Client::new(server.clone(), "default"));
    let period = Duration::from_secs(60);
    let informer = Informer::builder(api).resync(period).build();
    let began = tokio::time::Instant::now();
    let mut wire = Wire::follow(informer, server);
    assert_eq!(wire.receive(3).await, ["added a", "added b", "synced"]);
    let mut rounds = Vec::new();
    for _ in 0..3 {
        let mut round = Vec::new();
        for _ in 0..2 {
            let event = wire.receive(1).await.remove(0);
            round.push((began.elapsed().as_millis() % 60_000, event));
        }
        rounds.push(round);
    }
    assert_eq!(began.elapsed().as_secs() / 60, 2, "{rounds:?}");
    // An object has its time in the period.
    assert!(rounds.iter().all(|round| *round == rounds[0]), "{rounds:?}");
    let mut events: Vec<_> = rounds[0].iter().map(|(_, event)| event.as_str()).collect();
    events.sort_unstable();
    assert_eq!(events, ["resynced a", "resynced b"]);
    assert!(rounds[0][1].0 - rounds[0][0].0 > 1000, "{rounds:?}");
}

#[tokio::test(start_paused = true)]
async fn a_slow_handler_pauses_the_watch_without_losing_events() {
    let mut lines = vec![END.to_owned()];
    lines.extend((0..2000).map(|i| added(&format!("c-{i:04}"), 11 + i, "1")));
    let mut wire = Wire::start([Answer::lines(lines).then_hang()]);
    assert_eq!(wire.receive(1).await, ["synced"]);
    // Everything that could move has moved, and it is not all 2000.
    tokio::time::advance(Duration::from_secs(1)).await;
    for _ in 0..5000 {
        tokio::task::yield_now().await;
    }
    let ahead = wire.informer.store().len();
    assert!(
        ahead < 500,
        "{ahead} objects ahead of a handler that takes none"
    );
    let received = wire.receive(2000).await;
    assert_eq!(received[1999], "added c-1999");
}

/// With another seed they differ: `waits_differ_between_informers`.
#[tokio::test(start_paused = true)]
async fn delays_follow_from_the_backoff_and_the_seed() {
    let waits = || async {
        let answers = (0..4).map(|_| Answer::json(500, ""));
        let server = Server::new(answers.chain([Answer::never()]));
        let (min, max) = (Duration::from_secs(60), Duration::from_secs(3600));
        let backoff = Backoff::new(min, max).expect("a backoff");
        let wire = Wire::run(source(&server).backoff(backoff).seed(5), server);
        wire.requests(5).await;
        wire.waits()
    };
    let first = waits().await;
    assert_eq!(waits().await, first);
    for (wait, most) in first.iter().zip([60, 120, 240, 480]) {
        let range = Duration::from_secs(most / 2)..=Duration::from_secs(most);
        assert!(range.contains(wait), "{first:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn only_the_fields_that_are_to_be_trimmed_are_removed() {
    let managed = r#""managedFields":[{"manager":"m"}],"name":"a""#;
    let line = added("a", 1, "1").replace(r#""name":"a""#, managed);
    let all = Trim::nothing();
    for (trim, has_data, has_managed) in [
        (Trim::default(), true, false),
        (Trim::nothing(), true, true),
        (all.field(["data"]), false, true),
    ] {
        let server = Server::new([Answer::lines([line.clone(), END.to_owned()]).then_hang()]);
        let mut wire = Wire::run(source(&server).trim(trim), server);
        assert_eq!(wire.receive(2).await, ["added a", "synced"]);
        let key = ObjectKey::new("a").within("default");
        let object = wire.informer.store().get(&key).expect("there");
        assert_eq!(object.data.is_some(), has_data);
        assert_eq!(object.metadata.managed_fields.is_some(), has_managed);
    }
}
