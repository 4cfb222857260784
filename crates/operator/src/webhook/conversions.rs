//! The conversions of one path, and the responses to `ConversionReview`s.

use std::{
    borrow::Cow,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
};

use bytes::Bytes;
use http::{Request, Response};
use kube::core::Status;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use tokio::task::yield_now;
use windlass_informer::{ObjectKey, log, one_line, panic_message};

use super::review;

/// The conversions of one path: each converts another kind.
#[derive(Clone, Default)]
pub(super) struct Conversions(Vec<Arc<dyn ErasedConversion>>);

/// A [`Conversion`] with its type erased.
pub(super) trait ErasedConversion: Send + Sync {
    /// The kind, and its group.
    fn kind(&self) -> [Cow<'static, str>; 2];

    /// Converts an object. The error does not name it.
    fn convert(
        &self,
        object: &RawValue,
        head: &Head,
        desired: &str,
    ) -> Result<Box<RawValue>, String>;
}

/// The fields that name an object. They can be read of an object that does not decode.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Head {
    pub(super) kind: String,
    pub(super) api_version: String,
    metadata: Name,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Name {
    name: String,
    namespace: Option<String>,
}

/// The request of a review.
#[derive(Deserialize)]
struct ConversionRequest<'a> {
    uid: String,
    #[serde(rename = "desiredAPIVersion")]
    desired: String,
    #[serde(borrow)]
    objects: Vec<&'a RawValue>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ConversionReview {
    kind: &'static str,
    api_version: &'static str,
    response: ConversionResponse,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ConversionResponse {
    uid: String,
    result: Status,
    converted_objects: Vec<Box<RawValue>>,
}

const META_KIND: &str = "ConversionReview";
const META_API_VERSION_V1: &str = "apiextensions.k8s.io/v1";

// === impl Conversions ===

impl Conversions {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds a conversion. Returns whether its kind has no other one.
    pub(super) fn add(&mut self, conversion: impl ErasedConversion + 'static) -> bool {
        let is_new = self.0.iter().all(|it| it.kind() != conversion.kind());
        self.0.push(Arc::new(conversion));
        is_new
    }

    /// Answers a review.
    pub(super) async fn answer(&self, request: Request<Bytes>) -> Response<Bytes> {
        let read = review::read(&request, META_KIND, META_API_VERSION_V1);
        let ConversionRequest {
            uid,
            desired,
            objects,
        } = match read {
            Ok(request) => request,
            Err(response) => return *response,
        };
        let respond = |result: Status, converted_objects| {
            let is_refused = result.is_failure();
            let response = ConversionResponse {
                uid,
                result,
                converted_objects,
            };
            let review = ConversionReview {
                kind: META_KIND,
                api_version: META_API_VERSION_V1,
                response,
            };
            review::answer(&review, is_refused)
        };
        let mut converted = Vec::with_capacity(objects.len());
        for object in objects {
            match self.convert(object, &desired) {
                Ok(object) => converted.push(object),
                Err(error) => {
                    return respond(Status::failure(&error, "ConversionFailed"), Vec::new());
                }
            }
            // A list can have many objects, and other tasks use the same threads.
            yield_now().await;
        }
        respond(Status::success(), converted)
    }

    /// Converts an object, and names it if the conversion fails or panics.
    pub(super) fn convert(
        &self,
        object: &RawValue,
        desired: &str,
    ) -> Result<Box<RawValue>, String> {
        let head: Head = serde_json::from_str(object.get()).unwrap_or_default();
        if head.api_version == desired {
            return Ok(object.to_owned());
        }
        let group = |version: &str| version.rsplit_once('/').map_or("", |it| it.0).to_owned();
        let of_kind = [&*head.kind, &*group(&head.api_version)];
        let (error, panic) = if let Some(conversion) = self.0.iter().find(|it| it.kind() == of_kind)
        {
            let convert = || conversion.convert(object, &head, desired);
            match catch_unwind(AssertUnwindSafe(convert)) {
                Ok(Ok(converted)) => return Ok(converted),
                Ok(Err(error)) => (error, None),
                Err(panic) => {
                    let panic = panic_message(panic);
                    (format!("the conversion panicked: {panic}"), Some(panic))
                }
            }
        } else {
            let kinds: Vec<_> = self.0.iter().map(|it| it.kind()[0].clone()).collect();
            (format!("this webhook converts {}", kinds.join(", ")), None)
        };
        let key = ObjectKey::new(&*head.metadata.name);
        let key = (head.metadata.namespace.iter()).fold(key, |key, it| key.within(&**it));
        let (kind, from) = (&head.kind, &head.api_version);
        let failed = format!("cannot convert {kind} {key} from {from} to {desired}: {error}");
        // Any client can state the names.
        let [kind, object, from, to] =
            [kind, &*key.to_string(), from, desired].map(|it| one_line(it).into_owned());
        match panic {
            Some(message) => {
                log::error!(kind, object, from, to, message, "a conversion panicked");
            }
            // Without the error: it may quote the object.
            None => log::warn!(kind, object, from, to, "a conversion failed"),
        }
        Err(failed)
    }
}
