//! A retry policy, a dequeue policy and error handlers, as closures.

use std::{
    future::{Ready, ready},
    sync::Arc,
    time::Duration,
};

use k8s_openapi::api::core::v1::ConfigMap;
use windlass::{
    Action,
    controller::{ErrorReport, ExhaustedCall},
    retry::{Arrival, PendingRetry},
    store::AnyObject,
};

use crate::{
    diary::{Diary, Who},
    parcel,
    staff::Trouble,
};

/// Trouble on the road is tried again soon, and a little later each time; what is forbidden is
/// given up at once.
pub(crate) fn retry(diary: &Diary) -> impl Fn(&ErrorReport<'_>) -> Option<Duration> + use<> {
    let diary = diary.clone();
    move |failed: &ErrorReport<'_>| {
        if let Some(Trouble::Forbidden) = failed.error.downcast_ref() {
            return None;
        }
        let delay = Duration::from_millis(150) * (failed.attempt + 1);
        diary.tell(Who::Office, format_args!("again in {delay:?}"));
        (failed.attempt < 50).then_some(delay)
    }
}

/// A retry is kept while the address stays: a new note brings the parcel no further.
pub(crate) fn dequeue(diary: &Diary) -> impl Fn(&Arrival<'_>, &PendingRetry<'_>) -> bool + use<> {
    fn address(object: &Arc<dyn AnyObject>) -> Option<String> {
        let config = object.typed::<ConfigMap>().ok()??;
        Some(parcel::to(&config).to_owned())
    }
    let diary = diary.clone();
    move |arrival, pending| {
        let moved = address(arrival.object) != address(pending.object);
        let drop = moved || arrival.action == Action::Deleted;
        let name = arrival.key.name();
        let (word, why) = if drop {
            ("drop", "its address is another")
        } else {
            ("keep", "its address is the same")
        };
        diary.tell(
            Who::Office,
            format_args!("{word} the retry for {name}: {why}"),
        );
        drop
    }
}

/// Prints the call that was given up.
pub(crate) fn exhausted(diary: &Diary) -> impl Fn(ExhaustedCall) -> Ready<()> + use<> {
    let diary = diary.clone();
    move |exhausted| {
        let name = exhausted.call().key.name();
        diary.tell(Who::Office, format_args!("given up: {name}: {exhausted}"));
        ready(())
    }
}
