//! Parses and validates the options of a request. *(pure)*

use std::time::Duration;

use super::Query;
use crate::selector::{FieldSelector, LabelSelector};
use crate::status::{FieldError, Status};

mod delete;
mod write;

#[cfg(test)]
mod tests;

pub(crate) use self::delete::{DeleteOptions, Propagation};
pub(crate) use self::write::{UnknownFields, WriteKind, WriteOptions};

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
