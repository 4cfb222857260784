//! Parses and validates the options of a request. *(pure)*

use std::time::Duration;

use serde_json::{Map, Value};

use super::{FieldOrder, Query};
use crate::metadata::{self, MAX_MANAGER};
use crate::selector::{FieldSelector, LabelSelector};
use crate::status::{FieldError, Status};

#[cfg(test)]
mod tests;

/// The maximum timeout: one year, which can be added to any time without an overflow.
const MAX_TIMEOUT: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// The options of a list or watch.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ListOptions {
    pub(crate) label_selector: String,
    pub(crate) field_selector: String,
    /// The maximum number of objects; 0 means that there is no limit.
    pub(crate) limit: usize,
    pub(crate) continue_token: String,
    pub(crate) resource_version: String,
    pub(crate) version_match: Option<VersionMatch>,
    pub(crate) watch: bool,
    pub(crate) bookmarks: bool,
    pub(crate) timeout: Option<Duration>,
    pub(crate) send_initial_events: Option<bool>,
}

/// The value of `resourceVersionMatch`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum VersionMatch {
    /// Exactly this version.
    Exact,
    /// This version or a newer one.
    NotOlderThan,
}

/// The options of a create, update or patch.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct WriteOptions {
    /// Whether the request is a dry run, which stores nothing.
    pub(crate) dry_run: bool,
    /// The handling of fields that the schema does not define.
    pub(crate) unknown_fields: UnknownFields,
    /// The messages about duplicate fields of the body, which are handled like unknown fields.
    pub(crate) duplicates: Vec<String>,
    /// The order of the messages about fields of the body.
    pub(crate) field_order: FieldOrder,
    /// The field manager; empty if the request has none.
    pub(crate) manager: String,
    /// Whether the request is a server-side apply.
    pub(crate) is_apply: bool,
    /// Whether an apply overrides conflicts with other field managers.
    pub(crate) force: bool,
    /// The user of the request as fields of an object, for the kinds that store it.
    pub(crate) user: Map<String, Value>,
}

/// The type of a write, which decides the allowed options.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WriteKind {
    Create,
    Update,
    /// A patch other than server-side apply.
    Patch,
    /// Server-side apply, which requires a field manager and allows `force`.
    Apply,
}

/// The handling of fields that the schema does not define. They are dropped in each case.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum UnknownFields {
    /// They are not reported.
    Ignore,
    /// The response has a warning.
    #[default]
    Warn,
    /// The object is rejected.
    Refuse,
    /// They are not reported, and neither is `null`, because the apply has checked the fields.
    Applied,
}

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

// === impl ListOptions ===

impl ListOptions {
    /// Parses the options of a list or watch.
    ///
    /// # Errors
    ///
    /// 400 if they cannot be parsed, 422 if their combination is invalid.
    pub(crate) fn parse(query: &Query) -> Result<Self, Status> {
        let integer = |key: &str| query.integer(key).map_err(Status::bad_request);
        // A negative limit has no effect, like zero. A negative timeout ends a watch at once.
        // They are decoded in the order of the fields in Go.
        let timeout = integer("timeoutSeconds")?.filter(|seconds| *seconds != 0);
        let timeout = timeout.map(|seconds| {
            Duration::from_secs(u64::try_from(seconds).unwrap_or_default()).min(MAX_TIMEOUT)
        });
        let limit = integer("limit")?.and_then(|limit| usize::try_from(limit).ok());
        let limit = limit.unwrap_or_default();
        // The syntax of selectors is checked before the other options.
        LabelSelector::parse(query.get("labelSelector"))
            .map_err(|error| Status::bad_request(error.to_string()))?;
        FieldSelector::check(query.get("fieldSelector"))
            .map_err(|error| Status::bad_request(error.to_string()))?;
        let watch = query.flag("watch").unwrap_or(false);
        let resource_version = query.get("resourceVersion").to_owned();
        let send_initial_events = query.flag("sendInitialEvents");
        let wanted_match = query.get("resourceVersionMatch");
        let version_match = match wanted_match {
            "Exact" => Some(VersionMatch::Exact),
            "NotOlderThan" => Some(VersionMatch::NotOlderThan),
            _ => None,
        };
        let options = Self {
            label_selector: query.get("labelSelector").to_owned(),
            field_selector: query.get("fieldSelector").to_owned(),
            limit,
            continue_token: query.get("continue").to_owned(),
            resource_version,
            version_match,
            watch,
            bookmarks: query.flag("allowWatchBookmarks").unwrap_or(false),
            timeout,
            send_initial_events,
        };
        let contradictions = options.contradictions(wanted_match);
        if contradictions.is_empty() {
            Ok(options)
        } else {
            Err(Status::invalid_options("ListOptions", &contradictions))
        }
    }

    /// The errors of `resourceVersionMatch`, which is `wanted`, and `sendInitialEvents`, in the order
    /// of Kubernetes.
    fn contradictions(&self, wanted: &str) -> Vec<FieldError> {
        const MATCH: &str = "resourceVersionMatch";
        let mut errors = Vec::new();
        let mut check = |is_wrong: bool, error: &dyn Fn() -> FieldError| {
            if is_wrong {
                errors.push(error());
            }
        };
        let forbidden = |detail: &'static str| move || FieldError::forbidden(MATCH, detail);
        let is_set = !wanted.is_empty();
        let is_exact = self.version_match == Some(VersionMatch::Exact);
        let continues = is_set && !self.continue_token.is_empty();
        let continues_error =
            forbidden("resourceVersionMatch is forbidden when continue is provided");
        if self.watch {
            let is_other = self.version_match != Some(VersionMatch::NotOlderThan);
            let has_initial = self.send_initial_events.is_some();
            check(
                has_initial && is_other,
                &forbidden(
                    "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan",
                ),
            );
            check(
                is_set && !has_initial,
                &forbidden(
                    "resourceVersionMatch is forbidden for watch unless sendInitialEvents is \
                     provided",
                ),
            );
            check(is_set && is_other, &|| {
                FieldError::not_supported(MATCH, &wanted.into(), ["NotOlderThan"])
            });
            check(continues, &continues_error);
        } else {
            check(
                is_set && self.resource_version.is_empty(),
                &forbidden("resourceVersionMatch is forbidden unless resourceVersion is provided"),
            );
            check(continues, &continues_error);
            check(is_set && self.version_match.is_none(), &|| {
                FieldError::not_supported(MATCH, &wanted.into(), ["Exact", "NotOlderThan", ""])
            });
            check(
                is_exact && self.resource_version == "0",
                &forbidden("resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\""),
            );
            check(self.send_initial_events.is_some(), &|| {
                let detail = "sendInitialEvents is forbidden for list";
                FieldError::forbidden("sendInitialEvents", detail)
            });
        }
        errors
    }
}

// === impl WriteOptions ===

impl WriteOptions {
    /// Rejects a configuration with duplicate fields, if the client requests it.
    ///
    /// # Errors
    ///
    /// 400 with the fields.
    pub(crate) fn check_duplicates(&self) -> Result<(), Status> {
        if self.unknown_fields == UnknownFields::Refuse && !self.duplicates.is_empty() {
            return Err(Status::bad_request(format!(
                "error strict decoding YAML: error converting YAML to JSON: {}",
                self.duplicates.join(", ")
            )));
        }
        Ok(())
    }

    /// Parses the options of a write. The default field manager is the first part of `user_agent`.
    ///
    /// # Errors
    ///
    /// 422 for an unsupported value, and for an apply without a field manager.
    pub(crate) fn parse(query: &Query, kind: WriteKind, user_agent: &str) -> Result<Self, Status> {
        let mut errors = Vec::new();
        let manager = query.get("fieldManager");
        let force = query.flag("force");
        if kind == WriteKind::Apply && manager.is_empty() {
            let why = "is required for apply patch";
            errors.push(FieldError::required("fieldManager", why));
        }
        if kind == WriteKind::Patch && force.is_some() {
            errors.push(FieldError::forbidden(
                "force",
                "may not be specified for non-apply patch",
            ));
        }
        errors.extend(metadata::field_manager(manager, "fieldManager"));
        let dry_run = dry_run(query.all("dryRun"), &mut errors);
        let validation = query.get("fieldValidation");
        let known = ["", "Ignore", "Strict", "Warn"];
        if !known.contains(&validation) {
            errors.push(FieldError::not_supported(
                "fieldValidation",
                &validation.into(),
                known,
            ));
        }
        let unknown_fields = match validation {
            "Ignore" => UnknownFields::Ignore,
            "Strict" => UnknownFields::Refuse,
            _ => UnknownFields::Warn,
        };
        if errors.is_empty() {
            Ok(Self {
                dry_run,
                unknown_fields,
                duplicates: Vec::new(),
                field_order: FieldOrder::default(),
                manager: if manager.is_empty() {
                    manager_of_agent(user_agent)
                } else {
                    manager.to_owned()
                },
                user: Map::new(),
                is_apply: kind == WriteKind::Apply,
                force: force.unwrap_or(false),
            })
        } else {
            Err(Status::invalid_options(kind.options(), &errors))
        }
    }
}

// === impl WriteKind ===

impl WriteKind {
    /// Returns the kind of the options, such as `PatchOptions`.
    const fn options(self) -> &'static str {
        match self {
            Self::Create => "CreateOptions",
            Self::Update => "UpdateOptions",
            Self::Patch | Self::Apply => "PatchOptions",
        }
    }
}

/// Returns the default field manager of a client: the text before the first slash of `User-Agent`.
fn manager_of_agent(user_agent: &str) -> String {
    let mut manager = String::new();
    let name = user_agent.split('/').next().unwrap_or_default();
    for c in name.chars().filter(|c| !c.is_control()) {
        if manager.len() + c.len_utf8() > MAX_MANAGER {
            break;
        }
        manager.push(c);
    }
    manager
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

/// Returns whether the values of `dryRun` request a dry run.
fn dry_run(values: &[String], errors: &mut Vec<FieldError>) -> bool {
    if values.iter().any(|value| value != "All") {
        let error = FieldError::not_supported("dryRun", &values.into(), ["All"]);
        errors.push(error);
    }
    !values.is_empty()
}

/// Parses the resourceVersion of a get or list; `None` if it is empty.
///
/// # Errors
///
/// 400 if it is not a number.
pub(crate) fn read_version(text: &str) -> Result<Option<u64>, Status> {
    resource_version(text).map_err(|why| {
        Status::bad_request(format!(
            "invalid resource version: resourceVersion: Invalid value: {text:?}: {why}"
        ))
    })
}

/// Parses a resourceVersion; `None` if it is empty.
///
/// # Errors
///
/// A message if it is not a number. The caller adds the code, which depends on the request.
pub(crate) fn resource_version(text: &str) -> Result<Option<u64>, String> {
    match text {
        "" => Ok(None),
        text => {
            let digits = text.bytes().all(|byte| byte.is_ascii_digit());
            let version = digits.then(|| text.parse().ok());
            let why = match version {
                Some(Some(version)) => return Ok(Some(version)),
                Some(None) => "value out of range",
                None => "invalid syntax",
            };
            Err(format!("strconv.ParseUint: parsing {text:?}: {why}"))
        }
    }
}
