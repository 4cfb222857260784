//! Encodes responses as protobuf. *(pure)*

use std::borrow::Cow;

use http::StatusCode;
use serde_json::Value;
use windlass_protobuf::watch::WatchEvent;
use windlass_protobuf::{EncodeError, encode, encode_as, encode_list, is_known};

use super::shown;
use crate::cluster::Page;
use crate::registry::{Resource, View};
use crate::status::Status;
use crate::store::Stored;
use crate::wire::Presentation;

/// The group and version of metadata that is sent alone.
const META: &str = "meta.k8s.io/v1";

/// Whether whole objects of `resource` have a protobuf form.
pub(crate) fn has_protobuf(resource: &Resource) -> bool {
    !resource.info.custom && is_known(resource.api_version(), &resource.info.kind)
}

/// One object, with its envelope.
pub(super) fn object(
    resource: &Resource,
    stored: &Stored,
    presentation: Presentation,
) -> Result<Vec<u8>, EncodeError> {
    let value = content(resource, stored, presentation);
    match presentation {
        // It has metadata, and nothing else of the object.
        Presentation::Metadata => encode_as(META, "PartialObjectMetadata", &value),
        _ => encode_as(resource.api_version(), &resource.info.kind, &value),
    }
}

/// A list, or a page of one, with its envelope.
pub(super) fn list(
    resource: &Resource,
    page: &Page,
    metadata: &Value,
    presentation: Presentation,
) -> Result<Vec<u8>, EncodeError> {
    let contents: Vec<_> = page
        .items
        .iter()
        .map(|stored| content(resource, stored, presentation))
        .collect();
    let items: Vec<&Value> = contents.iter().map(AsRef::as_ref).collect();
    match presentation {
        Presentation::Metadata => encode_list(META, "PartialObjectMetadataList", metadata, &items),
        _ => encode_list(
            resource.api_version(),
            &resource.info.list_kind,
            metadata,
            &items,
        ),
    }
}

/// Appends the frame of an event, or of an `ERROR` event if its object has no protobuf form.
pub(super) fn event(out: &mut Vec<u8>, kind: &str, object: Result<Vec<u8>, EncodeError>) {
    let framed = |event, object: &[u8]| WatchEvent { event, object }.to_frame();
    let frame = match object {
        Ok(object) => framed(kind, &object),
        Err(error) => encode(&refusal(&error).to_value()).and_then(|it| framed("ERROR", &it)),
    };
    // A `Status` always has a protobuf form, and no object is 4 GiB long.
    out.extend(frame.unwrap_or_default());
}

/// 500: an object that was stored has no protobuf form, and no other form is accepted.
pub(super) fn refusal(error: &EncodeError) -> Status {
    let message = format!("Internal error occurred: {error}");
    Status::failure(StatusCode::INTERNAL_SERVER_ERROR, "InternalError", message)
}

/// The stored object as `resource` shows it, without a copy where that is how it is stored.
fn content<'a>(
    resource: &Resource,
    stored: &'a Stored,
    presentation: Presentation,
) -> Cow<'a, Value> {
    let is_stored_so = resource.view == View::Same && resource.is_up_to_date(stored);
    if is_stored_so || presentation == Presentation::Metadata {
        Cow::Borrowed(stored.value())
    } else {
        Cow::Owned(shown(resource, stored))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use windlass_protobuf::watch::{Frames, WatchEvent};

    use super::super::{EventEncoder, object};
    use crate::registry::Registry;
    use crate::store::Stored;
    use crate::wire::{Encoding, Format, Presentation};

    /// What no typed client could have written.
    fn strange() -> Stored {
        Stored::unsaved(json!({ "metadata": { "name": "a" }, "spec": { "replicas": "3" } }))
    }

    fn format(or_json: bool) -> Format {
        Format {
            presentation: Presentation::Object,
            encoding: Encoding::Protobuf { or_json },
        }
    }

    #[test]
    fn an_object_without_a_protobuf_form_is_sent_as_json_if_that_is_accepted() {
        let registry = Registry::new();
        let deployments = registry
            .find("apps", "v1", "deployments")
            .expect("built in");
        let now = jiff::Timestamp::UNIX_EPOCH;

        let sent = object(deployments, &strange(), format(true), now).expect("JSON");
        assert_eq!(sent.media_type, "application/json");
        let sent: Value = serde_json::from_slice(&sent.bytes).expect("JSON");
        assert_eq!(sent["spec"]["replicas"], "3");

        let refused = object(deployments, &strange(), format(false), now).expect_err("no form");
        assert_eq!(refused.code(), 500);
        assert_eq!(
            refused.message(),
            "Internal error occurred: cannot encode protobuf: Deployment.spec.replicas: must be a \
             32-bit integer"
        );
    }

    #[test]
    fn a_watch_reports_an_object_without_a_protobuf_form() {
        let registry = Registry::new();
        let deployments = registry
            .find("apps", "v1", "deployments")
            .expect("built in");
        let mut encoder = EventEncoder::new(deployments.clone(), format(true));
        let mut bytes = Vec::new();
        let now = jiff::Timestamp::UNIX_EPOCH;
        encoder.event(&mut bytes, "ADDED", &strange(), now);
        let mut frames = Frames::new(1024);
        frames.push(&bytes);
        let frame = frames.next_frame().expect("a frame").expect("a whole one");
        let event = WatchEvent::parse(&frame).expect("an event");
        assert_eq!(event.event, "ERROR");
        assert_eq!(event.object().expect("a status")["code"], 500);
    }
}
