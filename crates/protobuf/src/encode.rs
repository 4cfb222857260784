//! Encodes JSON as protobuf. *(pure)*
//!
//! Messages are written from the end to the beginning, so that the length of a message is known
//! when it has to be written.

use serde_json::{Map, Value};

use crate::error::{EncodeError, EncodeProblem};
use crate::table::{Field, Message, Shape, Type};
use crate::wire::Writer;
use crate::{MAX_DEPTH, envelope, kinds};

mod special;

/// A JSON object.
type Object = Map<String, Value>;

/// The value of an absent member.
const NULL: &Value = &Value::Null;

/// Encodes an object with its envelope, as the kind in its `apiVersion` and `kind`.
///
/// Members that the kind does not have are dropped. Absent and `null` members are encoded like
/// their zero value in Go.
///
/// # Errors
///
/// The kind is not [known](crate::is_known), a member has a type that the kind does not allow, or
/// the object is nested deeper than [`MAX_DEPTH`].
///
/// # Example
///
/// ```
/// use serde_json::json;
///
/// let strange = json!({
///     "apiVersion": "apps/v1",
///     "kind": "Deployment",
///     "spec": { "replicas": "3" },
/// });
/// let error = windlass_protobuf::encode(&strange).unwrap_err();
/// assert_eq!(
///     error.to_string(),
///     "cannot encode protobuf: Deployment.spec.replicas: must be a 32-bit integer"
/// );
/// ```
pub fn encode(object: &Value) -> Result<Vec<u8>, EncodeError> {
    let text = |member: &str| {
        let value = object.get(member).and_then(Value::as_str);
        value.unwrap_or_default()
    };
    encode_as(text("apiVersion"), text("kind"), object)
}

/// Encodes an object with its envelope, as the given kind. The object does not need an `apiVersion`
/// and a `kind`.
///
/// # Errors
///
/// As [`encode`].
pub fn encode_as(api_version: &str, kind: &str, object: &Value) -> Result<Vec<u8>, EncodeError> {
    let message = find(api_version, kind)?;
    envelope::wrap(api_version, kind, |writer| {
        whole(writer, message, object, 0).map_err(|error| error.within(message.name))
    })
}

/// Encodes a list of objects with its envelope. `kind` is the kind of the list.
///
/// Returns the same bytes as [`encode_as`] for a list with `metadata` and `items`, which does not
/// have to be assembled.
///
/// # Errors
///
/// As [`encode`].
///
/// # Example
///
/// ```
/// use serde_json::json;
///
/// let metadata = json!({ "resourceVersion": "7" });
/// let item = json!({ "metadata": { "name": "a" }, "data": { "k": "v" } });
/// let list = windlass_protobuf::encode_list("v1", "ConfigMapList", &metadata, &[&item])?;
/// assert_eq!(windlass_protobuf::decode(&list)?["items"][0]["data"]["k"], "v");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn encode_list(
    api_version: &str,
    kind: &str,
    metadata: &Value,
    items: &[&Value],
) -> Result<Vec<u8>, EncodeError> {
    let message = find(api_version, kind)?;
    envelope::wrap(api_version, kind, |writer| {
        let written = message.fields.iter().rev().try_for_each(|field| {
            match field.name {
                "items" => items.iter().enumerate().rev().try_for_each(|(at, item)| {
                    value(writer, field.number, field.value, item, 0)
                        .map_err(|error| error.at_index(at))
                }),
                "metadata" => member(writer, field, metadata, 0),
                _ => Ok(()),
            }
            .map_err(|error| error.within(field.name))
        });
        written.map_err(|error| error.within(message.name))
    })
}

fn find(api_version: &str, kind: &str) -> Result<&'static Message, EncodeProblem> {
    kinds::find(api_version, kind).ok_or_else(|| EncodeProblem::UnknownKind {
        api_version: api_version.to_owned(),
        kind: kind.to_owned(),
    })
}

/// Writes the fields of a message, the last one first. `null` is written as an empty object.
fn whole(
    writer: &mut Writer,
    message: &'static Message,
    value: &Value,
    depth: u32,
) -> Result<(), EncodeError> {
    let empty = Object::new();
    let object = match value {
        Value::Object(object) => object,
        Value::Null => &empty,
        _ => return Err(EncodeProblem::Type("an object").into()),
    };
    fields(writer, message, object, depth)
}

fn fields(
    writer: &mut Writer,
    message: &'static Message,
    object: &Object,
    depth: u32,
) -> Result<(), EncodeError> {
    if depth >= MAX_DEPTH {
        return Err(EncodeProblem::TooDeep.into());
    }
    for field in message.fields.iter().rev() {
        if let (Shape::Inline, Type::Message(inner)) = (field.shape, field.value) {
            let end = writer.len();
            fields(writer, inner, object, depth + 1)?;
            writer.close_field(field.number, end);
        } else {
            let value = object.get(field.name).unwrap_or(NULL);
            member(writer, field, value, depth).map_err(|error| error.within(field.name))?;
        }
    }
    Ok(())
}

/// Writes one member of an object.
fn member(
    writer: &mut Writer,
    field: &'static Field,
    found: &Value,
    depth: u32,
) -> Result<(), EncodeError> {
    match (field.shape, found) {
        (Shape::Pointer | Shape::List | Shape::Map, Value::Null) => Ok(()),
        // Both types can be nil in Go, which writes no field for nil.
        (Shape::One, Value::Null) if matches!(field.value, Type::Bytes | Type::StringList) => {
            Ok(())
        }
        (Shape::One | Shape::Pointer | Shape::Inline, found) => {
            value(writer, field.number, field.value, found, depth)
        }
        (Shape::List, Value::Array(items)) => {
            items.iter().enumerate().rev().try_for_each(|(at, item)| {
                value(writer, field.number, field.value, item, depth)
                    .map_err(|error| error.at_index(at))
            })
        }
        (Shape::List, _) => Err(EncodeProblem::Type("a list").into()),
        (Shape::Map, Value::Object(entries)) => map(writer, field, entries, depth),
        (Shape::Map, _) => Err(EncodeProblem::Type("an object").into()),
    }
}

/// Writes the entries of a map, sorted by their keys, as Go does.
fn map(
    writer: &mut Writer,
    field: &'static Field,
    entries: &Object,
    depth: u32,
) -> Result<(), EncodeError> {
    let mut keys: Vec<&String> = entries.keys().collect();
    keys.sort_unstable();
    for key in keys.into_iter().rev() {
        let found = entries.get(key).unwrap_or(NULL);
        let end = writer.len();
        // For nil bytes, Go writes no value. It writes all other zero values.
        if !(found.is_null() && matches!(field.value, Type::Bytes)) {
            value(writer, 2, field.value, found, depth).map_err(EncodeError::at_key)?;
        }
        writer.bytes_field(1, key.as_bytes());
        writer.close_field(field.number, end);
    }
    Ok(())
}

/// Writes a value as the field `number`. `null` is written as the zero value.
fn value(
    writer: &mut Writer,
    number: u32,
    kind: Type,
    found: &Value,
    depth: u32,
) -> Result<(), EncodeError> {
    match kind {
        Type::Bool => {
            let value = match found {
                Value::Null => false,
                Value::Bool(value) => *value,
                _ => return Err(EncodeProblem::Type("a boolean").into()),
            };
            writer.varint_field(number, value.into());
        }
        Type::Int32 => {
            let value = special::integer(found).and_then(|it| i32::try_from(it).ok());
            let value = value.ok_or(EncodeProblem::Type("a 32-bit integer"))?;
            writer.varint_field(number, i64::from(value).cast_unsigned());
        }
        Type::Int64 => {
            let value = special::integer(found).ok_or(EncodeProblem::Type("a 64-bit integer"))?;
            writer.varint_field(number, value.cast_unsigned());
        }
        Type::Double => {
            let value = match found {
                Value::Null => 0.0,
                other => other.as_f64().ok_or(EncodeProblem::Type("a number"))?,
            };
            writer.double_field(number, value);
        }
        Type::String => writer.bytes_field(number, special::string(found)?.as_bytes()),
        Type::Bytes => writer.bytes_field(number, &special::bytes(found)?),
        kind => {
            let end = writer.len();
            match kind {
                Type::Message(message) => whole(writer, message, found, depth + 1)?,
                Type::SchemaOrBool(props)
                | Type::SchemaOrArray(props)
                | Type::SchemaOrStrings(props) => schema_or(writer, kind, props, found, depth + 1)?,
                kind => special::message(writer, kind, found)?,
            }
            writer.close_field(number, end);
        }
    }
    Ok(())
}

/// Writes a schema, or one of the alternatives to it.
fn schema_or(
    writer: &mut Writer,
    union: Type,
    props: &'static Message,
    found: &Value,
    depth: u32,
) -> Result<(), EncodeError> {
    let schema = Type::Message(props);
    match (union, found) {
        (Type::SchemaOrBool(_), found) => {
            if found.is_object() {
                value(writer, 2, schema, found, depth)?;
            } else if !matches!(found, Value::Bool(_) | Value::Null) {
                return Err(EncodeProblem::Type("a boolean or an object").into());
            }
            let allows = found.is_object() || *found == Value::Bool(true);
            writer.varint_field(1, allows.into());
            Ok(())
        }
        (_, Value::Object(_)) => value(writer, 1, schema, found, depth),
        (Type::SchemaOrArray(_), Value::Array(items)) => items
            .iter()
            .rev()
            .try_for_each(|item| value(writer, 2, schema, item, depth)),
        (Type::SchemaOrStrings(_), Value::Array(items)) => items
            .iter()
            .rev()
            .try_for_each(|item| value(writer, 2, Type::String, item, depth)),
        (_, Value::Null) => Ok(()),
        _ => Err(EncodeProblem::Type("an object or a list").into()),
    }
}
