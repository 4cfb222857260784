//! What is counted of an informer.

use std::{collections::BTreeMap, time::Duration};

use prometheus::{Encoder as _, Registry, TextEncoder};
use windlass_informer::{Informer, InformerMetrics};

use crate::{
    server::{Answer, Server},
    text::{END, added, bad, bookmark, deleted, error, list, modified, object},
    wire::{Wire, source},
};

/// All series, by name and labels.
fn series(registry: &Registry) -> BTreeMap<String, String> {
    let mut text = Vec::new();
    TextEncoder::new()
        .encode(&registry.gather(), &mut text)
        .expect("text");
    let text = String::from_utf8(text).expect("utf-8");
    (text.lines().filter(|line| !line.starts_with('#')))
        .map(|line| {
            let (series, value) = line.rsplit_once(' ').expect("a value");
            (series.to_owned(), value.to_owned())
        })
        .collect()
}

#[tokio::test(start_paused = true)]
#[expect(
    clippy::too_many_lines,
    reason = "the script of a server, and its metrics"
)]
async fn changes_undecodable_objects_and_restarts_are_counted_separately() {
    let broken = added("bad", 5, "1").replace(&object("bad", 5, "1"), &bad("bad", 5));
    let server = Server::new([
        Answer::lines([
            added("a", 1, "1"),
            added("b", 2, "1"),
            added("c", 3, "1"),
            added("d", 4, "1"),
            broken,
            END.to_owned(),
            bookmark(11),
            modified("a", 12, "2"),
            modified("a", 13, "3"),
            deleted("b", 14),
            deleted("c", 15),
            deleted("d", 16),
        ])
        .then_hang(),
        // The request for the object that does not decode.
        Answer::json(404, r#"{"kind":"Status","reason":"NotFound","code":404}"#),
        Answer::json(200, &list("16", &[])),
        Answer::lines([]),
        Answer::lines([]),
        Answer::lines([error(410, "Expired")]),
        Answer::never(),
    ]);
    let registry = Registry::new();
    let metrics = InformerMetrics::new(None).expect("no namespace");
    for collector in metrics.collectors() {
        registry.register(collector).expect("no name twice");
    }
    let informer = Informer::builder(source(&server))
        .resync(Duration::from_secs(100))
        .on_error(|_| {})
        .build();
    informer.instrument(&metrics, "configs");
    let mut wire = Wire::follow(informer, server);
    let received = wire.receive(11).await;
    assert_eq!(received[10], "resynced a", "{received:?}");
    wire.requests(7).await;
    for _ in 0..3 {
        let read = wire.informer.store().list();
        assert_eq!(read.len(), 1);
    }
    let all = series(&registry);
    let value = |name: &str, labels: &str| all.get(&format!("{name}{{{labels}}}")).cloned();
    let changes = |event: &str| {
        let labels = format!(r#"event_type="{event}",kind="configs""#);
        value("informer_store_changes_total", &labels)
    };
    let restarts = |reason: &str| {
        let labels = format!(r#"kind="configs",reason="{reason}""#);
        value("informer_watch_restarts_total", &labels)
    };
    let reads = |result: &str| {
        let labels = format!(r#"kind="configs",result="{result}""#);
        value("informer_decode_cache_reads_total", &labels)
    };
    let kind = r#"kind="configs""#;
    // Numbers that differ.
    let counted = [
        ("added", changes("CREATE"), Some("4")),
        ("updated", changes("UPDATE"), Some("2")),
        ("deleted", changes("DELETE"), Some("3")),
        (
            "undecodable",
            value("informer_undecodable_objects_total", kind),
            Some("1"),
        ),
        ("objects", value("informer_store_objects", kind), Some("1")),
        ("lists", value("informer_lists_total", kind), Some("1")),
        ("decoded reads", reads("miss"), Some("1")),
        ("cached reads", reads("hit"), Some("2")),
        ("silent", restarts("silent"), Some("1")),
        ("ended", restarts("ended"), Some("2")),
        ("expired", restarts("expired"), Some("1")),
        ("connection", restarts("connection"), None),
    ];
    let wrong: Vec<_> = (counted.iter())
        .filter(|(_, value, expected)| value.as_deref() != *expected)
        .collect();
    assert!(wrong.is_empty(), "{wrong:?} in {all:#?}");
    let resynced = changes("RESYNC").and_then(|count| count.parse::<u32>().ok());
    assert!(resynced >= Some(1), "{resynced:?}");
}

/// An informer counts in the metrics of each controller that uses it, for as long as it does.
#[tokio::test(start_paused = true)]
async fn an_informer_counts_its_objects_in_all_metrics_until_they_are_removed() {
    let server =
        Server::new([
            Answer::lines([added("a", 1, "1"), added("b", 2, "1"), END.to_owned()])
                .then_after(Duration::from_secs(10), &(added("c", 11, "1") + "\n"))
                .then_after(Duration::from_secs(10), &(added("d", 12, "1") + "\n"))
                .then_hang(),
        ]);
    let [(one, of_one), (two, of_two)] = [(); 2].map(|()| {
        let (registry, metrics) = (Registry::new(), InformerMetrics::new(None));
        let metrics = metrics.expect("no namespace");
        for collector in metrics.collectors() {
            registry.register(collector).expect("no name twice");
        }
        (registry, metrics)
    });
    let objects = |registry: &Registry, kind: &str| {
        let name = format!(r#"informer_store_objects{{kind="{kind}"}}"#);
        series(registry).remove(&name)
    };
    let informer = Informer::new(source(&server));
    informer.instrument(&of_one, "configs");
    let mut wire = Wire::follow(informer, server);
    wire.receive(3).await;
    for _ in 0..2 {
        // The second call has no effect.
        wire.informer.instrument(&of_two, "maps");
    }
    assert_eq!(objects(&one, "configs").as_deref(), Some("2"));
    assert_eq!(objects(&two, "maps").as_deref(), Some("2"));
    wire.receive(1).await;
    assert_eq!(objects(&two, "maps").as_deref(), Some("3"));
    wire.informer.uninstrument(&of_two);
    assert_eq!(objects(&two, "maps").as_deref(), Some("0"));
    wire.receive(1).await;
    assert_eq!(objects(&one, "configs").as_deref(), Some("4"));
    assert_eq!(objects(&two, "maps").as_deref(), Some("0"));
    of_two.remove("maps");
    assert_eq!(objects(&two, "maps"), None);
    wire.informer.instrument(&of_two, "maps");
    assert_eq!(objects(&two, "maps").as_deref(), Some("4"));
}

/// An informer of a tenant that leaves, with the metrics of all.
#[tokio::test(start_paused = true)]
async fn the_objects_of_a_dropped_informer_are_not_counted() {
    let (registry, metrics) = (
        Registry::new(),
        InformerMetrics::new(None).expect("no namespace"),
    );
    for collector in metrics.collectors() {
        registry.register(collector).expect("no name twice");
    }
    let name = r#"informer_store_objects{kind="configs"}"#;
    for _ in 0..2 {
        let lines = [added("a", 1, "1"), added("b", 2, "1"), END.to_owned()];
        let server = Server::new([Answer::lines(lines).then_hang()]);
        let informer = Informer::new(source(&server));
        informer.instrument(&metrics, "configs");
        let mut wire = Wire::follow(informer, server);
        wire.receive(3).await;
        assert_eq!(series(&registry).remove(name).as_deref(), Some("2"));
    }
    // The paused time advances when the aborted tasks have ended.
    tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    assert_eq!(series(&registry).remove(name).as_deref(), Some("0"));
}
