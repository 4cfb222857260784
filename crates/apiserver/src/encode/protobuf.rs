//! Answers as protobuf. *(pure)*

use std::borrow::Cow;

use http::StatusCode;
use serde_json::Value;
use windlass_protobuf::watch::WatchEvent;
use windlass_protobuf::{EncodeError, encode, encode_as, encode_list, is_known};

use super::{follows_schema, shown};
use crate::cluster::Page;
use crate::registry::{Resource, View};
use crate::status::Status;
use crate::store::Stored;
use crate::wire::Presentation;

/// The group and version of metadata that is sent alone.
const META: &str = "meta.k8s.io/v1";

/// Whether whole objects of `resource` have a protobuf form.
pub(crate) fn has_protobuf(resource: &Resource) -> bool {
    !resource.info.custom && is_known(&resource.api_version(), &resource.info.kind)
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
        _ => encode_as(&resource.api_version(), &resource.info.kind, &value),
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
            &resource.api_version(),
            &resource.info.list_kind,
            metadata,
            &items,
        ),
    }
}

/// Appends the frame of an event; one that says why, if there is no object for it.
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
    let is_stored_so = resource.view == View::Same && follows_schema(resource, stored);
    if is_stored_so || presentation == Presentation::Metadata {
        Cow::Borrowed(stored.value())
    } else {
        Cow::Owned(shown(resource, stored))
    }
}
