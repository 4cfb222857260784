//! The conditions of a certificate signing request: which subresource may change which, and their times.
//!
//! Source: `pkg/registry/certificates` and `pkg/apis/certificates/validation` of Kubernetes 1.36.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::status::FieldError;
use crate::typed;

/// The conditions that only `/approval` adds.
const DECISIONS: [&str; 2] = ["Approved", "Denied"];

/// Copies the decisions from the old object, which a write to the status cannot change, and sets
/// the times of new conditions.
pub(super) fn prepare(before: &Value, object: &mut Value, is_approval: bool, now: &str) {
    let old = conditions(before).to_vec();
    let Some(new) = object
        .pointer_mut("/status/conditions")
        .and_then(Value::as_array_mut)
    else {
        return;
    };
    for decision in DECISIONS.iter().filter(|_| !is_approval) {
        let kept: Vec<_> = of_type(&old, decision).cloned().collect();
        let places = new.iter_mut().filter(|it| it["type"] == *decision);
        let places: Vec<_> = places.collect();
        if places.len() == kept.len() {
            places
                .into_iter()
                .zip(kept)
                .for_each(|(to, from)| *to = from);
        }
    }
    for condition in new {
        if condition.get("lastUpdateTime").is_none_or(Value::is_null) {
            condition["lastUpdateTime"] = now.into();
        }
        if condition
            .get("lastTransitionTime")
            .is_none_or(Value::is_null)
        {
            let same = |it: &&Value| {
                it["type"] == condition["type"] && it["status"] == condition["status"]
            };
            let before = old
                .iter()
                .find(same)
                .map(|it| it["lastTransitionTime"].clone());
            condition["lastTransitionTime"] = before.unwrap_or_else(|| json!(now));
        }
    }
}

/// Returns the errors of the conditions and the certificate of a request.
pub(in crate::cluster) fn check(
    before: &Value,
    object: &Value,
    is_approval: bool,
) -> Vec<FieldError> {
    const PATH: &str = "status.conditions";
    let (old, new) = (conditions(before), conditions(object));
    let mut errors = Vec::new();
    let mut decided = None;
    let mut seen = BTreeSet::new();
    for (at, condition) in new.iter().enumerate() {
        let kind = condition["type"].as_str().unwrap_or_default();
        if kind.is_empty() {
            errors.push(FieldError::required(format!("{PATH}[{at}].type"), ""));
        }
        let status = condition["status"].as_str().unwrap_or_default();
        let is_final = ["Approved", "Denied", "Failed"].contains(&kind);
        let allowed: &[&str] = if is_final {
            &["True"]
        } else {
            &["False", "True", "Unknown"]
        };
        let path = format!("{PATH}[{at}].status");
        if status.is_empty() {
            errors.push(FieldError::required(path, ""));
        } else if !allowed.contains(&status) {
            errors.push(FieldError::not_supported(path, &status.into(), allowed));
        }
        if DECISIONS.contains(&kind) {
            if decided.is_some_and(|other| other != kind) {
                let why = "Approved and Denied conditions are mutually exclusive";
                errors.push(FieldError::invalid(PATH, &kind.into(), why));
            }
            decided = Some(kind);
        }
        if !seen.insert(kind) {
            let path = format!("{PATH}[{at}].type");
            errors.push(FieldError::duplicate(path, &kind.into()));
        }
    }
    let certificate = |object: &Value| object.pointer("/status/certificate").cloned();
    let (old_certificate, certificate) = (certificate(before), certificate(object));
    let is_new = old_certificate != certificate;
    if let Some(why) = typed::invalid_certificate(certificate.as_ref()).filter(|_| is_new) {
        let path = "status.certificate";
        errors.push(FieldError::invalid(path, &"<certificate data>".into(), why));
    }
    let count = |list: &[Value], kind: &str| of_type(list, kind).count();
    for kind in ["Approved", "Denied", "Failed"] {
        if count(new, kind) < count(old, kind) {
            let why = format!("updates may not remove a condition of type {kind:?}");
            errors.push(FieldError::forbidden(PATH, why));
        }
    }
    for kind in DECISIONS.iter().filter(|_| !is_approval) {
        if count(new, kind) > count(old, kind) {
            let why = format!("updates may not add a condition of type {kind:?}");
            errors.push(FieldError::forbidden(PATH, why));
        }
    }
    if is_new && old_certificate.is_some_and(|old| old.as_str() != Some("")) {
        let why = "updates may not modify existing certificate content";
        errors.push(FieldError::forbidden("status.certificate", why));
    }
    errors
}

fn conditions(object: &Value) -> &[Value] {
    let list = object.pointer("/status/conditions");
    list.and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

fn of_type<'a>(list: &'a [Value], kind: &str) -> impl Iterator<Item = &'a Value> {
    list.iter().filter(move |it| it["type"] == kind)
}
