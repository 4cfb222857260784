//! The start of a watch: its first version, or the reason why it is refused.

use std::ops::Bound;
use std::sync::Arc;
use std::time::Duration;

use futures::stream;
use http::Response;
use tokio::time::Instant;

use super::{ApiService, ResponseBody, reply};
use crate::cluster::{Cluster, selector};
use crate::encode::{self, EventEncoder};
use crate::registry::Resource;
use crate::status::{FieldError, Status};
use crate::store::{Expired, Key};
use crate::watch::{self, Subscription};
use crate::wire::{Format, ListOptions, resource_version};

/// How long a watch runs at least, if the request names no timeout; at most twice that.
const MIN_TIMEOUT: Duration = Duration::from_secs(1800);

/// From where a watch tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Start {
    /// The objects that are there, then what happens.
    State {
        /// No older than this.
        at_least: u64,
        /// Whether a bookmark tells the two apart.
        marked: bool,
    },
    /// What happens after this.
    After(u64),
    /// What happens from now on.
    Now,
}

/// What a watch begins with.
struct Beginning {
    /// Whether the objects at `sent` come first.
    has_initial: bool,
    sent: u64,
}

/// Answers a watch request.
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
    let selector = selector(&resource, options)?;
    let start = Start::of(options, has_watch_list)?;
    // The deadline counts from the request, also if the start has to be waited for.
    let deadline = Instant::now() + options.timeout.unwrap_or_else(|| default_timeout(service));
    if let Start::State { at_least, .. } = start {
        shared.reach(at_least).await;
    }
    // Its definition may have gone since the request found the resource.
    let begin = |cluster: &Cluster| {
        let resource = cluster.served(&resource)?;
        Ok::<_, Status>(start.begin(cluster, &resource))
    };
    let (beginning, written, cut) = shared.subscribe(&resource.table, begin);
    let Beginning { has_initial, sent } = match beginning? {
        Ok(beginning) => beginning,
        // From here on errors are events: the client has its 200.
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
    let lines = watch::lines(
        subscription,
        shared.clone(),
        written,
        cut,
        service.stop.clone(),
    );
    Ok(reply::stream(format.encoding, lines))
}

fn default_timeout(service: &ApiService) -> Duration {
    // Spread, so that watches that began together don't all end together.
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
            // A watch that names no version begins with what is there, and from 1.34 on
            // says where that ends.
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
