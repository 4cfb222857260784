//! The page `/metrics`: the number of stored objects, with the names of the real server.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use http::Response;
use http::header::{CONTENT_TYPE, HeaderValue};

use super::ResponseBody;
use super::reply;
use crate::shared::Shared;

/// The text format of Prometheus.
const MEDIA_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8; escaping=underscores";

/// Returns the metrics of the server.
pub(super) fn respond(shared: &Shared) -> Response<ResponseBody> {
    let counts: BTreeMap<_, _> = shared.read(|cluster| {
        let resources = cluster.registry.iter().map(|resource| {
            let key = (resource.info.group.clone(), resource.info.plural.clone());
            (key, cluster.store.objects(&resource.table).count())
        });
        resources.collect()
    });
    let mut text = String::from(
        "# HELP apiserver_resource_objects [STABLE] Number of stored objects at the time of last \
         check split by kind. In case of a fetching error, the value will be -1.\n\
         # TYPE apiserver_resource_objects gauge\n",
    );
    for ((group, resource), count) in counts {
        // Writing to a `String` cannot fail.
        _ = writeln!(
            text,
            "apiserver_resource_objects{{group={group:?},resource={resource:?}}} {count}"
        );
    }
    let mut response = reply::text(http::StatusCode::OK, text);
    let media_type = HeaderValue::from_static(MEDIA_TYPE);
    response.headers_mut().insert(CONTENT_TYPE, media_type);
    response
}
