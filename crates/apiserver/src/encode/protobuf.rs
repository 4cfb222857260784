//! Encodes responses as protobuf. *(pure)*

use std::borrow::Cow;

use http::StatusCode;
use serde_json::Value;
use windlass_protobuf::watch::WatchEvent;
use windlass_protobuf::{EncodeError, encode, encode_as, encode_list, is_known};

use super::in_version;
use crate::cluster::Page;
use crate::registry::{Resource, View};
use crate::status::Status;
use crate::store::Stored;
use crate::wire::Presentation;

/// Returns whether complete objects of `resource` have a protobuf encoding.
pub(crate) fn has_protobuf(resource: &Resource) -> bool {
    !resource.info.custom && is_known(resource.api_version(), &resource.info.kind)
}

/// Encodes one object with its envelope.
pub(super) fn object(
    resource: &Resource,
    stored: &Stored,
    presentation: Presentation,
) -> Result<Vec<u8>, EncodeError> {
    let value = content(resource, stored, presentation);
    match presentation {
        // It has metadata, and nothing else of the object.
        Presentation::Metadata(version) => {
            encode_as(version.api_version(), "PartialObjectMetadata", &value)
        }
        _ => encode_as(resource.api_version(), &resource.info.kind, &value),
    }
}

/// Encodes a list, or a page of a list, with its envelope.
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
        Presentation::Metadata(version) => encode_list(
            version.api_version(),
            "PartialObjectMetadataList",
            metadata,
            &items,
        ),
        _ => encode_list(
            resource.api_version(),
            &resource.info.list_kind,
            metadata,
            &items,
        ),
    }
}

/// Appends the frame of an event, or of an `ERROR` event if protobuf cannot encode its object.
pub(super) fn event(out: &mut Vec<u8>, kind: &str, object: Result<Vec<u8>, EncodeError>) {
    let framed = |event, object: &[u8]| WatchEvent { event, object }.to_frame();
    let frame = match object {
        Ok(object) => framed(kind, &object),
        Err(error) => encode(&refusal(&error).to_value()).and_then(|it| framed("ERROR", &it)),
    };
    // Protobuf can encode each `Status`, and all objects are smaller than 4 GiB.
    out.extend(frame.unwrap_or_default());
}

/// 500: protobuf cannot encode a stored object, and the client accepts no other encoding.
pub(super) fn refusal(error: &EncodeError) -> Status {
    let message = format!("Internal error occurred: {error}");
    Status::failure(StatusCode::INTERNAL_SERVER_ERROR, "InternalError", message)
}

/// Converts a stored object to the version of `resource`, without a copy if it is stored like that.
fn content<'a>(
    resource: &Resource,
    stored: &'a Stored,
    presentation: Presentation,
) -> Cow<'a, Value> {
    let is_stored_so = resource.view == View::Same && resource.is_up_to_date(stored);
    if is_stored_so || matches!(presentation, Presentation::Metadata(_)) {
        Cow::Borrowed(stored.value())
    } else {
        Cow::Owned(in_version(resource, stored))
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

    /// Creates an object with a field of the wrong type, which protobuf cannot encode.
    fn mistyped() -> Stored {
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

        let sent = object(deployments, &mistyped(), format(true), now).expect("JSON");
        assert_eq!(sent.media_type, "application/json");
        let sent: Value = serde_json::from_slice(&sent.bytes).expect("JSON");
        assert_eq!(sent["spec"]["replicas"], "3");

        let refused = object(deployments, &mistyped(), format(false), now).expect_err("no form");
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
        encoder.event(&mut bytes, "ADDED", &mistyped(), now);
        let mut frames = Frames::new(1024);
        frames.push(&bytes);
        let frame = frames.next_frame().expect("a frame").expect("a whole one");
        let event = WatchEvent::parse(&frame).expect("an event");
        assert_eq!(event.event, "ERROR");
        assert_eq!(event.object().expect("a status")["code"], 500);
    }
}
