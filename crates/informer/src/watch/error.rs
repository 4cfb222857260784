//! Errors of a watch.

use std::{error::Error, fmt, sync::Arc, time::Duration};

use crate::{api_request::ServerStatus, message::one_line};

mod cause;

pub use self::cause::WatchErrorCause;

/// Why a list or a watch failed.
///
/// None of these errors ends a [`ListWatch`](crate::ListWatch): it reports the error, waits, and
/// retries. The cause is outside of the process (a role binding, a CRD, a restart of the API
/// server), and a proxy may return any of these errors by mistake.
///
/// The message has what failed and what to do; the [`source`](std::error::Error::source), if there
/// is one, has the underlying error. Text of the server is cut to one line of at most 300
/// characters.
///
/// # Example
///
/// ```
/// use std::time::Duration;
///
/// use windlass_informer::{Verb, WatchError, WatchErrorCause};
///
/// let limit = Duration::from_secs(30);
/// let error = WatchError::new("pods", Verb::Watch, WatchErrorCause::Silent { limit });
/// assert_eq!(error.reason(), "silent");
/// assert_eq!(
///     error.to_string(),
///     "cannot watch pods: timed out after 30s without data from the server"
/// );
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub struct WatchError {
    /// The kind, as `plural.group`.
    pub resource: Arc<str>,
    /// The request that failed.
    pub verb: Verb,
    /// Why it failed.
    pub cause: WatchErrorCause,
}

/// A part of the message of an API server that has not reached the requested version.
const TOO_LARGE: &str = "Too large resource version";

/// The request that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Verb {
    /// A list, or one page of it.
    List,
    /// A watch.
    Watch,
}

// === impl WatchError ===

impl WatchError {
    /// Creates the error of a request for `resource`, as `plural.group`.
    pub fn new(resource: impl Into<Arc<str>>, verb: Verb, cause: WatchErrorCause) -> Self {
        Self {
            resource: resource.into(),
            verb,
            cause,
        }
    }

    /// The value of the metric label `reason`. It never changes.
    #[must_use]
    pub const fn reason(&self) -> &'static str {
        match self.cause {
            WatchErrorCause::Connection { .. } => "connection",
            WatchErrorCause::Silent { .. } => "silent",
            WatchErrorCause::Overdue { .. } => "overdue",
            WatchErrorCause::Unauthenticated { .. } => "unauthenticated",
            WatchErrorCause::Forbidden { .. } => "forbidden",
            WatchErrorCause::NotKubernetes { .. } => "not_kubernetes",
            WatchErrorCause::UnknownKind | WatchErrorCause::OtherPlural { .. } => "unknown_kind",
            WatchErrorCause::NotWatchable => "not_watchable",
            WatchErrorCause::Invalid { .. } => "invalid",
            WatchErrorCause::Expired { .. } => "expired",
            WatchErrorCause::Throttled { .. } => "throttled",
            WatchErrorCause::Server { .. } => "server",
            WatchErrorCause::Malformed { .. } => "malformed",
            WatchErrorCause::TooLong { .. } => "too_long",
            WatchErrorCause::Inconsistent { .. } => "inconsistent",
        }
    }

    /// The minimum wait before the retry, if the API server demands one.
    #[must_use]
    pub(crate) const fn retry_after(&self) -> Option<Duration> {
        match self.cause {
            WatchErrorCause::Throttled { retry_after }
            | WatchErrorCause::Server { retry_after, .. } => retry_after,
            _ => None,
        }
    }

    /// Whether the API server has not reached the requested version.
    pub(crate) fn is_from_the_future(&self) -> bool {
        matches!(
            &self.cause,
            WatchErrorCause::Server { code: 504, message, .. } if message.contains(TOO_LARGE)
        )
    }

    /// The error for a response that is not a success.
    pub(crate) fn from_status(resource: &Arc<str>, verb: Verb, status: ServerStatus) -> Self {
        let ServerStatus {
            code,
            reason,
            message,
            retry_after,
            ..
        } = status;
        // That of a 422 is kept: the request contains no object, only the selectors of the
        // operator, and the message says what is wrong with them.
        let message = match code {
            500.. if message.contains(TOO_LARGE) => TOO_LARGE,
            500.. => &reason,
            _ => &message,
        };
        let message = one_line(message).into_owned();
        let cause = match (code, reason.as_str()) {
            (410, _) | (_, "Expired" | "Gone") => WatchErrorCause::Expired { message },
            (401, _) => WatchErrorCause::Unauthenticated { message },
            (403, _) => WatchErrorCause::Forbidden { message },
            (404, _) => WatchErrorCause::UnknownKind,
            (405, _) if verb == Verb::Watch => WatchErrorCause::NotWatchable,
            (400 | 422, _) => WatchErrorCause::Invalid { message },
            (429, _) => WatchErrorCause::Throttled { retry_after },
            _ => WatchErrorCause::Server {
                code,
                message,
                retry_after,
            },
        };
        Self::new(Arc::clone(resource), verb, cause)
    }
}

impl fmt::Display for WatchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            resource,
            verb,
            cause,
        } = self;
        write!(f, "cannot {verb} {resource}: {cause}")?;
        if let WatchErrorCause::Forbidden { .. } = cause {
            write!(f, " on {resource}")?;
        }
        Ok(())
    }
}

impl Error for WatchError {
    /// The source of the cause: the message has the cause.
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.cause.source()
    }
}

impl fmt::Display for Verb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::List => "list",
            Self::Watch => "watch",
        })
    }
}

#[cfg(test)]
mod tests {
    use std::{sync::Arc, time::Duration};

    use super::{Verb, WatchError};
    use crate::api_request::ServerStatus;

    #[test]
    fn each_expired_error_is_detected() {
        for (code, body) in [
            (410, ""),
            (200, r#"{"kind":"Status","code":410,"reason":"Expired"}"#),
            (200, r#"{"kind":"Status","reason":"Gone"}"#),
        ] {
            let status = ServerStatus::read(code, body.as_bytes(), None);
            let error = WatchError::from_status(&Arc::from("pods"), Verb::Watch, status);
            assert_eq!(error.reason(), "expired", "{code} {body}");
        }
    }

    #[test]
    fn each_status_that_refuses_a_request_has_its_error() {
        for (code, reason) in [
            (400, "invalid"),
            (401, "unauthenticated"),
            (403, "forbidden"),
            (404, "unknown_kind"),
            (422, "invalid"),
            (429, "throttled"),
        ] {
            let status = ServerStatus::read(code, b"", None);
            let error = WatchError::from_status(&Arc::from("pods"), Verb::List, status);
            assert_eq!(error.reason(), reason, "{code}");
        }
    }

    #[test]
    fn the_retry_delay_is_read_from_header_and_body() {
        let body = br#"{"kind":"Status","code":429,"details":{"retryAfterSeconds":7}}"#;
        for (body, header, expected) in [
            (&body[..], None, Some(7)),
            (&b"Too many requests"[..], Some(3), Some(3)),
            (&b"Too many requests"[..], None, None),
        ] {
            let status = ServerStatus::read(429, body, header.map(Duration::from_secs));
            let error = WatchError::from_status(&Arc::from("pods"), Verb::List, status);
            assert_eq!(error.retry_after(), expected.map(Duration::from_secs));
        }
    }

    #[test]
    fn server_errors_are_displayed_with_their_reason_and_without_their_message() {
        for (body, shown) in [
            (
                &br#"{"code":500,"reason":"InternalError","message":"canary"}"#[..],
                "500 (InternalError)",
            ),
            (br#"{"code":503,"message":"canary"}"#, "503"),
            (b"<html>canary", "502"),
            (
                br#"{"code":504,"message":"Timeout: Too large resource version: 7, canary"}"#,
                "504 (Too large resource version)",
            ),
        ] {
            let status = ServerStatus::read(502, body, None);
            let error = WatchError::from_status(&Arc::from("pods"), Verb::List, status);
            let shown = format!("cannot list pods: the API server answered {shown}");
            assert_eq!(error.to_string(), shown);
            assert_eq!(error.is_from_the_future(), shown.contains("504"));
        }
    }

    #[test]
    fn messages_contain_advice_and_have_a_bounded_length() {
        let status = ServerStatus {
            code: 403,
            message: "x\n".repeat(10_000),
            ..ServerStatus::default()
        };
        let error = WatchError::from_status(&Arc::from("pods"), Verb::List, status).to_string();
        assert!(!error.contains('\n'), "{error}");
        assert!(
            error.contains("must grant `list` and `watch` on pods"),
            "{error}"
        );
        assert!(error.len() < 1000);
    }
}
