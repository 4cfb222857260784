//! Merges an applied configuration into an object.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use serde_json::Value;

use super::path::{PathElement, members};
use super::types::{List, ListKind, Map, Shape};
use super::walk::{Choice, Form, has_parts, item_step, items};

/// Merges `config` into `live`, and removes nothing from `live`.
///
/// The items of a list keep their order unless `config` has another order.
///
/// # Errors
///
/// A list of `config` has two items with the same key, or an item without a key.
pub(super) fn merge(live: &Value, config: &Value, shape: Shape<'_>) -> Result<Value, String> {
    let merged = both(Some(live), Some(config), shape)?;
    Ok(merged.unwrap_or(Value::Null))
}

fn both(
    live: Option<&Value>,
    config: Option<&Value>,
    shape: Shape<'_>,
) -> Result<Option<Value>, String> {
    let (left, right) = (Choice::of(shape, live), Choice::of(shape, config));
    // The value of the configuration has another type and replaces the old one.
    let choice = if config.is_none() { left } else { right };
    let winner = || config.or(live).cloned();
    match choice.form(shape) {
        Form::List(list) if !matches!(list.kind, ListKind::Atomic) => {
            let lists = (
                live.filter(|live| live.is_array()),
                config.filter(|config| config.is_array()),
            );
            if has_parts(lists.0) || has_parts(lists.1) {
                merge_lists(list, items(live), items(config), shape)
            } else {
                Ok(winner())
            }
        }
        Form::Map(map) if !map.is_atomic => {
            let maps = (
                live.filter(|live| live.is_object()),
                config.filter(|config| config.is_object()),
            );
            if has_parts(maps.0) || has_parts(maps.1) {
                merge_maps(map, maps.0, maps.1, shape)
            } else {
                Ok(winner())
            }
        }
        Form::Scalar(_) | Form::List(_) | Form::Map(_) | Form::Nothing => Ok(winner()),
    }
}

fn merge_maps(
    map: &Map,
    live: Option<&Value>,
    config: Option<&Value>,
    shape: Shape<'_>,
) -> Result<Option<Value>, String> {
    let (live, config) = (members(live), members(config));
    let mut merged = serde_json::Map::new();
    let names: BTreeSet<&String> = live
        .into_iter()
        .chain(config)
        .flat_map(serde_json::Map::keys)
        .collect();
    for name in names {
        let live = live.and_then(|live| live.get(name));
        let config = config.and_then(|config| config.get(name));
        let value = match map.fields.get(name).copied().or(map.rest) {
            Some(id) => both(live, config, shape.at(id))?,
            // The type has no such field: it is not changed.
            None => config.or(live).cloned(),
        };
        if let Some(value) = value {
            merged.insert(name.clone(), value);
        }
    }
    Ok((!merged.is_empty()).then(|| merged.into()))
}

/// The items of a list by their steps, in the order of the list.
struct Indexed<'a> {
    order: Vec<(PathElement, &'a Value)>,
    /// `None` for a step that several items share.
    by_step: BTreeMap<PathElement, Option<&'a Value>>,
}

// === impl Indexed ===

impl<'a> Indexed<'a> {
    fn of(list: &List, items: &'a [Value], may_repeat: bool) -> Result<Self, String> {
        let mut indexed = Self {
            order: Vec::with_capacity(items.len()),
            by_step: BTreeMap::new(),
        };
        for (at, item) in items.iter().enumerate() {
            let step = item_step(list, item).map_err(|error| format!("element {at}: {error}"))?;
            match indexed.by_step.get_mut(&step) {
                Some(_) if !may_repeat => {
                    return Err(format!("duplicate entries for key {step}"));
                }
                Some(repeated) => *repeated = None,
                None => _ = indexed.by_step.insert(step.clone(), Some(item)),
            }
            indexed.order.push((step, item));
        }
        Ok(indexed)
    }

    fn has(&self, step: &PathElement) -> bool {
        self.by_step.contains_key(step)
    }

    fn get(&self, step: &PathElement) -> Option<&'a Value> {
        self.by_step.get(step).copied().flatten()
    }
}

fn merge_lists(
    list: &List,
    live: &[Value],
    config: &[Value],
    shape: Shape<'_>,
) -> Result<Option<Value>, String> {
    let config = Indexed::of(list, config, false)?;
    let live = Indexed::of(list, live, true)?;
    let types = shape.at(list.items);
    let mut merged = Vec::with_capacity(live.order.len().max(config.order.len()));
    let mut done: BTreeSet<&PathElement> = BTreeSet::new();
    // The items that both have, in the order of the configuration.
    let shared = config.order.iter().map(|(step, _)| step);
    let mut shared: VecDeque<&PathElement> = shared.filter(|step| live.has(step)).collect();
    let mut push = |live: Option<&Value>, config: Option<&Value>| -> Result<(), String> {
        merged.extend(both(live, config, types)?);
        Ok(())
    };
    let (mut l, mut r) = (0, 0);
    while l < live.order.len() || r < config.order.len() {
        let left = live.order.get(l);
        let right = config.order.get(r);
        if let (Some((left, _)), Some((right, _))) = (left, right) {
            if left == right {
                push(live.get(left), config.get(left))?;
                done.insert(left);
                shared.pop_front();
                l += 1;
                r += 1;
                continue;
            }
            // The configuration has this item at another position.
            if config.has(left) && shared.front().is_some_and(|next| *next != left) {
                l += 1;
                continue;
            }
        }
        if let Some((left, item)) = left {
            if !config.has(left) {
                push(Some(item), None)?;
                l += 1;
                continue;
            }
            if done.contains(left) {
                l += 1;
            }
        }
        if let Some((right, _)) = right {
            push(live.get(right), config.get(right))?;
            done.insert(right);
            if shared.front() == Some(&right) {
                shared.pop_front();
            }
            r += 1;
        }
    }
    Ok((!merged.is_empty()).then(|| merged.into()))
}
