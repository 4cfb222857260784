//! Validation of values against a node.
//!
//! Kubernetes validates with kube-openapi, which makes every check that applies to the type of the
//! *value*, whichever type the schema requires. If no clause of an `anyOf` or `oneOf` is satisfied,
//! it reports the errors of the clause with the most checks. Both are reproduced, because clients
//! read the messages.
//!
//! Source: kube-openapi `pkg/validation/validate` and apiextensions-apiserver
//! `pkg/apiserver/validation/validation.go`, Kubernetes 1.36.

use std::cell::Cell;
use std::collections::HashSet;

use serde_json::Value;

use super::{
    node::{Node, Types},
    number,
    value_path::ValuePath,
};
use crate::status::FieldError;

mod constraints;
mod fit;
mod old;

use self::constraints::MAX_MATCHING;

use fit::wrong_type;

/// Returns all violations of `node` in `value`.
///
/// `field` is the path of the value; empty for a complete object.
///
/// A part of the value that is equal to the same part of `old` is allowed ("ratcheting").
pub(super) fn validate(
    node: &Node,
    value: &Value,
    field: &str,
    old: Option<&Value>,
) -> Vec<FieldError> {
    let matching = Cell::new(Some(MAX_MATCHING));
    let validation = Validation {
        field,
        matching: &matching,
        old,
    };
    let faults = validation.value(node, value, &ValuePath::root("")).faults;
    if matching.get().is_some() {
        return faults;
    }
    // The result of the other checks is unknown: a clause may depend on the skipped patterns.
    let why = "the texts of the object are too long for the patterns of its CustomResourceDefinition; \
               use shorter texts, smaller patterns, or maxLength";
    let field = if field.is_empty() { "<nil>" } else { field };
    vec![FieldError::forbidden(field, why)]
}

/// The validation of one value at all levels.
#[derive(Clone, Copy, Debug)]
struct Validation<'a> {
    field: &'a str,

    /// The cost of matching that is left. `None` after a match that was too expensive.
    matching: &'a Cell<Option<u64>>,

    /// The old value at the same path, whose violations are allowed if it has not changed.
    old: Option<&'a Value>,
}

/// The errors and the number of checks.
#[derive(Debug, Default)]
struct Report {
    faults: Vec<FieldError>,

    /// The same errors, to detect duplicates.
    seen: HashSet<FieldError>,

    /// The length of the messages, in bytes.
    bytes: usize,

    /// The number of checks, by which clauses are compared.
    checks: usize,
}

// === impl Report ===

impl Report {
    /// The length of the texts of all faults, in bytes, after which no more are added. A
    /// fault contains the pattern or all allowed values of the schema, so that a definition of 1 MB
    /// and a list of 100,000 values could otherwise take 100 GB.
    const MAX_BYTES: usize = 16 * 1024 * 1024;

    /// Adds `fault`, unless it has been added before.
    fn add(&mut self, fault: FieldError) {
        if !self.is_full() && self.seen.insert(fault.clone()) {
            self.bytes = self
                .bytes
                .saturating_add(fault.path.len() + fault.detail.len());
            self.faults.push(fault);
        }
    }

    const fn is_full(&self) -> bool {
        self.bytes > Self::MAX_BYTES
    }

    fn merge(&mut self, other: Self) {
        self.checks += other.checks;
        if self.faults.is_empty() {
            (self.faults, self.seen, self.bytes) = (other.faults, other.seen, other.bytes);
            return;
        }
        for fault in other.faults {
            self.add(fault);
        }
    }

    fn is_valid(&self) -> bool {
        self.faults.is_empty()
    }
}

// === impl Validation ===

impl<'a> Validation<'a> {
    /// Returns the path of an error: `name` below the path of the value.
    fn path(self, name: &ValuePath<'_>) -> String {
        match (self.field, name.to_string()) {
            ("", name) => name,
            (field, name) if name.is_empty() => field.to_owned(),
            (field, name) => format!("{field}.{name}"),
        }
    }

    fn invalid(
        self,
        at: &ValuePath<'_>,
        value: &Value,
        rule: impl std::fmt::Display,
    ) -> FieldError {
        let why = format!("{at} in body {rule}");
        match value.as_f64().filter(|_| value.is_f64()) {
            // Go prints a whole float like an integer.
            Some(float) if float.fract() == 0.0 && number::is_integer(float) => {
                FieldError::invalid(self.path(at), &number::cut(float).into(), why)
            }
            _ => FieldError::invalid(self.path(at), value, why),
        }
    }

    /// Validates a value. An unchanged value may violate the schema.
    fn value(self, node: &Node, value: &Value, at: &ValuePath<'_>) -> Report {
        let report = self.check(node, value, at);
        if !report.is_valid() && self.old == Some(value) {
            return Report {
                checks: report.checks,
                ..Report::default()
            };
        }
        report
    }

    /// Returns the validation of a part, with its old value.
    fn below(self, old: Option<&'a Value>) -> Self {
        Self { old, ..self }
    }

    fn check(self, node: &Node, value: &Value, at: &ValuePath<'_>) -> Report {
        let mut report = Report::default();
        self.types(node, value, at, &mut report);
        if value.is_null() {
            self.one_of_values(node, value, at, &mut report);
            return report;
        }
        // Below a clause, unchanged parts must not violate it.
        report.merge(self.below(None).clauses(node, value, at));
        report.checks += 1;
        match value {
            Value::String(text) => self.string(node, text, value, at, &mut report),
            Value::Number(number) => self.number(node, number, value, at, &mut report),
            Value::Array(elements) => self.array(node, elements, at, &mut report),
            Value::Null | Value::Bool(_) | Value::Object(_) => {}
        }
        self.one_of_values(node, value, at, &mut report);
        report.checks += 1;
        if let Value::Object(fields) = value {
            self.object(node, fields, at, &mut report);
        }
        report.checks += 1;
        report
    }

    fn types(self, node: &Node, value: &Value, at: &ValuePath<'_>, report: &mut Report) {
        let format = node.rules.format.as_ref();
        if node.types == Types::Any && format.is_none() {
            return;
        }
        let wrong = wrong_type(node, format, value);
        report.checks += usize::from(wrong.is_none());
        report.checks += usize::from(!value.is_null());
        if let Some((wanted, found)) = wrong {
            let why = format!("{at} in body must be of type {wanted}: \"{found}\"");
            report.add(FieldError::type_invalid(self.path(at), &found.into(), why));
        }
    }

    fn one_of_values(self, node: &Node, value: &Value, at: &ValuePath<'_>, report: &mut Report) {
        let allowed = &node.rules.one_of_values;
        // Kubernetes does not compare `null`, not even with `null`.
        let is_same = |allowed: &Value| match (allowed, value) {
            (Value::Null, _) | (_, Value::Null) => false,
            (Value::Number(a), Value::Number(b)) => a == b || a.as_f64() == b.as_f64(),
            (allowed, value) => allowed == value,
        };
        if allowed.is_empty() || allowed.iter().any(is_same) {
            return;
        }
        let texts = allowed.iter().map(|value| match value {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        });
        report.add(FieldError::not_supported(self.path(at), value, texts));
    }

    /// Checks `anyOf`, `oneOf`, `allOf` and `not`.
    fn clauses(self, node: &Node, value: &Value, at: &ValuePath<'_>) -> Report {
        let mut report = Report {
            checks: 1,
            ..Report::default()
        };
        let rules = &node.rules;
        if !rules.any_of.is_empty() {
            let (valid, best) = self.choose(&rules.any_of, value, at, true);
            if valid == 0 {
                let rule = "must validate at least one schema (anyOf)";
                report.add(untyped(&format!("\"{at}\" {rule}")));
            }
            report.merge(best);
        }
        if !rules.one_of.is_empty() {
            let (valid, best) = self.choose(&rules.one_of, value, at, false);
            if valid != 1 {
                let found = match valid {
                    0 => "Found none valid".to_owned(),
                    many => format!("Found {many} valid alternatives"),
                };
                let rule = "must validate one and only one schema (oneOf).";
                report.add(untyped(&format!("\"{at}\" {rule} {found}")));
            }
            if valid <= 1 {
                report.merge(best);
            }
        }
        let mut valid = 0;
        for clause in &rules.all_of {
            let clause = self.value(clause, value, at);
            valid += usize::from(clause.is_valid());
            report.merge(clause);
        }
        if valid != rules.all_of.len() {
            let all_failed = if valid == 0 { ". None validated" } else { "" };
            report.add(untyped(&format!(
                "\"{at}\" must validate all the schemas (allOf){all_failed}"
            )));
        }
        if let Some(not) = &rules.not
            && self.value(not, value, at).is_valid()
        {
            report.add(untyped(&format!(
                "\"{at}\" must not validate the schema (not)"
            )));
        }
        report
    }

    /// Returns the number of satisfied clauses, and the report of the first satisfied one, or else of
    /// the violated one with the most checks.
    fn choose(
        self,
        clauses: &[Node],
        value: &Value,
        at: &ValuePath<'_>,
        first_is_enough: bool,
    ) -> (usize, Report) {
        let mut valid = 0;
        let mut best: Option<Report> = None;
        for clause in clauses {
            let report = self.value(clause, value, at);
            if report.is_valid() {
                valid += 1;
                if valid == 1 {
                    best = Some(report);
                }
                if first_is_enough {
                    break;
                }
            } else if valid == 0 && best.as_ref().is_none_or(|best| report.checks > best.checks) {
                best = Some(report);
            }
        }
        (valid, best.unwrap_or_default())
    }
}

/// Returns an error that Kubernetes reports without a path; only its message names the field.
fn untyped(why: &str) -> FieldError {
    FieldError::invalid("<nil>", &"".into(), why)
}
