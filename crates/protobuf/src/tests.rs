//! Round trips of random objects of every kind, and decoding of random bytes.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::FileFailurePersistence;
use serde_json::{Map, Value, json};

use crate::table::{Absent, Message, Shape, Type};
use crate::tables::KINDS;
use crate::{MAX_DEPTH, decode, encode};

/// The maximum depth of random objects.
const DEPTH: u32 = 6;

/// The random bytes from which objects are generated. When they are used up, all members are
/// absent.
struct Entropy<'a>(std::slice::Iter<'a, u8>);

// === impl Entropy ===

impl Entropy<'_> {
    fn byte(&mut self) -> u8 {
        self.0.next().copied().unwrap_or_default()
    }

    /// A random object with some of the members of a message, without zero values.
    fn object(&mut self, message: &'static Message, depth: u32) -> Map<String, Value> {
        let mut object = Map::new();
        for field in message.fields {
            if self.byte().is_multiple_of(4) {
                continue;
            }
            if let (Shape::Inline, Type::Message(inner)) = (field.shape, field.value) {
                object.append(&mut self.object(inner, depth));
                continue;
            }
            if depth == 0 && holds_objects(field.value) {
                continue;
            }
            let value = match field.shape {
                Shape::One | Shape::Pointer | Shape::Inline => self.value(field.value, depth),
                Shape::List => {
                    let length = 1 + self.byte() % 2;
                    (0..length)
                        .map(|_| self.value(field.value, depth))
                        .collect()
                }
                Shape::Map => {
                    let mut entries = Map::new();
                    for _ in 0..=self.byte() % 2 {
                        entries.insert(self.text(), self.value(field.value, depth));
                    }
                    entries.into()
                }
            };
            object.insert(field.name.to_owned(), value);
        }
        object
    }

    fn value(&mut self, kind: Type, depth: u32) -> Value {
        let byte = self.byte();
        match kind {
            Type::Bool => true.into(),
            Type::Int32 => json!([i32::MIN, -1, 1, 127, 128, i32::MAX][usize::from(byte % 6)]),
            Type::Int64 => json!([i64::MIN, -1, 1, 16384, i64::MAX][usize::from(byte % 5)]),
            Type::Double => json!([-0.5, 1.25e300, 3.0e-9][usize::from(byte % 3)]),
            Type::String => self.text().into(),
            Type::Bytes => ["AAH/", "YQ=="][usize::from(byte % 2)].into(),
            Type::Message(message) => self.object(message, depth.saturating_sub(1)).into(),
            Type::Quantity => ["500m", "1Gi", "-3"][usize::from(byte % 3)].into(),
            Type::IntOrString => {
                [json!(-8080), json!("50%"), json!(0)][usize::from(byte % 3)].clone()
            }
            Type::Time => {
                ["2025-03-01T12:00:00Z", "0001-01-01T00:00:01Z"][usize::from(byte % 2)].into()
            }
            Type::MicroTime => ["2025-03-01T12:00:00.000001Z", "1969-12-31T23:59:59.999999Z"]
                [usize::from(byte % 2)]
            .into(),
            Type::Duration => ["1m30s", "-2h0m0.5s"][usize::from(byte % 2)].into(),
            Type::RawJson | Type::RawObject => {
                json!({ "f:metadata": { ".": {}, "n": [1, 2.5, null, "x"] } })
            }
            Type::StringList => json!(["get", self.text()]),
            Type::SchemaOrBool(_) if byte.is_multiple_of(2) => true.into(),
            Type::SchemaOrArray(schema) if byte.is_multiple_of(2) => {
                json!([self.object(schema, depth.saturating_sub(1))])
            }
            Type::SchemaOrStrings(_) if byte.is_multiple_of(2) => json!(["a", self.text()]),
            Type::SchemaOrBool(schema)
            | Type::SchemaOrArray(schema)
            | Type::SchemaOrStrings(schema) => self.object(schema, depth.saturating_sub(1)).into(),
        }
    }

    fn text(&mut self) -> String {
        let texts = ["x", "päth\u{2028}", "a/b.c_d", "\0", "emoji 🦀"];
        texts[usize::from(self.byte()) % texts.len()].to_owned()
    }
}

fn holds_objects(kind: Type) -> bool {
    matches!(
        kind,
        Type::Message(_)
            | Type::SchemaOrBool(_)
            | Type::SchemaOrArray(_)
            | Type::SchemaOrStrings(_)
    )
}

fn random_object(kind: usize, entropy: &[u8]) -> Value {
    let (api_version, name, message) = KINDS[kind % KINDS.len()];
    let mut object = Entropy(entropy.iter()).object(message, DEPTH);
    object.insert("apiVersion".to_owned(), api_version.into());
    object.insert("kind".to_owned(), name.into());
    object.into()
}

/// The path at which `whole` lacks a value of `part`, or has another value.
fn missing(part: &Value, whole: &Value, path: &str) -> Option<String> {
    match (part, whole) {
        (Value::Object(part), Value::Object(whole)) => part.iter().find_map(|(key, value)| {
            let path = format!("{path}.{key}");
            match whole.get(key) {
                Some(found) => missing(value, found, &path),
                None => Some(path),
            }
        }),
        (Value::Array(part), Value::Array(whole)) if part.len() == whole.len() => {
            let mut pairs = part.iter().zip(whole).enumerate();
            pairs.find_map(|(at, (one, other))| missing(one, other, &format!("{path}[{at}]")))
        }
        (part, whole) if part == whole => None,
        _ => Some(path.to_owned()),
    }
}

fn config(cases: u32) -> ProptestConfig {
    ProptestConfig {
        cases,
        failure_persistence: Some(Box::new(FileFailurePersistence::Off)),
        ..ProptestConfig::default()
    }
}

proptest! {
    #![proptest_config(config(24))]

    #[test]
    fn objects_of_every_kind_survive_a_round_trip(entropy in vec(any::<u8>(), 0..600)) {
        for kind in 0..KINDS.len() {
            let object = random_object(kind, &entropy);
            let bytes = encode(&object).expect("an object of its kind");
            let once = decode(&bytes).expect("our own bytes");
            prop_assert_eq!(missing(&object, &once, ""), None, "{}", object["kind"]);
            let again = encode(&once).expect("a complete object");
            prop_assert_eq!(again, bytes, "{}", object["kind"]);
        }
    }
}

proptest! {
    #![proptest_config(config(4000))]

    #[test]
    fn random_bytes_never_panic(
        kind in any::<usize>(),
        entropy in vec(any::<u8>(), 0..200),
        changes in vec((any::<prop::sample::Index>(), any::<u8>()), 0..8),
        end in any::<prop::sample::Index>(),
        cut in any::<bool>(),
    ) {
        let mut bytes = encode(&random_object(kind, &entropy)).expect("an object of its kind");
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        if cut {
            bytes.truncate(end.index(bytes.len()));
        }
        if let Ok(object) = decode(&bytes) {
            // Every decoded object can be encoded.
            prop_assert!(encode(&object).is_ok(), "{:?}", encode(&object));
        }
        let mut noise = b"k8s\0".to_vec();
        noise.extend(&entropy);
        let _ = decode(&noise);
        let (api_version, kind, _) = KINDS[kind % KINDS.len()];
        let mut raw = b"k8s\0\x12".to_vec();
        raw.push(u8::try_from(entropy.len().min(100)).unwrap_or_default());
        raw.extend(&entropy[..entropy.len().min(100)]);
        let _ = crate::decode_as(&raw, api_version, kind);
    }
}

#[test]
fn empty_objects_decode_with_all_required_members() {
    for (api_version, kind, message) in KINDS {
        let empty = json!({ "apiVersion": api_version, "kind": kind });
        let bytes = encode(&empty).expect("an empty object");
        let decoded = decode(&bytes).expect("our own bytes");
        let kept = message
            .fields
            .iter()
            .filter(|field| field.absent == Absent::Kept && field.shape != Shape::Inline);
        for field in kept {
            assert!(decoded.get(field.name).is_some(), "{kind}.{}", field.name);
        }
    }
}

#[test]
fn the_deepest_encodable_schema_can_be_decoded() {
    let nested = |depth: u32| {
        let mut schema = json!({ "type": "object" });
        for _ in 0..depth {
            schema = json!({ "not": schema });
        }
        json!({
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "spec": { "versions": [{ "name": "v1", "schema": { "openAPIV3Schema": schema } }] },
        })
    };
    // The nesting levels are the definition, its spec, a version, its validation and the innermost
    // schema.
    let deepest = MAX_DEPTH - 5;
    let bytes = encode(&nested(deepest)).expect("not too deep");
    assert!(decode(&bytes).is_ok());
    let error = encode(&nested(deepest + 1))
        .expect_err("too deep")
        .to_string();
    assert!(
        error.ends_with("objects are nested more than 100 deep"),
        "{error}"
    );
}

#[test]
fn fractions_are_exact() {
    let object = json!({
        "apiVersion": "apps/v1",
        "kind": "ControllerRevision",
        "data": { "n": 0.102_166_346_644_350_81_f64 },
    });
    let decoded = decode(&encode(&object).expect("a revision")).expect("our own bytes");
    assert_eq!(decoded["data"], object["data"]);
}
