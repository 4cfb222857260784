//! Config maps and secrets.

use serde_json::{Map, Value};

use super::{At, Faults};
use crate::metadata::syntax;

/// The maximum total size of the values of one object: 1 MiB.
const MAX_SIZE: usize = 1 << 20;

pub(super) fn config_map(at: At<'_>, faults: &mut Faults) {
    let empty = Map::new();
    let (data, binary) = (at.map("data"), at.map("binaryData"));
    let binary = binary.unwrap_or(&empty);
    let mut size = 0;
    for (key, value) in data.unwrap_or(&empty) {
        check_key("data", key, faults);
        if binary.contains_key(key) {
            let path = format!("data[{key}]");
            let why = "duplicate of key present in binaryData";
            faults.invalid(path, &key.as_str().into(), why);
        }
        size += value.as_str().map_or(0, str::len);
    }
    for (key, value) in binary {
        check_key("binaryData", key, faults);
        size += decoded_length(value);
    }
    if size > MAX_SIZE {
        faults.add(crate::status::FieldError::too_long("", MAX_SIZE));
    }
}

pub(super) fn secret(at: At<'_>, faults: &mut Faults) {
    let empty = Map::new();
    let data = at.map("data").unwrap_or(&empty);
    let mut size = 0;
    for (key, value) in data {
        check_key("data", key, faults);
        size += decoded_length(value);
    }
    if size > MAX_SIZE {
        faults.add(crate::status::FieldError::too_long("data", MAX_SIZE));
    }
    let has = |key: &str| data.contains_key(key);
    let mut need = |key: &str| {
        if !has(key) {
            faults.required(format!("data[{key}]"), "");
        }
    };
    match at.text("type") {
        "kubernetes.io/tls" => {
            need("tls.crt");
            need("tls.key");
        }
        "kubernetes.io/dockerconfigjson" => need(".dockerconfigjson"),
        "kubernetes.io/dockercfg" => need(".dockercfg"),
        "kubernetes.io/ssh-auth" => need("ssh-privatekey"),
        "kubernetes.io/basic-auth" if !has("username") && !has("password") => {
            need("username");
            need("password");
        }
        "kubernetes.io/service-account-token" => {
            const NAME: &str = "kubernetes.io/service-account.name";
            let annotations = crate::metadata::field(at.value, "annotations");
            let name = annotations.and_then(|annotations| annotations.get(NAME));
            if name.and_then(Value::as_str).is_none_or(str::is_empty) {
                faults.required(format!("metadata.annotations[{NAME}]"), "");
            }
        }
        _ => {}
    }
}

/// The number of bytes that a base64 text decodes to.
fn decoded_length(value: &Value) -> usize {
    let text = value.as_str().unwrap_or_default();
    text.trim_end_matches('=').len() * 3 / 4
}

fn check_key(field: &str, key: &str, faults: &mut Faults) {
    let wrong = syntax::config_key(key);
    if wrong.is_some() {
        faults.wrong(format!("{field}[{key}]"), &key.into(), wrong);
    }
}

/// The data of a new controller revision, which no update can change.
pub(super) fn new_revision(root: At<'_>, faults: &mut Faults) {
    match root.get("data") {
        None => faults.required("data", "data is mandatory"),
        Some(data) if !data.is_object() => {
            faults.required("data", "data must be a valid JSON object");
        }
        Some(_) => {}
    }
}
