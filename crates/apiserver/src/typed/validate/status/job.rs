//! The status of a job.
//!
//! Most rules only apply if the write changes one of the fields that they concern: objects that an
//! older server stored remain writable.

use serde_json::{Value, json};

use super::super::{At, Faults};
use super::conditions::is_true;
use super::indexes;
use crate::status::{FieldError, FieldErrorKind};

/// The old and the new status of a job.
struct Change<'a> {
    job: &'a Value,
    old: At<'a>,
    new: At<'a>,
}

pub(super) fn status(before: &Value, after: &Value, old: At<'_>, new: At<'_>, faults: &mut Faults) {
    let change = Change {
        job: after,
        old,
        new,
    };
    let counts = ["active", "succeeded", "failed", "ready", "terminating"];
    faults.not_negative(new, &counts);
    uncounted(new, faults);
    change.times_and_conditions(faults);
    change.end(faults);
    change.indexes(faults);
    change.pods(faults);
    change.history(before, faults);
}

/// The pods that are not counted yet: none is empty, and none is there twice.
fn uncounted(at: At<'_>, faults: &mut Faults) {
    let mut seen = Vec::new();
    at.inner("uncountedTerminatedPods", |at| {
        for field in ["succeeded", "failed"] {
            for (number, uid) in at.list(field).iter().enumerate() {
                let path = format!("{}[{number}]", at.path(field));
                if uid == "" {
                    faults.invalid(path, uid, "must not be empty");
                } else if seen.contains(&uid.clone()) {
                    faults.add(FieldError::duplicate(path, uid));
                } else {
                    seen.push(uid.clone());
                }
            }
        }
    });
}

// === impl Change ===

impl Change<'_> {
    fn has(&self, name: &str) -> bool {
        is_true(self.new, name)
    }

    fn had(&self, name: &str) -> bool {
        is_true(self.old, name)
    }

    /// Whether one of these conditions became true or false.
    fn turned(&self, names: &[&str]) -> bool {
        names.iter().any(|name| self.has(name) != self.had(name))
    }

    /// Whether the value of one of these fields is another one than before.
    fn changed(&self, fields: &[&str]) -> bool {
        let mut fields = fields.iter();
        fields.any(|field| self.old.get(field) != self.new.get(field))
    }

    fn is_finished(&self) -> bool {
        self.has("Complete") || self.has("Failed")
    }

    fn finishes(&self) -> bool {
        self.is_finished() != (self.had("Complete") || self.had("Failed"))
    }

    /// An error of the conditions, which shows no value.
    fn wrong_conditions(&self, why: &str, faults: &mut Faults) {
        faults.add(FieldError {
            path: self.new.path("conditions"),
            kind: FieldErrorKind::Invalid {
                value: String::new(),
            },
            detail: why.to_owned(),
        });
    }

    fn times_and_conditions(&self, faults: &mut Faults) {
        let pairs = [
            ("Failed", "Failed=true conditions"),
            ("FailureTarget", "FailureTarget=true conditions"),
        ];
        for (other, name) in pairs {
            if self.turned(&["Complete", other]) && self.has("Complete") && self.has(other) {
                let why = format!("cannot set Complete=True and {name}");
                self.wrong_conditions(&why, faults);
            }
        }
        let field = "completionTime";
        let (path, time) = (self.new.path(field), self.new.get(field));
        if self.turned(&["Complete"]) || self.changed(&[field]) {
            match time {
                Some(time) if !self.has("Complete") => {
                    let why = "cannot set completionTime when there is no Complete=True condition";
                    faults.invalid(path.as_str(), time, why);
                }
                None if self.has("Complete") => {
                    faults.required(
                        path.as_str(),
                        "completionTime is required for Complete jobs",
                    );
                }
                _ => {}
            }
        }
        // Times in this form have the order of their texts.
        let start = self.new.text("startTime");
        if let Some(time) = time.filter(|_| self.changed(&[field, "startTime"]))
            && !start.is_empty()
            && time.as_str() < Some(start)
        {
            faults.invalid(path, time, "must be equal to or after `startTime`");
        }
        let causes = [
            ("Failed", "FailureTarget"),
            ("Complete", "SuccessCriteriaMet"),
        ];
        for (end, cause) in causes {
            if self.turned(&[end, cause]) && self.has(end) && !self.has(cause) {
                let why =
                    format!("cannot set {end}=True condition without the {cause}=true condition");
                self.wrong_conditions(&why, faults);
            }
        }
    }

    /// What a finished job may not have.
    fn end(&self, faults: &mut Faults) {
        if !self.is_finished() {
            return;
        }
        let is_new = |field: &str| self.finishes() || self.changed(&[field]);
        let above_zero = |field: &str, faults: &mut Faults| {
            let number = self.new.number(field).unwrap_or_default();
            if is_new(field) && number > 0 {
                let why = format!("{field}>0 is invalid for finished job");
                faults.invalid(self.new.path(field), &number.into(), why);
            }
        };
        above_zero("active", faults);
        let spec = &self.job["spec"];
        let never_starts = spec["suspend"] == true && spec["completions"] == 0;
        if is_new("startTime") && !never_starts && self.new.get("startTime").is_none() {
            let why = "startTime is required for finished job";
            faults.required(self.new.path("startTime"), why);
        }
        let field = "uncountedTerminatedPods";
        if let Some(pods) = self.new.get(field).filter(|_| is_new(field)) {
            let list = |name: &str| pods.get(name).cloned().unwrap_or_default();
            let value = json!({ "Succeeded": list("succeeded"), "Failed": list("failed") });
            let why = "must be empty for finished job";
            if !value
                .as_object()
                .is_some_and(|it| it.values().all(Value::is_null))
            {
                faults.invalid(self.new.path(field), &value, why);
            }
        }
        above_zero("terminating", faults);
    }

    fn indexes(&self, faults: &mut Faults) {
        let spec = &self.job["spec"];
        let count = spec["completions"].as_i64();
        let has_limit = !spec["backoffLimitPerIndex"].is_null();
        let fields = ["completedIndexes", "failedIndexes"];
        let text = |field: &str| self.new.text(field);
        for (field, is_parsed) in fields.into_iter().zip([true, has_limit]) {
            if let Some(count) = count
                && is_parsed
                && self.changed(&[field])
                && let Err(why) = indexes::parse(text(field), count)
            {
                let why = format!("error parsing {field}: {why}");
                faults.invalid(self.new.path(field), &text(field).into(), why);
            }
        }
        let is_indexed = spec["completionMode"] == "Indexed";
        if !is_indexed && self.changed(&fields[..1]) && !text(fields[0]).is_empty() {
            let why = "cannot set non-empty completedIndexes when non-indexed completion mode";
            faults.invalid(self.new.path(fields[0]), &text(fields[0]).into(), why);
        }
        let path = self.new.path("failedIndexes");
        if let Some(failed) = self.new.get("failedIndexes") {
            if !has_limit && self.changed(&fields[1..]) {
                let why = "cannot set non-null failedIndexes when backoffLimitPerIndex is null";
                faults.invalid(path.as_str(), failed, why);
            }
            let shared =
                count.and_then(|it| indexes::overlap(text(fields[0]), text(fields[1]), it));
            if let Some(shared) = shared.filter(|_| self.changed(&fields)) {
                let why = format!("failedIndexes and completedIndexes overlap at index: {shared}");
                faults.invalid(path, failed, why);
            }
        }
    }

    fn pods(&self, faults: &mut Faults) {
        let criteria = "SuccessCriteriaMet";
        for (other, name) in [
            ("Failed", "Failed=true"),
            ("FailureTarget", "FailureTarget=true"),
        ] {
            if self.has(criteria) && self.has(other) {
                let why = format!("cannot set {criteria}=True and {name} conditions");
                self.wrong_conditions(&why, faults);
            }
        }
        let number = |field: &str| self.new.number(field).unwrap_or_default();
        if self.changed(&["ready", "active"]) && number("ready") > number("active") {
            let why = "cannot set more ready pods than active";
            faults.invalid(self.new.path("ready"), &number("ready").into(), why);
        }
    }

    /// What may not be undone.
    fn history(&self, before: &Value, faults: &mut Faults) {
        for name in ["Failed", "Complete", "FailureTarget"] {
            if self.had(name) && !self.has(name) {
                let why = format!("cannot disable the terminal {name}=True condition");
                self.wrong_conditions(&why, faults);
            }
        }
        let spec = &self.job["spec"];
        let is_scaled =
            spec["completionMode"] == "Indexed" && spec["completions"] == spec["parallelism"];
        for (field, is_fixed) in [("failed", true), ("succeeded", !is_scaled)] {
            let number = |at: At<'_>| at.number(field).unwrap_or_default();
            if is_fixed && number(self.new) < number(self.old) {
                let why = format!("cannot decrease the {field} counter");
                faults.invalid(self.new.path(field), &number(self.new).into(), why);
            }
        }
        let value = |field: &str| self.new.get(field).cloned().unwrap_or_default();
        let was_set = |field: &str| self.old.get(field).is_some() && self.changed(&[field]);
        if was_set("completionTime") && self.new.get("completionTime").is_some() {
            let why = "field is immutable";
            faults.invalid(
                self.new.path("completionTime"),
                &value("completionTime"),
                why,
            );
        }
        if was_set("startTime") && before["spec"]["suspend"] != true {
            let why = "field is immutable for unsuspended job once set";
            faults.invalid(self.new.path("startTime"), &value("startTime"), why);
        }
        let name = "SuccessCriteriaMet";
        if self.had(name) && !self.has(name) {
            let why = format!("cannot disable the {name}=True condition");
            self.wrong_conditions(&why, faults);
        }
    }
}
