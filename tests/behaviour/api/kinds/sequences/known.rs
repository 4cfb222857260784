//! The differences between the servers that random sequences meet, and that `docs/apiserver.md`
//! names.

use serde_json::Value;

/// A rule of the real server that the embedded one lacks or words otherwise.
struct Rule {
    /// What `docs/apiserver.md` calls it.
    name: &'static str,
    /// The kind; empty for any.
    kind: &'static str,
    /// What the refusal of the real server contains.
    refusal: &'static str,
}

const RULES: [Rule; 6] = [
    Rule {
        name: "CEL expressions are not compiled",
        kind: "MutatingAdmissionPolicy",
        refusal: "ERROR: <input>",
    },
    Rule {
        name: "the devices of resource slices are not validated",
        kind: "ResourceSlice",
        refusal: "spec.devices[",
    },
    Rule {
        name: "CEL expressions are not compiled",
        kind: "ValidatingAdmissionPolicy",
        refusal: "must evaluate to bool",
    },
    Rule {
        name: "CEL expressions are not compiled",
        kind: "ValidatingAdmissionPolicy",
        refusal: "compilation failed: ERROR",
    },
    Rule {
        name: "a job is written again by the first update that changes nothing",
        kind: "Job",
        refusal: "the object has been modified",
    },
    Rule {
        name: "a job is written again by the first update that changes nothing",
        kind: "Job",
        refusal: "The object might have been modified",
    },
];

/// The rule by which only one server refuses, or both in other words; nothing if there is none.
pub(super) fn rule(object: &Value, theirs: &Value, _ours: &Value) -> Option<&'static str> {
    let text = theirs.to_string();
    let applies = |rule: &&Rule| {
        (rule.kind.is_empty() || object["kind"] == rule.kind) && text.contains(rule.refusal)
    };
    RULES.iter().find(applies).map(|rule| rule.name)
}

/// Takes the objects out of a message: their members stand in another order, and they have other
/// uids and times.
pub(super) fn hide_objects(status: &mut Value) {
    let Some(Value::String(message)) = status.get_mut("message") else {
        return;
    };
    for (start, end) in [
        ("Invalid value: \"{", "}\": "),
        ("Invalid value: \"map[", "]\": "),
        ("Invalid value: [{", "}]: "),
        ("Invalid value: {", "}: "),
    ] {
        if let (Some(from), Some(to)) = (message.find(start), message.rfind(end))
            && from < to
        {
            message.replace_range(from..to + end.len(), "Invalid value: {}: ");
        }
    }
    for (start, end) in [
        ("in the precondition (", ")"),
        ("in record (", ")"),
        ("must be '", "'"),
    ] {
        if let Some(from) = message.find(start).map(|at| at + start.len())
            && let Some(length) = message[from..].find(end)
        {
            message.replace_range(from..from + length, "*");
        }
    }
    for what in [
        "list element types are not identical: ",
        "expected string, got ",
    ] {
        if let Some(at) = message.find(what) {
            message.truncate(at + what.len());
        }
    }
}
