//! Server-side apply: merges a configuration into an object, and makes its manager the owner of
//! the fields that it contains.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::check::check;
use super::entries::{self, ManagerId, Managers, Operation, Ownership};
use super::path::{PathElement, written};
use super::set::Set;
use super::track::{self, put_entries, take_entries, take_from_others, unowned};
use super::types::Shape;
use super::{Versions, Write, last_applied, merge, owned, remove};
use crate::metadata;
use crate::status::Status;

/// The manager of the fields of an object that was written before ownership was tracked.
const BEFORE: &str = "before-first-apply";

/// The reason why a configuration was not applied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ApplyError {
    /// The configuration has entries in `managedFields`.
    HasEntries,
    /// The configuration does not match its type: the path and the error.
    Untyped(String),
    /// The configuration cannot be merged.
    Unmergeable(String),
    /// The entries of the object cannot be decoded.
    Entries(String),
    /// Other managers own fields that the apply changes.
    Conflicts(Vec<Conflict>),
}

/// A field that another manager owns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Conflict {
    manager: ManagerId,
    path: Vec<PathElement>,
}

/// Merges `config`, which has no `apiVersion` and `kind`, into `live`, which is an empty object if
/// the object does not exist. With `force`, the manager becomes the owner of fields that others own.
/// Returns the object with its entries.
///
/// # Errors
///
/// [`ApplyError`].
pub(crate) fn apply(
    live: &Value,
    config: &Value,
    versions: &dyn Versions,
    write: &Write<'_>,
    force: bool,
) -> Result<Value, ApplyError> {
    let applied = attempt(live, config, versions, write, force);
    let Err(ApplyError::Conflicts(conflicts)) = applied else {
        return applied;
    };
    // kubectl becomes the owner, without a conflict, of what it wrote by client-side apply.
    let allowed = versions
        .shape(write.api_version)
        .filter(|_| write.manager == last_applied::KUBECTL)
        .and_then(|shape| last_applied::unchanged(live, shape, write.api_version));
    let Some(allowed) = allowed else {
        return Err(ApplyError::Conflicts(conflicts));
    };
    let rest = conflicts.into_iter();
    let rest: Vec<_> = rest.filter(|it| !allowed.contains(&it.path)).collect();
    if rest.is_empty() {
        attempt(live, config, versions, write, true)
    } else {
        Err(ApplyError::Conflicts(rest))
    }
}

fn attempt(
    live: &Value,
    config: &Value,
    versions: &dyn Versions,
    write: &Write<'_>,
    force: bool,
) -> Result<Value, ApplyError> {
    let entries = metadata::field(config, "managedFields");
    if entries.is_some_and(Value::is_array) {
        return Err(ApplyError::HasEntries);
    }
    let Some(shape) = versions.shape(write.api_version) else {
        let what = format!("no type of {}", write.api_version);
        return Err(ApplyError::Untyped(what));
    };
    check(config, shape).map_err(ApplyError::Untyped)?;
    let entries = metadata::field(live, "managedFields");
    let managers = entries::stored(entries).map_err(ApplyError::Entries)?;
    let managers = if managers.is_empty() {
        before_first(live, versions, write)
    } else {
        managers
    };
    let mut managers = track::reconciled(managers, versions);
    let id = ManagerId::new(
        write.manager,
        Operation::Apply,
        write.api_version,
        write.subresource,
    );
    let merged = merge::merge(live, config, shape).map_err(ApplyError::Unmergeable)?;
    let last = managers.get(&id).cloned();
    let set = owned::fields(config, shape).without_below(&write.ignored());
    let ownership = Ownership {
        set,
        api_version: write.api_version.to_owned(),
        time: last.as_ref().and_then(|last| last.time.clone()),
    };
    managers.insert(id.clone(), ownership);
    let mut object = match &last {
        Some(last) => prune(&merged, last, &managers, versions),
        None => merged,
    };
    let taken = take_from_others(&mut managers, Some(&id), live, &object, versions, write);
    if !force && !taken.is_empty() {
        let conflicts = taken.into_iter().flat_map(|(manager, set)| {
            let paths = set.paths().into_iter();
            paths.map(move |path| Conflict {
                manager: manager.clone(),
                path,
            })
        });
        return Err(ApplyError::Conflicts(conflicts.collect()));
    }
    let changed = object != *live;
    if let Some(ownership) = managers.get_mut(&id) {
        ownership.set = std::mem::take(&mut ownership.set).difference(unowned());
        if changed {
            ownership.time = Some(write.now.to_owned());
        }
    }
    managers.retain(|_, ownership| !ownership.set.is_empty());
    if write.manager == last_applied::KUBECTL {
        last_applied::renew(&mut object, config, (write.api_version, write.kind));
    }
    put_entries(&mut object, &managers);
    Ok(object)
}

/// Returns the entry for an object without entries, whose manager owns all fields, so that an apply
/// conflicts with them.
fn before_first(live: &Value, versions: &dyn Versions, write: &Write<'_>) -> Managers {
    let Some(shape) = versions.shape(write.api_version) else {
        return Managers::new();
    };
    let empty = shape.with_structs(&Value::Object(Map::new()));
    let mut object = shape.with_structs(live);
    take_entries(&mut object);
    let write = Write {
        manager: BEFORE,
        ..*write
    };
    let managers = track::updated(&empty, &object, Managers::new(), versions, &write);
    managers.unwrap_or_default()
}

/// Returns `merged` without the fields that are in the last configuration of the applier and not in
/// the new one, and that no other manager owns.
fn prune(merged: &Value, last: &Ownership, managers: &Managers, versions: &dyn Versions) -> Value {
    let Some(shape) = versions.shape(&last.api_version) else {
        return merged.clone();
    };
    if last.set.is_empty() {
        return merged.clone();
    }
    let last = last.set.with_named_fields(shape);
    let mut pruned = without(merged, &last, shape);
    // The fields of all managers in each version, beginning with the version of the last apply.
    let mut owned: BTreeMap<&str, Set> = BTreeMap::new();
    for ownership in managers.values() {
        let all = owned.entry(&ownership.api_version).or_default();
        *all = std::mem::take(all).union(ownership.set.clone());
    }
    for (version, owned) in owned {
        if let Some(shape) = versions.shape(version) {
            pruned = with_owned(merged, &pruned, &owned, shape);
        }
    }
    // Only fields that the applier owned are removed, and not fields that were removed with them.
    let before = owned::fields(merged, shape).with_named_fields(shape);
    let after = owned::fields(&pruned, shape).with_named_fields(shape);
    without(
        merged,
        &before.difference(&after).intersection(&last),
        shape,
    )
}

/// Returns `merged` without the fields that are missing in `pruned`, except those that are owned.
fn with_owned(merged: &Value, pruned: &Value, owned: &Set, shape: Shape<'_>) -> Value {
    let all = owned::fields(merged, shape).with_named_fields(shape);
    let kept = owned::fields(pruned, shape).with_named_fields(shape);
    let kept = kept.union(owned.with_named_fields(shape));
    without(merged, &all.difference(&kept), shape)
}

fn without(value: &Value, set: &Set, shape: Shape<'_>) -> Value {
    remove::without(value, set, shape).unwrap_or_else(|| Map::new().into())
}

// === impl ApplyError ===

impl ApplyError {
    /// Returns the error response. `object` names the object as in messages of the real server.
    pub(crate) fn status(&self, object: &str) -> Status {
        match self {
            Self::HasEntries => Status::bad_request("metadata.managedFields must be nil"),
            Self::Untyped(fault) => Status::untyped(format!(
                "failed to create typed patch object ({object}): {fault}"
            )),
            Self::Unmergeable(fault) => Status::untyped(format!("failed to merge config: {fault}")),
            Self::Entries(fault) => {
                Status::untyped(format!("failed to decode managed fields: {fault}"))
            }
            Self::Conflicts(conflicts) => {
                let causes = conflicts.iter().map(|conflict| {
                    json!({
                        "reason": "FieldManagerConflict",
                        "message": format!("conflict with {}", conflict.manager.shown()),
                        "field": written(&conflict.path),
                    })
                });
                Status::apply_conflict(&message(conflicts), causes.collect())
            }
        }
    }
}

/// Returns the message about all conflicts, ordered by manager.
fn message(conflicts: &[Conflict]) -> String {
    if let [one] = conflicts {
        return format!(
            "Apply failed with 1 conflict: conflict with {}: {}",
            one.manager.shown(),
            written(&one.path)
        );
    }
    let mut by_manager: BTreeMap<&ManagerId, Vec<String>> = BTreeMap::new();
    for conflict in conflicts {
        let path = format!("- {}", written(&conflict.path));
        by_manager.entry(&conflict.manager).or_default().push(path);
    }
    let lines = by_manager.into_iter().flat_map(|(manager, paths)| {
        let head = format!("conflicts with {}:", manager.shown());
        std::iter::once(head).chain(paths)
    });
    let lines: Vec<_> = lines.collect();
    format!(
        "Apply failed with {} conflicts: {}",
        conflicts.len(),
        lines.join("\n")
    )
}

/// Returns the name of an object in messages of the real server about types.
pub(crate) fn object_words(config: &Value, api_version: &str, kind: &str) -> String {
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    format!(
        "{}/{}; {group}/{version}, Kind={kind}",
        metadata::text(config, "namespace"),
        metadata::text(config, "name")
    )
}
