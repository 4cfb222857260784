//! Writes other than applies: their manager becomes the owner of the fields that they change.

use std::borrow::Cow;
use std::sync::LazyLock;

use serde_json::Value;

use super::compare::Comparison;
use super::created::{self, Excluded};
use super::entries::{self, ManagerId, Managers, Operation, Ownership};
use super::set::Set;
use super::types::Shape;
use super::{Versions, Write, walk};

/// The number of updaters with a separate entry. Above it, the oldest share one entry.
const MAX_UPDATERS: usize = 10;

/// The manager of the shared entry of the oldest updaters.
const OLDEST: &str = "ancient-changes";

/// Fields without an owner: the server writes them, or they identify the object.
const UNOWNED: &[&[&str]] = &[
    &["apiVersion"],
    &["kind"],
    &["metadata"],
    &["metadata", "name"],
    &["metadata", "namespace"],
    &["metadata", "creationTimestamp"],
    &["metadata", "selfLink"],
    &["metadata", "uid"],
    &["metadata", "clusterName"],
    &["metadata", "generation"],
    &["metadata", "managedFields"],
    &["metadata", "resourceVersion"],
];

/// Updates the `managedFields` of `object` after a write that changed it from `live`.
///
/// A client can change the entries by sending other entries that can be decoded; an empty list drops
/// all of them. An object without entries is not tracked, unless it is new: `live` is then an empty
/// object.
pub(crate) fn track(live: &Value, object: &mut Value, versions: &dyn Versions, write: &Write<'_>) {
    let is_new = uid(live).is_empty();
    let sent = take_entries(object);
    let managers = if write.subresource.is_empty() {
        entries_of_update(live, sent.as_ref())
    } else {
        // A write to a part of an object does not change the owners of the rest.
        entries::stored(crate::metadata::field(live, "managedFields")).unwrap_or_default()
    };
    if managers.is_empty() && !is_new {
        return;
    }
    let Some(shape) = versions.shape(write.api_version) else {
        return;
    };
    // An invalid item in a part that the write does not change is not refused. The real server can
    // then not read the fields of the object, and drops the entries.
    if !write
        .ignored
        .iter()
        .all(|path| walk::has_steps_at(object, shape, path))
    {
        return;
    }
    if is_new && managers.is_empty() && !shape.has_structs() {
        return put_creator(object, shape, write);
    }
    // Most objects have no such fields, and are not copied.
    let filled = |object: &Value| shape.with_structs(object);
    let (live, new) = if shape.has_structs() {
        (Cow::Owned(filled(live)), Cow::Owned(filled(object)))
    } else {
        (Cow::Borrowed(live), Cow::Borrowed(&*object))
    };
    if let Some(mut managers) = updated(&live, &new, managers, versions, write) {
        cap(&mut managers);
        put_entries(object, &managers);
    }
}

/// Adds the entry of the creator to a new object.
fn put_creator(object: &mut Value, shape: Shape<'_>, write: &Write<'_>) {
    let excluded = Excluded {
        with_parts: Some(&write.ignored()),
        alone: Some(unowned()),
    };
    if let Some(fields) = created::fields(object, shape, excluded) {
        let id = write.updater();
        let entry = entries::entry(&id, write.api_version, write.now, fields);
        put_list(object, Value::Array(vec![entry]));
    }
}

/// Returns the entries before an update.
fn entries_of_update(live: &Value, sent: Option<&Value>) -> Managers {
    if entries::is_reset(sent) {
        return Managers::new();
    }
    match entries::sent(sent) {
        Ok(managers) if !managers.is_empty() => managers,
        _ => entries::stored(crate::metadata::field(live, "managedFields")).unwrap_or_default(),
    }
}

/// Returns the entries after a write that changed `live` to `object`; `None` if the version of the
/// write has no type. Each served version has a type.
pub(super) fn updated(
    live: &Value,
    object: &Value,
    managers: Managers,
    versions: &dyn Versions,
    write: &Write<'_>,
) -> Option<Managers> {
    let mut managers = reconciled(managers, versions);
    let comparison = compare(live, object, write.api_version, versions, write)?;
    take_from_others(&mut managers, None, live, object, versions, write);
    let (gained, _) = comparison.into_written_and_removed();
    let gained = gained.without_below(&write.ignored()).difference(unowned());
    if gained.is_empty() {
        return Some(managers);
    }
    let id = write.updater();
    let before = managers.remove(&id).map(|before| before.set);
    let ownership = Ownership {
        set: before.unwrap_or_default().union(gained),
        api_version: write.api_version.to_owned(),
        time: Some(write.now.to_owned()),
    };
    managers.insert(id, ownership);
    Some(managers)
}

/// Returns the fields in which two states differ in a version; `None` if it has no type.
pub(super) fn compare(
    live: &Value,
    object: &Value,
    api_version: &str,
    versions: &dyn Versions,
    write: &Write<'_>,
) -> Option<Comparison> {
    let shape = versions.shape(api_version)?;
    let comparison = Comparison::of(live, object, shape);
    // Fields are ignored in the version of the write.
    Some(if api_version == write.api_version {
        comparison.without(&write.ignored())
    } else {
        comparison
    })
}

/// Returns the fields that other managers own and that the write changes, by manager. Fields that the
/// write removes lose their owners.
pub(super) fn take_from_others(
    managers: &mut Managers,
    except: Option<&ManagerId>,
    live: &Value,
    object: &Value,
    versions: &dyn Versions,
    write: &Write<'_>,
) -> Vec<(ManagerId, Set)> {
    let mut taken = Vec::new();
    managers.retain(|id, ownership| {
        if Some(id) == except {
            return !ownership.set.is_empty();
        }
        let version = &ownership.api_version;
        let Some(comparison) = compare(live, object, version, versions, write) else {
            // The version is not served any more.
            return false;
        };
        let mut set = std::mem::take(&mut ownership.set);
        let (written, removed) = comparison.into_written_and_removed();
        let conflict = set.intersection(&written);
        if !conflict.is_empty() {
            set = set.difference(&conflict);
            taken.push((id.clone(), conflict));
        }
        ownership.set = set.difference(&removed);
        !ownership.set.is_empty()
    });
    taken
}

/// Converts the entries to the current types. Entries of versions without a type are dropped.
pub(super) fn reconciled(managers: Managers, versions: &dyn Versions) -> Managers {
    let kept = managers.into_iter().filter_map(|(id, ownership)| {
        let shape = versions.shape(&ownership.api_version)?;
        let set = ownership.set.reconciled(shape);
        Some((id, Ownership { set, ..ownership }))
    });
    kept.collect()
}

/// Returns the fields without an owner, as a set.
pub(super) fn unowned() -> &'static Set {
    static SET: LazyLock<Set> = LazyLock::new(|| {
        let mut set = Set::default();
        for path in UNOWNED {
            set.insert_fields(path);
        }
        set
    });
    &SET
}

/// Merges the oldest updaters until their number is within the limit.
fn cap(managers: &mut Managers) {
    let updaters = managers
        .iter()
        .filter(|(id, _)| id.operation == Operation::Update);
    let mut updaters: Vec<(Option<String>, ManagerId)> = updaters
        .map(|(id, ownership)| (ownership.time.clone(), id.clone()))
        .collect();
    let Some(mut excess) = updaters.len().checked_sub(MAX_UPDATERS) else {
        return;
    };
    updaters.sort();
    // The first updater of each version; with the second one, it becomes the shared entry.
    let mut firsts: Vec<(String, ManagerId)> = Vec::new();
    for (time, id) in updaters {
        if excess == 0 {
            break;
        }
        let Some(version) = managers.get(&id).map(|owned| owned.api_version.clone()) else {
            continue;
        };
        let Some((_, first)) = firsts.iter().find(|(of, _)| *of == version) else {
            firsts.push((version, id));
            continue;
        };
        let shared = ManagerId::new(OLDEST, Operation::Update, &version, "");
        if !managers.contains_key(&shared)
            && let Some(ownership) = managers.remove(first)
        {
            managers.insert(shared.clone(), ownership);
        }
        if let Some(ownership) = managers.remove(&id)
            && let Some(shared) = managers.get_mut(&shared)
        {
            shared.set = std::mem::take(&mut shared.set).union(ownership.set);
            shared.time = time;
        }
        excess -= 1;
    }
}

/// Removes the entries from an object, and returns them.
pub(super) fn take_entries(object: &mut Value) -> Option<Value> {
    let metadata = object.get_mut("metadata")?.as_object_mut()?;
    metadata.remove("managedFields")
}

/// Sets the entries of an object.
pub(super) fn put_entries(object: &mut Value, managers: &Managers) {
    take_entries(object);
    if let Some(list) = entries::encode(managers) {
        put_list(object, list);
    }
}

fn put_list(object: &mut Value, list: Value) {
    crate::metadata::of(object).insert("managedFields".to_owned(), list);
}

// === impl Write ===

impl Write<'_> {
    /// Returns the identity of the entry of an update.
    fn updater(&self) -> ManagerId {
        ManagerId::new(
            self.manager,
            Operation::Update,
            self.api_version,
            self.subresource,
        )
    }
}

fn uid(object: &Value) -> &str {
    crate::metadata::text(object, "uid")
}
