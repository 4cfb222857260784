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
    /// What the answer of the embedded server contains.
    here: &'static str,
}

const RULES: [Rule; 18] = [
    Rule {
        name: "CEL expressions are not compiled",
        kind: "MutatingAdmissionPolicy",
        refusal: "ERROR: <input>",
        here: "",
    },
    Rule {
        name: "CEL expressions are not compiled",
        kind: "MutatingAdmissionPolicy",
        refusal: "must evaluate to list(JSONPatch)",
        here: "",
    },
    Rule {
        name: "the devices of resource slices are not validated",
        kind: "ResourceSlice",
        refusal: "spec.devices[",
        here: "",
    },
    Rule {
        name: "CEL expressions are not compiled",
        kind: "ValidatingAdmissionPolicy",
        refusal: "must evaluate to bool",
        here: "",
    },
    Rule {
        name: "CEL expressions are not compiled",
        kind: "ValidatingAdmissionPolicy",
        refusal: "compilation failed: ERROR",
        here: "",
    },
    Rule {
        name: "a job is written again by the first update that changes nothing",
        kind: "Job",
        refusal: "the object has been modified",
        here: "",
    },
    Rule {
        name: "a job is written again by the first update that changes nothing",
        kind: "Job",
        refusal: "The object might have been modified",
        here: "",
    },
    Rule {
        name: "an update of `/status` does not create a service",
        kind: "Service",
        refusal: "",
        here: "\"reason\":\"NotFound\"",
    },
    Rule {
        name: "an apply to `/status` does not create a policy",
        kind: "ValidatingAdmissionPolicy",
        refusal: "",
        here: "\"reason\":\"NotFound\"",
    },
    Rule {
        name: "messages of Go's parsers",
        kind: "",
        refusal: "\"field\":\"patch\"",
        here: "json: cannot unmarshal ",
    },
    Rule {
        name: "the numbers at the scale paths of a custom resource are not validated",
        kind: "Widget",
        refusal: "should be a non-negative integer",
        here: "",
    },
    Rule {
        name: "the numbers at the scale paths of a custom resource are not validated",
        kind: "Widget",
        refusal: "should be less than or equal to 2147483647",
        here: "",
    },
    Rule {
        name: "the numbers at the scale paths of a custom resource are not validated",
        kind: "Widget",
        refusal: " accessor error: ",
        here: "",
    },
    Rule {
        name: "the order of managers in a conflict",
        kind: "",
        refusal: "Apply failed with",
        here: "with subresource",
    },
    Rule {
        name: "the order of managers in a conflict",
        kind: "",
        refusal: "with subresource",
        here: "Apply failed with",
    },
    Rule {
        name: "a strategic merge patch with a number that is too large",
        kind: "",
        refusal: "\"code\":200",
        here: "cannot unmarshal number 4294967296",
    },
    Rule {
        name: "a strategic merge patch with a number that is too large",
        kind: "ReplicationController",
        refusal: "cannot be greater than status.replicas",
        here: "cannot unmarshal number 4294967296",
    },
    Rule {
        name: "a job is written again by the first update that changes nothing",
        kind: "Job",
        refusal: "&watch=true",
        here: "&watch=true",
    },
];

/// The rule by which only one server refuses, or both in other words; nothing if there is none.
pub(super) fn rule(object: &Value, theirs: &Value, ours: &Value) -> Option<&'static str> {
    let (text, here) = (theirs.to_string(), ours.to_string());
    let applies = |rule: &&Rule| {
        (rule.kind.is_empty() || object["kind"] == rule.kind)
            && text.contains(rule.refusal)
            && here.contains(rule.here)
    };
    RULES.iter().find(applies).map(|rule| rule.name)
}

/// Takes the objects out of a message: their members stand in another order, and they have other
/// uids and times.
pub(in super::super) fn hide_objects(status: &mut Value) {
    let Some(Value::String(message)) = status.get_mut("message") else {
        return;
    };
    // An empty list has several forms.
    *message = message.replace("Invalid value: []: ", "Invalid value: {}: ");
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
