//! Tokens of service accounts: JSON web tokens that this server signs and verifies.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jiff::Timestamp;
use rand::RngCore as _;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::Cluster;
use crate::metadata;
use crate::registry::Resource;
use crate::status::{About, FieldError, Status};
use crate::store::Key;
use crate::user::User;

/// The default lifetime of a token, in seconds: one hour.
const DEFAULT_SECONDS: i64 = 60 * 60;

/// The minimum lifetime of a token, in seconds.
const MIN_SECONDS: i64 = 10 * 60;

/// The issuer of tokens, and their audience if a request has none: this server.
pub(crate) const AUDIENCE: &str = "https://kubernetes.default.svc";

/// The user of a token.
#[derive(Debug)]
pub(crate) struct TokenUser {
    pub(crate) user: User,
    /// The requested audiences that the token has.
    pub(crate) audiences: Vec<String>,
}

/// Why a token does not authenticate.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TokenError {
    /// This server did not issue it, it has expired, or its account was deleted.
    #[error("invalid bearer token")]
    Invalid,
    /// It is for other audiences.
    #[error("token audiences {has:?} is invalid for the target audiences {wanted:?}")]
    Audience {
        /// The audiences of the token.
        has: Vec<String>,
        /// The audiences of the request.
        wanted: Vec<String>,
    },
}

/// The extra field of a user with the id of its token.
const CREDENTIAL_ID: &str = "authentication.kubernetes.io/credential-id";

/// The table of service accounts in the store.
const ACCOUNTS: &str = "serviceaccounts";

// === impl Cluster ===

impl Cluster {
    /// Answers a `TokenRequest` for the service account at `key` with a token.
    ///
    /// # Errors
    ///
    /// 404 if the account does not exist, 422 for a lifetime below the minimum.
    pub(crate) fn issue_token(
        &mut self,
        resource: &Resource,
        key: &Key,
        request: &Value,
        now: Timestamp,
    ) -> Result<Value, Status> {
        let (name, uid) = (
            metadata::text(request, "name"),
            metadata::text(request, "uid"),
        );
        // The name is checked before the account.
        check_request(&key.name, name, DEFAULT_SECONDS)?;
        let account = self.get(resource, key)?.clone();
        let spec = &request["spec"];
        let seconds = spec["expirationSeconds"]
            .as_i64()
            .unwrap_or(DEFAULT_SECONDS);
        check_request(&key.name, name, seconds)?;
        if !uid.is_empty() && uid != account.uid() {
            let about = About {
                group: "authentication.k8s.io",
                resource: "TokenRequest",
                kind: "TokenRequest",
                name: &key.name,
            };
            let detail = format!(
                "the UID in the token request ({uid}) does not match the UID of the service \
                 account ({})",
                account.uid()
            );
            return Err(Status::conflict(&about, &detail));
        }
        let audiences = match spec["audiences"].as_array() {
            Some(audiences) if !audiences.is_empty() => audiences.clone(),
            _ => vec![AUDIENCE.into()],
        };
        let after = Duration::from_secs(seconds.unsigned_abs());
        let expires = now.checked_add(after).unwrap_or(Timestamp::MAX);
        let claims = json!({
            "aud": audiences,
            "exp": expires.as_second(),
            "iat": now.as_second(),
            "iss": AUDIENCE,
            "jti": self.uid(),
            "kubernetes.io": {
                "namespace": &*key.namespace,
                "serviceaccount": { "name": &*key.name, "uid": account.uid() },
            },
            "nbf": now.as_second(),
            "sub": format!("system:serviceaccount:{}:{}", key.namespace, key.name),
        });
        let header = json!({ "alg": "HS256", "kid": "windlass", "typ": "JWT" });
        let encoded = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
        let signed = format!("{}.{}", encoded(&header), encoded(&claims));
        let random = &mut self.random;
        let secret = self.token_key.get_or_insert_with(|| {
            let mut secret = [0; 32];
            random.fill_bytes(&mut secret);
            secret
        });
        let signature = URL_SAFE_NO_PAD.encode(authentication_code(secret, signed.as_bytes()));
        let time = |time: Timestamp| time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
        Ok(json!({
            "metadata": {
                "name": &*key.name,
                "namespace": &*key.namespace,
                "uid": account.uid(),
                "creationTimestamp": time(now),
            },
            "spec": {
                "audiences": audiences,
                "expirationSeconds": seconds,
                "boundObjectRef": spec.get("boundObjectRef").unwrap_or(&Value::Null),
            },
            "status": {
                "token": format!("{signed}.{signature}"),
                "expirationTimestamp": time(expires),
            },
        }))
    }

    /// The token of the administrator, which does not change while the server runs.
    pub(crate) fn admin_token(&mut self) -> String {
        let random = &mut self.random;
        let token = self.admin_token.get_or_insert_with(|| {
            let mut secret = [0; 32];
            random.fill_bytes(&mut secret);
            URL_SAFE_NO_PAD.encode(secret)
        });
        token.clone()
    }

    /// The administrator or the service account of a token that is for one of the audiences `wanted`.
    pub(crate) fn user_of_token(
        &self,
        token: &str,
        wanted: &[&str],
        now: Timestamp,
    ) -> Result<TokenUser, TokenError> {
        let owned = |texts: &[&str]| texts.iter().map(|it| (*it).to_owned()).collect();
        if self.admin_token.as_deref() == Some(token) {
            return Ok(TokenUser {
                user: User::admin(),
                audiences: owned(wanted),
            });
        }
        let (user, claims) = self
            .account_of_token(token, now)
            .ok_or(TokenError::Invalid)?;
        let has = claims["aud"].as_array().into_iter().flatten();
        let has: Vec<&str> = has.filter_map(Value::as_str).collect();
        let audiences: Vec<&str> = has
            .iter()
            .copied()
            .filter(|it| wanted.contains(it))
            .collect();
        if audiences.is_empty() {
            return Err(TokenError::Audience {
                has: owned(&has),
                wanted: owned(wanted),
            });
        }
        Ok(TokenUser {
            user,
            audiences: owned(&audiences),
        })
    }

    /// The service account of a token, and the claims of the token.
    fn account_of_token(&self, token: &str, now: Timestamp) -> Option<(User, Value)> {
        let (signed, signature) = token.rsplit_once('.')?;
        let signature = URL_SAFE_NO_PAD.decode(signature).ok()?;
        let expected = authentication_code(self.token_key.as_ref()?, signed.as_bytes());
        if signature != expected {
            return None;
        }
        let (_, claims) = signed.split_once('.')?;
        let claims = URL_SAFE_NO_PAD.decode(claims).ok()?;
        let claims: Value = serde_json::from_slice(&claims).ok()?;
        if claims["exp"].as_i64()? <= now.as_second() {
            return None;
        }
        let about = &claims["kubernetes.io"];
        let namespace = about["namespace"].as_str()?;
        let name = about.pointer("/serviceaccount/name")?.as_str()?;
        let uid = about.pointer("/serviceaccount/uid")?.as_str()?;
        let account = self.store.get(ACCOUNTS, &Key::new(namespace, name))?;
        if account.uid() != uid {
            return None;
        }
        let mut user = User::service_account(namespace, name, uid);
        if let Some(id) = claims["jti"].as_str() {
            let values = vec![format!("JTI={id}")];
            user.extra.insert(CREDENTIAL_ID.to_owned(), values);
        }
        Some((user, claims))
    }
}

/// Validates a request for a token of the account `account`: the name that it has, if any, and the
/// lifetime.
fn check_request(account: &str, name: &str, seconds: i64) -> Result<(), Status> {
    let invalid = |field: &str, value: &Value, why: &str| {
        let about = About {
            group: "authentication.k8s.io",
            resource: "tokenrequests",
            kind: "TokenRequest",
            name: if field == "metadata.name" {
                account
            } else {
                ""
            },
        };
        Err(Status::invalid(
            &about,
            &[FieldError::invalid(field, value, why)],
        ))
    };
    if !name.is_empty() && name != account {
        let why = "must match the service account name if specified";
        return invalid("metadata.name", &name.into(), why);
    }
    let why = if seconds < MIN_SECONDS {
        "may not specify a duration less than 10 minutes"
    } else if seconds > 1 << 32 {
        "may not specify a duration larger than 2^32 seconds"
    } else {
        return Ok(());
    };
    invalid("spec.expirationSeconds", &seconds.into(), why)
}

/// HMAC with SHA-256 (RFC 2104), for a key that is shorter than one block.
fn authentication_code(key: &[u8; 32], text: &[u8]) -> Vec<u8> {
    /// The length of a block of SHA-256, in bytes.
    const BLOCK: usize = 64;
    let padded = |pad: u8| {
        let mut block = [pad; BLOCK];
        for (byte, key) in block.iter_mut().zip(key) {
            *byte ^= key;
        }
        block
    };
    let inner = Sha256::new().chain_update(padded(0x36)).chain_update(text);
    let outer = Sha256::new().chain_update(padded(0x5c));
    outer.chain_update(inner.finalize()).finalize().to_vec()
}
