//! Errors of a watch.

use std::{fmt, sync::Arc, time::Duration};

use super::one_line;
use crate::{DecodeError, api_request::ServerStatus};

/// Why a list or a watch failed.
///
/// None of these errors ends a [`ListWatch`](crate::ListWatch): it reports the error, waits, and
/// retries. The cause is outside of the process (a role binding, a CRD, a restart of the API
/// server), and a proxy may return any of these errors by mistake.
///
/// The message has what failed and what to do; the [`source`](std::error::Error::source), if there
/// is one, has the cause. Text of the server is cut to one line of at most 300 characters.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WatchError {
    /// The API server could not be reached, or the connection broke.
    #[error("cannot {verb} {resource}: cannot reach the API server, or the connection broke")]
    Connection {
        /// The kind, as `plural.group`.
        resource: Arc<str>,
        /// The request that failed.
        verb: Verb,
        /// The error of the connection.
        source: Box<kube::Error>,
    },

    /// Nothing was received for the timeout: no byte of a list, or no event and no bookmark of a
    /// watch.
    #[error("cannot {verb} {resource}: timed out after {limit:?} without data from the server")]
    Silent {
        /// The kind, as `plural.group`.
        resource: Arc<str>,
        /// The request that failed.
        verb: Verb,
        /// The timeout.
        limit: Duration,
    },

    /// A list made progress but was not complete within the timeout.
    #[error(
        "cannot {verb} {resource}: timed out after {limit:?} before the list was complete; use smaller pages (`page_size`) or a longer timeout (`list_timeout`)"
    )]
    Overdue {
        /// The kind, as `plural.group`.
        resource: Arc<str>,
        /// The request that failed.
        verb: Verb,
        /// The timeout.
        limit: Duration,
    },

    /// The credentials are invalid (`401`).
    #[error(
        "cannot {verb} {resource}: not authenticated ({message}); check the credentials of the kubeconfig or the service account"
    )]
    Unauthenticated {
        /// The kind, as `plural.group`.
        resource: Arc<str>,
        /// The request that failed.
        verb: Verb,
        /// The message of the API server.
        message: String,
    },

    /// The credentials lack a permission (`403`).
    #[error(
        "cannot {verb} {resource}: forbidden ({message}); a Role or ClusterRole must grant `list` and `watch` on {resource}"
    )]
    Forbidden {
        /// The kind, as `plural.group`.
        resource: Arc<str>,
        /// The request that failed.
        verb: Verb,
        /// The message of the API server.
        message: String,
    },

    /// The API server does not know the kind (`404`).
    #[error(
        "cannot {verb} {resource}: the API server does not serve this kind; install its CustomResourceDefinition, or check group and version"
    )]
    UnknownKind {
        /// The kind, as `plural.group`.
        resource: Arc<str>,
        /// The request that failed.
        verb: Verb,
    },

    /// The request is rejected (`400`, `422`), usually because of a selector. Retried, because a
    /// proxy may return this by mistake.
    #[error(
        "cannot {verb} {resource}: the API server rejected the request ({message}); check the label and field selectors"
    )]
    Invalid {
        /// The kind, as `plural.group`.
        resource: Arc<str>,
        /// The request that failed.
        verb: Verb,
        /// The message of the API server.
        message: String,
    },

    /// The version is older than the history of the API server (`410`).
    #[error("cannot {verb} {resource}: the resource version has expired ({message})")]
    Expired {
        /// The kind, as `plural.group`.
        resource: Arc<str>,
        /// The request that failed.
        verb: Verb,
        /// The message of the API server.
        message: String,
    },

    /// The API server throttles requests (`429`).
    #[error("cannot {verb} {resource}: the API server throttles requests")]
    Throttled {
        /// The kind, as `plural.group`.
        resource: Arc<str>,
        /// The request that failed.
        verb: Verb,
        /// The minimum wait, if the API server demands one.
        retry_after: Option<Duration>,
    },

    /// Any other response that is not a success.
    #[error(
        "cannot {verb} {resource}: the API server answered {code}{}",
        in_brackets(message)
    )]
    Server {
        /// The kind, as `plural.group`.
        resource: Arc<str>,
        /// The request that failed.
        verb: Verb,
        /// The HTTP status, or the code of an error event.
        code: u16,
        /// The message of the API server. Of a 5xx only the reason, because the message may
        /// describe a crash or quote an object.
        message: String,
        /// The minimum wait, if the API server demands one.
        retry_after: Option<Duration>,
    },

    /// The response is not as the Kubernetes API specifies.
    #[error("cannot {verb} {resource}: the response is malformed")]
    Malformed {
        /// The kind, as `plural.group`.
        resource: Arc<str>,
        /// The request that failed.
        verb: Verb,
        /// Why it does not decode.
        source: DecodeError,
    },

    /// An object or line is longer than the limit.
    #[error(
        "cannot {verb} {resource}: an object or line is longer than {limit} bytes; raise the limit with `max_bytes`"
    )]
    TooLong {
        /// The kind, as `plural.group`.
        resource: Arc<str>,
        /// The request that failed.
        verb: Verb,
        /// The limit in bytes.
        limit: usize,
    },

    /// A list contradicts itself, or is older than an earlier one.
    #[error("cannot {verb} {resource}: the list is rejected: {why}")]
    Inconsistent {
        /// The kind, as `plural.group`.
        resource: Arc<str>,
        /// The request that failed.
        verb: Verb,
        /// In which way.
        why: String,
    },
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
    /// The value of the metric label `reason`. It never changes.
    #[must_use]
    pub const fn reason(&self) -> &'static str {
        match self {
            Self::Connection { .. } => "connection",
            Self::Silent { .. } => "silent",
            Self::Overdue { .. } => "overdue",
            Self::Unauthenticated { .. } => "unauthenticated",
            Self::Forbidden { .. } => "forbidden",
            Self::UnknownKind { .. } => "unknown_kind",
            Self::Invalid { .. } => "invalid",
            Self::Expired { .. } => "expired",
            Self::Throttled { .. } => "throttled",
            Self::Server { .. } => "server",
            Self::Malformed { .. } => "malformed",
            Self::TooLong { .. } => "too_long",
            Self::Inconsistent { .. } => "inconsistent",
        }
    }

    /// The minimum wait before the retry, if the API server demands one.
    #[must_use]
    pub const fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Throttled { retry_after, .. } | Self::Server { retry_after, .. } => *retry_after,
            _ => None,
        }
    }

    /// Whether the API server has not reached the requested version.
    pub(crate) fn is_from_the_future(&self) -> bool {
        matches!(self, Self::Server { code: 504, message, .. } if message.contains(TOO_LARGE))
    }

    /// The error for a response that is not a success.
    pub(crate) fn from_status(resource: &Arc<str>, verb: Verb, answer: ServerStatus) -> Self {
        let resource = Arc::clone(resource);
        let ServerStatus {
            code,
            reason,
            message,
            retry_after,
            ..
        } = answer;
        // That of a 422 is kept: the request contains no object, only the selectors of the
        // operator, and the message says what is wrong with them.
        let message = match code {
            500.. if message.contains(TOO_LARGE) => TOO_LARGE,
            500.. => &reason,
            _ => &message,
        };
        let message = one_line(message).into_owned();
        match (code, reason.as_str()) {
            (410, _) | (_, "Expired" | "Gone") => Self::Expired {
                resource,
                verb,
                message,
            },
            (401, _) => Self::Unauthenticated {
                resource,
                verb,
                message,
            },
            (403, _) => Self::Forbidden {
                resource,
                verb,
                message,
            },
            (404, _) => Self::UnknownKind { resource, verb },
            (400 | 422, _) => Self::Invalid {
                resource,
                verb,
                message,
            },
            (429, _) => Self::Throttled {
                resource,
                verb,
                retry_after,
            },
            _ => Self::Server {
                resource,
                verb,
                code,
                message,
                retry_after,
            },
        }
    }
}

/// `text` in brackets, after a space. Nothing if it is empty.
fn in_brackets(text: &str) -> String {
    if text.is_empty() {
        String::new()
    } else {
        format!(" ({text})")
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
    fn each_way_to_say_that_history_is_gone_is_understood() {
        for (code, body) in [
            (410, ""),
            (200, r#"{"kind":"Status","code":410,"reason":"Expired"}"#),
            (200, r#"{"kind":"Status","reason":"Gone"}"#),
        ] {
            let answer = ServerStatus::read(code, body.as_bytes(), None);
            let error = WatchError::from_status(&Arc::from("pods"), Verb::Watch, answer);
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
            let answer = ServerStatus::read(code, b"", None);
            let error = WatchError::from_status(&Arc::from("pods"), Verb::List, answer);
            assert_eq!(error.reason(), reason, "{code}");
        }
    }

    #[test]
    fn the_wait_that_a_server_asks_for_is_found_in_header_and_body() {
        let body = br#"{"kind":"Status","code":429,"details":{"retryAfterSeconds":7}}"#;
        for (body, header, expected) in [
            (&body[..], None, Some(7)),
            (&b"Too many requests"[..], Some(3), Some(3)),
            (&b"Too many requests"[..], None, None),
        ] {
            let answer = ServerStatus::read(429, body, header.map(Duration::from_secs));
            let error = WatchError::from_status(&Arc::from("pods"), Verb::List, answer);
            assert_eq!(error.retry_after(), expected.map(Duration::from_secs));
        }
    }

    #[test]
    fn of_a_failure_of_the_server_the_reason_is_shown_and_not_the_message() {
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
            let answer = ServerStatus::read(502, body, None);
            let error = WatchError::from_status(&Arc::from("pods"), Verb::List, answer);
            let shown = format!("cannot list pods: the API server answered {shown}");
            assert_eq!(error.to_string(), shown);
            assert_eq!(error.is_from_the_future(), shown.contains("504"));
        }
    }

    #[test]
    fn a_message_says_what_to_do_and_has_an_end() {
        let answer = ServerStatus {
            code: 403,
            message: "x\n".repeat(10_000),
            ..ServerStatus::default()
        };
        let error = WatchError::from_status(&Arc::from("pods"), Verb::List, answer).to_string();
        assert!(!error.contains('\n'), "{error}");
        assert!(
            error.contains("must grant `list` and `watch` on pods"),
            "{error}"
        );
        assert!(error.len() < 1000);
    }
}
