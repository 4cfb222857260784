//! Resource slices: the devices of a pool.

use serde_json::{Value, json};

use super::affinity::node_selector;
use super::claim::{EFFECTS, at_most, driver, pool, qualified, set};
use super::{At, Faults};
use crate::metadata::syntax;
use crate::status::FieldError;

/// The most devices of a slice.
const MAX_DEVICES: usize = 128;

/// The most taints of a device.
const MAX_TAINTS: usize = 16;

/// The most bytes of a text or of a version of an attribute.
const MAX_TEXT: usize = 64;

/// The fields of which one says on which nodes the devices are.
const PLACES: [&str; 4] = [
    "nodeName",
    "nodeSelector",
    "allNodes",
    "perDeviceNodeSelection",
];

pub(super) fn slice(root: At<'_>, faults: &mut Faults) {
    root.inner("spec", |at| {
        driver(at, faults);
        at.inner("pool", |at| {
            pool(at, "name", faults);
            let count = at.number("resourceSliceCount").unwrap_or_default();
            if count <= 0 {
                let why = "must be greater than zero";
                faults.invalid(at.path("resourceSliceCount"), &count.into(), why);
            }
            let generation = at.number("generation").unwrap_or_default();
            if generation < 0 {
                let why = "must be greater than or equal to zero";
                faults.invalid(at.path("generation"), &generation.into(), why);
            }
        });
        place(at, faults);
        set(at, "devices", MAX_DEVICES, "name", faults);
        let is_per_device = at.get("perDeviceNodeSelection").is_some();
        at.each("devices", |at| device(at, is_per_device, faults));
    });
}

/// The nodes on which the devices are.
fn place(at: At<'_>, faults: &mut Faults) {
    faults.follows(at, "nodeName", syntax::subdomain);
    at.inner("nodeSelector", |at| {
        let terms = at.list("nodeSelectorTerms");
        if terms.len() != 1 {
            // The real server shows the fields by their names in Go.
            let terms = terms.iter().map(|term| {
                json!({ "MatchExpressions": term["matchExpressions"], "MatchFields": term["matchFields"] })
            });
            let terms: Vec<_> = terms.collect();
            let why = "must have exactly one node selector term";
            faults.invalid(at.path("nodeSelectorTerms"), &terms.into(), why);
        }
        node_selector(at, faults);
    });
    for field in &PLACES[2..] {
        if let Some(flag) = at.get(field).filter(|flag| **flag == false) {
            let why = "must be either unset or set to true";
            faults.invalid(at.path(field), flag, why);
        }
    }
    let is_set = |field: &&&str| at.get(field).is_some_and(|it| *it != false && *it != "");
    let found = PLACES.iter().filter(is_set).map(|it| format!("`{it}`"));
    let found: Vec<_> = found.collect();
    let why = "exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is \
               required";
    match found.len() {
        0 => faults.required(at.path, why),
        1 => {}
        _ => {
            let found = format!("{{{}}}", found.join(", "));
            let why = format!("{why}, but multiple fields are set");
            faults.invalid(at.path, &found.into(), why);
        }
    }
}

fn device(at: At<'_>, is_per_device: bool, faults: &mut Faults) {
    faults.must_follow(at, "name", syntax::label);
    let path = at.path("attributes");
    for (name, value) in at.map("attributes").into_iter().flatten() {
        qualified(&path, name, faults);
        let path = format!("{path}[{name}]");
        attribute(At { value, path: &path }, faults);
    }
    for (name, _) in at.map("capacity").into_iter().flatten() {
        qualified(&at.path("capacity"), name, faults);
    }
    at_most(at, "taints", MAX_TAINTS, faults);
    at.each("taints", |at| {
        faults.must_follow(at, "key", syntax::qualified_name);
        faults.follows(at, "value", syntax::label_value);
        if faults.needs(at, "effect") {
            faults.one_of(at, "effect", &EFFECTS);
        }
    });
    if !is_per_device && PLACES[..3].iter().any(|field| at.get(field).is_some()) {
        let why = "`nodeName`, `nodeSelector` and `allNodes` can only be set if \
                   `perDeviceNodeSelection` is set to true in the ResourceSlice spec";
        faults.invalid(at.path, &Value::Null, why);
    }
}

/// An attribute of a device, which has one value.
fn attribute(at: At<'_>, faults: &mut Faults) {
    let values = ["int", "bool", "string", "version"];
    let why = "exactly one value must be specified";
    match values.iter().filter(|it| at.get(it).is_some()).count() {
        0 => faults.invalid(at.path, &"".into(), why),
        1 => {}
        _ => faults.invalid(at.path, &Value::Null, why),
    }
    for field in ["string", "version"] {
        if at.text(field).len() > MAX_TEXT {
            faults.add(FieldError::too_long(at.path(field), MAX_TEXT));
        }
    }
    if let Some(version) = at.get("version")
        && !is_semantic(version.as_str().unwrap_or_default())
    {
        let why = "must be a string compatible with semver.org spec 2.0.0";
        faults.invalid(at.path("version"), version, why);
    }
}

/// Whether it has the form of a semantic version: three numbers, then identifiers of the
/// pre-release after `-` and of the build after `+`.
fn is_semantic(text: &str) -> bool {
    let is_number = |text: &str| {
        text.bytes().all(|byte| byte.is_ascii_digit())
            && (text == "0" || !text.is_empty() && !text.starts_with('0'))
    };
    let is_identifier = |text: &str| {
        let is_known = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
        !text.is_empty() && text.bytes().all(is_known)
    };
    let is_build = |text: &str| text.split('.').all(is_identifier);
    let is_release = |text: &str| {
        let is_digits = |it: &str| it.bytes().all(|byte| byte.is_ascii_digit());
        is_build(text) && text.split('.').all(|it| !is_digits(it) || is_number(it))
    };
    let (rest, build) = text
        .split_once('+')
        .map_or((text, None), |(rest, it)| (rest, Some(it)));
    let (core, release) = rest
        .split_once('-')
        .map_or((rest, None), |(core, it)| (core, Some(it)));
    let numbers: Vec<_> = core.split('.').collect();
    numbers.len() == 3
        && numbers.into_iter().all(is_number)
        && build.is_none_or(is_build)
        && release.is_none_or(is_release)
}
