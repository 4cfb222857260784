//! Reviews: authentication and authorization queries, which the server does not store.

use http::{Response, StatusCode};
use serde_json::{Value, json};

use super::ResponseBody;
use super::resources::ResourceRequest;
use crate::authorize::Attributes;
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
        let format = self.format(false)?;
        let mut options = self.write_options(WriteKind::Create)?;
        let body = self.body(&mut options)?;
        let namespace = self.path.namespace.as_deref();
        let shared = &self.service.shared;
        let (mut review, warnings) = shared
            .write(|cluster, now| cluster.review(&self.resource, namespace, body, &options, now))?;
        let user = &self.call.user;
        let status = match self.resource.info.kind.as_str() {
            "SelfSubjectReview" => {
                let now = shared.now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
                review = json!({ "metadata": { "creationTimestamp": now } });
                json!({ "userInfo": user.to_value() })
            }
            "TokenReview" => self.token_status(&review["spec"])?,
            "SelfSubjectRulesReview" => {
                let sent = review["spec"].take();
                review["spec"] = json!({});
                self.rules(sent["namespace"].as_str().unwrap_or_default())
            }
            "SelfSubjectAccessReview" => {
                json!({ "allowed": self.is_permitted(user, &review["spec"], None)? })
            }
            _ => {
                let user = reviewed_user(&review["spec"])?;
                json!({ "allowed": self.is_permitted(&user, &review["spec"], namespace)? })
            }
        };
        review["status"] = status;
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

    /// Returns the status of a `TokenReview`: the user of the token, or that the token is invalid.
    fn token_status(&self, spec: &Value) -> Result<Value, Status> {
        let token = spec["token"].as_str().unwrap_or_default();
        if token.is_empty() {
            let message = "token is required for TokenReview in authentication";
            return Err(Status::bad_request(message));
        }
        let shared = &self.service.shared;
        let now = shared.now();
        Ok(
            match shared.read(|cluster| cluster.user_of_token(token, now)) {
                Some(user) => json!({ "authenticated": true, "user": user.to_value() }),
                None => json!({ "user": {}, "error": "invalid bearer token" }),
            },
        )
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

    /// Returns whether `user` is authorized for the attributes in `spec`, in `namespace` if it is set.
    fn is_permitted(
        &self,
        user: &User,
        spec: &Value,
        namespace: Option<&str>,
    ) -> Result<bool, Status> {
        let wanted = spec.get("resourceAttributes");
        if wanted.is_some() == spec.get("nonResourceAttributes").is_some() {
            let why =
                "exactly one of nonResourceAttributes or resourceAttributes must be specified";
            let path = "spec.resourceAttributes";
            return Err(invalid(FieldError::invalid(path, &Value::Null, why)));
        }
        let text = |field: &str| {
            let value = wanted.and_then(|wanted| wanted.get(field)?.as_str());
            value.unwrap_or_default().to_owned()
        };
        if let Some(namespace) = namespace
            && text("namespace") != namespace
        {
            let path = "spec.resourceAttributes.namespace";
            let error = FieldError::invalid(
                path,
                &text("namespace").into(),
                "must match metadata.namespace",
            );
            return Err(invalid(error));
        }
        let shared = &self.service.shared;
        // All users are authorized to read the discovery documents.
        Ok(!shared.authorizes()
            || wanted.is_none()
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
            }))
    }
}

/// Returns the user in the `spec` of a review.
fn reviewed_user(spec: &Value) -> Result<User, Status> {
    let name = spec["user"].as_str().unwrap_or_default();
    let groups = spec["groups"].as_array().into_iter().flatten();
    let groups: Vec<_> = groups
        .filter_map(Value::as_str)
        .map(str::to_owned)
        .collect();
    if name.is_empty() && groups.is_empty() {
        let why = "at least one of user or group must be specified";
        return Err(invalid(FieldError::invalid("spec.user", &"".into(), why)));
    }
    Ok(User {
        name: name.to_owned(),
        groups,
        ..User::default()
    })
}

/// 422: a review is invalid. As in Kubernetes, the message has no kind.
fn invalid(error: FieldError) -> Status {
    let about = About {
        group: "authorization.k8s.io",
        resource: "",
        kind: "",
        name: "",
    };
    Status::invalid(&about, &[error])
}
