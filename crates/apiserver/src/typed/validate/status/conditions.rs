//! Conditions.

use serde_json::Value;

use super::super::{At, Faults};
use crate::metadata::syntax;
use crate::status::FieldError;

/// Checks conditions of the type that all kinds can use.
pub(super) fn check(at: At<'_>, faults: &mut Faults) {
    let mut seen = Vec::new();
    at.each("conditions", |at| {
        let name = at.text("type");
        if seen.contains(&name.to_owned()) {
            faults.add(FieldError::duplicate(at.path("type"), &name.into()));
        }
        seen.push(name.to_owned());
        faults.must_follow(at, "type", syntax::qualified_name);
        let (status, known) = (at.text("status"), ["False", "True", "Unknown"]);
        if !known.contains(&status) {
            let path = at.path("status");
            faults.add(FieldError::not_supported(path, &status.into(), known));
        }
        if let Some(number) = at.number("observedGeneration").filter(|it| *it < 0) {
            let why = "must be greater than or equal to zero";
            faults.invalid(at.path("observedGeneration"), &number.into(), why);
        }
        faults.needs(at, "lastTransitionTime");
        faults.needs_valid(at, "reason", reason);
        for (field, most) in [("reason", 1024), ("message", 32 * 1024)] {
            if at.text(field).len() > most {
                faults.add(FieldError::too_long(at.path(field), most));
            }
        }
    });
}

/// The reason of a condition.
fn reason(text: &str) -> Option<String> {
    let is_word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    let bytes = text.as_bytes();
    let is_valid = bytes.first().is_some_and(u8::is_ascii_alphabetic)
        && bytes.last().is_some_and(|byte| is_word(*byte))
        && bytes
            .iter()
            .all(|byte| is_word(*byte) || b",:".contains(byte));
    (!is_valid).then(|| {
        "a condition reason must start with alphabetic character, optionally followed by a string \
         of alphanumeric characters or '_,:', and must end with an alphanumeric character or '_' \
         (e.g. 'my_name',  or 'MY_NAME',  or 'MyName',  or 'ReasonA,ReasonB',  or \
         'ReasonA:ReasonB', regex used for validation is \
         '[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?')"
            .to_owned()
    })
}

/// Checks that each condition has a type of its own.
pub(super) fn types(at: At<'_>, faults: &mut Faults) {
    let conditions = at.list("conditions");
    let name = |condition: &Value| condition["type"].as_str().unwrap_or_default().to_owned();
    for (number, condition) in conditions.iter().enumerate() {
        let path = format!("{}[{number}].type", at.path("conditions"));
        let own = name(condition);
        if conditions[..number].iter().any(|it| name(it) == own) {
            let value = own.as_str().into();
            faults.add(FieldError::duplicate(path.as_str(), &value));
        }
        if own.is_empty() {
            faults.required(path, "");
        }
    }
}

/// Whether a status has a condition of this type that is true.
pub(super) fn is_true(at: At<'_>, name: &str) -> bool {
    let mut conditions = at.list("conditions").iter();
    conditions.any(|it| it["type"] == name && it["status"] == "True")
}
