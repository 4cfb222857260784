//! The requests that a test refuses or holds, and outages of the server.

use std::fmt::Write as _;

use http::StatusCode;
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::connection::Target;

/// The verb of a request, as in RBAC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Verb {
    /// A read of one object.
    Get,
    /// A list.
    List,
    /// A watch.
    Watch,
    /// A create.
    Create,
    /// An update by PUT.
    Update,
    /// A patch, also by server-side apply.
    Patch,
    /// A deletion.
    Delete,
}

/// Requests that are held, until it is dropped. Created by [`Kit::hold`](super::Kit::hold).
#[derive(Debug)]
#[must_use = "dropping it releases the requests"]
pub struct Hold {
    reached: watch::Receiver<usize>,
    release: CancellationToken,
}

/// An outage of the API server, until it is dropped. Created by [`Kit::outage`](super::Kit::outage).
#[derive(Debug)]
#[must_use = "dropping it ends the outage"]
pub struct Outage {
    ended: CancellationToken,
}

/// The requests to refuse, those to hold, and the running watches.
#[derive(Default)]
pub(super) struct Gates {
    refused: Mutex<Vec<(Verb, String, StatusCode)>>,
    held: Mutex<Vec<HeldRequests>>,
    outages: Mutex<Vec<CancellationToken>>,
    /// Cancelled to end the watches that run.
    watches: Mutex<CancellationToken>,
}

struct HeldRequests {
    verb: Verb,
    resource: String,
    reached: watch::Sender<usize>,
    release: CancellationToken,
}

// === impl Gates ===

impl Gates {
    pub(super) fn refuse_next(&self, verb: Verb, resource: &str, code: StatusCode) {
        self.refused.lock().push((verb, resource.to_owned(), code));
    }

    pub(super) fn add_hold(&self, verb: Verb, resource: &str) -> Hold {
        let (reached, receiver) = watch::channel(0);
        let release = CancellationToken::new();
        self.held.lock().push(HeldRequests {
            verb,
            resource: resource.to_owned(),
            reached,
            release: release.clone(),
        });
        Hold {
            reached: receiver,
            release,
        }
    }

    pub(super) fn begin_outage(&self) -> Outage {
        let ended = CancellationToken::new();
        self.outages.lock().push(ended.clone());
        self.close_watches();
        Outage { ended }
    }

    /// Whether the server is unreachable.
    pub(super) fn has_outage(&self) -> bool {
        let mut outages = self.outages.lock();
        outages.retain(|ended| !ended.is_cancelled());
        !outages.is_empty()
    }

    pub(super) fn close_watches(&self) {
        std::mem::take(&mut *self.watches.lock()).cancel();
    }

    /// Cancelled when the watches that run now end.
    pub(super) fn watches(&self) -> CancellationToken {
        self.watches.lock().clone()
    }

    /// The requests that are held or to be refused, and whether the server is unreachable, for a failure.
    pub(super) fn describe(&self) -> String {
        let mut text = String::new();
        for (verb, resource, code) in &*self.refused.lock() {
            let verb = verb.name();
            _ = write!(text, "\nnot refused yet: {verb} {resource} with {code}");
        }
        for it in &*self.held.lock() {
            if !it.release.is_cancelled() {
                let (verb, reached) = (it.verb.name(), *it.reached.borrow());
                let resource = &it.resource;
                _ = write!(
                    text,
                    "\nheld: {verb} {resource}, of which {reached} arrived"
                );
            }
        }
        if self.has_outage() {
            text += "\nan outage continues";
        }
        text
    }

    /// Whether requests are held.
    pub(super) fn has_holds(&self) -> bool {
        let mut held = self.held.lock();
        held.retain(|it| !it.release.is_cancelled());
        !held.is_empty()
    }

    /// The code with which a request is refused.
    pub(super) fn refuse(&self, target: &Target) -> Option<StatusCode> {
        let mut refused = self.refused.lock();
        let at = refused
            .iter()
            .position(|(verb, resource, _)| verb.fits(target, resource))?;
        Some(refused.remove(at).2)
    }

    /// Waits until no hold fits the request any more.
    pub(super) async fn hold(&self, target: &Target) {
        loop {
            let release = {
                let held = self.held.lock();
                let fits = |it: &&HeldRequests| {
                    !it.release.is_cancelled() && it.verb.fits(target, &it.resource)
                };
                held.iter().find(fits).map(|it| {
                    it.reached.send_modify(|count| *count += 1);
                    it.release.clone()
                })
            };
            let Some(release) = release else { return };
            release.cancelled().await;
        }
    }
}

// === impl Verb ===

impl Verb {
    const fn name(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::List => "list",
            Self::Watch => "watch",
            Self::Create => "create",
            Self::Update => "update",
            Self::Patch => "patch",
            Self::Delete => "delete",
        }
    }

    fn fits(self, target: &Target, resource: &str) -> bool {
        self.name() == target.verb
            && (resource == target.resource || resource == target.full_resource())
    }
}

// === impl Hold ===

impl Hold {
    /// Waits until a request is held, for at most one minute.
    ///
    /// # Panics
    ///
    /// If no request arrives in this time.
    pub async fn reached(&mut self) {
        let reached = self.reached.wait_for(|count| *count > 0);
        let reached = tokio::time::timeout(super::LIMIT, reached).await;
        assert!(
            reached.is_ok(),
            "no request to hold arrived within {:?}",
            super::LIMIT
        );
    }

    /// Lets the requests continue.
    pub fn release(self) {
        self.release.cancel();
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        self.release.cancel();
    }
}

// === impl Outage ===

impl Outage {
    /// Makes the API server reachable again, unless another outage continues.
    pub fn end(self) {
        self.ended.cancel();
    }
}

impl Drop for Outage {
    fn drop(&mut self) {
        self.ended.cancel();
    }
}
