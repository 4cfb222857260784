//! The names of custom resource definitions: a name is accepted if no other definition of the group has it.
//!
//! Source: apiextensions-apiserver `pkg/controller/status/naming_controller.go` and
//! `pkg/controller/establish/establishing_controller.go`, Kubernetes 1.36.

use std::collections::{BTreeSet, HashSet};

use serde_json::{Value, json};

use super::{Cluster, DEFINITIONS};
use crate::registry::Definition;
use crate::store::Key;

/// The name fields that must be unique among the definitions of a group.
const RESOURCE_FIELDS: [&str; 2] = ["plural", "singular"];

const KIND_FIELDS: [&str; 2] = ["kind", "listKind"];

/// The names that the definitions of a group have.
#[derive(Debug, Default)]
struct UsedNames<'a> {
    resources: HashSet<&'a str>,
    kinds: HashSet<&'a str>,
}

/// A name that another definition has.
#[derive(Debug)]
struct NameConflict {
    reason: &'static str,
    message: String,
}

// === impl Cluster ===

impl Cluster {
    /// Accepts the names of the definition at `key` that no other definition has, establishes it if
    /// it has all its names, and does the same for the definitions of its group if a name is free now.
    pub(super) fn accept_names(&mut self, key: &Key, now: &str) {
        let mut waiting = BTreeSet::from([key.clone()]);
        while let Some(key) = waiting.pop_first() {
            if self.accept_own_names(&key, now) {
                waiting.extend(self.others_of_group(&key));
            }
            if self.establish(&key, now) {
                self.serve(&key);
            }
        }
    }

    /// Accepts names that definitions have released since the last call.
    pub(super) fn settle_names(&mut self, now: &str) {
        while let Some(released) = self.released_names.pop_first() {
            for key in self.others_of_group(&released) {
                self.accept_names(&key, now);
            }
        }
    }

    /// Accepts the free names of one definition. Returns whether its status has changed.
    fn accept_own_names(&mut self, key: &Key, now: &str) -> bool {
        let Some(object) = self.store.get(DEFINITIONS, key).cloned() else {
            return false;
        };
        let before = object.value();
        let (wanted, has) = (&before["spec"]["names"], &before["status"]["acceptedNames"]);
        if is_same(wanted, has) {
            return false;
        }
        let used = self.used_names(Definition::of(before).group());
        let (names, conflict) = used.accept(wanted, has);
        let is_accepted = conflict.is_none();
        let conflict = conflict.unwrap_or_else(|| NameConflict {
            reason: "NoConflicts",
            message: "no conflicts found".to_owned(),
        });
        let status = if is_accepted { "True" } else { "False" };
        let old = find(before, "NamesAccepted");
        let is_old = old.is_some_and(|old| {
            old["status"] == status
                && old["reason"] == conflict.reason
                && old["message"] == *conflict.message
        });
        if is_old && is_same(&names, has) {
            return false;
        }
        let mut value = before.clone();
        value["status"]["acceptedNames"] = names;
        let (reason, message) = (conflict.reason, &conflict.message);
        set(&mut value, "NamesAccepted", status, reason, message, now);
        let is_established = Definition::of(before).is_established();
        if !is_established && is_accepted {
            let message = "the initial names have been accepted";
            set(
                &mut value,
                "Established",
                "False",
                "Installing",
                message,
                now,
            );
        } else if find(before, "Established").is_none() {
            let message = "not all names are accepted";
            set(
                &mut value,
                "Established",
                "False",
                "NotAccepted",
                message,
                now,
            );
        }
        self.own_status(before, &mut value, now);
        self.store.put(&DEFINITIONS.into(), key, value, 0);
        true
    }

    /// Establishes a definition whose names are accepted. Returns whether it was not established.
    fn establish(&mut self, key: &Key, now: &str) -> bool {
        let Some(object) = self.store.get(DEFINITIONS, key).cloned() else {
            return false;
        };
        let before = object.value();
        let is_accepted = find(before, "NamesAccepted").is_some_and(|it| it["status"] == "True");
        if !is_accepted || Definition::of(before).is_established() {
            return false;
        }
        let mut value = before.clone();
        let message = "the initial names have been accepted";
        set(
            &mut value,
            "Established",
            "True",
            "InitialNamesAccepted",
            message,
            now,
        );
        self.own_status(before, &mut value, now);
        self.store.put(&DEFINITIONS.into(), key, value, 0);
        true
    }

    /// The other definitions of the group of the definition at `key` that do not have all their names.
    fn others_of_group(&self, key: &Key) -> Vec<Key> {
        let Some((_, group)) = key.name.split_once('.') else {
            return Vec::new();
        };
        let objects = self.store.objects(DEFINITIONS);
        objects
            .filter(|(other, object)| {
                let value = object.value();
                *other != key
                    && Definition::of(value).group() == group
                    && !is_same(&value["spec"]["names"], &value["status"]["acceptedNames"])
            })
            .map(|(other, _)| other.clone())
            .collect()
    }

    fn used_names(&self, group: &str) -> UsedNames<'_> {
        let mut used = UsedNames::default();
        for (_, object) in self.store.objects(DEFINITIONS) {
            if Definition::of(object.value()).group() != group {
                continue;
            }
            let names = &object.value()["status"]["acceptedNames"];
            used.resources
                .extend(RESOURCE_FIELDS.map(|field| text(names, field)));
            used.resources.extend(short_names(names));
            used.kinds
                .extend(KIND_FIELDS.map(|field| text(names, field)));
        }
        used
    }
}

// === impl UsedNames ===

impl UsedNames<'_> {
    /// The names in `wanted` that are free, with those in `has` otherwise, and the last conflict.
    fn accept(&self, wanted: &Value, has: &Value) -> (Value, Option<NameConflict>) {
        let mut names = has.clone();
        if !names.is_object() {
            names = json!({});
        }
        let mut conflict = None;
        let mut one = |field: &str, used: &HashSet<&str>, reason: &'static str| {
            let name = text(wanted, field);
            if name != text(has, field) && used.contains(name) {
                let message = format!("{name:?} is already in use");
                conflict = Some(NameConflict { reason, message });
            } else if let Some(name) = wanted.get(field) {
                names[field] = name.clone();
            }
        };
        one("plural", &self.resources, "PluralConflict");
        one("singular", &self.resources, "SingularConflict");
        // The last conflict is reported, and that of a short name comes before that of a kind.
        let short = self.short_conflict(wanted, has);
        if let Some(message) = short {
            let reason = "ShortNamesConflict";
            conflict = Some(NameConflict { reason, message });
        } else {
            copy(wanted, &mut names, "shortNames");
        }
        let mut one = |field: &str, reason: &'static str| {
            let name = text(wanted, field);
            if name != text(has, field) && self.kinds.contains(name) {
                let message = format!("{name:?} is already in use");
                conflict = Some(NameConflict { reason, message });
            } else if let Some(name) = wanted.get(field) {
                names[field] = name.clone();
            }
        };
        one("kind", "KindConflict");
        one("listKind", "ListKindConflict");
        copy(wanted, &mut names, "categories");
        (names, conflict)
    }

    /// Which of the short names in `wanted` are in use, unless they are in `has`.
    fn short_conflict(&self, wanted: &Value, has: &Value) -> Option<String> {
        let own: HashSet<_> = short_names(has).collect();
        let mut messages = Vec::new();
        for name in short_names(wanted) {
            let message = format!("{name:?} is already in use");
            if !own.contains(name) && self.resources.contains(name) && !messages.contains(&message)
            {
                messages.push(message);
            }
        }
        match messages.as_slice() {
            [] => None,
            [message] => Some(message.clone()),
            messages => Some(format!("[{}]", messages.join(", "))),
        }
    }
}

/// Sets a condition of a definition. Its time changes only with its status.
pub(super) fn set(
    value: &mut Value,
    kind: &str,
    status: &str,
    reason: &str,
    message: &str,
    now: &str,
) {
    let mut condition = json!({
        "type": kind,
        "status": status,
        "lastTransitionTime": now,
        "reason": reason,
        "message": message,
    });
    if !value
        .pointer("/status/conditions")
        .is_some_and(Value::is_array)
    {
        value["status"]["conditions"] = json!([]);
    }
    if let Some(conditions) = value
        .pointer_mut("/status/conditions")
        .and_then(Value::as_array_mut)
    {
        match conditions
            .iter_mut()
            .find(|condition| condition["type"] == kind)
        {
            Some(existing) => {
                let time = existing["lastTransitionTime"].take();
                if existing["status"] == status && time.is_string() {
                    condition["lastTransitionTime"] = time;
                }
                *existing = condition;
            }
            None => conditions.push(condition),
        }
    }
}

fn find<'a>(definition: &'a Value, kind: &str) -> Option<&'a Value> {
    let conditions = definition.pointer("/status/conditions")?.as_array()?;
    conditions
        .iter()
        .find(|condition| condition["type"] == kind)
}

/// Whether two sets of names are equal; an empty list is equal to none.
fn is_same(one: &Value, other: &Value) -> bool {
    let texts = RESOURCE_FIELDS.iter().chain(&KIND_FIELDS);
    let list = |names: &Value, field: &str| names.get(field).and_then(Value::as_array).cloned();
    texts
        .into_iter()
        .all(|field| text(one, field) == text(other, field))
        && ["shortNames", "categories"].into_iter().all(|field| {
            list(one, field).unwrap_or_default() == list(other, field).unwrap_or_default()
        })
}

fn copy(from: &Value, to: &mut Value, field: &str) {
    match from.get(field) {
        Some(value) => to[field] = value.clone(),
        None => _ = to.as_object_mut().map(|to| to.remove(field)),
    }
}

fn text<'a>(names: &'a Value, field: &str) -> &'a str {
    names.get(field).and_then(Value::as_str).unwrap_or_default()
}

fn short_names(names: &Value) -> impl Iterator<Item = &str> {
    let list = names.get("shortNames").and_then(Value::as_array);
    list.into_iter().flatten().filter_map(Value::as_str)
}
