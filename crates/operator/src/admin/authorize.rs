//! Authorization of scrapes by the API server: `TokenReview`, then `SubjectAccessReview`.

use std::{
    net::IpAddr,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use http::{HeaderMap, Request, StatusCode, header};
use kube::Client;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use tokio::time::{Instant, timeout};
use windlass_informer::{
    api_request::{self, RequestError, ResponseLimits},
    log,
};

use super::{
    decisions::{Decision, Decisions, Next, TokenHash},
    page,
};
use crate::MAX_RESPONSE;

/// The timeout of one decision of the API server.
const LIMIT: Duration = Duration::from_secs(3);

/// Asks the API server whether the bearer of a token may read a path, and caches the decisions.
pub(super) struct Authorizer {
    client: Client,
    decisions: Mutex<Decisions>,
}

// === impl Authorizer ===

impl Authorizer {
    pub(super) fn new(client: Client) -> Self {
        Self {
            client,
            decisions: Mutex::default(),
        }
    }

    /// Whether the token of a request of `client` allows its method for its path.
    ///
    /// # Errors
    ///
    /// The status and the text of the response: 401, 403, 429 after too many unknown tokens, or 503
    /// if the API server makes no decision.
    pub(super) async fn check<B>(
        &self,
        request: &Request<B>,
        client: IpAddr,
    ) -> Result<(), (StatusCode, &'static str)> {
        let Some(token) = bearer(request.headers()) else {
            return Err((StatusCode::UNAUTHORIZED, "a bearer token is required\n"));
        };
        let path = request.uri().path();
        let verb = if page::is_read(request.method()) {
            "get".to_owned()
        } else {
            request.method().as_str().to_ascii_lowercase()
        };
        let hashed = [&*verb, path, token].join("\n");
        let hash: TokenHash = Sha256::digest(hashed).into();
        let next = self.decisions().next(&hash, client, Instant::now());
        let decision = match next {
            Next::Decided(decision) => decision,
            Next::TooMany => {
                return Err((
                    StatusCode::TOO_MANY_REQUESTS,
                    "too many requests with unknown tokens; try again in a second\n",
                ));
            }
            Next::Review => match timeout(LIMIT, self.ask(token, path, &verb)).await {
                Ok(Ok(decision)) => {
                    (self.decisions()).record(hash, client, decision, Instant::now());
                    decision
                }
                failed => {
                    let error = failed.ok().and_then(Result::err);
                    let error = error.unwrap_or_else(|| format!("timed out after {LIMIT:?}"));
                    log::warn!(error, "cannot authorize a scrape, responding with 503");
                    let text = "the API server did not authorize this request; try again later\n";
                    return Err((StatusCode::SERVICE_UNAVAILABLE, text));
                }
            },
        };
        match decision {
            Decision::Allowed => Ok(()),
            Decision::Unauthenticated => {
                Err((StatusCode::UNAUTHORIZED, "the token is not valid\n"))
            }
            Decision::Forbidden => Err((
                StatusCode::FORBIDDEN,
                "a ClusterRole must grant this method, in lower case, on this path as a nonResourceURL\n",
            )),
        }
    }

    fn decisions(&self) -> MutexGuard<'_, Decisions> {
        (self.decisions.lock()).unwrap_or_else(PoisonError::into_inner)
    }

    async fn ask(&self, token: &str, path: &str, verb: &str) -> Result<Decision, String> {
        let review = json!({
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenReview",
            "spec": { "token": token },
        });
        let url = "/apis/authentication.k8s.io/v1/tokenreviews";
        let review = self.create(url, &review).await?;
        if review["status"]["authenticated"] != true {
            return Ok(Decision::Unauthenticated);
        }
        let review = access(&review["status"]["user"], path, verb);
        let url = "/apis/authorization.k8s.io/v1/subjectaccessreviews";
        let review = self.create(url, &review).await?;
        Ok(if review["status"]["allowed"] == true {
            Decision::Allowed
        } else {
            Decision::Forbidden
        })
    }

    /// Sends `review`, and returns the response, which contains the token.
    async fn create(&self, url: &str, review: &Value) -> Result<Value, String> {
        let request = http::Request::post(url)
            .header(header::CONTENT_TYPE, "application/json")
            .body(review.to_string().into_bytes())
            .map_err(|error| error.to_string())?;
        let limits = ResponseLimits {
            time: LIMIT,
            bytes: MAX_RESPONSE,
        };
        let body =
            (api_request::send(&self.client, request, limits).await).map_err(
                |error| match error {
                    RequestError::Status(status) => {
                        format!("the API server responded with {}", status.code)
                    }
                    RequestError::Connection(_) => {
                        "the connection to the API server failed".to_owned()
                    }
                    RequestError::TimedOut => format!("timed out after {LIMIT:?}"),
                },
            )?;
        let undecodable = |_| "the response of the API server cannot be decoded".to_owned();
        api_request::decode(&body).map_err(undecodable)
    }
}

/// The `SubjectAccessReview` for `user`, as returned by a `TokenReview`, and `verb` of `path`.
fn access(user: &Value, path: &str, verb: &str) -> Value {
    json!({
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": {
            "nonResourceAttributes": { "path": path, "verb": verb },
            "user": user["username"],
            "uid": user["uid"],
            "groups": user["groups"],
            "extra": user["extra"],
        },
    })
}

/// The token of `Authorization: Bearer`.
fn bearer(headers: &HeaderMap) -> Option<&str> {
    let value = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    let (scheme, token) = value.split_once(' ')?;
    let token = token.trim();
    (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then_some(token)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_the_text_after_bearer() {
        for (value, token) in [
            ("Bearer abc", Some("abc")),
            ("bearer abc ", Some("abc")),
            ("Basic abc", None),
            ("Bearer ", None),
            ("abc", None),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(header::AUTHORIZATION, value.parse().expect("a value"));
            assert_eq!(bearer(&headers), token, "{value}");
        }
        assert_eq!(bearer(&HeaderMap::new()), None);
    }
}
