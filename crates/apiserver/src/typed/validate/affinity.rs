//! Node affinity of pods and volumes, and pod affinity.

use serde_json::Value;

use super::{At, Faults, selector};
use crate::metadata::syntax;

const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";

pub(super) fn affinity(at: At<'_>, faults: &mut Faults) {
    at.inner("nodeAffinity", |at| {
        at.inner(REQUIRED, |at| node_selector(at, faults));
        at.each(PREFERRED, |at| {
            weight(at, faults);
            at.inner("preference", |at| term(at, false, faults));
        });
    });
    for field in ["podAffinity", "podAntiAffinity"] {
        at.inner(field, |at| {
            at.each(REQUIRED, |at| pod_term(at, faults));
            at.each(PREFERRED, |at| {
                weight(at, faults);
                at.inner("podAffinityTerm", |at| pod_term(at, faults));
            });
        });
    }
}

/// A node selector. It matches a node if one of its terms matches.
pub(super) fn node_selector(at: At<'_>, faults: &mut Faults) {
    if at.list("nodeSelectorTerms").is_empty() {
        let why = "must have at least one node selector term";
        faults.required(at.path("nodeSelectorTerms"), why);
    }
    at.each("nodeSelectorTerms", |at| term(at, true, faults));
}

/// A term of a node selector. If it is strict, its values must be valid label values.
fn term(at: At<'_>, is_strict: bool, faults: &mut Faults) {
    at.each("matchExpressions", |at| {
        let values = at.list("values");
        if matches!(at.text("operator"), "Gt" | "Lt") {
            if values.len() != 1 {
                let why = "must be specified single value when `operator` is 'Lt' or 'Gt'";
                faults.required(at.path("values"), why);
            }
        } else {
            selector::operator(at, faults);
        }
        faults.qualified(at.path("key"), at.text("key"));
        if is_strict {
            faults.items(at, "values", syntax::label_value);
        }
    });
    at.each("matchFields", |at| {
        if !matches!(at.text("operator"), "In" | "NotIn") {
            let operator = Value::from(at.text("operator"));
            let why = "not a valid selector operator";
            faults.invalid(at.path("operator"), &operator, why);
        } else if at.list("values").len() != 1 {
            let why = "must be only one value when `operator` is 'In' or 'NotIn' for node field \
                       selector";
            faults.required(at.path("values"), why);
        }
        let key = at.text("key");
        if key == "metadata.name" {
            faults.items(at, "values", syntax::subdomain);
        } else {
            let why = "not a valid field selector key";
            faults.invalid(at.path("key"), &key.into(), why);
        }
    });
}

fn weight(at: At<'_>, faults: &mut Faults) {
    let weight = at.number("weight").unwrap_or_default();
    if !(1..=100).contains(&weight) {
        let why = "must be in the range 1-100";
        faults.invalid(at.path("weight"), &weight.into(), why);
    }
}

fn pod_term(at: At<'_>, faults: &mut Faults) {
    for field in ["labelSelector", "namespaceSelector"] {
        at.inner(field, |at| _ = selector::check(at, faults));
    }
    for namespace in at.list("namespaces") {
        let wrong = namespace.as_str().and_then(syntax::label);
        faults.wrong(at.path("namespace"), namespace, wrong);
    }
    let key = at.text("topologyKey");
    if key.is_empty() {
        faults.required(at.path("topologyKey"), "can not be empty");
    }
    faults.qualified(at.path("topologyKey"), key);
}
