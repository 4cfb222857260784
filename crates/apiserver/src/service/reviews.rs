//! Reviews: authentication and authorization queries, which the server does not store.

use http::{Response, StatusCode};
use serde_json::{Value, json};

use super::ResponseBody;
use super::body::{self, Expected};
use super::resources::ResourceRequest;
use crate::authorize::Attributes;
use crate::cluster::AUDIENCE;
use crate::encode;
use crate::status::{About, FieldError, Status};
use crate::store::Stored;
use crate::user::User;
use crate::wire::WriteKind;

use super::reply;

// === impl ResourceRequest ===

impl ResourceRequest<'_> {
    /// Executes a review.
    pub(super) fn review(&self) -> Result<Response<ResponseBody>, Status> {
        let format = self.format(false)?.without_table()?;
        body::supported(self.content_type(), &Expected::object_of(&self.resource))?;
        let mut options = self.write_options(WriteKind::Create)?;
        let body = self.body(&mut options)?;
        let namespace = self.path.namespace.as_deref();
        let shared = &self.service.shared;
        let (mut review, warnings) = shared
            .write(|cluster, now| cluster.review(&self.resource, namespace, body, &options, now))?;
        let status = self.review_status(&mut review);
        review["status"] = status.map_err(|status| status.with_warnings(warnings.clone()))?;
        let encoded = encode::object(
            &self.resource,
            &Stored::unsaved(review),
            format,
            shared.now(),
        )?;
        let mut response = reply::encoded(StatusCode::CREATED, encoded);
        reply::warn(&mut response, &warnings);
        Ok(response)
    }

    /// Returns the status of `review`, of which it removes what the response does not have.
    fn review_status(&self, review: &mut Value) -> Result<Value, Status> {
        let shared = &self.service.shared;
        let user = &self.call.user;
        Ok(match self.resource.info.kind.as_str() {
            "SelfSubjectReview" => {
                let now = shared.now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
                *review = json!({ "metadata": { "creationTimestamp": now } });
                json!({ "userInfo": user.to_value() })
            }
            "TokenReview" => self.token_status(&review["spec"])?,
            "SelfSubjectRulesReview" => {
                let sent = review["spec"].take();
                review["spec"] = json!({});
                match sent["namespace"].as_str().unwrap_or_default() {
                    "" => return Err(Status::bad_request("no namespace on request")),
                    namespace => self.rules(namespace),
                }
            }
            kind => {
                let names_user = kind != "SelfSubjectAccessReview";
                check(review, names_user, self.path.namespace.as_deref())?;
                let spec = &review["spec"];
                let reviewed = names_user.then(|| reviewed_user(spec));
                let user = reviewed.as_ref().unwrap_or(user);
                json!({ "allowed": self.is_permitted(user, spec) })
            }
        })
    }

    /// Returns the status of a `TokenReview`: the user of the token, or that the token is invalid.
    fn token_status(&self, spec: &Value) -> Result<Value, Status> {
        let token = spec["token"].as_str().unwrap_or_default();
        if token.is_empty() {
            let message = "token is required for TokenReview in authentication";
            return Err(Status::bad_request(message));
        }
        let audiences = spec["audiences"].as_array().into_iter().flatten();
        let mut audiences: Vec<&str> = audiences.filter_map(Value::as_str).collect();
        if audiences.is_empty() {
            audiences.push(AUDIENCE);
        }
        let shared = &self.service.shared;
        let now = shared.now();
        let found = shared.read(|cluster| cluster.user_of_token(token, &audiences, now));
        Ok(match found {
            Ok(found) => json!({
                "authenticated": true,
                "user": found.user.to_value(),
                "audiences": found.audiences,
            }),
            Err(error) => json!({ "user": {}, "error": error.to_string() }),
        })
    }

    /// Returns the status of a `SelfSubjectRulesReview`: the rules that can be listed.
    fn rules(&self, namespace: &str) -> Value {
        let shared = &self.service.shared;
        if shared.authorizes_by_roles() {
            let user = &self.call.user;
            let rules = shared.read(|cluster| cluster.rules_of(user, namespace));
            let (urls, resources): (Vec<_>, Vec<_>) = rules
                .into_iter()
                .partition(|rule| rule.get("nonResourceURLs").is_some());
            return json!({
                "resourceRules": resources, "nonResourceRules": urls, "incomplete": false,
            });
        }
        if shared.authorizes() {
            return json!({
                "resourceRules": [],
                "nonResourceRules": [],
                "incomplete": true,
                "evaluationError": "the authorizer of this server decides request by request",
            });
        }
        json!({
            "resourceRules": [{ "verbs": ["*"], "apiGroups": ["*"], "resources": ["*"] }],
            "nonResourceRules": [{ "verbs": ["*"], "nonResourceURLs": ["*"] }],
            "incomplete": false,
        })
    }

    /// Returns whether `user` is authorized for the attributes in `spec`.
    fn is_permitted(&self, user: &User, spec: &Value) -> bool {
        if let Some(url) = spec.get("nonResourceAttributes") {
            let text = |field: &str| url[field].as_str().unwrap_or_default();
            let shared = &self.service.shared;
            return shared.allows_path(user, text("verb"), text("path"));
        }
        let wanted = spec.get("resourceAttributes");
        let text = |field: &str| {
            let value = wanted.and_then(|wanted| wanted.get(field)?.as_str());
            value.unwrap_or_default().to_owned()
        };
        let shared = &self.service.shared;
        !shared.authorizes()
            || shared.allows(&Attributes {
                user: user.name.clone(),
                groups: user.groups.clone(),
                verb: text("verb"),
                group: text("group"),
                version: text("version"),
                resource: text("resource"),
                subresource: text("subresource"),
                namespace: text("namespace"),
                name: text("name"),
            })
    }
}

/// Validates an access review. `names_user` says whether its spec has a user; `namespace` is that of
/// a local review.
///
/// # Errors
///
/// 422 with all errors. As in Kubernetes, the message has no kind.
fn check(review: &Value, names_user: bool, namespace: Option<&str>) -> Result<(), Status> {
    let spec = &review["spec"];
    let (wanted, url) = (
        spec.get("resourceAttributes"),
        spec.get("nonResourceAttributes"),
    );
    // The error shows the fields with their names in Go.
    let shown = url.map(|url| json!({ "Path": url["path"], "Verb": url["verb"] }));
    let of_url = |why| {
        let value = shown.as_ref().unwrap_or(&Value::Null);
        FieldError::invalid("spec.nonResourceAttributes", value, why)
    };
    let mut errors = Vec::new();
    if wanted.is_some() && url.is_some() {
        errors.push(of_url(
            "cannot be specified in combination with resourceAttributes",
        ));
    } else if wanted.is_none() && url.is_none() {
        let why = "exactly one of nonResourceAttributes or resourceAttributes must be specified";
        errors.push(FieldError::invalid(
            "spec.resourceAttributes",
            &Value::Null,
            why,
        ));
    }
    if names_user {
        let user = reviewed_user(spec);
        if user.name.is_empty() && user.groups.is_empty() {
            let why = "at least one of user or group must be specified";
            errors.push(FieldError::invalid("spec.user", &"".into(), why));
        }
    }
    let metadata = &review["metadata"];
    let ignored = ["managedFields", "creationTimestamp"];
    let mut sent = metadata.as_object().into_iter().flatten();
    let is_sent = |name: &str| !(ignored.contains(&name) || name == "namespace");
    if sent.any(|(name, value)| is_sent(name) && !value.is_null()) {
        let why = if namespace.is_some() {
            "must be empty except for namespace"
        } else {
            "must be empty"
        };
        errors.push(FieldError::invalid("metadata", metadata, why));
    }
    if let Some(namespace) = namespace {
        if let Some(wanted) = wanted
            && wanted["namespace"].as_str().unwrap_or_default() != namespace
        {
            let value = wanted
                .get("namespace")
                .cloned()
                .unwrap_or_else(|| "".into());
            let why = "must match metadata.namespace";
            let path = "spec.resourceAttributes.namespace";
            errors.push(FieldError::invalid(path, &value, why));
        }
        if url.is_some() {
            errors.push(of_url("disallowed on this kind of request"));
        }
    }
    if errors.is_empty() {
        return Ok(());
    }
    let about = About {
        group: "authorization.k8s.io",
        resource: "",
        kind: "",
        name: "",
    };
    Err(Status::invalid(&about, &errors))
}

/// Returns the user in the `spec` of a review.
fn reviewed_user(spec: &Value) -> User {
    let groups = spec["groups"].as_array().into_iter().flatten();
    let groups = groups.filter_map(Value::as_str);
    User {
        name: spec["user"].as_str().unwrap_or_default().to_owned(),
        groups: groups.map(str::to_owned).collect(),
        ..User::default()
    }
}
