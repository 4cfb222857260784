//! Random sequences of requests about one object of a built-in or custom kind: created, changed
//! in every way by two writers, listed, watched and deleted; each answer of the real server is
//! that of the embedded one, and so is each event.

use rand::{SeedableRng as _, rngs::StdRng, seq::IndexedRandom as _};
use serde_json::{Value, json};

pub(super) use self::known::hide_objects;
pub(super) use self::replay::masked_answer;
use self::replay::{Sequence, replay};
use self::shrinking::shortest;
use self::steps::Generator;
use super::super::raw::Raw;
use super::super::recorded::address;
use super::super::widget::Widget;
use super::tables::WITH_STATUS;
use super::{KINDS, Pair};
use crate::cluster::number;

mod known;
mod replay;
mod shrinking;
mod steps;

/// How many sequences are sent without `WINDLASS_SEQUENCES`.
const COUNT: u64 = 60;

/// How many requests a sequence has after the first, or one more.
const STEPS: usize = 10;

/// How many of the sequences that differ are shortened: each takes about 50 runs of a sequence, and
/// more of them have few causes.
const SHORTENED: usize = 10;

/// Kinds that are not the same on purpose, as `docs/apiserver.md` says: those with finalizers
/// that a controller takes away, those that a controller changes, and one that counts an empty
/// list as a change of none.
const LEFT_OUT: [&str; 7] = [
    "APIService",
    "CustomResourceDefinition",
    "Namespace",
    "NetworkPolicy",
    "PersistentVolume",
    "PersistentVolumeClaim",
    "VolumeAttributesClass",
];

/// The name of the object of a sequence, in one of its runs. No name contains another one.
fn name(object: &Value, sequence: u64, run: u32, namespace: &str) -> String {
    // A sequence that differs has about this number of runs. A later sequence can use an address
    // again, because each run ends with the deletion of its object.
    const RUNS: u64 = 64;
    if object["kind"] == "IPAddress" {
        address(namespace, 1 + RUNS * sequence + u64::from(run))
    } else {
        format!("q{sequence}-{run}-{namespace}")
    }
}

/// What the custom kind has in its `spec`.
fn schema() -> Value {
    let text = json!({ "type": "string" });
    let pair = json!({ "type": "object", "properties": { "a": text, "b": text } });
    json!({ "type": "object", "required": ["size"], "properties": {
        "size": { "type": "integer", "minimum": 1, "maximum": 3 },
        "name": { "type": "string", "pattern": "^[a-z]*$", "default": "x" },
        "mode": { "type": "string", "enum": ["a", "b"] },
        "tags": { "type": "array", "x-kubernetes-list-type": "set", "items": text },
        "ports": {
            "type": "array", "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["port"],
            "items": { "type": "object", "required": ["port"], "properties": {
                "port": { "type": "integer" }, "pair": pair,
            } },
        },
        "list": { "type": "array", "maxItems": 2, "items": text },
        "map": { "type": "object", "additionalProperties": text },
        "free": { "x-kubernetes-preserve-unknown-fields": true },
        "either": { "x-kubernetes-int-or-string": true },
        "on": { "type": "boolean", "nullable": true },
    } })
}

/// Defines the custom kind, with a status and a scale.
pub(super) async fn serve(raw: &Raw) {
    let widget = Widget::new(raw);
    let mut definition = widget.definition(&schema());
    let version = &mut definition["spec"]["versions"][0];
    version["subresources"]["scale"] =
        json!({ "specReplicasPath": ".spec.size", "statusReplicasPath": ".status.replicas" });
    let status = &mut version["schema"]["openAPIV3Schema"]["properties"]["status"];
    status["properties"]["replicas"] = json!({ "type": "integer" });
    widget.define(&definition).await;
}

/// The statuses of the kind of `object`.
fn statuses(with_status: &Value, object: &Value) -> Vec<Value> {
    if object["kind"] == "Widget" {
        return vec![json!({ "ready": true, "replicas": 2 })];
    }
    let all = with_status.as_array().into_iter().flatten();
    let is_same = |it: &&Value| {
        ["apiVersion", "kind"]
            .iter()
            .all(|field| it[field] == object[field])
    };
    let statuses = all.filter(is_same).map(|it| it["status"].clone());
    statuses.filter(|status| !status.is_null()).collect()
}

/// A custom object that fits the [`schema`].
pub(super) fn custom(widget: &Widget<'_>) -> Value {
    widget.object(
        "a",
        &json!({
            "size": 2, "mode": "a", "tags": ["p", "q"], "on": true, "either": 1,
            "ports": [{ "port": 1, "pair": { "a": "b" } }, { "port": 2 }],
            "list": ["x"], "map": { "k": "v" }, "free": { "u": [1, "v"] },
        }),
    )
}

on_both_servers! {
    /// All answers are the same, and all events, but for the rules of `known.rs`: where the real
    /// server refuses by one that the embedded one lacks, the objects differ and the sequence ends.
    ///
    /// `WINDLASS_SEED` chooses other sequences, `WINDLASS_SEQUENCES` says how many are sent.
    async fn random_sequences_are_answered_as_by_the_embedded_server(cluster: Cluster) {
        cluster.require_the_default_version();
        let seed = number("WINDLASS_SEED").unwrap_or(15);
        let count = number("WINDLASS_SEQUENCES").unwrap_or(COUNT);
        // More differences than this have few causes.
        let limit = usize::try_from(count / 10).unwrap_or(usize::MAX);
        println!("WINDLASS_SEED={seed}");
        let mut pair = Pair::new("sequences", &cluster).await;
        let mut objects = pair.documents(KINDS);
        objects.retain(|object| !LEFT_OUT.iter().any(|kind| object["kind"] == *kind));
        for raw in [&pair.theirs, &pair.ours] {
            serve(raw).await;
        }
        // A tenth of the sequences is about a custom kind.
        let widget = custom(&Widget::new(&pair.theirs));
        objects.extend(vec![widget; objects.len() / 10]);
        let with_status = pair.documents(WITH_STATUS).remove(0);
        let (mut requests, mut compared, mut done, mut repeated) = (0, 0, 0, 0);
        let has_records = number("WINDLASS_SEED").is_none()
            && std::env::var_os("WINDLASS_RECORD").is_none();
        let mut ended = std::collections::BTreeMap::<&str, u32>::new();
        for number in 0..count {
            // Each has its own seed, so that one can be repeated alone.
            let seed = seed.wrapping_add(number);
            let mut random = StdRng::seed_from_u64(seed);
            let mut object = objects.choose(&mut random).expect("there are some").clone();
            let name = name(&object, number, 0, &pair.theirs.namespace);
            object["metadata"]["name"] = name.as_str().into();
            let place = pair.place(&object).await;
            let statuses = statuses(&with_status, &object);
            let steps = Generator {
                random,
                object: &object,
                place: &place,
                name: &name,
                statuses: &statuses,
            }
            .steps(STEPS);
            let sequence = Sequence { object, place, name, steps };
            let kept: Vec<_> = (0..sequence.steps.len()).collect();
            let run = async || replay(&pair, &cluster, &sequence, &kept, &sequence.name).await;
            let mut replay = run().await;
            // The entries of managed fields are in the order of their times, which are whole
            // seconds. Where a second ends between two requests, or between the two servers, an
            // apply that changes nothing else can change this order, which is an event. Such a
            // difference is not there when the sequence is repeated.
            let is_new = replay.difference.is_some() && replay.rule(&sequence.object).is_none();
            if is_new || has_records && !pair.recorded.is_next(&replay.answers) {
                replay = run().await;
                repeated += 1;
            }
            requests += replay.sent.len();
            done += 1;
            pair.recorded.add_all(&replay.sent.join("\n"), &replay.answers);
            if let Some(rule) = replay.rule(&sequence.object) {
                *ended.entry(rule).or_default() += 1;
                pair.recorded.forget_last();
                continue;
            }
            compared += replay.events;
            if let Some(whole) = replay.report() {
                let mut difference = format!("WINDLASS_SEED={seed}:\n{whole}");
                if pair.differences.len() < SHORTENED {
                    let sent = replay.sent.len();
                    let shortest = shortest(&pair, &cluster, &sequence, sent, number).await;
                    difference += &match shortest.and_then(|it| Some((it.sent.len(), it.report()?))) {
                        Some((steps, text)) => ["\n  ", &steps.to_string(), " of these steps:\n", &text].concat(),
                        None => "\n  the same steps do not differ when they are repeated".to_owned(),
                    };
                }
                // A long run is read before its end.
                println!("{difference}");
                pair.differences.push(difference);
            }
            if pair.differences.len() > limit {
                break;
            }
        }
        println!("{done} sequences, {repeated} of them repeated, {requests} requests, {compared} events; ended by a rule that the embedded server lacks: {ended:?}");
        pair.check(done);
        if number("WINDLASS_SEED").is_none() {
            pair.recorded.check_first();
        }
    }
}
