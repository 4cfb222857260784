//! The pages of an admin server, as text.

use std::fmt::Write as _;

use bytes::Bytes;
use http::{Method, Response, StatusCode, header};
use http_body_util::Full;
use prometheus::{Encoder as _, TextEncoder};
use windlass_informer::log;

use super::responder::Served;

/// A page that every admin server serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Page {
    Live,
    Ready,
    Diagnostics,
    Metrics,
}

/// One line of a health page: the name of a check and its result.
#[derive(Clone, Debug)]
pub(super) struct Line {
    text: String,
    is_ok: bool,
}

/// A response.
pub(crate) type Answer = Response<Full<Bytes>>;

// === impl Page ===

impl Page {
    /// The page at `path`. The names with a `z` are those of Kubernetes' own servers.
    pub(super) fn at(path: &str) -> Option<Self> {
        match path {
            "/live" | "/livez" | "/health" | "/healthz" => Some(Self::Live),
            "/ready" | "/readyz" => Some(Self::Ready),
            "/debug/windlass" => Some(Self::Diagnostics),
            "/metrics" => Some(Self::Metrics),
            _ => None,
        }
    }
}

// === impl Line ===

impl Line {
    pub(super) fn new(name: &str, verdict: Result<String, String>) -> Self {
        let (mark, is_ok) = if verdict.is_ok() {
            ("+", true)
        } else {
            ("-", false)
        };
        let (Ok(reason) | Err(reason)) = verdict;
        let text = format!("[{mark}] {name}: {reason}");
        Self {
            // Each check is one line, even if its error contains line breaks.
            text: text.replace(['\n', '\r'], " "),
            is_ok,
        }
    }
}

/// A health page: `ok` or `not ok`, and one line for each check if the client may see them.
pub(super) fn health(lines: &[Line], has_details: bool) -> Answer {
    let is_ok = lines.iter().all(|line| line.is_ok);
    let (status, word) = if is_ok {
        (StatusCode::OK, "ok")
    } else {
        (StatusCode::SERVICE_UNAVAILABLE, "not ok")
    };
    let mut page = format!("{word}\n");
    for line in lines.iter().filter(|_| has_details) {
        _ = writeln!(page, "{}", line.text);
    }
    text(status, page)
}

/// The page of metrics.
pub(super) fn metrics(rendered: Result<Bytes, String>) -> Answer {
    match rendered {
        Ok(page) => answer(StatusCode::OK, TextEncoder::new().format_type(), page),
        Err(reason) => text(StatusCode::INTERNAL_SERVER_ERROR, format!("{reason}\n")),
    }
}

/// The page of diagnostics.
pub(super) fn diagnostics(rendered: Result<Bytes, String>) -> Answer {
    match rendered {
        Ok(page) => answer(StatusCode::OK, "application/json", page),
        Err(reason) => text(StatusCode::INTERNAL_SERVER_ERROR, format!("{reason}\n")),
    }
}

/// The response to a client that does not see the page of diagnostics.
pub(super) fn no_details() -> Answer {
    let reason = "only for clients on this machine, such as kubectl port-forward, \
                  unless AdminServer::health_details allows others\n";
    text(StatusCode::FORBIDDEN, reason.to_owned())
}

/// The response to an unknown path. It lists the paths of a port that serves `served` and `routes`.
pub(super) fn not_found<'a>(served: Served, routes: impl Iterator<Item = &'a String>) -> Answer {
    let mut page = match served {
        Served::All => "not found; this port serves /live, /ready, /metrics".to_owned(),
        Served::Rest => "not found; this port serves /live, /ready".to_owned(),
        Served::Metrics => "not found; this port serves /metrics".to_owned(),
    };
    for route in routes {
        _ = write!(page, ", {route}");
    }
    page.push('\n');
    text(StatusCode::NOT_FOUND, page)
}

/// The response if the code of a page panicked.
pub(super) fn panicked(path: &str, message: &str) -> Answer {
    log::error!(path, message, "a page panicked");
    let text = format!("{path} panicked: {message}\n");
    self::text(StatusCode::INTERNAL_SERVER_ERROR, text)
}

pub(super) fn method_not_allowed() -> Answer {
    let mut answer = text(
        StatusCode::METHOD_NOT_ALLOWED,
        "only GET and HEAD are allowed\n".to_owned(),
    );
    let allow = header::HeaderValue::from_static("GET, HEAD");
    answer.headers_mut().insert(header::ALLOW, allow);
    answer
}

/// Whether a request of this method reads a page.
pub(super) fn is_read(method: &Method) -> bool {
    matches!(*method, Method::GET | Method::HEAD)
}

pub(super) fn text(status: StatusCode, page: String) -> Answer {
    answer(status, "text/plain; charset=utf-8", page.into())
}

fn answer(status: StatusCode, kind: &str, page: Bytes) -> Answer {
    let mut answer = Response::new(Full::new(page));
    *answer.status_mut() = status;
    if let Ok(kind) = header::HeaderValue::from_str(kind) {
        answer.headers_mut().insert(header::CONTENT_TYPE, kind);
    }
    answer
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_ok_if_all_its_lines_are() {
        check(&[], 200, "ok\n");
        check(&[("a", Ok("up"))], 200, "ok\n[+] a: up\n");
        check(
            &[("a", Ok("up")), ("b", Err("no\nline"))],
            503,
            "not ok\n[+] a: up\n[-] b: no line\n",
        );
    }

    #[track_caller]
    fn check(lines: &[(&str, Result<&str, &str>)], status: u16, page: &str) {
        use futures::FutureExt as _;
        use http_body_util::BodyExt as _;

        let lines: Vec<_> = (lines.iter())
            .map(|(name, verdict)| Line::new(name, verdict.map(Into::into).map_err(Into::into)))
            .collect();
        let answer = health(&lines, true);
        assert_eq!(answer.status(), status);
        let body = answer.into_body().collect().now_or_never();
        let body = body.expect("it is all there").expect("no error").to_bytes();
        assert_eq!(body, page);
    }
}
