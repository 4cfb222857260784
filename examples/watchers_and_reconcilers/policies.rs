//! A retry policy, a dequeue policy and error handlers, as closures.

use std::{
    future::{Ready, ready},
    sync::Arc,
    time::Duration,
};

use k8s_openapi::api::core::v1::ConfigMap;
use windlass::{
    Action,
    controller::{DeadLetter, ErrorReport},
    retry::{NewEvent, PendingCall},
    store::ErasedObject,
};

use crate::{
    output::{Actor, Output},
    parcel,
    staff::DeliveryError,
};

/// Retries a transient error with a growing delay, and a permanent error not at all.
pub(crate) fn retry(output: &Output) -> impl Fn(&ErrorReport<'_>) -> Option<Duration> + use<> {
    let output = output.clone();
    move |failed: &ErrorReport<'_>| {
        if let Some(DeliveryError::Forbidden) = failed.error.downcast_ref() {
            return None;
        }
        let delay = Duration::from_millis(150) * (failed.attempt + 1);
        output.print(Actor::Office, format_args!("retry in {delay:?}"));
        (failed.attempt < 50).then_some(delay)
    }
}

/// Keeps a retry unless the address has changed or the parcel is deleted.
pub(crate) fn dequeue(output: &Output) -> impl Fn(&NewEvent<'_>, &PendingCall<'_>) -> bool + use<> {
    fn address(object: &Arc<dyn ErasedObject>) -> Option<String> {
        let config = object.typed::<ConfigMap>().ok()??;
        Some(parcel::to(&config).to_owned())
    }
    let output = output.clone();
    move |arrival, pending| {
        let moved = address(arrival.object) != address(pending.object);
        let drop = moved || arrival.action == Action::Deleted;
        let name = arrival.key.name();
        let (verb, reason) = if drop {
            ("drop", "its address has changed")
        } else {
            ("keep", "its address is the same")
        };
        output.print(
            Actor::Office,
            format_args!("{verb} the retry for {name}: {reason}"),
        );
        drop
    }
}

/// Prints the call that the retry policy does not repeat any more.
pub(crate) fn exhausted(output: &Output) -> impl Fn(DeadLetter) -> Ready<()> + use<> {
    let output = output.clone();
    move |letter| {
        let name = letter.key.name();
        output.print(
            Actor::Office,
            format_args!("no more retries: {name}: {letter}"),
        );
        ready(())
    }
}
