//! Errors of a watch.

use std::{fmt, sync::Arc, time::Duration};

use serde::Deserialize;
use serde_json::Number;

use super::one_line;
use crate::DecodeError;

/// Why a list or a watch broke off.
///
/// None of these ends a [`ListWatch`](crate::ListWatch): it reports the error, waits and tries
/// again, because what helps is outside of it (a role binding, a CRD, a restart of the API
/// server), and because a proxy may give any of these answers by mistake.
///
/// The message says what failed and what to do; [`source`](std::error::Error::source) says
/// why, where there is more to say. Text of the server is cut to one line of at most 300
/// characters.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WatchError {
    /// The API server could not be reached, or the connection broke.
    #[error("cannot {verb} {resource}: the API server was not reached, or hung up")]
    Connection {
        /// The kind, as `plural.group`.
        resource: Arc<str>,
        /// What was tried.
        verb: Verb,
        /// What the connection says.
        source: Box<kube::Error>,
    },

    /// Nothing came for longer than a healthy connection stays silent: no byte of a list, no
    /// event and no bookmark of a watch.
    #[error(
        "cannot {verb} {resource}: the connection is closed because nothing came for {limit:?}"
    )]
    Silent {
        /// The kind, as `plural.group`.
        resource: Arc<str>,
        /// What was tried.
        verb: Verb,
        /// How long is too long.
        limit: Duration,
    },

    /// A list kept coming and did not end in time.
    #[error(
        "cannot {verb} {resource}: the list is given up because it was not complete after {limit:?}; ask for smaller pages with `page_size`, or allow more with `list_timeout`"
    )]
    Overdue {
        /// The kind, as `plural.group`.
        resource: Arc<str>,
        /// What was tried.
        verb: Verb,
        /// The longest time that a list may take to arrive.
        limit: Duration,
    },

    /// We are not who we should be (`401`).
    #[error(
        "cannot {verb} {resource}: not authenticated ({message}); check the credentials of the kubeconfig or the service account"
    )]
    Unauthenticated {
        /// The kind, as `plural.group`.
        resource: Arc<str>,
        /// What was tried.
        verb: Verb,
        /// What the API server says.
        message: String,
    },

    /// We may not (`403`).
    #[error(
        "cannot {verb} {resource}: forbidden ({message}); a Role or ClusterRole must grant `list` and `watch` on {resource}"
    )]
    Forbidden {
        /// The kind, as `plural.group`.
        resource: Arc<str>,
        /// What was tried.
        verb: Verb,
        /// What the API server says.
        message: String,
    },

    /// The API server does not know the kind (`404`).
    #[error(
        "cannot {verb} {resource}: the API server does not serve this kind; install its CustomResourceDefinition, or check group and version"
    )]
    UnknownKind {
        /// The kind, as `plural.group`.
        resource: Arc<str>,
        /// What was tried.
        verb: Verb,
    },

    /// The request itself is refused (`400`, `422`): most often for a selector. Retried all
    /// the same, because a proxy may say so by mistake.
    #[error(
        "cannot {verb} {resource}: the API server refuses the request ({message}); check the label and field selectors"
    )]
    Invalid {
        /// The kind, as `plural.group`.
        resource: Arc<str>,
        /// What was tried.
        verb: Verb,
        /// What the API server says.
        message: String,
    },

    /// Our place in the history is older than the API server remembers (`410`).
    #[error("cannot {verb} {resource}: the history is gone ({message})")]
    Expired {
        /// The kind, as `plural.group`.
        resource: Arc<str>,
        /// What was tried.
        verb: Verb,
        /// What the API server says.
        message: String,
    },

    /// Too many requests, for now (`429`).
    #[error("cannot {verb} {resource}: the API server asks us to slow down")]
    Throttled {
        /// The kind, as `plural.group`.
        resource: Arc<str>,
        /// What was tried.
        verb: Verb,
        /// The least time to wait, if the API server named one.
        retry_after: Option<Duration>,
    },

    /// Any other answer that is not a success.
    #[error("cannot {verb} {resource}: the API server answers {code} ({message})")]
    Server {
        /// The kind, as `plural.group`.
        resource: Arc<str>,
        /// What was tried.
        verb: Verb,
        /// The HTTP status, or the code of an error event.
        code: u16,
        /// What the API server says.
        message: String,
        /// The least time to wait, if the API server named one.
        retry_after: Option<Duration>,
    },

    /// What came is not what the API says comes.
    #[error("cannot {verb} {resource}: what came is not understood")]
    Malformed {
        /// The kind, as `plural.group`.
        resource: Arc<str>,
        /// What was tried.
        verb: Verb,
        /// What is wrong with it.
        source: DecodeError,
    },

    /// More came at once than is reasonable to keep in memory.
    #[error("cannot {verb} {resource}: more than {limit} bytes in one piece")]
    TooLong {
        /// The kind, as `plural.group`.
        resource: Arc<str>,
        /// What was tried.
        verb: Verb,
        /// The greatest number of bytes.
        limit: usize,
    },

    /// A list contradicts itself, or is older than what was seen before.
    #[error("cannot {verb} {resource}: the list is not used: {why}")]
    Inconsistent {
        /// The kind, as `plural.group`.
        resource: Arc<str>,
        /// What was tried.
        verb: Verb,
        /// In what way.
        why: String,
    },
}

/// What was tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Verb {
    /// A list, or one page of it.
    List,
    /// A watch.
    Watch,
}

/// What the API server said, in an HTTP answer or in an error event, as far as it matters.
#[derive(Debug, Default)]
pub(crate) struct ServerStatus {
    pub(crate) code: u16,
    pub(crate) reason: String,
    pub(crate) message: String,
    pub(crate) retry_after: Option<Duration>,
}

// === impl WatchError ===

impl WatchError {
    /// One stable word for it: the `reason` label of `informer_watch_errors_total`.
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

    /// The least time to wait before the next try, if the API server named one.
    #[must_use]
    pub const fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Throttled { retry_after, .. } | Self::Server { retry_after, .. } => *retry_after,
            _ => None,
        }
    }

    /// Whether the API server has not come as far as the version that it was asked for.
    pub(crate) fn is_from_the_future(&self) -> bool {
        let text = "Too large resource version";
        matches!(self, Self::Server { code: 504, message, .. } if message.contains(text))
    }

    /// Makes an error of what the API server said.
    pub(crate) fn from_status(resource: &Arc<str>, verb: Verb, answer: ServerStatus) -> Self {
        let resource = Arc::clone(resource);
        let ServerStatus {
            code,
            reason,
            message,
            retry_after,
        } = answer;
        let message = one_line(&message).into_owned();
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

impl fmt::Display for Verb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::List => "list",
            Self::Watch => "watch",
        })
    }
}

// === impl ServerStatus ===

impl ServerStatus {
    /// Reads a `Status`; anything else keeps `code`, for whatever stands between us and the
    /// API server answers in its own words (priority and fairness in plain text).
    pub(crate) fn read(code: u16, body: &[u8], retry_after: Option<Duration>) -> Self {
        #[derive(Deserialize)]
        struct Status {
            #[serde(default)]
            code: Option<u16>,
            #[serde(default)]
            reason: Option<String>,
            #[serde(default)]
            message: Option<String>,
            #[serde(default)]
            details: Option<Details>,
        }

        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Details {
            #[serde(default)]
            retry_after_seconds: Option<Number>,
        }

        match serde_json::from_slice::<Status>(body) {
            Ok(status) => Self {
                code: status.code.unwrap_or(code),
                reason: status.reason.unwrap_or_default(),
                message: status.message.unwrap_or_default(),
                retry_after: retry_after.or_else(|| {
                    let seconds = status.details?.retry_after_seconds?;
                    Some(match seconds.as_u64() {
                        Some(seconds) => Duration::from_secs(seconds),
                        // A fraction, or more than that number holds.
                        None => match Duration::try_from_secs_f64(seconds.as_f64()?) {
                            Ok(wait) => wait,
                            Err(_) if seconds.as_f64()? < 0.0 => return None,
                            Err(_) => Duration::MAX,
                        },
                    })
                }),
            },
            Err(_) => Self {
                code,
                retry_after,
                ..Self::default()
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{sync::Arc, time::Duration};

    use super::{ServerStatus, Verb, WatchError};

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
    fn a_wait_that_no_number_holds_does_not_hide_the_rest_of_the_answer() {
        for (seconds, expected) in [
            ("18446744073709551615", Some(Duration::from_secs(u64::MAX))),
            ("99999999999999999999999", Some(Duration::MAX)),
            ("1.5", Some(Duration::from_millis(1500))),
            ("-1", None),
            ("null", None),
        ] {
            let body = format!(
                r#"{{"code":429,"message":"wait","details":{{"retryAfterSeconds":{seconds}}}}}"#
            );
            let answer = ServerStatus::read(429, body.as_bytes(), None);
            assert_eq!(answer.message, "wait", "{seconds}");
            assert_eq!(answer.retry_after, expected, "{seconds}");
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
