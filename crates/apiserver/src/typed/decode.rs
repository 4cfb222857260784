//! Converts the body of a request to the JSON that Go writes for the decoded object.

use std::fmt::Write as _;

use base64::Engine as _;
use serde_json::{Map, Value};

use super::table::{FieldType, Struct, named};
use super::{Quantity, defaults};
use crate::json::type_name;
use crate::timestamp;

mod bytes;
mod zero;

#[cfg(test)]
mod tests;

use self::bytes::BASE64;
pub(crate) use self::zero::{empty, zero_member};
use self::zero::{is_empty, zero};

/// Converts `object` to the JSON that Go writes for type `kind`: checks the types of fields, drops
/// unknown fields, fills in defaults, and adds the fields that Go never omits.
///
/// Returns the paths of the dropped fields, such as `spec.rules[0].colour`.
///
/// # Errors
///
/// Go's error for the first value that its type fails to parse, such as a quantity. If there is
/// none, Go's error for the first value of a wrong type.
pub(crate) fn decode(kind: &'static Struct, object: &mut Value) -> Result<Vec<String>, String> {
    let mut decoder = Decoder {
        path: Vec::new(),
        inside: kind.go_name(),
        dropped: Vec::new(),
        rounds: false,
        first_error: None,
    };
    if let Value::Object(members) = object {
        decoder.members(kind, members)?;
    }
    match decoder.first_error {
        Some(error) => Err(error),
        None => Ok(decoder.dropped),
    }
}

/// Go's name of the type of resource lists.
const RESOURCES: &str = "v1.ResourceList";

/// One step of the path to a value.
enum Step {
    /// A field, and the inline struct that contains it.
    Field(&'static str, &'static str),
    Item(usize),
    Key(String),
}

struct Decoder {
    path: Vec<Step>,
    /// Go's name of the innermost struct, for errors.
    inside: &'static str,
    dropped: Vec<String>,
    /// Whether quantities are rounded up, as in resource lists.
    rounds: bool,
    /// The error of the first field of a wrong type. Go decodes the rest of the object, and reports
    /// this error only if all values can be parsed.
    first_error: Option<String>,
}

// === impl Decoder ===

impl Decoder {
    fn members(
        &mut self,
        kind: &'static Struct,
        members: &mut Map<String, Value>,
    ) -> Result<(), String> {
        let outside = std::mem::replace(&mut self.inside, kind.go_name());
        // Like in Kubernetes, an object gets its defaults before its fields do.
        defaults::fill(kind.name, members);
        let mut unknown = Vec::new();
        let mut empty = Vec::new();
        for (name, value) in members.iter_mut() {
            let Some((name, field)) = kind.fields.get_key_value(name.as_str()) else {
                self.path.push(Step::Key(name.clone()));
                self.dropped.push(self.whole_path());
                self.path.pop();
                unknown.push(name.clone());
                continue;
            };
            if value.is_null() {
                empty.push(*name);
                continue;
            }
            self.path.push(Step::Field(name, field.inline));
            self.value(&field.shape, value)?;
            self.path.pop();
            let is_kept = match field.shape {
                // Go sees raw JSON as bytes, which are not empty.
                FieldType::Struct(_) | FieldType::Json => true,
                // An empty string is not the zero value, which is 0.
                FieldType::IntOrString => value.is_string(),
                _ => field.is_pointer,
            };
            if !is_kept && !field.is_pointer && is_empty(value) {
                empty.push(*name);
            }
        }
        for name in empty {
            members.remove(name);
        }
        for name in unknown {
            members.remove(&name);
        }
        for (name, field) in &kind.fields {
            // Go writes few empty fields.
            if let Some(zero) = zero_member(field)
                && !members.contains_key(*name)
            {
                members.insert((*name).to_owned(), zero);
            }
        }
        self.inside = outside;
        Ok(())
    }

    /// Decodes a value other than `null`.
    fn value(&mut self, shape: &FieldType, value: &mut Value) -> Result<(), String> {
        match (shape, &mut *value) {
            (
                FieldType::Text(_) | FieldType::IntOrString | FieldType::Duration,
                Value::String(_),
            )
            | (FieldType::Bool, Value::Bool(_))
            | (FieldType::Json, _) => Ok(()),
            (
                FieldType::Int32(_) | FieldType::Int64(_) | FieldType::Double,
                Value::Number(number),
            ) => {
                self.check_range(shape, number);
                Ok(())
            }
            (FieldType::Bytes, Value::String(text)) => {
                self.base64(text);
                Ok(())
            }
            (FieldType::Bytes, Value::Array(items)) => {
                let bytes = self.bytes(items);
                *value = BASE64.encode(bytes).into();
                Ok(())
            }
            (FieldType::Time | FieldType::MicroTime, Value::String(text)) => {
                let normal = if *shape == FieldType::Time {
                    timestamp::seconds(text)
                } else {
                    timestamp::micros(text)
                };
                *text = normal?;
                Ok(())
            }
            (FieldType::Quantity, Value::String(_) | Value::Number(_)) => {
                let text = match &*value {
                    Value::String(text) => text.clone(),
                    other => other.to_string(),
                };
                *value = Quantity::stored(&text, self.rounds)?.into();
                Ok(())
            }
            (FieldType::Quantity, _) => Err(Quantity::MALFORMED.to_owned()),
            (FieldType::IntOrString, Value::Number(number)) if is_int32(number) => Ok(()),
            (FieldType::IntOrString, Value::Number(number)) => {
                Err(self.mistyped(&format!("number {number}"), "int32"))
            }
            (FieldType::Struct(name), Value::Object(members)) => match named(name) {
                Some(found) => self.members(found, members),
                None => Ok(()),
            },
            (FieldType::SchemaOr, _) => self.schema_or(value),
            (FieldType::List(_, items), Value::Array(list)) => {
                for (at, item) in list.iter_mut().enumerate() {
                    self.item(Step::Item(at), items, item)?;
                }
                Ok(())
            }
            (FieldType::Map(name, values), Value::Object(members)) => {
                self.rounds = *name == Some(RESOURCES);
                self.map(values, members)?;
                self.rounds = false;
                Ok(())
            }
            (shape, value) => {
                let wanted = match shape {
                    FieldType::Time | FieldType::MicroTime | FieldType::Duration => "string",
                    FieldType::IntOrString => "int32",
                    _ => {
                        let error = self.mistyped(type_name(value), &shape.go_name());
                        self.remember(error);
                        return Ok(());
                    }
                };
                Err(self.mistyped(type_name(value), wanted))
            }
        }
    }

    /// Decodes the values of a map.
    fn map(&mut self, values: &FieldType, members: &mut Map<String, Value>) -> Result<(), String> {
        for (key, member) in members.iter_mut() {
            // Most values of maps are strings, which cannot have errors and need no path.
            if !matches!((values, &*member), (FieldType::Text(_), Value::String(_))) {
                self.item(Step::Key(key.clone()), values, member)?;
            }
        }
        Ok(())
    }

    /// Stores an error if the number has a fraction or is too large for the integers of `shape`.
    fn check_range(&mut self, shape: &FieldType, number: &serde_json::Number) {
        let fits = match shape {
            FieldType::Int32(_) => is_int32(number),
            FieldType::Int64(_) => number.as_i64().is_some(),
            _ => true,
        };
        if !fits {
            let error = self.mistyped(&format!("number {number}"), &shape.go_name());
            self.remember(error);
        }
    }

    /// Stores the error of a field of a wrong type, unless there is an earlier one.
    fn remember(&mut self, error: String) {
        self.first_error.get_or_insert(error);
    }

    /// Decodes an item of a list or a map.
    fn item(&mut self, step: Step, shape: &FieldType, value: &mut Value) -> Result<(), String> {
        if value.is_null() {
            *value = match shape {
                FieldType::Bytes => "".into(),
                shape => zero(shape),
            };
            return Ok(());
        }
        self.path.push(step);
        self.value(shape, value)?;
        self.path.pop();
        Ok(())
    }

    /// Decodes a schema, a list of schemas, or another value in their place.
    fn schema_or(&mut self, value: &mut Value) -> Result<(), String> {
        let schema = named("apiextensions.v1.JSONSchemaProps");
        match (value, schema) {
            (Value::Object(members), Some(schema)) => self.members(schema, members),
            (Value::Array(items), Some(schema)) => {
                for (at, item) in items.iter_mut().enumerate() {
                    if let Value::Object(members) = item {
                        self.path.push(Step::Item(at));
                        self.members(schema, members)?;
                        self.path.pop();
                    }
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn mistyped(&self, found: &str, wanted: &str) -> String {
        let fields = self.path.iter().filter_map(|step| match step {
            Step::Field(name, inline) => Some(format!(".{inline}{name}")),
            Step::Item(_) | Step::Key(_) => None,
        });
        let path: String = fields.collect();
        let inside = self.inside;
        format!(
            "json: cannot unmarshal {found} into Go struct field {inside}{path} of type {wanted}"
        )
    }

    fn whole_path(&self) -> String {
        let mut path = String::new();
        for step in &self.path {
            // Writing to a `String` cannot fail.
            let _ = match step {
                Step::Field(name, _) if path.is_empty() => write!(path, "{name}"),
                Step::Field(name, _) => write!(path, ".{name}"),
                Step::Key(name) if path.is_empty() => write!(path, "{name}"),
                Step::Key(name) => write!(path, ".{name}"),
                Step::Item(at) => write!(path, "[{at}]"),
            };
        }
        path
    }
}

/// Whether Go can decode a number into an `int32`: it has no fraction and is not too large.
fn is_int32(number: &serde_json::Number) -> bool {
    number.as_i64().is_some_and(|it| i32::try_from(it).is_ok())
}
