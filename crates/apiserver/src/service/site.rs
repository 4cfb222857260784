//! Requests that a web page of another site can send.
//!
//! A port needs no credentials, so each page that a browser of this machine shows could use it: it can
//! send some requests to each server, and any request if the name of its site resolves to this
//! machine. A browser sends the origin of the page and the name of the server.

use std::net::IpAddr;

use http::HeaderMap;
use http::header::{HOST, ORIGIN};
use http::request::Parts;
use http::uri::Authority;

use crate::status::{About, Status};

/// Checks that no page of another site has sent a request to a port.
///
/// # Errors
///
/// 403 if the request names a server that is not on this machine, or if its origin is another site.
pub(super) fn check(parts: &Parts) -> Result<(), Status> {
    let host = host(parts);
    if let Some(host) = &host
        && !is_local(host)
    {
        return Err(refusal(&format!(
            "the host {:?} is not a name of the local machine; use localhost, 127.0.0.1 or [::1]",
            host.as_str()
        )));
    }
    if parts.headers.contains_key(ORIGIN) && !is_own(&parts.headers, host.as_ref()) {
        return Err(refusal(
            "the request comes from a web page of another site (header Origin)",
        ));
    }
    Ok(())
}

/// Returns whether the origin of a request is this server, with a name of the local machine. Clients
/// other than browsers send the URL of the server.
pub(super) fn is_own_origin(parts: &Parts) -> bool {
    let host = host(parts);
    host.as_ref().is_some_and(is_local) && is_own(&parts.headers, host.as_ref())
}

/// The server that the client has named. HTTP/2 has it in the URL.
fn host(parts: &Parts) -> Option<Authority> {
    let header = parts.headers.get(HOST);
    let header = header.and_then(|value| value.to_str().ok()?.parse().ok());
    header.or_else(|| parts.uri.authority().cloned())
}

fn is_local(host: &Authority) -> bool {
    let name = host.host().trim_matches(['[', ']']);
    name.eq_ignore_ascii_case("localhost")
        || name
            .parse::<IpAddr>()
            .is_ok_and(|address| address.is_loopback())
}

fn is_own(headers: &HeaderMap, host: Option<&Authority>) -> bool {
    let origin = headers.get(ORIGIN).and_then(|value| value.to_str().ok());
    let (Some(origin), Some(host)) = (origin, host) else {
        return false;
    };
    let site = origin.strip_prefix("http://");
    let site = site.or_else(|| origin.strip_prefix("https://"));
    site.is_some_and(|site| site.eq_ignore_ascii_case(host.as_str()))
}

fn refusal(why: &str) -> Status {
    let about = About {
        group: "",
        resource: "",
        kind: "",
        name: "",
    };
    Status::forbidden(&about, why)
}

#[cfg(test)]
mod tests {
    use http::header::{HOST, HeaderValue, ORIGIN};
    use http::request::Parts;

    use super::{check, is_own_origin};

    #[test]
    fn only_the_origin_of_the_server_is_accepted() {
        for (host, origin, expected) in [
            ("127.0.0.1:8080", "http://127.0.0.1:8080", true),
            ("localhost:8080", "http://LOCALHOST:8080", true),
            ("[::1]:8080", "https://[::1]:8080", true),
            ("127.0.0.1:8080", "http://127.0.0.1:3000", false),
            ("127.0.0.1:8080", "http://pages.example", false),
            // The name of another site, which can resolve to this machine.
            ("pages.example:8080", "http://pages.example:8080", false),
            ("127.0.0.1:8080", "null", false),
            ("127.0.0.1:8080", "ftp://127.0.0.1:8080", false),
        ] {
            let parts = parts(Some(host), Some(origin));
            assert_eq!(is_own_origin(&parts), expected, "{host} {origin}");
            assert_eq!(check(&parts).is_ok(), expected, "{host} {origin}");
        }
        assert!(!is_own_origin(&parts(None, None)));
    }

    #[test]
    fn a_request_names_a_server_on_this_machine_or_none() {
        for (host, expected) in [
            (None, true),
            (Some("localhost:1"), true),
            (Some("127.0.0.2"), true),
            (Some("[::1]:1"), true),
            (Some("localhost.pages.example:1"), false),
            (Some("10.0.0.1:1"), false),
        ] {
            let checked = check(&parts(host, None));
            assert_eq!(checked.is_ok(), expected, "{host:?}");
        }
    }

    fn parts(host: Option<&'static str>, origin: Option<&'static str>) -> Parts {
        let (mut parts, ()) = http::Request::new(()).into_parts();
        for (name, value) in [(HOST, host), (ORIGIN, origin)] {
            let value = value.map(HeaderValue::from_static);
            parts.headers.extend(value.map(|value| (name, value)));
        }
        parts
    }
}
