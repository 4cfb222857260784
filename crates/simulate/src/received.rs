//! The newest states that handlers received in a run, and those that they missed. *(pure)*
//!
//! The oracle `handlers_see_the_newest_state` has two forms:
//!
//! - An edge-triggered handler receives the newest state of each object, and its deletion.
//! - A level-triggered handler is called with the newest state of each object that exists. An object
//!   that does not exist any more, or is marked for deletion, needs no call. If it had a finalizer
//!   and the controller has a clean-up, the last call was the clean-up.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

/// What causes the calls of a handler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trigger {
    /// Each event.
    Edge,
    /// A difference between the newest state and the state of the last call.
    Level,
}

/// The last call of a handler for one object.
#[derive(Clone, Debug)]
pub(crate) struct LastCall {
    /// The kind, namespace and name of the object.
    pub(crate) object: String,
    pub(crate) trigger: Trigger,
    /// The highest resource version of all calls, if it is a number.
    pub(crate) version: Option<u64>,
    pub(crate) generation: Option<i64>,
    /// Whether the object had a finalizer that is not that of a simulated fault.
    pub(crate) has_finalizer: bool,
    /// Whether the call was for the deletion or for the clean-up.
    pub(crate) is_deletion: bool,
}

/// What the handlers of the running processes have received at the end of a run.
#[derive(Clone, Debug, Default)]
pub(crate) struct Received {
    /// By handler and object: the newest state or the deletion that the handler did not receive.
    missed: BTreeMap<String, String>,
    /// By handler and object: the level-triggered handler that was not called for the clean-up of an
    /// object that had a finalizer.
    not_cleaned: BTreeMap<String, String>,
    /// The level-triggered handlers with a clean-up: those that any process called for one.
    cleaning: BTreeSet<String>,
    /// The level-triggered handlers, and the existing objects for which they were called.
    called: BTreeSet<(String, ObjectName)>,
    /// The objects of the server that are not marked for deletion.
    existing: BTreeSet<ObjectName>,
}

/// The resource, the namespace and the name of an object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct ObjectName {
    resource: String,
    namespace: String,
    name: String,
}

// === impl Received ===

impl Received {
    /// `objects` are all objects of the server. `cleaning` are the level-triggered handlers that any
    /// process called for a clean-up. `calls` are the last calls of running processes: the handler,
    /// the uid and the call.
    pub(crate) fn new<'a>(
        objects: &[(String, Value)],
        cleaning: BTreeSet<String>,
        calls: impl IntoIterator<Item = (&'a str, &'a str, &'a LastCall)>,
    ) -> Self {
        let by_uid: BTreeMap<_, _> = (objects.iter())
            .map(|(resource, object)| {
                let uid = object["metadata"]["uid"].as_str().unwrap_or_default();
                (uid, (resource, object))
            })
            .collect();
        let mut received = Self {
            cleaning,
            ..Self::default()
        };
        for (resource, object) in objects {
            if !is_marked(object) {
                (received.existing).insert(ObjectName::of(resource, object));
            }
        }
        for (handler, uid, last) in calls {
            received.add(handler, last, by_uid.get(uid).copied());
        }
        received
    }

    fn add(&mut self, handler: &str, last: &LastCall, object: Option<(&String, &Value)>) {
        let call = format!("{handler} of {}", last.object);
        let newest = object.map(|(_, object)| object["metadata"]["generation"].as_i64());
        let is_removed = object.is_none_or(|(_, object)| is_marked(object));
        if last.trigger == Trigger::Level && is_removed {
            if last.has_finalizer && !last.is_deletion {
                self.not_cleaned.insert(call, handler.to_owned());
            }
            return;
        }
        if last.trigger == Trigger::Level
            && let Some((resource, object)) = object
        {
            let name = ObjectName::of(resource, object);
            self.called.insert((handler.to_owned(), name));
        }
        match newest {
            Some(newest) if newest != last.generation => {
                let text = format!("saw generation {:?}, not {newest:?}", last.generation);
                self.missed.insert(call, text);
            }
            None if !last.is_deletion => {
                let text = "was not called for its deletion".to_owned();
                self.missed.insert(call, text);
            }
            _ => {}
        }
    }

    /// A state that a handler missed, although it does not miss it in `reference`, a run without
    /// faults.
    pub(crate) fn first_missed(&self, reference: &Self) -> Option<String> {
        let mut missed = (self.missed.iter()).filter(|(call, _)| {
            let also_without = reference.missed.contains_key(*call);
            !also_without
        });
        if let Some((call, text)) = missed.next() {
            return Some(format!("{call} {text}"));
        }
        let has_clean_up =
            |handler| self.cleaning.contains(handler) || reference.cleaning.contains(handler);
        let mut not_cleaned = (self.not_cleaned.iter()).filter(|(call, handler)| {
            has_clean_up(*handler) && !reference.not_cleaned.contains_key(*call)
        });
        if let Some((call, _)) = not_cleaned.next() {
            return Some(format!("{call} was not called for the clean-up"));
        }
        let mut uncalled = reference.called.iter().filter(|called| {
            let (_, name) = called;
            self.existing.contains(name) && !self.called.contains(called)
        });
        let (handler, ObjectName { resource, name, .. }) = uncalled.next()?;
        Some(format!(
            "{handler} was not called for {name} of {resource}, which exists"
        ))
    }
}

// === impl ObjectName ===

impl ObjectName {
    fn of(resource: &str, object: &Value) -> Self {
        let text = |field: &str| {
            let text = object["metadata"][field].as_str();
            text.unwrap_or_default().to_owned()
        };
        Self {
            resource: resource.to_owned(),
            namespace: text("namespace"),
            name: text("name"),
        }
    }
}

/// Whether an object is marked for deletion.
fn is_marked(object: &Value) -> bool {
    object["metadata"]["deletionTimestamp"].is_string()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// The object `blog` with this uid and generation.
    fn blog(uid: &str, generation: i64) -> (String, Value) {
        let metadata = json!({
            "name": "blog", "namespace": "default", "uid": uid, "generation": generation,
        });
        ("sites".to_owned(), json!({ "metadata": metadata }))
    }

    fn marked(uid: &str, generation: i64) -> (String, Value) {
        let (resource, mut object) = blog(uid, generation);
        object["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        (resource, object)
    }

    /// The last call of the handler `pages` for the uid `a`: the words `edge` or `level`, `held` if
    /// the object had a finalizer, `deletion`, and the generation.
    fn call(words: &str) -> LastCall {
        let has = |word| words.split(' ').any(|it| it == word);
        let generation = words.split(' ').find_map(|it| it.parse().ok());
        LastCall {
            object: "Site default/blog".to_owned(),
            trigger: if has("level") {
                Trigger::Level
            } else {
                Trigger::Edge
            },
            version: None,
            generation,
            has_finalizer: has("held"),
            is_deletion: has("deletion"),
        }
    }

    fn received(objects: &[(String, Value)], calls: &[&str]) -> Received {
        let calls: Vec<_> = calls.iter().map(|words| call(words)).collect();
        let cleaning = calls.iter().any(|call| call.is_deletion);
        let cleaning = cleaning.then(|| "pages".to_owned()).into_iter().collect();
        let calls = calls.iter().map(|call| ("pages", "a", call));
        Received::new(objects, cleaning, calls)
    }

    #[track_caller]
    fn check(objects: &[(String, Value)], calls: &[&str], expected: &str) {
        let is_edge = calls.iter().any(|words| words.starts_with("edge"));
        let reference = Received {
            cleaning: received(&[], &["level deletion 2"]).cleaning,
            ..received(
                &[blog("a", 1)],
                &[if is_edge { "edge 1" } else { "level held 1" }],
            )
        };
        let missed = received(objects, calls).first_missed(&reference);
        assert_eq!(missed.as_deref().unwrap_or_default(), expected);
    }

    #[test]
    fn a_state_that_a_handler_did_not_see_is_missed() {
        for trigger in ["edge", "level"] {
            let old = format!("{trigger} 1");
            let text = "pages of Site default/blog saw generation Some(1), not Some(2)";
            check(&[blog("a", 2)], &[&old], text);
            check(&[blog("a", 2)], &[&format!("{trigger} 2")], "");
        }
    }

    #[test]
    fn a_deletion_is_missed_by_an_edge_triggered_handler_only() {
        let text = "pages of Site default/blog was not called for its deletion";
        check(&[], &["edge 1"], text);
        check(&[], &["edge deletion 1"], "");
        check(&[], &["level 1"], "");
        check(&[marked("a", 2)], &["level 1"], "");
    }

    #[test]
    fn a_clean_up_is_missed_if_the_controller_has_one() {
        let text = "pages of Site default/blog was not called for the clean-up";
        check(&[], &["level held 1"], text);
        check(&[marked("a", 2)], &["level held 1"], text);
        check(&[], &["level held deletion 2"], "");
        let without_clean_up = received(&[blog("a", 1)], &["level 1"]);
        let missed = received(&[], &["level held 1"]).first_missed(&without_clean_up);
        assert_eq!(missed, None);
    }

    #[test]
    fn an_existing_object_without_a_call_is_missed_by_a_level_triggered_handler() {
        let text = "pages was not called for blog of sites, which exists";
        check(&[blog("a", 1)], &[], text);
        // A successor of the same name, of which there was no call.
        check(&[blog("b", 1)], &["level held deletion 2"], text);
        check(&[], &[], "");
        check(&[marked("a", 2)], &[], "");
    }

    #[test]
    fn what_is_missed_without_faults_is_not_expected() {
        let reference = received(&[blog("a", 2)], &["edge 1"]);
        let missed = received(&[blog("a", 3)], &["edge 1"]).first_missed(&reference);
        assert_eq!(missed, None);
    }
}
