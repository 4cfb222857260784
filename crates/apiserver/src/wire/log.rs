//! Parses and validates the options of a request for the log of a container. *(pure)*

use super::Query;
use crate::status::{About, FieldError, Status};
use crate::timestamp;

/// The options that limit a log.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct LogOptions {
    /// The maximum number of lines, which are the last ones.
    pub(crate) tail_lines: Option<usize>,
    /// The maximum length in bytes.
    pub(crate) limit_bytes: Option<usize>,
}

// === impl LogOptions ===

impl LogOptions {
    /// Parses the options of a request for the log of the pod `name`.
    ///
    /// # Errors
    ///
    /// 400 if they cannot be parsed, 422 if a value is too small, or if `stream` is set, which the
    /// real server does not support by default.
    pub(crate) fn parse(query: &Query, name: &str) -> Result<Self, Status> {
        let integer = |key: &str| query.integer(key).map_err(Status::bad_request);
        let tail_lines = integer("tailLines")?;
        let limit_bytes = integer("limitBytes")?;
        let since_seconds = integer("sinceSeconds")?;
        let since_time = query.find("sinceTime");
        if let Some(time) = since_time {
            timestamp::seconds(time).map_err(Status::bad_request)?;
        }
        let mut errors = Vec::new();
        let mut check = |field: &str, value: Option<i64>, min: i64, why: &str| {
            if let Some(value) = value.filter(|value| *value < min) {
                errors.push(FieldError::invalid(field, &value.into(), why));
            }
        };
        let why = "must be greater than or equal to 0";
        check("tailLines", tail_lines, 0, why);
        let why = "must be greater than 0";
        check("limitBytes", limit_bytes, 1, why);
        if since_seconds.is_some() && since_time.is_some() {
            let why = "at most one of `sinceTime` or `sinceSeconds` may be specified";
            errors.push(FieldError::forbidden("[]", why));
        } else {
            check("sinceSeconds", since_seconds, 1, why);
        }
        if query.find("stream").is_some() {
            errors.push(FieldError::forbidden("stream", "may not be specified"));
        }
        if !errors.is_empty() {
            let about = About {
                group: "",
                resource: "",
                kind: "PodLogOptions",
                name,
            };
            return Err(Status::invalid(&about, &errors));
        }
        let number = |value: Option<i64>| value.and_then(|value| usize::try_from(value).ok());
        Ok(Self {
            tail_lines: number(tail_lines),
            limit_bytes: number(limit_bytes),
        })
    }
}
