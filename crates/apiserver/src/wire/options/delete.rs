//! The options of deletions.

use serde_json::Value;

use super::super::Query;
use super::dry_run;
use crate::status::{FieldError, Status};

/// The options of a deletion.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct DeleteOptions {
    /// Whether the request is a dry run, which deletes nothing.
    pub(crate) dry_run: bool,
    /// The precondition on the uid.
    pub(crate) uid: Option<String>,
    /// The precondition on the resourceVersion.
    pub(crate) resource_version: Option<String>,
    /// The grace period of a pod in seconds, if the request has one.
    pub(crate) grace: Option<i64>,
    /// The propagation policy, if the request has one.
    pub(crate) propagation: Option<Propagation>,
    /// Whether the deprecated option `orphanDependents` requests the deletion of dependents. The
    /// response then has another code if the deletion has to wait.
    pub(crate) is_legacy_delete: bool,
}

/// The effect of a deletion on the dependents of the object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Propagation {
    /// The dependents are deleted after the object.
    Background,
    /// Dependents with `blockOwnerDeletion` are deleted before the object.
    Foreground,
    /// The dependents remain, without an owner reference to the object.
    Orphan,
}

// === impl DeleteOptions ===

impl DeleteOptions {
    /// Parses the options of a deletion from the body or, if it is empty, from the query.
    ///
    /// # Errors
    ///
    /// 400 if they cannot be parsed, 422 if their combination is invalid.
    pub(crate) fn parse(query: &Query, body: Option<&Value>) -> Result<Self, Status> {
        let mut errors = Vec::new();
        let policy = match body {
            Some(body) => body.get("propagationPolicy").and_then(Value::as_str),
            None => query.find("propagationPolicy"),
        };
        let orphan = match body {
            Some(body) => body.get("orphanDependents").and_then(Value::as_bool),
            None => query.flag("orphanDependents"),
        };
        let grace = match body {
            Some(body) => body.get("gracePeriodSeconds").and_then(Value::as_i64),
            None => query
                .integer("gracePeriodSeconds")
                .map_err(Status::bad_request)?,
        };
        let propagation = match (policy, orphan) {
            (Some("Orphan"), _) | (_, Some(true)) => Some(Propagation::Orphan),
            (Some("Foreground"), _) => Some(Propagation::Foreground),
            (Some("Background"), _) | (_, Some(false)) => Some(Propagation::Background),
            _ => None,
        };
        let known = ["Foreground", "Background", "Orphan"];
        if let Some(policy) = policy {
            if orphan.is_some() {
                errors.push(FieldError::invalid(
                    "propagationPolicy",
                    &policy.into(),
                    "orphanDependents and deletionPropagation cannot be both set",
                ));
            }
            if !known.contains(&policy) {
                errors.push(FieldError::not_supported(
                    "propagationPolicy",
                    &policy.into(),
                    // As on the real server, which also names the absence of a policy.
                    known.into_iter().chain(["nil"]),
                ));
            }
        }
        let dry_run = match body {
            Some(body) => {
                let values = body.get("dryRun").and_then(Value::as_array);
                let values = values.into_iter().flatten().filter_map(Value::as_str);
                let values: Vec<_> = values.map(str::to_owned).collect();
                dry_run(&values, &mut errors)
            }
            None => dry_run(query.all("dryRun"), &mut errors),
        };
        if !errors.is_empty() {
            return Err(Status::invalid_options("DeleteOptions", &errors));
        }
        let precondition = |key: &str| {
            let value = match body {
                Some(body) => body.pointer("/preconditions")?.get(key)?.as_str(),
                None => query.find(key).filter(|value| !value.is_empty()),
            };
            value.map(str::to_owned)
        };
        Ok(Self {
            dry_run,
            uid: precondition("uid"),
            resource_version: precondition("resourceVersion"),
            grace,
            propagation,
            is_legacy_delete: orphan == Some(false),
        })
    }
}
