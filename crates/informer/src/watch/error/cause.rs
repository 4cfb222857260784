//! The causes of a failed list or watch.

use std::time::Duration;

use crate::DecodeError;

/// The cause of a [`WatchError`](super::WatchError).
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WatchErrorCause {
    /// The API server could not be reached, or the connection broke.
    #[error("cannot reach the API server, or the connection broke")]
    Connection {
        /// The error of the connection.
        source: Box<kube::Error>,
    },

    /// Nothing was received for the timeout: no byte of a list, or no event and no bookmark of a
    /// watch.
    #[error("timed out after {limit:?} without data from the server")]
    Silent {
        /// The timeout.
        limit: Duration,
    },

    /// A list made progress but was not complete within the timeout.
    #[error(
        "timed out after {limit:?} before the list was complete; use smaller pages (`page_size`) or a longer timeout (`list_timeout`)"
    )]
    Overdue {
        /// The timeout.
        limit: Duration,
    },

    /// The credentials are invalid (`401`).
    #[error(
        "not authenticated ({message}); check the credentials of the kubeconfig or the service account"
    )]
    Unauthenticated {
        /// The message of the API server.
        message: String,
    },

    /// The credentials lack a permission (`403`).
    #[error("forbidden ({message}); a Role or ClusterRole must grant `list` and `watch`")]
    Forbidden {
        /// The message of the API server.
        message: String,
    },

    /// The response is a page of a proxy or another server: its content type is HTML.
    #[error(
        "the response is not from an API server: HTTP {code} with the content type {content_type}; check \
         the URL of the cluster, and the proxies on the way"
    )]
    NotKubernetes {
        /// The HTTP status.
        code: u16,
        /// The content type, as one line.
        content_type: String,
    },

    /// The API server does not know the kind (`404`).
    #[error(
        "the API server does not serve this kind; install its CustomResourceDefinition, or check group and version"
    )]
    UnknownKind,

    /// The API server serves the kind under another plural (`404`, and its discovery document).
    #[error(
        "the API server serves the kind {kind} as `{plural}`, not as `{requested}`; correct the plural"
    )]
    OtherPlural {
        /// The kind.
        kind: String,
        /// The plural of the discovery document.
        plural: String,
        /// The plural of the informer.
        requested: String,
    },

    /// The API server cannot watch the kind (`405`). It is polled.
    #[error("the API server cannot watch this kind, only list it")]
    NotWatchable,

    /// The request is rejected (`400`, `422`), usually because of a selector. Retried, because a
    /// proxy may return this by mistake.
    #[error("the API server rejected the request ({message}); check the label and field selectors")]
    Invalid {
        /// The message of the API server.
        message: String,
    },

    /// The version is older than the history of the API server (`410`).
    #[error("the resource version has expired ({message})")]
    Expired {
        /// The message of the API server.
        message: String,
    },

    /// The API server throttles requests (`429`).
    #[error("the API server throttles requests")]
    Throttled {
        /// The minimum wait, if the API server demands one.
        retry_after: Option<Duration>,
    },

    /// Any other response that is not a success.
    #[error("the API server answered {code}{}", in_brackets(message))]
    Server {
        /// The HTTP status, or the code of an error event.
        code: u16,
        /// The message of the API server. Of a 5xx only the reason, because the message may
        /// describe a crash or quote an object.
        message: String,
        /// The minimum wait, if the API server demands one.
        retry_after: Option<Duration>,
    },

    /// The response is not as the Kubernetes API specifies.
    #[error("the response is malformed")]
    Malformed {
        /// Why it does not decode.
        source: DecodeError,
    },

    /// An object or line is longer than the limit.
    #[error("an object or line is longer than {limit} bytes; raise the limit with `max_bytes`")]
    TooLong {
        /// The limit in bytes.
        limit: usize,
    },

    /// A list contradicts itself, or is older than an earlier one.
    #[error("the list is rejected: {why}")]
    Inconsistent {
        /// In which way.
        why: String,
    },
}

/// `text` in brackets, after a space. Nothing if it is empty.
fn in_brackets(text: &str) -> String {
    if text.is_empty() {
        String::new()
    } else {
        format!(" ({text})")
    }
}
