//! The `OpenAPI` v2 document in JSON and protobuf, which kubectl reads for client-side validation and
//! for a `List`.
//!
//! It is generated from the v3 schemas, without the features that v2 does not have (alternatives and
//! defaults). Objects that allow unknown fields have no fields in v2, because kubectl would reject
//! the unknown fields.

use serde_json::{Map, Value, json};

use super::{kind, paths_and_schemas};
use crate::registry::ResourceInfo;

/// Returns the document at `/openapi/v2`.
pub(crate) fn openapi_v2<'a>(resources: impl IntoIterator<Item = &'a ResourceInfo>) -> Value {
    let (paths, schemas) = paths_and_schemas(resources, patch);
    let definitions = schemas
        .into_iter()
        .map(|(name, schema)| (name, simple(schema)));
    json!({
        "swagger": "2.0",
        "info": { "title": "Kubernetes", "version": "unversioned" },
        "paths": paths,
        "definitions": definitions.collect::<Map<_, _>>(),
    })
}

fn patch(info: &ResourceInfo, definition: &str) -> Value {
    let query = |name: &str, kind: &str| json!({ "in": "query", "name": name, "type": kind, "uniqueItems": true });
    json!({
        "consumes": ["application/json-patch+json", "application/merge-patch+json", "application/apply-patch+yaml"],
        "operationId": format!("patch{}", info.kind),
        "parameters": [
            query("dryRun", "string"),
            query("fieldManager", "string"),
            query("fieldValidation", "string"),
            query("force", "boolean"),
        ],
        "responses": { "200": { "description": "OK", "schema": reference(definition) } },
        "x-kubernetes-action": "patch",
        "x-kubernetes-group-version-kind": kind(info),
    })
}

fn reference(definition: &str) -> Value {
    json!({ "$ref": format!("#/definitions/{definition}") })
}

/// Converts a v3 schema to a v2 schema.
fn simple(schema: Value) -> Value {
    const KIND: &str = "x-kubernetes-group-version-kind";
    const LEFT_OUT: [&str; 6] = ["allOf", "anyOf", "default", "not", "nullable", "oneOf"];

    let Value::Object(mut schema) = schema else {
        return schema;
    };
    // A reference with other words beside it is in `allOf`.
    let whole = schema.get("allOf").and_then(|all| all.get(0));
    let target = whole.map_or_else(|| schema.get("$ref"), |whole| whole.get("$ref"));
    let target = target.and_then(|it| it.as_str()?.strip_prefix("#/components/schemas/"));
    if let Some(target) = target {
        let mut reference = reference(target);
        let kept = |word: &str| word == "description" || word.starts_with("x-");
        for (word, value) in schema.iter().filter(|(word, _)| kept(word)) {
            reference[word] = value.clone();
        }
        return reference;
    }
    // In v2, no schema allows `null`, and no schema with fields allows unknown fields.
    let is_open = schema.get("x-kubernetes-preserve-unknown-fields") == Some(&Value::Bool(true));
    let is_nullable = schema.get("nullable") == Some(&Value::Bool(true));
    if is_open && let Some(kind) = schema.get(KIND) {
        // kubectl would reject unknown fields of an object with fields.
        return json!({ "type": "object", KIND: kind });
    }
    if is_open || is_nullable {
        for word in ["items", "properties", "required", "type"] {
            schema.remove(word);
        }
    }
    // An integer or string has the type `string`, and in custom resources no type.
    let is_alternative =
        schema.contains_key("oneOf") && !schema.contains_key("type") && !(is_open || is_nullable);
    schema.retain(|word, _| !LEFT_OUT.contains(&word.as_str()));
    if is_alternative {
        schema.insert("type".to_owned(), "string".into());
    }
    for (word, value) in &mut schema {
        match word.as_str() {
            "properties" => {
                for property in value.as_object_mut().into_iter().flat_map(Map::values_mut) {
                    *property = simple(property.take());
                }
            }
            "items" | "additionalProperties" => *value = simple(value.take()),
            _ => {}
        }
    }
    schema.into()
}

/// Encodes the document as the protobuf message `openapi.v2.Document` of gnostic, with the fields
/// that kubectl reads: without the limits of numbers, strings and lists.
pub(crate) fn openapi_v2_protobuf(document: &Value) -> Vec<u8> {
    let mut out = Message::default();
    out.text(1, &document["swagger"]);
    let mut info = Message::default();
    info.text(1, &document["info"]["title"]);
    info.text(2, &document["info"]["version"]);
    out.message(2, &info);
    let mut paths = Message::default();
    for (name, path) in members(&document["paths"]) {
        let mut item = Message::default();
        item.message(8, &operation(&path["patch"]));
        paths.message(2, &named(name, &item));
    }
    out.message(8, &paths);
    out.message(9, &schemas_of(&document["definitions"]));
    out.0
}

fn operation(operation: &Value) -> Message {
    let mut out = Message::default();
    out.text(5, &operation["operationId"]);
    out.texts(7, &operation["consumes"]);
    for parameter in operation["parameters"].as_array().into_iter().flatten() {
        let mut query = Message::default();
        query.text(2, &parameter["in"]);
        query.text(4, &parameter["name"]);
        query.text(6, &parameter["type"]);
        out.message(8, &query.within(3).within(2).within(1));
    }
    let mut responses = Message::default();
    for (code, response) in members(&operation["responses"]) {
        let mut answer = Message::default();
        answer.text(1, &response["description"]);
        answer.message(2, &schema(&response["schema"]).within(1));
        responses.message(1, &named(code, &answer.within(1)));
    }
    out.message(9, &responses);
    out.extensions(13, operation);
    out
}

fn schemas_of(schemas: &Value) -> Message {
    let mut out = Message::default();
    for (name, value) in members(schemas) {
        out.message(1, &named(name, &schema(value)));
    }
    out
}

fn schema(schema: &Value) -> Message {
    let mut out = Message::default();
    out.text(1, &schema["$ref"]);
    out.text(2, &schema["format"]);
    out.text(4, &schema["description"]);
    out.texts(19, &schema["required"]);
    for value in schema["enum"].as_array().into_iter().flatten() {
        out.message(20, &any(value));
    }
    match &schema["additionalProperties"] {
        values @ Value::Object(_) => out.message(21, &self::schema(values).within(1)),
        Value::Bool(true) => out.message(21, &Message(vec![2 << 3, 1])),
        _ => {}
    }
    if schema["type"].is_string() {
        let mut kind = Message::default();
        kind.text(1, &schema["type"]);
        out.message(22, &kind);
    }
    if schema["items"].is_object() {
        out.message(23, &self::schema(&schema["items"]).within(1));
    }
    if schema["properties"].is_object() {
        out.message(25, &schemas_of(&schema["properties"]));
    }
    out.extensions(31, schema);
    out
}

/// Encodes a value as the message `Any`, whose YAML is the JSON of the value.
fn any(value: &Value) -> Message {
    let mut out = Message::default();
    out.text(2, &value.to_string().into());
    out
}

fn named(name: &str, value: &Message) -> Message {
    let mut out = Message::default();
    out.text(1, &name.into());
    out.message(2, value);
    out
}

fn members(object: &Value) -> impl Iterator<Item = (&String, &Value)> {
    object.as_object().into_iter().flatten()
}

/// The encoded fields of a protobuf message.
#[derive(Default)]
struct Message(Vec<u8>);

// === impl Message ===

impl Message {
    /// Adds the value if it is a string.
    fn text(&mut self, field: usize, value: &Value) {
        if let Some(text) = value.as_str() {
            self.bytes(field, text.as_bytes());
        }
    }

    /// Adds each string of a list.
    fn texts(&mut self, field: usize, list: &Value) {
        for value in list.as_array().into_iter().flatten() {
            self.text(field, value);
        }
    }

    fn message(&mut self, field: usize, message: &Self) {
        self.bytes(field, &message.0);
    }

    /// Adds the extensions (`x-kubernetes-…`).
    fn extensions(&mut self, field: usize, object: &Value) {
        for (name, value) in members(object).filter(|(name, _)| name.starts_with("x-")) {
            self.message(field, &named(name, &any(value)));
        }
    }

    /// Returns a message with this field only.
    fn within(&self, field: usize) -> Self {
        let mut out = Self::default();
        out.message(field, self);
        out
    }

    fn bytes(&mut self, field: usize, bytes: &[u8]) {
        /// The wire type of fields with a length.
        const WITH_LENGTH: usize = 2;
        self.number(field << 3 | WITH_LENGTH);
        self.number(bytes.len());
        self.0.extend_from_slice(bytes);
    }

    /// Adds a varint: seven bits per byte, the lowest bits first.
    fn number(&mut self, mut number: usize) {
        while number >= 0x80 {
            self.0
                .push(0x80 | u8::try_from(number & 0x7f).unwrap_or_default());
            number >>= 7;
        }
        self.0.push(u8::try_from(number).unwrap_or_default());
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{Message, simple};

    #[test]
    fn schemas_that_kubectl_would_misread_are_omitted() {
        for (schema, expected) in [
            (
                json!({ "allOf": [{ "$ref": "#/components/schemas/a.B" }], "default": {}, "description": "d" }),
                json!({ "$ref": "#/definitions/a.B", "description": "d" }),
            ),
            (
                json!({ "additionalProperties": { "$ref": "#/components/schemas/a.B" } }),
                json!({ "additionalProperties": { "$ref": "#/definitions/a.B" } }),
            ),
            (
                json!({ "oneOf": [{ "type": "string" }, { "type": "number" }] }),
                json!({ "type": "string" }),
            ),
            (
                json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true, "required": ["a"],
                    "properties": { "a": {} } }),
                json!({ "x-kubernetes-preserve-unknown-fields": true }),
            ),
            (
                json!({ "type": "array", "nullable": true, "items": { "type": "string" } }),
                json!({}),
            ),
            (
                json!({ "type": "array", "items": { "type": "object", "properties": {
                    "a": { "type": "string", "default": "x" } } } }),
                json!({ "type": "array", "items": { "type": "object", "properties": {
                    "a": { "type": "string" } } } }),
            ),
        ] {
            assert_eq!(simple(schema), expected);
        }
    }

    #[test]
    fn lengths_are_written_as_protobuf_writes_them() {
        let mut message = Message::default();
        message.text(31, &"x".repeat(300).into());
        assert_eq!(message.0[..4], [0xfa, 0x01, 0xac, 0x02]);
        assert_eq!(message.0.len(), 304);
    }
}
