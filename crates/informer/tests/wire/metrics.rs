//! What is counted of an informer.

use std::{collections::BTreeMap, num::NonZeroUsize, time::Duration};

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
async fn changes_undecodable_objects_and_restarts_are_counted_by_what_they_are() {
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
        Answer::json(404, ""),
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
        .buffer(NonZeroUsize::MIN)
        .resync(Duration::from_secs(100))
        .on_error(|_| {})
        .build();
    informer.instrument(&metrics, "configs");
    let mut wire = Wire::follow(informer, server);
    let told = wire.told(11).await;
    assert_eq!(told[10], "resynced a", "{told:?}");
    let now = |name: &str, labels: &str| {
        let series = series(&registry);
        let name = format!(r#"{name}{{{labels}kind="configs"}}"#);
        series
            .get(&name)
            .cloned()
            .unwrap_or_else(|| panic!("no {name} in {series:#?}"))
    };
    // Each a number of its own.
    for (event, expected) in [
        ("CREATE", "4"),
        ("UPDATE", "2"),
        ("DELETE", "3"),
        ("RESYNC", "1"),
    ] {
        let labels = format!(r#"event_type="{event}","#);
        assert_eq!(
            now("informer_store_changes_total", &labels),
            expected,
            "{event}"
        );
    }
    assert_eq!(now("informer_undecodable_objects_total", ""), "1");
    assert_eq!(now("informer_store_objects", ""), "1");
    assert_eq!(now("informer_lists_total", ""), "1");

    wire.requests(7).await;
    let restarts = |reason: &str| {
        let name = format!(r#"informer_watch_restarts_total{{kind="configs",reason="{reason}"}}"#);
        series(&registry).get(&name).cloned()
    };
    for (reason, expected) in [
        ("silent", Some("1")),
        ("ended", Some("2")),
        ("expired", Some("1")),
        ("connection", None),
    ] {
        assert_eq!(restarts(reason).as_deref(), expected, "{reason}");
    }
}
