//! Admission webhooks: the handlers' results, and the responses to `AdmissionReview`s.

use std::{
    any::Any, borrow::Cow, collections::BTreeMap, error::Error, fmt, future::Future, pin::pin,
};

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use kube::{
    Resource,
    core::{
        Status, TypeMeta,
        admission::{AdmissionRequest, AdmissionResponse, META_API_VERSION_V1, META_KIND},
    },
};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::{Value, value::RawValue};
use windlass_informer::{
    ErrorChain, GuardedSpan, ObjectKey, api_request::decode_text, log, one_line,
};

use super::{merge::merge, review};
use crate::trace;

/// The warnings of an admission webhook, which the API server passes to its client. kubectl prints
/// them.
///
/// `()` is none, a text is one, and a `Vec` is many. The API server shortens a warning of more than
/// 256 characters, and all of them together to 4096.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Warnings(Vec<String>);

/// A denial of a request: what the client of the API server sees.
///
/// # Example
///
/// ```
/// use windlass_operator::Denied;
///
/// let denied = Denied::new("spec.title is empty").code(422);
/// assert_eq!(denied.to_string(), "spec.title is empty");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Denied {
    message: String,
    code: u16,
    warnings: Warnings,
}

/// Why an admission webhook does not allow a request.
#[derive(Debug)]
#[non_exhaustive]
pub enum AdmissionError {
    /// It denies the request.
    Denied(Denied),
    /// It cannot decide, for example because a request to the API server failed. The response is the
    /// HTTP status 500, so that the API server acts by the `failurePolicy` of the webhook.
    Failed(Box<dyn Error + Send + Sync>),
}

/// A review that was read: the request, its objects as JSON, and the response to complete.
struct Received<'a, T: Resource> {
    path: &'a str,
    /// Without its objects.
    request: AdmissionRequest<T>,
    object: Option<&'a RawValue>,
    old_object: Option<&'a RawValue>,
    response: AdmissionResponse,
}

/// The kind and the version of an object.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct ObjectTypes<'a> {
    #[serde(borrow)]
    pub(super) kind: Cow<'a, str>,
    #[serde(borrow)]
    pub(super) api_version: Cow<'a, str>,
}

// === impl Warnings ===

impl From<()> for Warnings {
    fn from((): ()) -> Self {
        Self::default()
    }
}

impl From<String> for Warnings {
    fn from(warning: String) -> Self {
        Self(vec![warning])
    }
}

impl From<&str> for Warnings {
    fn from(warning: &str) -> Self {
        warning.to_owned().into()
    }
}

impl From<Vec<String>> for Warnings {
    fn from(warnings: Vec<String>) -> Self {
        Self(warnings)
    }
}

// === impl Denied ===

impl Denied {
    /// Creates a denial with the code 403, as controller-runtime has it.
    pub fn new(message: impl fmt::Display) -> Self {
        Self {
            message: message.to_string(),
            code: StatusCode::FORBIDDEN.as_u16(),
            warnings: Warnings::default(),
        }
    }

    /// Sets the HTTP status that the API server returns to its client, such as 422 for an invalid
    /// object. The API server replaces a code below 400 by 400. The default is 403.
    #[must_use]
    pub fn code(self, code: u16) -> Self {
        Self { code, ..self }
    }

    /// Sets warnings beside the message.
    #[must_use]
    pub fn warnings(self, warnings: impl Into<Warnings>) -> Self {
        Self {
            warnings: warnings.into(),
            ..self
        }
    }

    fn status(&self) -> Status {
        let reason = match self.code {
            400 => "BadRequest",
            403 => "Forbidden",
            409 => "Conflict",
            422 => "Invalid",
            _ => "",
        };
        Status::failure(&self.message, reason).with_code(self.code)
    }
}

impl fmt::Display for Denied {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl Error for Denied {}

// === impl AdmissionError ===

impl From<Denied> for AdmissionError {
    fn from(denied: Denied) -> Self {
        Self::Denied(denied)
    }
}

impl From<kube::Error> for AdmissionError {
    fn from(error: kube::Error) -> Self {
        Self::Failed(error.into())
    }
}

// === impl Received ===

impl<'a, T: Resource + DeserializeOwned> Received<'a, T> {
    /// Reads a review. The error is the response to one that is malformed.
    fn read(request: &'a Request<Bytes>) -> Result<Self, Box<Response<Bytes>>> {
        let path = request.uri().path();
        let mut fields: BTreeMap<Cow<'_, str>, &RawValue> =
            review::read(request, META_KIND, META_API_VERSION_V1)?;
        let mut taken = |name| fields.remove(name).filter(|it| it.get() != "null");
        let (object, old_object) = (taken("object"), taken("oldObject"));
        let rest = serde_json::to_string(&fields).unwrap_or_default();
        let mut request: AdmissionRequest<T> = decode_text(&rest).map_err(|error| {
            let text = format!("the request of the review does not decode: {error}");
            Box::new(review::refuse(StatusCode::BAD_REQUEST, text))
        })?;
        request.types = TypeMeta {
            api_version: META_API_VERSION_V1.to_owned(),
            kind: META_KIND.to_owned(),
        };
        let response = AdmissionResponse::from(&request);
        Ok(Self {
            path,
            request,
            object,
            old_object,
            response,
        })
    }

    /// The span of the call of the handler.
    fn span(&self) -> GuardedSpan {
        let AdmissionRequest {
            uid,
            kind,
            name,
            namespace,
            ..
        } = &self.request;
        let key = ObjectKey::new(&**name);
        let key = namespace.iter().fold(key, |key, it| key.within(&**it));
        trace::webhook(self.path, uid, &kind.kind, &key)
    }

    /// Decodes the objects. The error is the response if one does not decode.
    fn decode_objects(mut self) -> Result<Self, Box<Response<Bytes>>> {
        let objects = (
            decode("object", self.object),
            decode("old object", self.old_object),
        );
        match objects {
            (Ok(new), Ok(old)) => (self.request.object, self.request.old_object) = (new, old),
            (Err(error), _) | (_, Err(error)) => {
                let denied = Denied::new(error).code(400);
                return Err(finish(self.path, self.response, Err(denied.into())).into());
            }
        }
        Ok(self)
    }
}

fn decode<T>(field: &str, object: Option<&RawValue>) -> Result<Option<T>, String>
where
    T: Resource + DeserializeOwned,
{
    let Some(object) = object else {
        return Ok(None);
    };
    // Another version may decode too, with other fields. Types such as `DynamicObject` have no kind.
    if let Some(types) = (&() as &dyn Any).downcast_ref::<T::DynamicType>() {
        let expected = [T::kind(types), T::api_version(types)];
        let found: ObjectTypes<'_> = serde_json::from_str(object.get()).unwrap_or_default();
        let found = [found.kind, found.api_version];
        if expected != found {
            let ([kind, version], [other, other_version]) = (expected, found);
            return Err(format!(
                "the {field} is a {other} of {other_version}, and the webhook takes {kind} of {version}; \
                 correct the rules of its configuration"
            ));
        }
    }
    let decoded = decode_text(object.get());
    decoded
        .map(Some)
        .map_err(|error| format!("the {field} does not decode: {error}"))
}

/// Answers a review with the decision of `handler`.
pub(super) async fn validate<T, Fut, W, E>(
    handler: impl Fn(AdmissionRequest<T>) -> Fut,
    request: Request<Bytes>,
) -> Response<Bytes>
where
    T: Resource + DeserializeOwned,
    Fut: Future<Output = Result<W, E>>,
    W: Into<Warnings>,
    E: Into<AdmissionError>,
{
    match Received::read(&request).and_then(Received::decode_objects) {
        Ok(received) => {
            let span = received.span();
            let answer = async {
                let decision = handler(received.request).await;
                let decision = decision.map(Into::into).map_err(Into::into);
                finish(received.path, received.response, decision)
            };
            span.within(pin!(answer)).await
        }
        Err(response) => *response,
    }
}

/// Answers a review with the changes of `handler` to the object.
pub(super) async fn mutate<T, Fut, E>(
    handler: impl Fn(T, AdmissionRequest<T>) -> Fut,
    request: Request<Bytes>,
) -> Response<Bytes>
where
    T: Resource + Serialize + DeserializeOwned,
    Fut: Future<Output = Result<T, E>>,
    E: Into<AdmissionError>,
{
    let received = match Received::<T>::read(&request) {
        Ok(received) => received,
        Err(response) => return *response,
    };
    // A delete has only an old object, which no webhook can change. It may be one that does not decode.
    let Some(raw) = received.object else {
        return finish(received.path, received.response, Ok(Warnings::default()));
    };
    let received = match received.decode_objects() {
        Ok(received) => received,
        Err(response) => return *response,
    };
    let span = received.span();
    let Received {
        path,
        mut request,
        response,
        ..
    } = received;
    let Some(object) = request.object.take() else {
        return finish(path, response, Ok(Warnings::default()));
    };
    let before = serde_json::to_value(&object);
    let after = match span.within(pin!(handler(object, request))).await {
        Ok(object) => serde_json::to_value(&object),
        Err(error) => {
            return span.in_scope(|| finish(path, response, Err(error.into())));
        }
    };
    let (before, after) = match (before, after) {
        (Ok(before), Ok(after)) => (before, after),
        (Err(error), _) | (_, Err(error)) => return finish(path, response, Err(failed(error))),
    };
    if before == after {
        return finish(path, response, Ok(Warnings::default()));
    }
    let patch = match changes(raw, before, after) {
        Ok(patch) => patch,
        Err(error) => return finish(path, response, Err(Denied::new(error).code(400).into())),
    };
    if patch.is_empty() {
        return finish(path, response, Ok(Warnings::default()));
    }
    match response.with_patch(patch) {
        Ok(response) => finish(path, response, Ok(Warnings::default())),
        Err(error) => review::failed(&error.to_string()),
    }
}

/// The changes to `raw` that make the change from `before` to `after`. The error says why `raw` cannot be
/// read.
fn changes(raw: &RawValue, before: Value, after: Value) -> Result<json_patch::Patch, String> {
    let read = || {
        decode_text(raw.get()).map_err(|error| {
            format!("the object cannot be changed, because it does not decode: {error}")
        })
    };
    let mut merged = read()?;
    merge(&mut merged, &before, &after);
    // Read again instead of kept from before, so that at most three values are in memory.
    drop((before, after));
    Ok(json_patch::diff(&read()?, &merged))
}

fn failed(error: impl Into<Box<dyn Error + Send + Sync>>) -> AdmissionError {
    AdmissionError::Failed(error.into())
}

/// Completes the response of the webhook at `path`.
fn finish(
    path: &str,
    mut response: AdmissionResponse,
    decision: Result<Warnings, AdmissionError>,
) -> Response<Bytes> {
    let (warnings, is_denied) = match decision {
        Ok(warnings) => (warnings, false),
        Err(AdmissionError::Denied(denied)) => {
            response.allowed = false;
            response.result = denied.status();
            (denied.warnings, true)
        }
        Err(AdmissionError::Failed(error)) => {
            let error = ErrorChain::new(&*error).to_string();
            log::warn!(path, error, "an admission webhook failed");
            return review::failed(&format!("the webhook failed: {error}"));
        }
    };
    if !warnings.0.is_empty() {
        // The API server drops a warning with a line break.
        let lines = warnings.0.iter().map(|it| one_line(it).into_owned());
        response.warnings = Some(lines.collect());
    }
    review::answer(&response.into_review(), is_denied)
}
