//! The rules of `x-kubernetes-validations`: their form, and the syntax of their CEL expressions.
//!
//! Rules are not evaluated, and their types are not checked.
//!
//! Source: apiextensions-apiserver `pkg/apis/apiextensions/validation/validation.go`, Kubernetes 1.36.

use std::collections::HashMap;
use std::thread;

use serde_json::Value;

use super::{Limits, keywords::Keywords, value_path::ValuePath};
use crate::status::FieldError;

/// The longest expression, in bytes. The longest ones in published definitions have a few hundred.
const MAX_LENGTH: usize = 16 << 10;

/// The length of all expressions of a definition together, in bytes. Parsing the slowest ones takes some
/// seconds without optimizations, and less than a second with them.
pub(super) const MAX_TOTAL: usize = 256 << 10;

/// The stack of the thread that parses expressions: the parser calls itself for each level of an
/// expression. The deepest expressions of `MAX_LENGTH` bytes need a quarter of it without optimizations.
const STACK: usize = 64 << 20;

/// The longest description of the errors of one expression, in bytes.
const MAX_DESCRIPTION: usize = 1 << 10;

const REASONS: [&str; 4] = [
    "FieldValueDuplicate",
    "FieldValueForbidden",
    "FieldValueInvalid",
    "FieldValueRequired",
];

const KEYWORD: &str = "x-kubernetes-validations";

/// A rule whose form is correct and whose expressions are to be parsed.
#[derive(Debug)]
pub(super) struct RuleText {
    path: String,
    whole: Value,
    rule: String,
    message: Option<String>,
}

/// Checks the form of the rules of one schema, and returns the rules to parse.
pub(super) fn check(
    words: &Keywords<'_>,
    at: &ValuePath<'_>,
    schema: &Value,
    faults: &mut Vec<FieldError>,
) -> Vec<RuleText> {
    let all = at.child(KEYWORD);
    let rules = words.list(KEYWORD, faults);
    let mut texts = Vec::new();
    for (i, whole) in rules.iter().enumerate() {
        let at = all.index(i);
        let Value::Object(members) = whole else {
            let why = "must be a schema object";
            faults.push(FieldError::invalid(at.to_string(), whole, why));
            continue;
        };
        let mut text = |field: &str| match members.get(field) {
            None | Some(Value::Null) => None,
            Some(Value::String(text)) => Some(text.as_str()),
            Some(other) => {
                let path = at.child(field).to_string();
                faults.push(FieldError::invalid(path, other, "must be a string"));
                None
            }
        };
        let rule = text("rule").unwrap_or_default();
        let message = text("message").unwrap_or_default();
        let expression = text("messageExpression").unwrap_or_default();
        let (reason, field) = (text("reason"), text("fieldPath").unwrap_or_default());
        check_message(rule, message, &at, faults);
        if is_blank(expression) {
            let why = "messageExpression must be non-empty if specified";
            let path = at.child("messageExpression").to_string();
            faults.push(FieldError::required(path, why));
        }
        if let Some(reason) = reason.filter(|reason| !REASONS.contains(reason)) {
            let path = at.child("reason").to_string();
            faults.push(FieldError::not_supported(path, &reason.into(), REASONS));
        }
        let mut wrong = |why: &str| {
            let path = at.child("fieldPath").to_string();
            faults.push(FieldError::invalid(path, &field.into(), why));
        };
        if is_blank(field) {
            wrong("must be non-empty if specified");
        }
        if field.contains(['\n', '\r']) {
            wrong("must not contain line breaks");
        }
        if !field.is_empty() && !is_field(field, schema) {
            wrong("must be a valid path");
        }
        texts.push(RuleText {
            path: at.to_string(),
            whole: whole.clone(),
            rule: rule.to_owned(),
            message: (!expression.is_empty()).then(|| expression.to_owned()),
        });
    }
    texts
}

/// Returns the syntax errors of `rules`, which a thread with a sufficient stack parses.
pub(super) fn parse(rules: &[RuleText], limits: &mut Limits) -> Vec<FieldError> {
    if rules.is_empty() {
        return Vec::new();
    }
    let first = rules.first().map_or("", |rule| &rule.path);
    let failed = |why: String| vec![FieldError::invalid(first, &Value::Null, why)];
    thread::scope(|scope| {
        let parser = thread::Builder::new()
            .name("windlass-apiserver-cel".to_owned())
            .stack_size(STACK);
        match parser.spawn_scoped(scope, || parse_here(rules, limits)) {
            Ok(thread) => match thread.join() {
                Ok(faults) => faults,
                Err(_) => failed("compilation failed: the parser of CEL failed".to_owned()),
            },
            Err(error) => failed(format!("cannot start a thread to parse CEL: {error}")),
        }
    })
}

fn parse_here(rules: &[RuleText], limits: &mut Limits) -> Vec<FieldError> {
    // Definitions repeat rules in each version.
    let mut known = HashMap::new();
    let mut faults = Vec::new();
    for rule in rules {
        let mut check = |field: &str, prefix: &str, text: &str| {
            let errors = known
                .entry(text.to_owned())
                .or_insert_with(|| syntax_errors(text, limits));
            let Some(errors) = errors else { return true };
            faults.push(FieldError::invalid(
                format!("{}.{field}", rule.path),
                &rule.whole,
                format!("{prefix}compilation failed: {errors}"),
            ));
            false
        };
        if let (true, Some(message)) = (check("rule", "", &rule.rule), &rule.message) {
            check("messageExpression", "messageExpression ", message);
        }
    }
    faults
}

/// Returns the description of the errors of one expression.
fn syntax_errors(text: &str, limits: &mut Limits) -> Option<String> {
    if text.len() > MAX_LENGTH {
        return Some(format!("an expression may have at most {MAX_LENGTH} bytes"));
    }
    let Some(left) = limits.expressions.checked_sub(text.len()) else {
        return Some(format!(
            "the expressions of a definition may have at most {MAX_TOTAL} bytes in total"
        ));
    };
    limits.expressions = left;
    let parser = cel::parser::Parser::new().enable_optional_syntax(true);
    let errors = parser.parse(text).err()?.errors;
    let mut description = String::new();
    for error in errors {
        let error = error.to_string();
        if description.is_empty() {
            description = error.chars().take(MAX_DESCRIPTION).collect();
        } else if description.len() + error.len() <= MAX_DESCRIPTION {
            description = format!("{description}\n{error}");
        }
    }
    Some(description)
}

fn check_message(rule: &str, message: &str, at: &ValuePath<'_>, faults: &mut Vec<FieldError>) {
    let path = at.child("message").to_string();
    let [trimmed_rule, trimmed] = [rule.trim(), message.trim()];
    let has_breaks = |text: &str| text.contains(['\n', '\r']);
    if trimmed_rule.is_empty() {
        let path = at.child("rule").to_string();
        faults.push(FieldError::required(path, "rule is not specified"));
    } else if is_blank(message) {
        let why = "must be non-empty if specified";
        faults.push(FieldError::invalid(path, &message.into(), why));
    } else if has_breaks(trimmed) {
        let why = "must not contain line breaks";
        faults.push(FieldError::invalid(path, &message.into(), why));
    } else if has_breaks(trimmed_rule) && trimmed.is_empty() {
        let why = "message must be specified if rule contains line breaks";
        faults.push(FieldError::required(path, why));
    }
}

/// Returns whether a text is specified, but has only spaces.
fn is_blank(text: &str) -> bool {
    !text.is_empty() && text.trim().is_empty()
}

/// Returns whether `path`, such as `.spec.ports['http']`, is the path of a field of `schema`.
fn is_field(path: &str, schema: &Value) -> bool {
    let mut schema = schema;
    let mut rest = path;
    while !rest.is_empty() {
        let name;
        if let Some(after) = rest.strip_prefix("['") {
            let Some(end) = end_of_quoted(after) else {
                return false;
            };
            let Some(unescaped) = unescape(&after[..end]) else {
                return false;
            };
            name = unescaped;
            match after[end + 1..].strip_prefix(']') {
                Some(after) => rest = after,
                None => return false,
            }
        } else if let Some(after) = rest.strip_prefix('.') {
            let end = after.find(['.', '[', ']']).unwrap_or(after.len());
            name = after[..end].to_owned();
            rest = &after[end..];
        } else {
            return false;
        }
        let below = match schema.get("properties") {
            Some(fields) => fields.get(&name),
            None => schema.get("additionalProperties"),
        };
        match below {
            Some(below) => schema = below,
            None => return false,
        }
    }
    true
}

/// Returns the end of a text that is quoted with `'`.
fn end_of_quoted(text: &str) -> Option<usize> {
    let bytes = text.as_bytes();
    (0..bytes.len()).find(|&at| bytes[at] == b'\'' && (at == 0 || bytes[at - 1] != b'\\'))
}

fn unescape(text: &str) -> Option<String> {
    let mut unescaped = String::new();
    let mut letters = text.chars();
    while let Some(letter) = letters.next() {
        unescaped.push(match letter {
            '\\' => match letters.next()? {
                'a' => '\u{7}',
                'b' => '\u{8}',
                'f' => '\u{c}',
                'n' => '\n',
                'r' => '\r',
                't' => '\t',
                'v' => '\u{b}',
                same @ ('\'' | '\\') => same,
                _ => return None,
            },
            other => other,
        });
    }
    Some(unescaped)
}
