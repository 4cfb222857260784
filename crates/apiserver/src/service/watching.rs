//! Starts a watch: determines its first resourceVersion, or returns an error.

use std::ops::Bound;
use std::sync::Arc;
use std::time::Duration;

use futures::stream;
use http::Response;
use tokio::time::Instant;

use super::{ApiService, ResponseBody, reply};
use crate::cluster::{Cluster, DEFINITIONS, selector};
use crate::encode::{self, EventEncoder};
use crate::registry::Resource;
use crate::status::{FieldError, Status};
use crate::store::{Expired, Key};
use crate::watch::{self, DefinitionChanges, Subscription};
use crate::wire::{Encoding, Format, ListOptions, resource_version};

/// The minimum duration of a watch without a timeout in the request. The maximum is twice that.
const MIN_TIMEOUT: Duration = Duration::from_secs(1800);

/// The position at which a watch starts, as the request specifies it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Start {
    /// The current objects, then later events.
    State {
        /// The minimum revision of the current objects.
        at_least: u64,
        /// Whether a bookmark separates the current objects from later events.
        marked: bool,
    },
    /// The events after this revision.
    After(u64),
    /// The events after the start of the watch.
    Now,
}

/// The position at which a watch starts, as a revision.
struct Beginning {
    /// Whether the watch first sends the objects at the revision `sent`.
    has_initial: bool,
    sent: u64,
}

/// Responds to a watch request.
pub(super) async fn respond(
    service: &ApiService,
    resource: Arc<Resource>,
    namespace: Option<String>,
    options: &ListOptions,
    format: Format,
) -> Result<Response<ResponseBody>, Status> {
    let shared = &service.shared;
    let has_watch_list = shared.profile.has_watch_list();
    if options.send_initial_events.is_some() && !has_watch_list {
        let error = FieldError::forbidden(
            "sendInitialEvents",
            "sendInitialEvents is forbidden for watch unless the WatchList feature gate is enabled",
        );
        return Err(Status::invalid_options("ListOptions", &[error]));
    }
    let is_legacy = options.send_initial_events.is_none()
        && matches!(options.resource_version.as_str(), "" | "0");
    if has_watch_list && is_legacy && !options.continue_token.is_empty() {
        // The server sets `resourceVersionMatch` for such a watch.
        let error = FieldError::forbidden(
            "resourceVersionMatch",
            "resourceVersionMatch is forbidden when continue is provided",
        );
        return Err(Status::invalid_options("ListOptions", &[error]));
    }
    let selector = selector(&resource, options)?;
    let start = Start::of(options, has_watch_list)?;
    if format.encoding == Encoding::Yaml {
        return Err(Status::not_acceptable());
    }
    if options.timeout == Some(Duration::ZERO) {
        return Ok(reply::stream(format.encoding, stream::empty()));
    }
    // The timeout begins with the request, even if the watch waits for its first revision.
    let deadline = Instant::now() + options.timeout.unwrap_or_else(|| default_timeout(service));
    if let Start::State { at_least, .. } = start {
        shared.reach(at_least).await;
    }
    // The definition can be deleted after the request has found the resource.
    let begin = |cluster: &Cluster| {
        let resource = cluster.served(&resource)?;
        Ok::<_, Status>(start.begin(cluster, &resource))
    };
    let (beginning, written, cut) = shared.subscribe(&resource.table, begin);
    let Beginning { has_initial, sent } = match beginning? {
        Ok(beginning) => beginning,
        // Later errors are events, because the response has the code 200.
        Err(status) => {
            let line = encode::error_line(&status, format.encoding);
            return Ok(reply::stream(format.encoding, stream::iter([line])));
        }
    };
    let first = Key::new(namespace.as_deref().unwrap_or_default(), "");
    let subscription = Subscription {
        encoder: EventEncoder::new(resource.clone(), format),
        resource,
        namespace,
        selector,
        initial: has_initial.then_some(Bound::Included(first)),
        marks_initial_end: options.bookmarks && matches!(start, Start::State { marked: true, .. }),
        sent,
        bookmarks: options.bookmarks,
        deadline,
    };
    let definition = subscription.resource.info.custom.then(|| {
        let generation = |cluster: &Cluster| cluster.definition_generation(&subscription.resource);
        let (generation, written, _) = shared.subscribe(&DEFINITIONS.into(), generation);
        DefinitionChanges {
            generation,
            written,
        }
    });
    let lines = watch::lines(
        subscription,
        shared.clone(),
        written,
        definition,
        cut,
        service.stop.clone(),
    );
    Ok(reply::stream(format.encoding, lines))
}

fn default_timeout(service: &ApiService) -> Duration {
    // Jitter, so that watches that start at the same time do not end at the same time.
    MIN_TIMEOUT.mul_f64(service.shared.spread())
}

// === impl Start ===

impl Start {
    fn of(options: &ListOptions, has_watch_list: bool) -> Result<Self, Status> {
        let text = &options.resource_version;
        let version = resource_version(text).map_err(|why| {
            Status::untyped(format!("resourceVersion: Invalid value: {text:?}: {why}"))
        })?;
        Ok(match (options.send_initial_events, version) {
            (Some(true), version) => Self::State {
                at_least: version.unwrap_or_default(),
                marked: true,
            },
            (Some(false), None | Some(0)) => Self::Now,
            // A watch without a resourceVersion sends the current objects first, and from 1.34 on a
            // bookmark after them.
            (None, None | Some(0)) => Self::State {
                at_least: 0,
                marked: has_watch_list,
            },
            (_, Some(version)) => Self::After(version),
        })
    }

    fn begin(self, cluster: &Cluster, resource: &Resource) -> Result<Beginning, Status> {
        let current = cluster.store.revision();
        match self {
            Self::Now => Ok(Beginning {
                has_initial: false,
                sent: current,
            }),
            Self::State { at_least, .. } if at_least > current => {
                Err(Status::too_large_resource_version(at_least, current))
            }
            Self::State { .. } => Ok(Beginning {
                has_initial: true,
                sent: current,
            }),
            Self::After(version) => {
                cluster.store.remembers(&resource.table, version).map_err(
                    |Expired { oldest }| {
                        Status::expired(format!("too old resource version: {version} ({oldest})"))
                    },
                )?;
                Ok(Beginning {
                    has_initial: false,
                    sent: version,
                })
            }
        }
    }
}
