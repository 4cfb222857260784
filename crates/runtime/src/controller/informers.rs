//! Informers for the arguments of kube-runtime's builder.

use std::{num::NonZeroU32, sync::Arc, time::Duration};

use kube::{Api, Resource, api::PartialObjectMeta};
use serde::de::DeserializeOwned;
use tokio::time::sleep;
use windlass_informer::{
    Change, Changes, Informer, InvalidListWatch, ListWatch, Source, Stored, Trim, Verb, WatchError,
    WatchErrorCause, log,
};

use super::{delays::Delays, watch_errors::WatchErrors};
use crate::watcher;

/// A source that cannot work, because a selector is invalid. The builder of kube-runtime cannot fail,
/// so that the informer reports the error.
pub(super) struct Refused {
    resource: String,
    why: String,
}

/// How often the error of a [`Refused`] source is reported.
const REPEATED: Duration = Duration::from_secs(30);

/// The plural name and the group of `K`.
pub(super) fn name<K: Resource>(dyntype: &K::DynamicType) -> String {
    let (plural, group) = (K::plural(dyntype), K::group(dyntype));
    if group.is_empty() {
        plural.into_owned()
    } else {
        format!("{plural}.{group}")
    }
}

/// The list and watch of the objects of `api` that `config` selects, with all their fields.
pub(super) fn source<K: Resource>(
    api: Api<K>,
    dyntype: K::DynamicType,
    config: &watcher::Config,
    delays: &Arc<Delays>,
) -> Result<ListWatch<K>, Refused> {
    let resource = name::<K>(&dyntype);
    note_unused(&resource, config);
    let delays = Arc::clone(delays);
    let source = ListWatch::from((api, dyntype))
        .trim(Trim::nothing())
        .delays(move |failures| delays.after(failures));
    selected(source, config).map_err(|why| Refused {
        resource,
        why: why.to_string(),
    })
}

/// Applies the selectors and the page size of `config`.
fn selected<K: Resource>(
    mut source: ListWatch<K>,
    config: &watcher::Config,
) -> Result<ListWatch<K>, InvalidListWatch> {
    if let Some(size) = config.page_size.and_then(NonZeroU32::new) {
        source = source.page_size(size);
    }
    // An empty selector selects everything.
    let is_set = |selector: &&String| !selector.trim().is_empty();
    if let Some(labels) = config.label_selector.as_ref().filter(is_set) {
        source = source.labels(labels)?;
    }
    if let Some(fields) = config.field_selector.as_ref().filter(is_set) {
        source = source.fields(fields)?;
    }
    Ok(source)
}

/// Logs which settings have no effect: those that let kube-runtime read old data, or give up
/// bookmarks.
fn note_unused(resource: &str, config: &watcher::Config) {
    let any = matches!(config.list_semantic, watcher::ListSemantic::Any);
    let unused = [
        (any, "any_semantic"),
        (!config.bookmarks, "disable_bookmarks"),
        (config.timeout.is_some(), "timeout"),
    ];
    for (_, setting) in unused.iter().filter(|(is_set, _)| *is_set) {
        log::info!(resource, setting, "setting of the watch has no effect");
    }
}

/// The informer of a source.
pub(super) fn of<K>(source: Result<ListWatch<K>, Refused>, errors: &Arc<WatchErrors>) -> Informer<K>
where
    K: Resource + DeserializeOwned + Send + Sync + 'static,
{
    match source {
        Ok(source) => informer(source, errors),
        Err(refused) => informer(refused, errors),
    }
}

/// The informer of a source that only requests and keeps the metadata of each object.
pub(super) fn metadata<K>(
    source: Result<ListWatch<K>, Refused>,
    errors: &Arc<WatchErrors>,
) -> Informer<PartialObjectMeta<K>>
where
    K: Resource + DeserializeOwned + Send + Sync + 'static,
{
    match source {
        // Managed fields of objects of which only the owners are read take memory for nothing.
        Ok(source) => informer(source.trim(Trim::default()).metadata(), errors),
        Err(refused) => informer(refused, errors),
    }
}

fn informer<K: Stored>(source: impl Source<K>, errors: &Arc<WatchErrors>) -> Informer<K> {
    let errors = Arc::clone(errors);
    Informer::builder(source)
        .on_error(move |problem| errors.report(problem))
        .build()
}

// === impl Refused ===

impl<K: Stored> Source<K> for Refused {
    fn resource(&self) -> String {
        self.resource.clone()
    }

    async fn run(&mut self, changes: Changes<K>) -> Result<(), WatchError> {
        loop {
            let cause = WatchErrorCause::Invalid {
                message: self.why.clone(),
            };
            let interrupted = Change::Interrupted {
                error: WatchError::new(&*self.resource, Verb::List, cause),
                retry_in: REPEATED,
            };
            if changes.send(interrupted).await.is_err() {
                return Ok(());
            }
            sleep(REPEATED).await;
        }
    }
}
