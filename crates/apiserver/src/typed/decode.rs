//! Converts the body of a request to the JSON that Go writes for the decoded object.

use std::fmt::Write as _;

use base64::Engine as _;
use base64::alphabet::STANDARD;
use base64::engine::{GeneralPurpose, GeneralPurposeConfig};
use serde_json::{Map, Value};

use super::table::{Empty, Field, FieldType, Struct, named};
use super::{Quantity, defaults};
use crate::json::type_name;
use crate::timestamp;

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

/// The value that Go writes for an unset field, without defaults.
pub(crate) fn empty(kind: &Struct, field: &str) -> Option<Value> {
    kind.fields.get(field).map(|field| zero(&field.shape))
}

/// Base64 as Go reads it: the unused bits of the last digit can have any value.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new().with_decode_allow_trailing_bits(true),
);

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

/// Whether Go can decode a number into an integer field.
enum Number {
    Fits,
    /// The number has a fraction or is too large. The error quotes it.
    TooLarge,
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
                let fits = match shape {
                    FieldType::Int32(_) => is_int32(number),
                    FieldType::Int64(_) if number.as_i64().is_some() => Number::Fits,
                    FieldType::Int64(_) => Number::TooLarge,
                    _ => Number::Fits,
                };
                match fits {
                    Number::Fits => Ok(()),
                    Number::TooLarge => {
                        let found = format!("number {number}");
                        let error = self.mistyped(&found, &shape.go_name());
                        self.remember(error);
                        Ok(())
                    }
                }
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
            (FieldType::IntOrString, Value::Number(number)) => match is_int32(number) {
                Number::Fits => Ok(()),
                Number::TooLarge => {
                    let found = format!("number {number}");
                    Err(self.mistyped(&found, "int32"))
                }
            },
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
                for (key, member) in members.iter_mut() {
                    // Most values of maps are strings, which cannot have errors and need no path.
                    if !matches!(
                        (&**values, &*member),
                        (FieldType::Text(_), Value::String(_))
                    ) {
                        self.item(Step::Key(key.clone()), values, member)?;
                    }
                }
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

    /// Checks base64, and removes line ends from it, as Go does.
    fn base64(&mut self, text: &mut String) {
        let joined = text.replace(['\r', '\n'], "");
        if let Ok(bytes) = BASE64.decode(joined) {
            *text = BASE64.encode(bytes);
        } else {
            let at = first_bad_byte(text.as_bytes());
            self.remember(format!("illegal base64 data at input byte {at}"));
        }
    }

    /// Decodes a list of numbers, which Go accepts for bytes too.
    fn bytes(&mut self, items: &[Value]) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(items.len());
        for item in items {
            let byte = item.as_u64().and_then(|number| u8::try_from(number).ok());
            if byte.is_none() && !item.is_null() {
                let found = match item {
                    Value::Number(number) => format!("number {number}"),
                    other => type_name(other).to_owned(),
                };
                let error = self.mistyped(&found, "uint8");
                self.remember(error);
            }
            bytes.push(byte.unwrap_or_default());
        }
        bytes
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

/// The value that Go writes for a field that is not set. `None` if Go omits it.
pub(crate) fn zero_member(field: &Field) -> Option<Value> {
    match (field.empty, field.is_pointer) {
        (Empty::Zero, _) | (Empty::Omitted, true) => None,
        (Empty::Kept, true) => Some(Value::Null),
        // These are structs in Go, and `omitempty` never omits a struct.
        (Empty::Omitted, false) => match &field.shape {
            FieldType::Struct(_)
            | FieldType::Time
            | FieldType::MicroTime
            | FieldType::Quantity
            | FieldType::IntOrString
            | FieldType::Duration => Some(zero(&field.shape)),
            // Go writes empty raw JSON as `null`.
            FieldType::Json => Some(Value::Null),
            _ => None,
        },
        (Empty::Kept, false) => Some(zero(&field.shape)),
    }
}

/// The JSON that Go writes for the zero value of a type.
fn zero(shape: &FieldType) -> Value {
    match shape {
        FieldType::Text(_) => "".into(),
        FieldType::Int32(_) | FieldType::Int64(_) | FieldType::Double | FieldType::IntOrString => {
            0.into()
        }
        FieldType::Bool => false.into(),
        FieldType::Quantity => "0".into(),
        FieldType::Duration => "0s".into(),
        FieldType::Struct(name) => {
            let mut members = Value::Object(Map::new());
            // An empty object has no field of the wrong type.
            let _ = named(name).map(|found| decode(found, &mut members));
            members
        }
        _ => Value::Null,
    }
}

/// Whether Go's `omitempty` omits a value that is not a struct.
fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(flag) => !flag,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(members) => members.is_empty(),
    }
}

fn is_int32(number: &serde_json::Number) -> Number {
    let fits = number.as_i64().is_some_and(|it| i32::try_from(it).is_ok());
    if fits { Number::Fits } else { Number::TooLarge }
}

/// The position at which Go's base64 decoder stops: the first byte that is not a digit, or the
/// beginning of an incomplete group of four.
fn first_bad_byte(text: &[u8]) -> usize {
    let is_digit = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'+' || byte == b'/';
    let mut digits = 0;
    for (at, byte) in text.iter().enumerate() {
        match byte {
            b'\r' | b'\n' => {}
            byte if is_digit(*byte) => digits += 1,
            b'=' if digits % 4 >= 2 => {
                let rest = &text[at + 1..];
                let wanted = usize::from(digits % 4 == 2);
                return match rest.first() {
                    Some(b'=') | None => (at + wanted + 1).min(text.len()),
                    Some(_) if wanted == 1 => at,
                    Some(_) => at + 1,
                };
            }
            _ => return at,
        }
    }
    text.len() - digits % 4
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::table::{kind, kinds};
    use super::{decode, first_bad_byte};

    #[track_caller]
    fn refused(name: &str, object: Value) -> String {
        let mut object = object;
        let found = kind("v1", name).expect("a kind");
        decode(found, &mut object).expect_err("it has a wrong type")
    }

    #[test]
    fn the_error_of_a_wrong_type_equals_that_of_go() {
        let container =
            |field: &str, value: Value| json!({ "spec": { "containers": [{ field: value }] } });
        for (object, expected) in [
            (
                json!({ "spec": 7 }),
                "number into Go struct field Pod.spec of type v1.PodSpec",
            ),
            (
                container("env", json!([{ "value": 1 }])),
                "number into Go struct field EnvVar.spec.containers.env.value of type string",
            ),
            (
                container("resources", json!({ "limits": [] })),
                "array into Go struct field ResourceRequirements.spec.containers.resources.limits \
                 of type v1.ResourceList",
            ),
            (
                container("livenessProbe", json!({ "grpc": { "port": "x" } })),
                "string into Go struct field \
                 GRPCAction.spec.containers.livenessProbe.ProbeHandler.grpc.port of type int32",
            ),
            (
                json!({ "metadata": { "labels": { "a": 1 } } }),
                "number into Go struct field ObjectMeta.metadata.labels of type string",
            ),
        ] {
            assert_eq!(
                refused("Pod", object),
                format!("json: cannot unmarshal {expected}")
            );
        }
        // The labels of the template become the labels of the job as well. The error names the
        // template.
        let template = json!({ "metadata": { "labels": { "a": 1 } }, "spec": {} });
        let mut job = json!({ "metadata": {}, "spec": { "template": template } });
        let found = kind("batch/v1", "Job").expect("a kind");
        assert_eq!(
            decode(found, &mut job).expect_err("it has a wrong type"),
            "json: cannot unmarshal number into Go struct field \
             ObjectMeta.spec.template.metadata.labels of type string"
        );
        assert_eq!(
            refused("Secret", json!({ "data": { "a": "%%" } })),
            "illegal base64 data at input byte 0"
        );
    }

    #[test]
    fn unknown_fields_are_dropped_and_named() {
        let mut object = json!({ "x": 1, "spec": { "containers": [{ "name": "a", "y": null }] } });
        let pod = kind("v1", "Pod").expect("a kind");
        let dropped = decode(pod, &mut object).expect("its fields have the right types");
        assert_eq!(dropped, ["spec.containers[0].y", "x"]);
        assert_eq!(object.get("x"), None);
        assert_eq!(object["spec"]["containers"][0].get("y"), None);
    }

    #[test]
    fn decoding_is_idempotent() {
        for (version, name) in kinds() {
            let found = kind(version, name).expect("a kind");
            let mut object =
                json!({ "metadata": { "name": "a" }, "spec": {}, "data": {}, "status": {} });
            if decode(found, &mut object).is_err() {
                continue;
            }
            let mut again = object.clone();
            let dropped = decode(found, &mut again).expect("it has been decoded before");
            assert_eq!((again, dropped), (object, Vec::new()), "{version} {name}");
        }
    }

    #[test]
    fn the_position_of_bad_base64_equals_that_of_go() {
        for (text, at) in [
            ("%%", 0),
            ("YWJj=A", 4),
            ("YWJ", 0),
            ("YWJjY", 4),
            ("YQ=A", 2),
            ("YQ=", 3),
        ] {
            assert_eq!(first_bad_byte(text.as_bytes()), at, "{text}");
        }
    }
}
