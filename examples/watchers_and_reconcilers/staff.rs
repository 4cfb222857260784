//! Who works at the post office: two watchers and two reconcilers.

use std::{
    collections::HashMap,
    convert::Infallible,
    sync::{Arc, Mutex},
};

use k8s_openapi::api::core::v1::ConfigMap;
use windlass::{Action, Failure, Outcome, Reconciler, Request, SimpleWatcher, State, Watcher};

use crate::{
    diary::{Diary, Who},
    parcel,
};

/// A watcher as a struct.
pub(crate) struct Clerk {
    diary: Diary,
}

/// A reconciler as a struct, which remembers its tries from call to call.
pub(crate) struct Courier {
    diary: Diary,
    roads: Arc<Roads>,
}

/// What keeps the courier from delivering, by address.
#[derive(Default)]
pub(crate) struct Roads(Mutex<HashMap<String, Trouble>>);

/// Why a parcel cannot be delivered.
#[derive(Clone, Copy, Debug, thiserror::Error)]
pub(crate) enum Trouble {
    /// It may go better another time.
    #[error("{0}")]
    Road(&'static str),

    /// It will not.
    #[error("the address is forbidden")]
    Forbidden,
}

/// How often the courier has been on the road with one parcel: what it leaves when it fails.
struct Tries(u32);

// === impl Clerk ===

impl Clerk {
    pub(crate) fn new(diary: &Diary) -> Self {
        let diary = diary.clone();
        Self { diary }
    }
}

impl Watcher<ConfigMap> for Clerk {
    type Error = Infallible;

    async fn add(&self, parcel: Arc<ConfigMap>) -> Result<(), Infallible> {
        let (name, to) = (parcel::name(&parcel), parcel::to(&parcel));
        self.diary
            .tell(Who::Clerk, format_args!("books {name}, for {to}"));
        Ok(())
    }

    async fn update(&self, old: Arc<ConfigMap>, new: Arc<ConfigMap>) -> Result<(), Infallible> {
        let name = parcel::name(&new);
        let what = match (parcel::to(&old), parcel::to(&new), parcel::note(&new)) {
            (from, to, _) if from != to => format!("{name}: not {from}, but {to}"),
            (_, _, Some(note)) => format!("{name}: note {note:?}"),
            _ => format!("{name}: nothing that matters"),
        };
        self.diary.tell(Who::Clerk, what);
        Ok(())
    }

    async fn delete(&self, last: Arc<ConfigMap>) -> Result<(), Infallible> {
        let name = parcel::name(&last);
        self.diary
            .tell(Who::Clerk, format_args!("strikes {name} out"));
        Ok(())
    }
}

/// A watcher made of closures: what is not set does nothing.
pub(crate) fn camera(diary: &Diary) -> SimpleWatcher<ConfigMap> {
    let diary = diary.clone();
    SimpleWatcher::new().on_add(move |parcel: Arc<ConfigMap>| {
        let name = parcel::name(&parcel);
        diary.tell(Who::Camera, format_args!("takes a picture of {name}"));
        async { Ok::<_, Infallible>(()) }
    })
}

/// A reconciler that is a closure.
pub(crate) fn packer(diary: &Diary) -> impl Reconciler<ConfigMap> + use<> {
    let diary = diary.clone();
    move |request: Request<ConfigMap>| {
        if request.action() == Action::Created {
            let name = request.key().name();
            diary.tell(Who::Packer, format_args!("wraps {name}"));
        }
        async { Ok::<_, Infallible>(Outcome::done()) }
    }
}

// === impl Courier ===

impl Courier {
    pub(crate) fn new(diary: &Diary, roads: &Arc<Roads>) -> Self {
        let (diary, roads) = (diary.clone(), Arc::clone(roads));
        Self { diary, roads }
    }
}

impl Reconciler<ConfigMap> for Courier {
    type Error = Failure;

    async fn reconcile(&self, request: Request<ConfigMap>) -> Result<Outcome, Failure> {
        let (parcel, name) = (request.object(), request.key().name());
        let to = parcel::to(parcel);
        let tell = |what: String| self.diary.tell(Who::Courier, what);
        match request.action() {
            Action::Deleted => tell(format!("fetches {name} back")),
            // A new note, and the same way to go.
            Action::Updated if request.old().is_some_and(|old| parcel::to(old) == to) => {}
            _ => {
                let tries = request.state().and_then(State::get::<Tries>);
                let tries = tries.map_or(1, |before| before.0 + 1);
                if let Some(trouble) = self.roads.trouble(to) {
                    tell(format!("{name}: try {tries}: {trouble}"));
                    return Err(Failure::from(trouble).state(State::new(Tries(tries))));
                }
                tell(format!("brings {name} to {to}, at try {tries}"));
            }
        }
        Ok(Outcome::done())
    }
}

// === impl Roads ===

impl Roads {
    pub(crate) fn block(&self, address: &str, why: &'static str) {
        self.set(address, Trouble::Road(why));
    }

    pub(crate) fn forbid(&self, address: &str) {
        self.set(address, Trouble::Forbidden);
    }

    pub(crate) fn clear(&self, address: &str) {
        let mut troubles = self
            .0
            .lock()
            .expect("no thread panics while it holds the lock");
        troubles.remove(address);
    }

    fn set(&self, address: &str, trouble: Trouble) {
        let mut troubles = self
            .0
            .lock()
            .expect("no thread panics while it holds the lock");
        troubles.insert(address.to_owned(), trouble);
    }

    fn trouble(&self, address: &str) -> Option<Trouble> {
        let troubles = self
            .0
            .lock()
            .expect("no thread panics while it holds the lock");
        troubles.get(address).copied()
    }
}
