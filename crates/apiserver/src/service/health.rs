//! The health endpoints, whose checks always pass: a server that runs is healthy.
//!
//! Source: `pkg/server/healthz` of `k8s.io/apiserver`.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use http::{Response, StatusCode};

use super::ResponseBody;
use super::reply;

/// The checks of each endpoint. The real server has more.
const CHECKS: [&str; 3] = ["ping", "log", "etcd"];

/// The additional checks of `/readyz`.
const READY_CHECKS: [&str; 3] = ["etcd-readiness", "informer-sync", "shutdown"];

/// Returns the response of `endpoint` (such as `readyz`), or that of one of its checks.
pub(super) fn respond(endpoint: &str, check: Option<&str>, query: &str) -> Response<ResponseBody> {
    let ready = READY_CHECKS.iter().filter(|_| endpoint == "readyz");
    let mut checks = CHECKS.iter().chain(ready);
    match check {
        None => reply::text(StatusCode::OK, report(endpoint, checks, query)),
        Some(name) if checks.any(|known| *known == name) => reply::text(StatusCode::OK, "ok"),
        Some(_) => reply::not_found(),
    }
}

/// Returns `ok`, or with `?verbose` one line for each check.
fn report<'a>(endpoint: &str, checks: impl Iterator<Item = &'a &'a str>, query: &str) -> String {
    let parameters: Vec<_> = form_urlencoded::parse(query.as_bytes()).collect();
    if !parameters.iter().any(|(key, _)| key == "verbose") {
        return "ok".to_owned();
    }
    let excluded = parameters.iter().filter(|(key, _)| key == "exclude");
    let mut excluded: BTreeSet<&str> = excluded.map(|(_, value)| &**value).collect();
    let mut report = String::new();
    for check in checks {
        let suffix = if excluded.remove(check) {
            " excluded:"
        } else {
            ""
        };
        // Writing to a `String` cannot fail.
        _ = writeln!(report, "[+]{check}{suffix} ok");
    }
    if !excluded.is_empty() {
        let names: Vec<_> = excluded.iter().map(|name| format!("{name:?}")).collect();
        let names = names.join(",");
        _ = writeln!(
            report,
            "warn: some health checks cannot be excluded: no matches for {names}"
        );
    }
    _ = writeln!(report, "{endpoint} check passed");
    report
}
