//! Compares the encoder and the decoder with Go's.
//!
//! The objects come from `tests/go-clients`, which `cargo xtask test` builds if Go is installed.
//! Its path is in `WINDLASS_GO_CLIENTS`. Without it, the test prints that it was skipped.

use std::collections::BTreeSet;
use std::process::Command;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

/// The seed of the random objects.
const SEED: &str = "20250301";

/// The number of objects of each kind.
const COUNT: &str = "5";

#[test]
fn random_objects_of_every_kind_are_the_same_on_both_sides() {
    let Some(program) = std::env::var_os("WINDLASS_GO_CLIENTS") else {
        println!("not run: WINDLASS_GO_CLIENTS does not name the program of tests/go-clients");
        return;
    };
    let output = Command::new(program)
        .args(["-seed", SEED, "-count", COUNT, "objects"])
        .output()
        .expect("WINDLASS_GO_CLIENTS names a program");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let text = String::from_utf8(output.stdout).expect("lines of JSON");
    let mut seen = BTreeSet::new();
    for line in text.lines() {
        let line: Value = serde_json::from_str(line).expect("a line of JSON");
        let (api_version, kind) = (string(&line, "apiVersion"), string(&line, "kind"));
        check(api_version, kind, &line);
        seen.insert((api_version.to_owned(), kind.to_owned()));
    }
    let objects = text.lines().count();
    println!("{objects} objects of {} kinds", seen.len());
    let missing: Vec<_> = windlass_protobuf::kinds()
        .filter(|(api_version, kind)| {
            let in_group = seen.contains(&((*api_version).to_owned(), (*kind).to_owned()));
            // Options and similar kinds are registered in every other group.
            let elsewhere =
                *api_version == "meta.k8s.io/v1" && seen.iter().any(|(_, other)| other == kind);
            !in_group && !elsewhere
        })
        .collect();
    // Go registers these options for generated clients, and for no server.
    assert_eq!(missing, [("meta.k8s.io/v1", "ApplyOptions")]);
    assert!(seen.len() > 500, "{} kinds", seen.len());
}

/// Checks one object in both directions.
fn check(api_version: &str, kind: &str, line: &Value) {
    let about = format!("{api_version} {kind}, seed {SEED}");
    assert!(windlass_protobuf::is_known(api_version, kind), "{about}");
    let decoded = windlass_protobuf::decode(&bytes(line, "protobuf"));
    let decoded = decoded.unwrap_or_else(|error| panic!("{about}: {error}"));
    let mut json = line["json"].clone();
    if kind.ends_with("List") && json.get("items") == Some(&Value::Null) {
        // Servers write `[]`, and Go's marshaler writes `null`.
        json["items"] = Value::Array(Vec::new());
    }
    if let Some(difference) = difference(&decoded, &json, "") {
        panic!("{about}: decoded otherwise than by Go at {difference}");
    }
    let encoded = windlass_protobuf::encode(&json);
    let encoded = encoded.unwrap_or_else(|error| panic!("{about}: {error}"));
    let again = bytes(line, "again");
    let ours = windlass_protobuf::decode(&encoded).expect("our own bytes");
    let theirs = windlass_protobuf::decode(&again).expect("the bytes of Go");
    if let Some(difference) = difference(&ours, &theirs, "") {
        panic!("{about}: encoded otherwise than by Go at {difference}");
    }
    assert_eq!(encoded, again, "{about}: the same object in other bytes");
}

/// The path of the first difference of two values.
fn difference(ours: &Value, theirs: &Value, path: &str) -> Option<String> {
    match (ours, theirs) {
        (Value::Object(ours), Value::Object(theirs)) => {
            let keys: BTreeSet<_> = ours.keys().chain(theirs.keys()).collect();
            keys.into_iter().find_map(|key| {
                let path = format!("{path}.{key}");
                match (ours.get(key), theirs.get(key)) {
                    (Some(one), Some(other)) => difference(one, other, &path),
                    (ours, theirs) => Some(format!("{path}: ours {ours:?}, Go's {theirs:?}")),
                }
            })
        }
        (Value::Array(ours), Value::Array(theirs)) if ours.len() == theirs.len() => {
            let mut pairs = ours.iter().zip(theirs).enumerate();
            pairs.find_map(|(at, (one, other))| difference(one, other, &format!("{path}[{at}]")))
        }
        (ours, theirs) if ours == theirs => None,
        (ours, theirs) => Some(format!("{path}: ours {ours}, Go's {theirs}")),
    }
}

fn string<'a>(line: &'a Value, field: &str) -> &'a str {
    line[field].as_str().expect("a string")
}

fn bytes(line: &Value, field: &str) -> Vec<u8> {
    STANDARD.decode(string(line, field)).expect("base64")
}
