//! Authorization of scrapes by the API server: `TokenReview`, then `SubjectAccessReview`.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use http::{HeaderMap, StatusCode, header};
use http_body_util::{BodyExt as _, Limited};
use kube::{Client, client::Body};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use tokio::time::{Instant, timeout};

/// How long a decision is cached. The same time as in controller-runtime.
const MAX_AGE: Duration = Duration::from_secs(60);

/// The most cached decisions. When there are more, the cache is cleared.
const MAX_CACHED: usize = 64;

/// The shortest time between two reviews, so that a client with invented tokens causes little load
/// on the API server.
const PACE: Duration = Duration::from_millis(100);

/// The timeout of one decision of the API server.
const LIMIT: Duration = Duration::from_secs(3);

/// Asks the API server whether the bearer of a token may read a path, and caches the decisions.
pub(super) struct Authorizer {
    client: Client,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// By the hash of the token, so that no token is kept in memory.
    decisions: HashMap<[u8; 32], (Instant, Decision)>,
    /// The time of the last review.
    asked: Option<Instant>,
}

/// A decision of the API server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Decision {
    Allowed,
    /// The token is not valid.
    Unauthenticated,
    /// RBAC does not allow it.
    Forbidden,
}

// === impl Authorizer ===

impl Authorizer {
    pub(super) fn new(client: Client) -> Self {
        Self {
            client,
            state: Mutex::default(),
        }
    }

    /// Whether a request with these headers may read `path`.
    ///
    /// # Errors
    ///
    /// The status and the text of the response: 401, 403, 429 after too many unknown tokens, or 503
    /// if the API server makes no decision.
    pub(super) async fn check(
        &self,
        headers: &HeaderMap,
        path: &'static str,
    ) -> Result<(), (StatusCode, &'static str)> {
        let Some(token) = bearer(headers) else {
            return Err((StatusCode::UNAUTHORIZED, "a bearer token is required\n"));
        };
        let hash: [u8; 32] = Sha256::digest(token).into();
        let decision = match self.known(&hash)? {
            Some(decision) => decision,
            None => match timeout(LIMIT, self.ask(token, path)).await {
                Ok(Ok(decision)) => {
                    self.keep(hash, decision);
                    decision
                }
                failed => {
                    let error = failed.ok().and_then(Result::err);
                    let error = error.unwrap_or_else(|| format!("timed out after {LIMIT:?}"));
                    tracing::warn!(error, "cannot authorize a scrape, responding with 503");
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
                "a ClusterRole must grant `get` on this path as a nonResourceURL\n",
            )),
        }
    }

    /// The cached decision. None if the API server must be asked.
    fn known(&self, hash: &[u8; 32]) -> Result<Option<Decision>, (StatusCode, &'static str)> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((made, decision)) = state.decisions.get(hash)
            && made.elapsed() < MAX_AGE
        {
            return Ok(Some(*decision));
        }
        if state.asked.is_some_and(|asked| asked.elapsed() < PACE) {
            return Err((
                StatusCode::TOO_MANY_REQUESTS,
                "too many requests with unknown tokens; try again in a second\n",
            ));
        }
        state.asked = Some(Instant::now());
        Ok(None)
    }

    fn keep(&self, hash: [u8; 32], decision: Decision) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.decisions.len() >= MAX_CACHED {
            state.decisions.clear();
        }
        state.decisions.insert(hash, (Instant::now(), decision));
    }

    async fn ask(&self, token: &str, path: &str) -> Result<Decision, String> {
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
        let review = access(&review["status"]["user"], path);
        let url = "/apis/authorization.k8s.io/v1/subjectaccessreviews";
        let review = self.create(url, &review).await?;
        Ok(if review["status"]["allowed"] == true {
            Decision::Allowed
        } else {
            Decision::Forbidden
        })
    }

    /// Sends `review`, and returns the response. It does not use `Api`: kube logs a response that
    /// does not decode, and this response contains the token.
    async fn create(&self, url: &str, review: &Value) -> Result<Value, String> {
        /// Far more than the groups of a user need.
        const MAX_BODY: usize = 1024 * 1024;

        let request = http::Request::post(url)
            .header(header::CONTENT_TYPE, "application/json")
            .body(Body::from(review.to_string().into_bytes()))
            .map_err(|error| error.to_string())?;
        let answer = (self.client.send(request).await)
            .map_err(|_| "the connection to the API server failed".to_owned())?;
        if !answer.status().is_success() {
            return Err(format!("the API server responded with {}", answer.status()));
        }
        let body = (Limited::new(answer.into_body(), MAX_BODY).collect().await)
            .map_err(|_| "the response of the API server is incomplete or too long".to_owned())?;
        serde_json::from_slice(&body.to_bytes())
            .map_err(|_| "the response of the API server cannot be decoded".to_owned())
    }
}

/// The `SubjectAccessReview` for `user`, as returned by a `TokenReview`, and `get` of `path`.
fn access(user: &Value, path: &str) -> Value {
    json!({
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": {
            "nonResourceAttributes": { "path": path, "verb": "get" },
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
