//! Defaults: set in objects with missing fields, and validated when a schema is compiled.
//!
//! Source: apiextensions-apiserver `pkg/apiserver/schema/defaulting`, Kubernetes 1.36.

use serde_json::Value;

use super::{
    node::{Additional, Node},
    prune, validate,
    value_path::ValuePath,
};
use crate::status::FieldError;

/// Removes each `null` that the schema does not allow and that no default replaces.
pub(super) fn drop_nulls(node: &Node, value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|name, value| {
                let Some(field) = node.field(name) else {
                    return true;
                };
                drop_nulls(field, value);
                !is_dropped(field, value)
            });
        }
        Value::Array(elements) => {
            if let Some(items) = &node.items {
                for element in elements {
                    drop_nulls(items, element);
                }
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Returns whether [`drop_nulls`] changes `value`.
pub(super) fn has_dropped_nulls(node: &Node, value: &Value) -> bool {
    match value {
        Value::Object(fields) => fields.iter().any(|(name, value)| {
            let field = node.field(name);
            field.is_some_and(|field| is_dropped(field, value) || has_dropped_nulls(field, value))
        }),
        Value::Array(elements) => node.items.as_ref().is_some_and(|items| {
            let mut elements = elements.iter();
            elements.any(|element| has_dropped_nulls(items, element))
        }),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

/// Returns whether `value` is a `null` that its field does not allow and that no default replaces.
fn is_dropped(field: &Node, value: &Value) -> bool {
    value.is_null() && !field.nullable && field.default.is_none()
}

/// The defaults of one object would take more than [`MAX_DEFAULTS`](Budget::MAX_DEFAULTS).
#[derive(Debug)]
pub(crate) struct DefaultsTooLarge;

/// The number of bytes that the defaults of one object can still take.
pub(super) struct Budget(usize);

// === impl Budget ===

impl Budget {
    /// The size of the defaults of one object, in bytes of memory. Defaults within the elements of
    /// defaults multiply: a definition of 20 KB can ask for 10^15 values. An object of 3 MiB takes
    /// about this size.
    pub(super) const MAX_DEFAULTS: usize = 16 * 1024 * 1024;

    pub(super) const fn new() -> Self {
        Self(Self::MAX_DEFAULTS)
    }

    fn copy(&mut self, default: &Value) -> Result<Value, DefaultsTooLarge> {
        self.charge(default)?;
        Ok(default.clone())
    }

    fn charge(&mut self, value: &Value) -> Result<(), DefaultsTooLarge> {
        self.take(size_of::<Value>())?;
        match value {
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
            Value::String(text) => self.take(text.len())?,
            Value::Array(elements) => {
                for element in elements {
                    self.charge(element)?;
                }
            }
            Value::Object(fields) => {
                for (name, value) in fields {
                    self.take(size_of::<String>() + name.len())?;
                    self.charge(value)?;
                }
            }
        }
        Ok(())
    }

    fn take(&mut self, bytes: usize) -> Result<(), DefaultsTooLarge> {
        self.0 = self.0.checked_sub(bytes).ok_or(DefaultsTooLarge)?;
        Ok(())
    }
}

/// Sets the defaults of the missing fields in `value`, at all levels.
///
/// # Errors
///
/// [`DefaultsTooLarge`] if they would take more than `budget`. Then only some are set.
pub(super) fn fill(
    node: &Node,
    value: &mut Value,
    budget: &mut Budget,
) -> Result<(), DefaultsTooLarge> {
    match value {
        Value::Object(fields) => {
            for (name, field) in &node.properties {
                let Some(default) = &field.default else {
                    continue;
                };
                let missing = match fields.get(name) {
                    None => true,
                    Some(value) => value.is_null() && !field.nullable,
                };
                if missing {
                    fields.insert(name.clone(), budget.copy(default)?);
                }
            }
            for (name, value) in fields {
                let field = match (node.properties.get(name), &node.additional) {
                    (Some(field), _) => field,
                    (None, Additional::Each(each)) => {
                        replace_null(each, value, budget)?;
                        each
                    }
                    (None, _) => continue,
                };
                fill(field, value, budget)?;
            }
        }
        Value::Array(elements) => {
            if let Some(items) = &node.items {
                for element in elements {
                    replace_null(items, element, budget)?;
                    fill(items, element, budget)?;
                }
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
    Ok(())
}

fn replace_null(
    node: &Node,
    value: &mut Value,
    budget: &mut Budget,
) -> Result<(), DefaultsTooLarge> {
    if let (Value::Null, false, Some(default)) = (&*value, node.nullable, &node.default) {
        *value = budget.copy(default)?;
    }
    Ok(())
}

/// Validates the defaults of `node` and of all nodes below it.
pub(super) fn check(node: &Node, at: &ValuePath<'_>, faults: &mut Vec<FieldError>) {
    if let Some(default) = &node.default {
        let at = at.child("default").to_string();
        let mut pruned = default.clone();
        prune::prune(node, &mut pruned);
        if pruned != *default {
            let why = "must not have unknown fields";
            faults.push(FieldError::invalid(at.clone(), default, why));
        }
        faults.extend(validate::validate(node, default, &at, None));
    }
    let all = at.child("properties");
    for (name, field) in &node.properties {
        check(field, &all.key(name), faults);
    }
    if let Additional::Each(each) = &node.additional {
        check(each, &at.child("additionalProperties"), faults);
    }
    if let Some(items) = &node.items {
        check(items, &at.child("items"), faults);
    }
}
