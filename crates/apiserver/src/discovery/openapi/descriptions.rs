//! The descriptions of built-in types and their fields, which `kubectl explain` prints. The binary
//! contains them compressed; the first request decompresses them.

use std::collections::HashMap;
use std::io::Read as _;
use std::sync::LazyLock;

use flate2::read::GzDecoder;
use serde_json::{Map, Value};

/// The text that `cargo xtask openapi` generates, compressed.
const COMPRESSED: &[u8] = include_bytes!("descriptions.txt.gz");

/// The description of a type, and the descriptions of its fields.
#[derive(Debug, Default)]
struct Described {
    own: Value,
    fields: Vec<(String, Value)>,
}

static TYPES: LazyLock<HashMap<String, Described>> = LazyLock::new(|| {
    let mut text = String::new();
    let read = GzDecoder::new(COMPRESSED).read_to_string(&mut text);
    debug_assert!(read.is_ok(), "the file was generated: {read:?}");
    parse(&text)
});

/// Adds the descriptions of built-in types to their schemas.
pub(super) fn add(schemas: &mut Map<String, Value>) {
    for (name, schema) in schemas {
        let Some(described) = TYPES.get(name) else {
            continue;
        };
        if described.own.is_string() {
            schema["description"] = described.own.clone();
        }
        let Some(properties) = schema.get_mut("properties").and_then(Value::as_object_mut) else {
            continue;
        };
        for (field, description) in &described.fields {
            if let Some(property) = properties.get_mut(field) {
                property["description"] = description.clone();
            }
        }
    }
}

/// Returns the description of a field of a type.
pub(super) fn of_field(name: &str, field: &str) -> Value {
    let fields = TYPES.get(name).map(|described| &described.fields);
    let mut found = fields.into_iter().flatten();
    let description = found.find(|(name, _)| name == field);
    description.map_or(Value::Null, |(_, text)| text.clone())
}

/// Parses the lines: a type and its description or, after a tab, a field of that type.
fn parse(text: &str) -> HashMap<String, Described> {
    let mut types = HashMap::new();
    let mut name = String::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let (field, line) = match line.strip_prefix('\t') {
            Some(line) => (true, line),
            None => (false, line),
        };
        let Some((word, description)) = line.split_once('\t') else {
            continue;
        };
        let description = serde_json::from_str(description).unwrap_or_default();
        if !field {
            word.clone_into(&mut name);
        }
        let described: &mut Described = types.entry(name.clone()).or_default();
        if field {
            described.fields.push((word.to_owned(), description));
        } else {
            described.own = description;
        }
    }
    types
}

#[cfg(test)]
mod tests {
    use serde_json::{Map, json};

    use super::{TYPES, add};

    #[test]
    fn types_and_fields_are_described() {
        let mut schemas = Map::new();
        let name = "io.k8s.api.core.v1.ConfigMap";
        schemas.insert(
            name.to_owned(),
            json!({ "properties": { "data": {}, "own": {} } }),
        );
        add(&mut schemas);
        let schema = &schemas[name];
        assert_eq!(
            schema["description"],
            "ConfigMap holds configuration data for pods to consume."
        );
        assert!(schema["properties"]["data"]["description"].is_string());
        assert_eq!(schema["properties"]["own"], json!({}));
    }

    #[test]
    fn every_description_was_read() {
        assert!(TYPES.len() > 400, "{}", TYPES.len());
        let fields: usize = TYPES.values().map(|it| it.fields.len()).sum();
        assert!(fields > 2000, "{fields}");
    }
}
