//! Pages: which there are, and how they read.

use std::fmt::Write as _;

use bytes::Bytes;
use http::{Method, Response, StatusCode, header};
use http_body_util::Full;
use prometheus::{Encoder as _, Registry, TextEncoder};

/// A page that every admin server has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Page {
    Live,
    Ready,
    Metrics,
}

/// One thing that was looked at, and whether it is well.
#[derive(Debug)]
pub(super) struct Line {
    text: String,
    is_well: bool,
}

/// An answer as it is sent.
pub(super) type Answer = Response<Full<Bytes>>;

// === impl Page ===

impl Page {
    /// The page at `path`. There are names for those who come from Kubernetes' own servers.
    pub(super) fn at(path: &str) -> Option<Self> {
        match path {
            "/live" | "/livez" | "/healthz" => Some(Self::Live),
            "/ready" | "/readyz" => Some(Self::Ready),
            "/metrics" => Some(Self::Metrics),
            _ => None,
        }
    }
}

// === impl Line ===

impl Line {
    pub(super) fn new(name: &str, verdict: Result<String, String>) -> Self {
        let (mark, is_well) = if verdict.is_ok() {
            ("+", true)
        } else {
            ("-", false)
        };
        let (Ok(said) | Err(said)) = verdict;
        let text = format!("[{mark}] {name}: {said}");
        Self {
            // One thing is one line, whatever stands in an error.
            text: text.replace(['\n', '\r'], " "),
            is_well,
        }
    }
}

/// A page of health: a word, and what it comes from.
pub(super) fn health(lines: &[Line]) -> Answer {
    let is_well = lines.iter().all(|line| line.is_well);
    let (status, word) = if is_well {
        (StatusCode::OK, "ok")
    } else {
        (StatusCode::SERVICE_UNAVAILABLE, "not ok")
    };
    let mut page = format!("{word}\n");
    for line in lines {
        _ = writeln!(page, "{}", line.text);
    }
    text(status, page)
}

/// What `registry` gathers.
pub(super) fn metrics(registry: &Registry) -> Answer {
    let encoder = TextEncoder::new();
    let mut page = Vec::new();
    match encoder.encode(&registry.gather(), &mut page) {
        Ok(()) => answer(StatusCode::OK, encoder.format_type(), page),
        Err(error) => text(
            StatusCode::INTERNAL_SERVER_ERROR,
            format!("cannot encode the metrics: {error}\n"),
        ),
    }
}

pub(super) fn not_found<'a>(routes: impl Iterator<Item = &'a str>) -> Answer {
    let mut page = "there are /live, /ready, /metrics".to_owned();
    for route in routes {
        _ = write!(page, ", {route}");
    }
    page.push('\n');
    text(StatusCode::NOT_FOUND, page)
}

pub(super) fn method_not_allowed() -> Answer {
    let mut answer = text(StatusCode::METHOD_NOT_ALLOWED, "ask with GET\n".to_owned());
    let allow = header::HeaderValue::from_static("GET, HEAD");
    answer.headers_mut().insert(header::ALLOW, allow);
    answer
}

/// Whether a page can be asked for so.
pub(super) fn reads(method: &Method) -> bool {
    matches!(*method, Method::GET | Method::HEAD)
}

pub(super) fn text(status: StatusCode, page: String) -> Answer {
    answer(status, "text/plain; charset=utf-8", page.into_bytes())
}

fn answer(status: StatusCode, kind: &str, page: Vec<u8>) -> Answer {
    let mut answer = Response::new(Full::from(page));
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
    fn a_page_is_well_if_each_line_is() {
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
        let answer = health(&lines);
        assert_eq!(answer.status(), status);
        let body = answer.into_body().collect().now_or_never();
        let body = body.expect("it is all there").expect("no error").to_bytes();
        assert_eq!(body, page);
    }
}
