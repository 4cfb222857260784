//! Types whose `Deserialize` panics: the object is quarantined, and the informer continues.

use std::{num::NonZeroUsize, panic::panic_any, sync::Arc};

use k8s_openapi::{api::core::v1::ConfigMap, apimachinery::pkg::apis::meta::v1::ObjectMeta};
use kube::{Api, Client, Resource};
use parking_lot::Mutex;
use serde::{Deserialize, Deserializer};
use tokio_util::sync::CancellationToken;
use windlass_informer::{DecodeError, Event, Informer, ListWatch, ObjectKey, Problem, Stored};

use crate::{
    server::{Answer, Server},
    text::{END, added, list, modified},
};

/// A config map whose names must not begin with `bad`, and which panics where they do.
#[derive(Clone, Debug, Deserialize, Resource)]
#[resource(inherit = ConfigMap)]
struct Fussy {
    #[serde(deserialize_with = "fussy")]
    metadata: ObjectMeta,
}

/// A payload that panics again when it is dropped.
struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        panic!("dropped");
    }
}

fn fussy<'de, D: Deserializer<'de>>(deserializer: D) -> Result<ObjectMeta, D::Error> {
    let metadata = ObjectMeta::deserialize(deserializer)?;
    let name = metadata.name.as_deref().unwrap_or_default();
    if name.starts_with("bad-bomb") {
        panic_any(Bomb);
    }
    assert!(!name.starts_with("bad"), "{name} {}", "is bad ".repeat(100));
    Ok(metadata)
}

fn api(server: &Server) -> Api<Fussy> {
    Api::default_namespaced(Client::new(server.clone(), "default"))
}

#[tokio::test(start_paused = true)]
async fn an_object_whose_deserialize_panics_is_quarantined() {
    let server = Server::new([Answer::lines([
        added("bad", 1, "1"),
        added("bad-bomb", 2, "1"),
        added("good", 3, "1"),
        END.to_owned(),
        added("bad-later", 11, "1"),
        modified("good", 12, "2"),
    ])
    .then_hang_for_good()]);
    let problems = Arc::new(Mutex::new(Vec::new()));
    let informer = Informer::builder(api(&server))
        .on_error({
            let problems = Arc::clone(&problems);
            move |problem| {
                if let Problem::Object { key, error, .. } = problem {
                    problems.lock().push((key.to_string(), (*error).clone()));
                }
            }
        })
        .build();
    let running = tokio::spawn(informer.run(CancellationToken::new()));
    let mut events = informer.subscribe();
    assert!(matches!(events.next().await, Some(Event::Added(_))));
    assert!(matches!(events.next().await, Some(Event::Synced)));
    assert!(matches!(events.next().await, Some(Event::Updated { .. })));

    let problems = problems.lock().clone();
    let keys: Vec<_> = problems.iter().map(|(key, _)| key.as_str()).collect();
    assert_eq!(
        keys,
        ["default/bad", "default/bad-bomb", "default/bad-later"]
    );
    for (key, error) in &problems {
        let DecodeError::Panicked { message } = error else {
            panic!("{key}: {error:?}");
        };
        assert!(message.chars().count() <= 256, "{message}");
    }
    assert!(problems[0].1.to_string().contains("bad is bad is bad"));
    assert_eq!(informer.health().undecodable.len(), 3);
    running.abort();
}

/// The decoders of a long list run in tasks of their own.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_panic_of_deserialize_on_a_decoder_does_not_stop_the_informer() {
    let names: Vec<String> = (0..2000)
        .map(|at| match at % 100 {
            7 => format!("bad-{at}"),
            8 => format!("bad-bomb-{at}"),
            _ => format!("good-{at}"),
        })
        .collect();
    let objects: Vec<_> = names.iter().map(|name| (name.as_str(), 1)).collect();
    let server = Server::new([
        Answer::json(200, &list("10", &objects)),
        Answer::lines([]).then_hang_for_good(),
    ]);
    let source = ListWatch::new(api(&server))
        .streamed_lists(false)
        .decoders(NonZeroUsize::new(4).expect("not zero"));
    let informer = Informer::builder(source).on_error(|_| {}).build();
    let running = tokio::spawn(informer.run(CancellationToken::new()));
    informer.synced().await.expect("it is run");
    assert_eq!(informer.store().len(), 1960);
    assert_eq!(informer.health().undecodable.len(), 40);
    running.abort();
}

/// An object kept as JSON is decoded by its first reader, which gets an error, not a panic.
#[tokio::test(start_paused = true)]
async fn a_panic_of_deserialize_of_a_raw_object_is_an_error_for_its_reader() {
    let lines = [added("bad", 1, "1"), END.to_owned()];
    let server = Server::new([Answer::lines(lines).then_hang_for_good()]);
    let informer = Informer::new(ListWatch::new(api(&server)).raw());
    let running = tokio::spawn(informer.run(CancellationToken::new()));
    informer.synced().await.expect("it is run");
    let key = ObjectKey::new("bad").within("default");
    let raw = informer.store().get(&key).expect("it is there");
    for _ in 0..2 {
        let error = Arc::clone(&raw).object().expect_err("it panics");
        assert!(matches!(error, DecodeError::Panicked { .. }), "{error}");
    }
    running.abort();
}
