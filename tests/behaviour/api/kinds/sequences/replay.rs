//! Sends a sequence to both servers, and finds the first answer or event that differs.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::timeout;

use super::super::super::raw::{Answer, Events, Raw};
use super::super::{Pair, mask, masked};
use super::known;
use super::steps::Step;
use crate::cluster::Cluster;

/// Steps about one object.
pub(super) struct Sequence {
    /// The object as it is created.
    pub(super) object: Value,
    /// Where objects of its kind are.
    pub(super) place: String,
    pub(super) name: String,
    pub(super) steps: Vec<Step>,
}

/// What both servers answered to the steps of a sequence.
#[derive(Default)]
pub(super) struct Replay {
    /// What was sent, for a failure.
    pub(super) sent: Vec<String>,
    /// The answers of the embedded server, and the events of all watches.
    pub(super) answers: Vec<Value>,
    /// How many events were compared.
    pub(super) events: usize,
    /// The first answers or events that differ: those of the real server, and those of the
    /// embedded one. The sequence ends there.
    pub(super) difference: Option<[Value; 2]>,
}

/// Both servers during a sequence.
struct Session<'a> {
    servers: [&'a Raw; 2],
    /// The newest versions before the sequence.
    start: [String; 2],
    /// The object as each server first and last showed it.
    shown: [[Value; 2]; 2],
    watches: Vec<[Watch; 2]>,
}

/// A watch on one server.
struct Watch {
    path: String,
    /// The name of the object; events of other objects are ignored.
    name: String,
    events: Events,
    seen: Vec<Value>,
}

/// Why the events of a watch are not read further.
#[derive(PartialEq)]
enum Pause {
    /// The first event of the object was read.
    Event,
    /// The bookmark at the end of the initial events was read.
    Bookmark,
    /// The marker was read, or there are no more events.
    End,
}

/// The annotation of the object that is created last, with which the events end.
const MARKER: &str = "end";

/// How long an event may take on a busy machine. It is only awaited in full if it is missing,
/// which is a difference.
const EVENT_TIMEOUT: Duration = Duration::from_secs(30);

/// Sends the steps whose numbers are `kept`, about an object called `name`.
pub(super) async fn replay(
    pair: &Pair,
    cluster: &Cluster,
    sequence: &Sequence,
    kept: &[usize],
    name: &str,
) -> Replay {
    // Some watches read events from the history.
    let _history = cluster.remember_history().await;
    let servers = [&pair.theirs, &pair.ours];
    let mut start = [String::new(), String::new()];
    for (raw, start) in servers.iter().zip(&mut start) {
        let list = raw.get(&format!("{}?limit=1", sequence.place)).await.ok();
        let version = list["metadata"]["resourceVersion"].as_str();
        version.expect("a version").clone_into(start);
    }
    let mut session = Session {
        servers,
        start,
        shown: Default::default(),
        watches: Vec::new(),
    };
    let mut replay = Replay::default();
    for number in kept {
        let step = &sequence.steps[*number];
        let [theirs, ours] = session.send(step, sequence, name, &mut replay.sent).await;
        if theirs != ours {
            replay.difference = Some([theirs, ours]);
            break;
        }
        replay.answers.push(ours);
    }
    // All writes are read once more, from the history.
    let all = format!("{}?watch=true&resourceVersion=START", sequence.place);
    if replay.difference.is_none() {
        replay.difference = session.watch(&all, name).await.err();
    }
    let marked = session.mark(sequence, name).await;
    if replay.difference.is_none() {
        replay.difference = marked.err();
    }
    if replay.difference.is_none() {
        for watches in std::mem::take(&mut session.watches) {
            let events = compare(watches).await;
            replay.events += events.as_ref().map_or(0, Vec::len);
            match events {
                Ok(events) => replay.answers.extend(events),
                Err(difference) => {
                    replay.difference = Some(difference);
                    break;
                }
            }
        }
    }
    let one = format!("{}/{name}", sequence.place);
    for raw in servers {
        let now = json!({ "propagationPolicy": "Background", "gracePeriodSeconds": 0 });
        raw.delete_so(&one, &now).await;
    }
    replay
}

/// The remaining events of a watch on both servers, or the first ones that differ.
async fn compare([mut theirs, mut ours]: [Watch; 2]) -> Result<Vec<Value>, [Value; 2]> {
    theirs.read(&Pause::End).await;
    ours.read(&Pause::End).await;
    let (left, right) = (&theirs.seen, &ours.seen);
    let at = left
        .iter()
        .zip(right)
        .position(|(left, right)| left != right);
    let shorter = left.len().min(right.len());
    let Some(at) = at.or((left.len() != right.len()).then_some(shorter)) else {
        return Ok(ours.seen);
    };
    Err([&theirs, &ours].map(|watch| {
        let event = watch.seen.get(at).cloned().unwrap_or_default();
        json!({ "watch": watch.path, "event": at, "of": watch.seen.len(), "is": event })
    }))
}

// === impl Replay ===

impl Replay {
    /// The requests, and the answers or events that differ.
    pub(super) fn report(&self) -> Option<String> {
        let [theirs, ours] = self.difference.as_ref()?;
        let sent = self.sent.join("\n  ");
        Some(format!(
            "  {sent}\n  the server: {theirs}\n  the embedded one: {ours}"
        ))
    }

    /// The known difference with which the sequence ended.
    pub(super) fn rule(&self, object: &Value) -> Option<&'static str> {
        let [theirs, ours] = self.difference.as_ref()?;
        known::rule(object, theirs, ours)
    }
}

// === impl Session ===

impl Session<'_> {
    /// Sends one step to both servers.
    async fn send(
        &mut self,
        step: &Step,
        sequence: &Sequence,
        name: &str,
        sent: &mut Vec<String>,
    ) -> [Value; 2] {
        let path = step.path.replace(&sequence.name, name);
        if step.is_watch() {
            sent.push(format!("GET {path}"));
            let started = json!({ "code": 200 });
            let answers = self.watch(&path, name).await;
            return answers.map_or_else(|answers| answers, |()| [started.clone(), started]);
        }
        let content_type = ("content-type", step.content_type);
        let headers = [("user-agent", "sequence/1"), content_type];
        let headers = &headers[..if step.content_type.is_empty() { 1 } else { 2 }];
        let mut answers = Vec::new();
        for (raw, shown) in self.servers.iter().zip(&mut self.shown) {
            let body = step.body.text(shown, &sequence.object);
            let body = body.replace(&sequence.name, name);
            let method = step.method.clone();
            let answer = raw.ask(method, &path, headers, &body).await;
            if answers.is_empty() {
                sent.push(format!("{} {path} {body}", step.method));
            }
            let is_object = answer.body["kind"] == sequence.object["kind"]
                && answer.body["metadata"]["name"] == name;
            answers.push(masked_answer(&answer));
            if is_object {
                if shown[0].is_null() {
                    shown[0] = answer.body.clone();
                }
                shown[1] = answer.body;
            }
        }
        let [theirs, ours] = <[Value; 2]>::try_from(answers).expect("two servers");
        [theirs, ours]
    }

    /// Starts a watch on both servers. Returns the answers of both if one rejects it.
    async fn watch(&mut self, path: &str, name: &str) -> Result<(), [Value; 2]> {
        let mut answers = Vec::new();
        let mut watches = Vec::new();
        for (side, raw) in self.servers.iter().enumerate() {
            let version = |object: &Value| {
                let version = object["metadata"]["resourceVersion"].as_str();
                version.unwrap_or(&self.start[side]).to_owned()
            };
            let [first, last] = &self.shown[side];
            let path = path.replace("START", &self.start[side]);
            let path = path.replace("FIRST", &version(first));
            let path = path.replace("LAST", &version(last));
            match raw.try_watch(&path, "application/json").await {
                Err(answer) => answers.push(masked_answer(&answer)),
                Ok(events) => {
                    answers.push(json!({ "code": 200 }));
                    let name = name.to_owned();
                    let seen = Vec::new();
                    let mut watch = Watch {
                        path,
                        name,
                        events,
                        seen,
                    };
                    // The real server reads the initial objects after it has answered. Without
                    // waiting for them, the next step would come first on some runs.
                    match watch.begins_with(raw).await {
                        Some(Pause::End) => {}
                        Some(pause) => {
                            watch.read(&pause).await;
                            watches.push(watch);
                        }
                        None => watches.push(watch),
                    }
                }
            }
        }
        if let Ok(watches) = watches.try_into() {
            self.watches.push(watches);
            return Ok(());
        }
        Err(answers.try_into().expect("two servers"))
    }

    /// Deletes the object, and creates it again as the marker. Returns the answers of both
    /// servers if they differ.
    async fn mark(&self, sequence: &Sequence, name: &str) -> Result<(), [Value; 2]> {
        let place = &sequence.place;
        let one = format!("{place}/{name}");
        let mut marker = sequence.object.clone();
        marker["metadata"]["name"] = name.into();
        // Each watch sees one of the two states, whichever label it selects.
        marker["metadata"]["labels"] = json!({ "1": "a" });
        marker["metadata"]["annotations"] = json!({ MARKER: "" });
        let now = json!({ "propagationPolicy": "Background", "gracePeriodSeconds": 0 });
        let finalizers = json!({ "metadata": { "finalizers": null } });
        let labels = json!({ "metadata": { "labels": { "1": null } } });
        let mut codes = Vec::new();
        for raw in self.servers {
            raw.merge(&one, &finalizers).await;
            raw.delete_so(&one, &now).await;
            let created = raw.post(place, &marker).await;
            let changed = raw.merge(&one, &labels).await;
            codes.push([created, changed].map(|answer| masked_answer(&answer)));
        }
        let is_marked = codes
            .iter()
            .flatten()
            .all(|it| it["code"].as_u64() < Some(300));
        if is_marked {
            return Ok(());
        }
        let what = |answers: &[Value; 2]| json!({ "marker": answers });
        Err([what(&codes[0]), what(&codes[1])])
    }
}

// === impl Watch ===

impl Watch {
    /// What ends the initial events, if they are awaited. [`Pause::End`]: there is nothing that
    /// could be awaited, so that the watch cannot be compared.
    async fn begins_with(&self, raw: &Raw) -> Option<Pause> {
        let has = |option: &str| self.path.split(['?', '&']).any(|it| it == option);
        if has("sendInitialEvents=true") && has("allowWatchBookmarks=true") {
            return Some(Pause::Bookmark);
        }
        let version = self
            .path
            .split(['?', '&'])
            .find_map(|it| it.strip_prefix("resourceVersion="));
        let is_newest = matches!(version, None | Some("" | "0"));
        let is_initial = if has("sendInitialEvents=true") {
            true
        } else {
            is_newest && !has("sendInitialEvents=false")
        };
        if !is_initial {
            return None;
        }
        let (selected, _) = self.path.split_once("&watch=true")?;
        let list = raw.get(selected).await.ok();
        let items = list["items"].as_array().into_iter().flatten();
        let mut names = items.map(|item| &item["metadata"]["name"]);
        Some(if names.any(|it| *it == self.name) {
            Pause::Event
        } else {
            Pause::End
        })
    }

    /// Reads events until `pause`.
    async fn read(&mut self, pause: &Pause) {
        loop {
            let event = match timeout(EVENT_TIMEOUT, self.events.next()).await {
                Ok(Some(event)) => event,
                Ok(None) => json!({ "type": "the watch has ended" }),
                Err(_) => json!({ "type": format!("no event in {EVENT_TIMEOUT:?}") }),
            };
            let reached = self.add(event);
            if reached == Some(Pause::End) || reached.as_ref() == Some(pause) {
                return;
            }
        }
    }

    fn add(&mut self, mut event: Value) -> Option<Pause> {
        let object = &event["object"];
        let annotations = &object["metadata"]["annotations"];
        let kind = event["type"].as_str().unwrap_or_default();
        let pause = match kind {
            "ADDED" | "MODIFIED" | "DELETED" if object["metadata"]["name"] != self.name => {
                return None;
            }
            "ADDED" | "MODIFIED" | "DELETED" if annotations.get(MARKER).is_some() => {
                return Some(Pause::End);
            }
            "ADDED" | "MODIFIED" | "DELETED" => Pause::Event,
            "BOOKMARK" if annotations.get("k8s.io/initial-events-end").is_some() => Pause::Bookmark,
            // The servers send others at other times.
            "BOOKMARK" => return None,
            _ => Pause::End,
        };
        if kind == "BOOKMARK"
            && let Some(members) = event["object"].as_object_mut()
        {
            // The real server adds the fields that Go cannot omit, as docs/apiserver.md says.
            members.retain(|name, _| ["apiVersion", "kind", "metadata"].contains(&name.as_str()));
            members["metadata"]["annotations"]
                .as_object_mut()
                .expect("it has the annotation")
                .retain(|name, _| name.starts_with("k8s.io/"));
        }
        mask(&mut event);
        let event = sorted(json!({ "type": event["type"], "body": event["object"] }));
        // `known.rs` says why a job may be written without a change.
        let is_repeated = event["body"]["kind"] == "Job"
            && self
                .seen
                .last()
                .is_some_and(|last: &Value| last["body"] == event["body"]);
        if !is_repeated {
            self.seen.push(event);
        }
        Some(pause)
    }
}

/// An answer with the owners of fields in one order: entries are in that of their times, which
/// differ where a second ends between the two servers.
fn sorted(mut answer: Value) -> Value {
    let body = &mut answer["body"];
    let items = match body.get_mut("items") {
        Some(Value::Array(items)) => items.iter_mut().collect(),
        _ => vec![body],
    };
    for item in items {
        let entries = item.pointer_mut("/metadata/managedFields");
        if let Some(entries) = entries.and_then(Value::as_array_mut) {
            entries.sort_by_key(|entry| {
                let text = |field: &str| entry[field].to_string();
                [text("manager"), text("operation"), text("subresource")]
            });
        }
    }
    answer
}

/// An answer without what differs between two servers or does not matter: a fault that is found
/// twice is reported once, and an object in a message stands in another order.
pub(in super::super) fn masked_answer(answer: &Answer) -> Value {
    let mut answer = sorted(masked(answer));
    let causes = answer.pointer_mut("/body/details/causes");
    if let Some(causes) = causes.and_then(Value::as_array_mut) {
        for cause in causes.iter_mut() {
            known::hide_objects(cause);
        }
        causes.sort_by_key(ToString::to_string);
        causes.dedup();
    }
    known::hide_objects(&mut answer["body"]);
    answer
}
