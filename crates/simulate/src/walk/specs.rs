//! Generates specs from the schema of a kind: random, boundary and invalid ones. *(pure)*

use rand::{Rng as _, SeedableRng as _, rngs::StdRng, seq::IndexedRandom as _};
use serde_json::{Map, Value, json};

/// The largest depth of a generated value: a schema can be nested very deeply.
const DEEPEST: usize = 12;

/// The largest number of generated items and entries where the schema has no limit.
const MOST: u64 = 3;

/// The length of the longest generated text, also where the schema allows more.
const LONGEST: u64 = 300;

/// Generates `count` specs without duplicates: first `given`, then in turn random specs, specs
/// with one value at a boundary, and specs with one value that the schema does not allow.
pub(super) fn specs(schema: &Value, given: &Value, count: usize, seed: u64) -> Vec<Value> {
    /// Attempts for each spec: a small schema has few different values.
    const TRIES: usize = 20;

    let mut make = Generator {
        random: StdRng::seed_from_u64(seed),
    };
    let mut specs = vec![given.clone()];
    for index in 0..count.saturating_mul(TRIES) {
        if specs.len() >= count {
            break;
        }
        let mut spec = make.value(schema, Some(given), 0).unwrap_or_default();
        match index % 3 {
            0 => {}
            1 => make.change(schema, &mut spec, Generator::boundary),
            _ => make.change(schema, &mut spec, Generator::invalid),
        }
        if !specs.contains(&spec) {
            specs.push(spec);
        }
    }
    specs
}

struct Generator {
    random: StdRng,
}

// === impl Generator ===

impl Generator {
    /// Generates a value that the schema allows. Where the schema has a pattern or a format, the
    /// result is the `given` value, or `None`.
    fn value(&mut self, schema: &Value, given: Option<&Value>, depth: usize) -> Option<Value> {
        if depth > DEEPEST {
            return None;
        }
        if let Some(choices) = schema["enum"].as_array() {
            return choices.choose(&mut self.random).cloned();
        }
        if schema["nullable"] == true && self.random.random_bool(0.1) {
            return Some(Value::Null);
        }
        if schema["x-kubernetes-int-or-string"] == true {
            let both = [json!(self.random.random_range(0..10)), json!("50%")];
            return both.choose(&mut self.random).cloned();
        }
        match schema["type"].as_str() {
            Some("object") => Some(self.object(schema, given, depth)),
            Some("array") => {
                let (least, most) = limits(schema, "minItems", "maxItems", MOST);
                let count = self.random.random_range(least..=most);
                let given = given.and_then(|it| it.get(0));
                let items =
                    (0..count).filter_map(|_| self.value(&schema["items"], given, depth + 1));
                Some(items.collect())
            }
            Some("string") => self.text(schema, given),
            Some("integer" | "number") => {
                let (least, most) = range(schema);
                // Prefer small numbers where the schema allows them.
                let from = least.max(0).min(most);
                let to = from.saturating_add(10).min(most);
                Some(json!(self.random.random_range(from..=to)))
            }
            Some("boolean") => Some(json!(self.random.random_bool(0.5))),
            _ => given.cloned(),
        }
    }

    fn object(&mut self, schema: &Value, given: Option<&Value>, depth: usize) -> Value {
        let mut object = Map::new();
        for (name, of_property) in schema["properties"].as_object().into_iter().flatten() {
            let given = given.and_then(|it| it.get(name));
            if is_required(schema, name) || self.random.random_bool(0.5) {
                let value = self.value(of_property, given, depth + 1);
                object.extend(value.map(|value| (name.clone(), value)));
            }
        }
        let entries = &schema["additionalProperties"];
        if entries.is_object() {
            for number in 0..self.random.random_range(0..=MOST) {
                let value = self.value(entries, None, depth + 1);
                object.extend(value.map(|value| (format!("key-{number}"), value)));
            }
        }
        if schema["x-kubernetes-preserve-unknown-fields"] == true
            && let Some(given) = given.and_then(Value::as_object)
        {
            object.extend(given.clone());
        }
        Value::Object(object)
    }

    fn text(&mut self, schema: &Value, given: Option<&Value>) -> Option<Value> {
        let is_free = schema["pattern"].is_null() && schema["format"].is_null();
        if !is_free || given.is_some() && self.random.random_bool(0.3) {
            return given.cloned();
        }
        let (least, most) = limits(schema, "minLength", "maxLength", 12);
        let length = self.random.random_range(least.max(1).min(most)..=most);
        let letters = (0..length).map(|_| self.random.random_range('a'..='z'));
        Some(letters.collect::<String>().into())
    }

    /// Changes one value of `spec`.
    fn change(
        &mut self,
        schema: &Value,
        spec: &mut Value,
        change: fn(&mut Self, &Value, &Value) -> Value,
    ) {
        let mut places = Vec::new();
        find_places(schema, spec, "", &mut places);
        let Some((path, schema)) = places.choose(&mut self.random) else {
            return;
        };
        if let Some(value) = spec.pointer_mut(path) {
            *value = change(self, schema, value);
        }
    }

    /// A value at a limit of what the schema allows.
    fn boundary(&mut self, schema: &Value, value: &Value) -> Value {
        let text = |length: u64| "a".repeat(usize::try_from(length).unwrap_or_default());
        let choices = match schema["type"].as_str() {
            Some("integer" | "number") => {
                let (least, most) = range(schema);
                vec![json!(least), json!(most), json!(0)]
            }
            Some("string") if schema["enum"].is_null() => {
                let (least, most) = limits(schema, "minLength", "maxLength", LONGEST);
                vec![json!(text(least)), json!(text(most))]
            }
            Some("array") => {
                let (least, most) = limits(schema, "minItems", "maxItems", MOST);
                let items = [least, most].map(|count| {
                    let items = (0..count).filter_map(|_| self.value(&schema["items"], None, 0));
                    items.collect()
                });
                items.to_vec()
            }
            Some("object") => {
                let members = value.as_object().into_iter().flatten();
                let required = members.filter(|(name, _)| is_required(schema, name));
                let least = required.map(|(name, value)| (name.clone(), value.clone()));
                vec![Value::Object(least.collect())]
            }
            Some("boolean") => vec![json!(false), json!(true)],
            _ => vec![],
        };
        (choices.choose(&mut self.random)).map_or_else(|| value.clone(), Clone::clone)
    }

    /// A value that the schema does not allow.
    fn invalid(&mut self, schema: &Value, value: &Value) -> Value {
        let number = |name: &str| schema[name].as_i64();
        let mut choices = match schema["type"].as_str() {
            Some("integer") => vec![json!("text"), json!(0.5), json!([])],
            Some("number") => vec![json!("text"), json!([])],
            Some("string") => vec![json!(7), json!({}), json!(true)],
            Some("boolean") => vec![json!("yes"), json!(1)],
            Some("array") => vec![json!({}), json!("text")],
            _ => vec![json!([]), json!("text")],
        };
        choices.extend(number("minimum").and_then(|it| Some(json!(it.checked_sub(1)?))));
        choices.extend(number("maximum").and_then(|it| Some(json!(it.checked_add(1)?))));
        if schema["enum"].is_array() {
            choices.push(json!("no such choice"));
        }
        if let Some(object) = value.as_object() {
            let required = object.keys().filter(|name| is_required(schema, name));
            for name in required {
                let mut lacking = object.clone();
                lacking.remove(name);
                choices.push(Value::Object(lacking));
            }
        }
        (choices.choose(&mut self.random)).map_or_else(|| value.clone(), Clone::clone)
    }
}

/// Collects the values of `spec` whose type the schema states, each with its path and schema.
fn find_places<'s>(
    schema: &'s Value,
    spec: &Value,
    path: &str,
    places: &mut Vec<(String, &'s Value)>,
) {
    if schema["type"].is_string() {
        places.push((path.to_owned(), schema));
    }
    for (name, value) in spec.as_object().into_iter().flatten() {
        let name = name.replace('~', "~0").replace('/', "~1");
        let of_value = schema["properties"].get(&name);
        if let Some(schema) = of_value.or_else(|| schema.get("additionalProperties")) {
            find_places(schema, value, &format!("{path}/{name}"), places);
        }
    }
    for (index, value) in spec.as_array().into_iter().flatten().enumerate() {
        find_places(&schema["items"], value, &format!("{path}/{index}"), places);
    }
}

fn is_required(schema: &Value, name: &str) -> bool {
    let required = schema["required"].as_array();
    required.is_some_and(|it| it.iter().any(|it| it == name))
}

/// The least and the greatest count that a schema allows.
fn limits(schema: &Value, least: &str, most: &str, default: u64) -> (u64, u64) {
    let least = schema[least].as_u64().unwrap_or(0).min(LONGEST);
    let most = schema[most]
        .as_u64()
        .unwrap_or(least.saturating_add(default));
    (least, most.min(LONGEST).max(least))
}

/// The least and the greatest number that a schema allows.
fn range(schema: &Value) -> (i64, i64) {
    let (lowest, highest) = match schema["format"].as_str() {
        Some("int32") => (i32::MIN.into(), i32::MAX.into()),
        Some("uint8") => (0, u8::MAX.into()),
        Some("uint16") => (0, u16::MAX.into()),
        Some("uint32") => (0, u32::MAX.into()),
        Some("uint" | "uint64") => (0, i64::MAX),
        _ => (i64::MIN, i64::MAX),
    };
    let bound = |name: &str, default: i64| {
        let bound = &schema[name];
        #[expect(
            clippy::cast_possible_truncation,
            reason = "a cast from f64 saturates; a schema states limits such as 1.0"
        )]
        let whole = || bound.as_f64().map(|it| it as i64);
        bound.as_i64().or_else(whole).unwrap_or(default)
    };
    let least = bound("minimum", lowest);
    (least, bound("maximum", highest).max(least))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::specs;

    fn schema() -> Value {
        json!({
            "type": "object",
            "required": ["host"],
            "properties": {
                "host": { "type": "string", "minLength": 2, "maxLength": 5 },
                "count": { "type": "integer", "minimum": 1, "maximum": 3 },
                "mode": { "type": "string", "enum": ["on", "off"] },
                "tags": { "type": "array", "maxItems": 2, "items": { "type": "boolean" } },
            },
        })
    }

    fn is_valid(spec: &Value) -> bool {
        let length = spec["host"].as_str().map_or(0, str::len);
        let count = spec.get("count");
        let mode = spec.get("mode");
        let tags = spec.get("tags");
        (2..=5).contains(&length)
            && count.is_none_or(|it| it.as_i64().is_some_and(|it| (1..=3).contains(&it)))
            && mode.is_none_or(|it| *it == "on" || *it == "off")
            && tags.is_none_or(|it| {
                let tags = it.as_array().map(Vec::as_slice);
                tags.is_some_and(|it| it.len() <= 2 && it.iter().all(Value::is_boolean))
            })
    }

    #[test]
    fn a_schema_gives_valid_and_invalid_specs_and_those_at_its_limits() {
        let given = json!({ "host": "abc" });
        let specs = specs(&schema(), &given, 200, 7);
        assert_eq!(specs[0], given);
        let (valid, invalid): (Vec<_>, Vec<_>) = specs.iter().partition(|it| is_valid(it));
        assert!(valid.len() > 50, "{valid:?}");
        assert!(invalid.len() > 30, "{invalid:?}");
        for limit in [json!("aa"), json!("aaaaa")] {
            assert!(valid.iter().any(|it| it["host"] == limit), "{limit}");
        }
        for (field, broken) in [("count", json!(0)), ("count", json!(4)), ("host", json!(7))] {
            assert!(invalid.iter().any(|it| it[field] == broken), "{field}");
        }
        assert!(invalid.iter().any(|it| it.get("host").is_none()));
    }

    #[test]
    fn a_seed_gives_the_same_specs_each_time() {
        let given = json!({ "host": "abc" });
        let one = specs(&schema(), &given, 40, 7);
        assert_eq!(one, specs(&schema(), &given, 40, 7));
        assert_ne!(one, specs(&schema(), &given, 40, 8));
    }
}
