//! The JSON of a status, with the members in the order of Go.

use serde_json::Value;

use super::Status;

impl Status {
    /// Returns the `Status` object in JSON, with the members in the order of Go's type.
    pub(crate) fn to_json(&self) -> String {
        let value = self.to_value();
        let members = [
            "kind",
            "apiVersion",
            "metadata",
            "status",
            "message",
            "reason",
            "details",
            "code",
        ];
        let mut json = String::from("{");
        for name in members {
            let Some(member) = value.get(name) else {
                continue;
            };
            let text = match name {
                "details" => details_json(member),
                _ => member.to_string(),
            };
            push_member(&mut json, name, &text);
        }
        json.push('}');
        json
    }
}

/// Returns the details of a `Status` in JSON, in the order of Go's type.
fn details_json(details: &Value) -> String {
    let mut json = String::from("{");
    for name in [
        "name",
        "group",
        "kind",
        "uid",
        "causes",
        "retryAfterSeconds",
    ] {
        let Some(member) = details.get(name) else {
            continue;
        };
        let text = match member.as_array() {
            Some(causes) => {
                let causes: Vec<_> = causes.iter().map(cause_json).collect();
                format!("[{}]", causes.join(","))
            }
            None => member.to_string(),
        };
        push_member(&mut json, name, &text);
    }
    json.push('}');
    json
}

fn cause_json(cause: &Value) -> String {
    let mut json = String::from("{");
    for name in ["reason", "message", "field"] {
        if let Some(member) = cause.get(name) {
            push_member(&mut json, name, &member.to_string());
        }
    }
    json.push('}');
    json
}

fn push_member(json: &mut String, name: &str, value: &str) {
    if !json.ends_with('{') {
        json.push(',');
    }
    json.push('"');
    json.push_str(name);
    json.push_str("\":");
    json.push_str(value);
}
