//! Logs as texts: entries separated by semicolons.

use std::{sync::Arc, time::Duration};

use windlass_model::{
    Action, AddedBy, Attempt, Began, CallId, Entry, Handler, HandlerId, InformerEvent, InformerId,
    Outcome, Record, Role, Snapshot, Version, Writer,
};

/// The finalizers of wrapped handlers.
const OURS: [&str; 2] = ["own", "wip"];

/// The handler of an entry `add`.
fn added(handler: &str, role: &str) -> Handler {
    Handler {
        id: HandlerId(number(handler)),
        kind: Arc::from("kind"),
        role: if role == "reconciler" {
            Role::Reconciler
        } else {
            Role::Watcher
        },
        finalizers: match role {
            "wrapped" | "early" => OURS.map(str::to_owned).to_vec(),
            _ => Vec::new(),
        },
        filtered: role == "filtered",
        early: role == "early",
    }
}

/// Parses a log.
#[expect(clippy::too_many_lines, reason = "one arm for each entry")]
pub(crate) fn parse(text: &str) -> Vec<Record> {
    let mut at = Duration::ZERO;
    let mut calls = 0;
    let mut log = Vec::new();
    for line in text.split(';').map(str::trim).filter(|it| !it.is_empty()) {
        let words: Vec<_> = line.split_whitespace().collect();
        let entry = match *words {
            ["wait", seconds] => {
                at += Duration::from_secs(seconds.parse().expect("seconds"));
                continue;
            }
            ["add", handler, role] if handler.starts_with('h') => {
                Entry::HandlerAdded(added(handler, role))
            }
            ["add", informer, ref kind @ ..] => Entry::InformerAdded {
                informer: InformerId(number(informer)),
                kind: Arc::from(*kind.first().unwrap_or(&"kind")),
            },
            ["remove", handler] => Entry::HandlerRemoved(HandlerId(number(handler))),
            ["start"] => Entry::Started,
            ["stop"] => Entry::Stopped,
            ["restored"] => Entry::Restored,
            ["quiet"] => Entry::Quiet,
            ["settled"] => Entry::Settled,
            [informer, "relists"] => Entry::Listed(InformerId(number(informer))),
            [informer, "synced"] => Entry::Synced(InformerId(number(informer))),
            [
                informer,
                verb @ ("lists" | "adds" | "updates" | "deletes"),
                ref object @ ..,
            ] => {
                let object = snapshot(object);
                Entry::InformerEvent {
                    informer: InformerId(number(informer)),
                    shown: match verb {
                        "updates" => InformerEvent::Updated(object),
                        "deletes" => InformerEvent::Deleted(object),
                        verb => InformerEvent::Added {
                            object,
                            from: if verb == "lists" {
                                AddedBy::FirstList
                            } else {
                                AddedBy::Watch
                            },
                        },
                    },
                }
            }
            ["server", ref object @ ..] => Entry::Committed {
                by: Writer::Other,
                object: snapshot(object),
            },
            [handler, "writes", ref object @ ..] => Entry::Committed {
                by: Writer::Wrapper(HandlerId(number(handler))),
                object: snapshot(object),
            },
            ["other", "erases", ref object @ ..] => Entry::Removed {
                by: Writer::Other,
                object: snapshot(object),
            },
            [handler, "erases", ref object @ ..] => Entry::Removed {
                by: Writer::Wrapper(HandlerId(number(handler))),
                object: snapshot(object),
            },
            ["call", handler, action, ref object @ ..] => {
                calls += 1;
                let with_request = text.contains("reconciler");
                Entry::Began(call(CallId(calls), handler, action, object, with_request))
            }
            [outcome @ ("done" | "failed" | "requeue"), ref rest @ ..] => {
                let state = rest.iter().position(|it| *it == "state");
                let state = state.and_then(|at| rest.get(at + 1)?.parse().ok());
                Entry::Ended {
                    call: CallId(calls),
                    outcome: match outcome {
                        "done" => Outcome::Done,
                        "failed" => Outcome::Failed {
                            retry_after: None,
                            state,
                        },
                        _ => Outcome::Requeue {
                            after: Duration::from_secs(rest[0].parse().expect("seconds")),
                            state,
                        },
                    },
                }
            }
            _ => of_call(CallId(calls), &words).unwrap_or_else(|| panic!("no such entry: {line}")),
        };
        log.push(Record { at, entry });
    }
    log
}

/// Parses what a call reads and writes.
fn of_call(call: CallId, words: &[&str]) -> Option<Entry> {
    Some(match *words {
        ["own", ref object @ ..] => Entry::Committed {
            by: Writer::Call(call),
            object: snapshot(object),
        },
        ["reads", ref object @ ..] => Entry::Read {
            call,
            object: snapshot(object),
        },
        ["answer", version, ref rest @ ..] => Entry::Answered {
            call,
            version: Version(version.parse().expect("a version")),
            proven: rest == ["proven"],
        },
        _ => return None,
    })
}

/// Parses the begin of a call, such as `h0 updated a1@2 from 1 attempt 0 state 7`.
fn call(id: CallId, handler: &str, action: &str, object: &[&str], with_request: bool) -> Began {
    let object_words: Vec<_> = (object.iter().copied())
        .take_while(|it| !["from", "attempt", "state"].contains(it))
        .collect();
    let value = |word: &str| {
        let at = object.iter().position(|it| *it == word)?;
        object.get(at + 1)?.parse::<u32>().ok()
    };
    let object = snapshot(&object_words);
    let from = value("from").map(|from| {
        let mut before = Snapshot::clone(&object);
        before.version = Version(from.into());
        Arc::new(before)
    });
    Began {
        call: id,
        handler: HandlerId(number(handler)),
        action: match action {
            "created" => Action::Created,
            "updated" => Action::Updated,
            "deleted" => Action::Deleted,
            _ => Action::Resynced,
        },
        old: from,
        object,
        request: with_request.then(|| Attempt {
            attempt: value("attempt").unwrap_or_default(),
            state: value("state").map(Into::into),
            last: false,
        }),
    }
}

/// Parses an object, such as `a1@2 g2 terminating own`: uid, version, generation, deletion mark
/// and finalizers.
fn snapshot(words: &[&str]) -> Arc<Snapshot> {
    let (uid, version) = words[0].split_once('@').expect("a uid and a version");
    let mut snapshot = Snapshot {
        key: Arc::from(&uid[..1]),
        uid: Arc::from(uid),
        version: Version(version.parse().expect("a version")),
        generation: Some(1),
        terminating: false,
        finalizers: Vec::new(),
        content: Arc::from("1"),
    };
    for word in &words[1..] {
        match word.strip_prefix('g').and_then(|it| it.parse().ok()) {
            Some(generation) => {
                snapshot.generation = Some(generation);
                snapshot.content = Arc::from(generation.to_string());
            }
            None if *word == "terminating" => snapshot.terminating = true,
            None => snapshot.finalizers.push((*word).to_owned()),
        }
    }
    Arc::new(snapshot)
}

fn number(word: &str) -> u32 {
    word[1..].parse().expect("a letter and a number")
}
