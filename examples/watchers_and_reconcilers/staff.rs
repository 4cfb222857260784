//! The handlers: two watchers and two reconcilers.

use std::{
    collections::HashMap,
    convert::Infallible,
    sync::{Arc, Mutex},
};

use k8s_openapi::api::core::v1::ConfigMap;
use windlass::{
    Action, Failure, Outcome, Reconciler, Request, SimpleWatcher, Watcher, handler::State,
};

use crate::{
    output::{Actor, Output},
    parcel,
};

/// A watcher that is a struct.
pub(crate) struct Clerk {
    output: Output,
}

/// A reconciler that is a struct. It counts its attempts in the state of the request.
pub(crate) struct Courier {
    output: Output,
    obstacles: Arc<Obstacles>,
}

/// The addresses to which a delivery fails, with the error.
#[derive(Default)]
pub(crate) struct Obstacles(Mutex<HashMap<String, DeliveryError>>);

/// The error of a delivery.
#[derive(Clone, Copy, Debug, thiserror::Error)]
pub(crate) enum DeliveryError {
    /// A transient error: a later attempt can succeed.
    #[error("{0}")]
    Blocked(&'static str),

    /// A permanent error.
    #[error("the address is forbidden")]
    Forbidden,
}

/// The state that the courier returns when it fails: the number of attempts.
struct Attempts(u32);

// === impl Clerk ===

impl Clerk {
    pub(crate) fn new(output: &Output) -> Self {
        let output = output.clone();
        Self { output }
    }
}

impl Watcher<ConfigMap> for Clerk {
    type Error = Infallible;

    async fn add(&self, parcel: Arc<ConfigMap>) -> Result<(), Infallible> {
        let (name, to) = (parcel::name(&parcel), parcel::to(&parcel));
        self.output
            .print(Actor::Clerk, format_args!("records {name} for {to}"));
        Ok(())
    }

    async fn update(&self, old: Arc<ConfigMap>, new: Arc<ConfigMap>) -> Result<(), Infallible> {
        let name = parcel::name(&new);
        let what = match (parcel::to(&old), parcel::to(&new), parcel::note(&new)) {
            (from, to, _) if from != to => format!("{name}: address changed from {from} to {to}"),
            (_, _, Some(note)) => format!("{name}: note {note:?}"),
            _ => format!("{name}: no relevant change"),
        };
        self.output.print(Actor::Clerk, what);
        Ok(())
    }

    async fn delete(&self, last: Arc<ConfigMap>) -> Result<(), Infallible> {
        let name = parcel::name(&last);
        self.output
            .print(Actor::Clerk, format_args!("removes {name} from the book"));
        Ok(())
    }
}

/// A watcher made of closures. Actions without a closure do nothing.
pub(crate) fn camera(output: &Output) -> SimpleWatcher<ConfigMap> {
    let output = output.clone();
    SimpleWatcher::new().on_add(move |parcel: Arc<ConfigMap>| {
        let name = parcel::name(&parcel);
        output.print(Actor::Camera, format_args!("photographs {name}"));
        async { Ok::<_, Infallible>(()) }
    })
}

/// A reconciler that is a closure.
pub(crate) fn packer(output: &Output) -> impl Reconciler<ConfigMap> + use<> {
    let output = output.clone();
    move |request: Request<ConfigMap>| {
        if request.action() == Action::Created {
            let name = request.key().name();
            output.print(Actor::Packer, format_args!("wraps {name}"));
        }
        async { Ok::<_, Infallible>(Outcome::done()) }
    }
}

// === impl Courier ===

impl Courier {
    pub(crate) fn new(output: &Output, obstacles: &Arc<Obstacles>) -> Self {
        let (output, obstacles) = (output.clone(), Arc::clone(obstacles));
        Self { output, obstacles }
    }
}

impl Reconciler<ConfigMap> for Courier {
    type Error = Failure;

    async fn reconcile(&self, request: Request<ConfigMap>) -> Result<Outcome, Failure> {
        let (parcel, name) = (request.object(), request.key().name());
        let to = parcel::to(parcel);
        let print = |line: String| self.output.print(Actor::Courier, line);
        match request.action() {
            Action::Deleted => print(format!("fetches {name} back")),
            // Only the note is new: nothing to do.
            Action::Updated if request.old().is_some_and(|old| parcel::to(old) == to) => {}
            _ => {
                let earlier = request.state().and_then(State::get::<Attempts>);
                let attempts = earlier.map_or(1, |earlier| earlier.0 + 1);
                if let Some(error) = self.obstacles.error(to) {
                    print(format!("{name}: attempt {attempts}: {error}"));
                    return Err(Failure::from(error).state(State::new(Attempts(attempts))));
                }
                print(format!("delivers {name} to {to}, attempt {attempts}"));
            }
        }
        Ok(Outcome::done())
    }
}

// === impl Obstacles ===

impl Obstacles {
    pub(crate) fn block(&self, address: &str, reason: &'static str) {
        self.set(address, DeliveryError::Blocked(reason));
    }

    pub(crate) fn forbid(&self, address: &str) {
        self.set(address, DeliveryError::Forbidden);
    }

    pub(crate) fn clear(&self, address: &str) {
        let mut errors = self
            .0
            .lock()
            .expect("no thread panics while it holds the lock");
        errors.remove(address);
    }

    fn set(&self, address: &str, error: DeliveryError) {
        let mut errors = self
            .0
            .lock()
            .expect("no thread panics while it holds the lock");
        errors.insert(address.to_owned(), error);
    }

    fn error(&self, address: &str) -> Option<DeliveryError> {
        let errors = self
            .0
            .lock()
            .expect("no thread panics while it holds the lock");
        errors.get(address).copied()
    }
}
