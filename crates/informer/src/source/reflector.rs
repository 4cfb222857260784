//! A list and watch as it runs: sends the requests of the session, and uses the answers.

mod lines;
mod pages;
mod stream;

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use kube::Resource;
use rand::rngs::StdRng;
use serde::de::DeserializeOwned;
use tokio::time::{Instant, sleep};
use tracing::Instrument as _;

use super::{Change, Changes, ListWatch, Stopped, request::Requests, workers::Workers};
use crate::{
    DecodeError, Identity, IncomingObject, LazyObject, ObjectIdentity as _, StoredForm, Verb,
    WatchError,
    decode::{BorrowedIdentity, Decoder, RawJson},
    subscription::SubscriberCount,
    trace,
    watch::{DecodeQuarantine, History, NextRequest, Session},
};

/// A [`ListWatch`] that runs.
pub(super) struct Reflector<'s, K: Resource, O> {
    requests: &'s Requests<K>,
    decoder: Arc<Decoder<K>>,
    workers: Workers<K, O>,
    session: Session,
    quarantine: DecodeQuarantine<Instant>,
    rng: &'s mut StdRng,
    changes: Changes<O>,

    /// Whether a list is being taken that may show what the store has already. Only then
    /// is an identity worth reading before its object: everything else is news.
    again: bool,

    /// Whether the history went back and no list has been whole since. Then the store knows
    /// no object, whatever its version.
    went_back: bool,

    /// Objects of a streamed list that were gone at a later version, as JSON: from a stale
    /// replica, unless the list turns out to be newer.
    held_back: Vec<Bytes>,

    /// How many objects the list had shown after its last page, whether they decode or not.
    shown: usize,
}

/// Why a step did not come to its end.
enum StepError {
    /// The receiver was dropped.
    Stopped,
    Watch(WatchError),
}

impl From<Stopped> for StepError {
    fn from(Stopped: Stopped) -> Self {
        Self::Stopped
    }
}

impl From<WatchError> for StepError {
    fn from(error: WatchError) -> Self {
        Self::Watch(error)
    }
}

// === impl StepError ===

impl StepError {
    fn reason(&self) -> &'static str {
        match self {
            Self::Stopped => "stopped",
            Self::Watch(error) => error.reason(),
        }
    }
}

// === impl Reflector ===

impl<'s, K, O> Reflector<'s, K, O>
where
    K: Resource + DeserializeOwned + Send + Sync + 'static,
    O: StoredForm<K>,
{
    /// Objects that are held back, at most. Each is one that was undecodable before, so there
    /// are few; a stale replica may have many.
    const HELD_BACK: usize = 100;

    /// What they may take, in bytes.
    const HELD_BACK_BYTES: usize = 16 * 1024 * 1024;

    pub(super) fn new(source: &'s mut ListWatch<K, O>, changes: Changes<O>) -> Self {
        let ListWatch {
            requests,
            backoff,
            streamed_lists,
            trim,
            rng,
            decoders,
            decoded,
            form: _,
        } = source;
        Self {
            workers: Workers::new(decoders.unwrap_or_else(Workers::<K, O>::default_threads)),
            decoder: Arc::new(Decoder::new(requests.types(), trim.clone()).keep_decoded(*decoded)),
            session: Session::new(
                Arc::clone(&requests.resource),
                *backoff,
                *streamed_lists,
                requests.timeouts.silence,
            )
            .after(changes.version()),
            requests,
            quarantine: DecodeQuarantine::new(),
            rng,
            changes,
            again: false,
            went_back: false,
            held_back: Vec::new(),
            shown: 0,
        }
    }

    /// Runs until the informer stops.
    pub(super) async fn run(mut self) {
        loop {
            if let Err(Stopped) = self.once().await {
                return;
            }
        }
    }

    /// Sends one request, uses the answer, and waits as long as its end asks for.
    async fn once(&mut self) -> Result<(), Stopped> {
        let mut opened = None;
        let request = self.session.next_request();
        let span = trace::request(&self.requests.resource, &request);
        let outcome = async {
            match &request {
                NextRequest::List { .. } => self.list(&request).await,
                NextRequest::Version => self.version(&request).await,
                NextRequest::StreamedList | NextRequest::Watch { .. } => {
                    self.watch(&request, &mut opened).await
                }
            }
        };
        let outcome = outcome.instrument(span.clone()).await;
        trace::ended(
            &span,
            outcome.as_ref().err().map_or("ended", StepError::reason),
        );
        // Whatever wait follows is not a part of the request.
        drop(span);
        let stood = opened.map_or(Duration::ZERO, |opened: Instant| opened.elapsed());
        let wait = match outcome {
            Ok(()) if opened.is_none() => Duration::ZERO,
            Ok(()) => {
                self.changes.send(Change::Ended).await?;
                self.session.on_end(stood, self.rng)
            }
            Err(StepError::Watch(error)) => {
                self.workers.drop_all();
                let retry_in = self.session.on_error(&error, stood, self.rng);
                self.changes
                    .send(Change::Interrupted { error, retry_in })
                    .await?;
                retry_in
            }
            Err(StepError::Stopped) => return Err(Stopped),
        };
        if !wait.is_zero() {
            sleep(wait).await;
        }
        Ok(())
    }

    /// A whole list begins, whose objects are cut out of it by their brackets if they
    /// `are_whole`.
    async fn begin_list(&mut self, are_whole: bool, history: History) -> Result<(), Stopped> {
        self.quarantine.clear();
        self.held_back.clear();
        if history == History::WentBack {
            tracing::warn!(
                resource = %self.requests.resource,
                "the history of the API server went back; taking its list as it is"
            );
            self.went_back = true;
            self.changes.send(Change::HistoryWentBack).await?;
        }
        self.again = !self.changes.is_empty();
        self.workers.begin(are_whole);
        self.changes.send(Change::ListStarted).await
    }

    /// The list is whole, as of `version`.
    async fn end_list(&mut self, version: String) -> Result<(), Stopped> {
        self.again = false;
        self.went_back = false;
        self.changes
            .send(Change::ListEnded {
                resource_version: Some(version),
            })
            .await
    }

    /// Reads an object that came over the wire.
    fn read(&self, raw: RawJson<'_>) -> Result<IncomingObject<O>, DecodeError> {
        read(&self.decoder, raw, self.changes.subscribers())
    }

    /// Reports an object that is there, and decodes.
    async fn apply(&mut self, fresh: IncomingObject<O>) -> Result<LazyObject<O>, Stopped> {
        if !self.quarantine.is_empty() {
            self.quarantine.forget(&fresh.kept.key());
        }
        let kept = fresh.kept.clone();
        self.changes.send(Change::Applied(fresh)).await?;
        Ok(kept)
    }

    /// Whether an object was deleted before the last complete version: it is from before, and
    /// the store does not have it. A streamed list that is not the first shows such an object
    /// if it comes from a stale replica, so it waits until the version of the list is known.
    fn is_gone(&self, who: &BorrowedIdentity<'_>) -> bool {
        let version = who.resource_version();
        version.is_some_and(|version| self.session.is_past(version)) && !self.changes.has(who)
    }

    /// Reports an object that is there, and returns who it is.
    async fn present<'a>(
        &mut self,
        verb: Verb,
        raw: RawJson<'a>,
    ) -> Result<BorrowedIdentity<'a>, StepError> {
        let who = self.decoder.borrowed_identity(raw.json);
        let who = who.map_err(|error| self.requests.malformed(verb, error))?;
        if !self.went_back
            && let Some(known) = self.changes.known(&who)
        {
            if !self.quarantine.is_empty() {
                self.quarantine.forget(&who.key());
            }
            self.changes.send(Change::Unchanged(known)).await?;
            return Ok(who);
        }
        if self.again && verb == Verb::Watch && self.is_gone(&who) {
            let bytes: usize = self.held_back.iter().map(Bytes::len).sum();
            let is_full = bytes.saturating_add(raw.json.len()) > Self::HELD_BACK_BYTES;
            if is_full || self.held_back.len() >= Self::HELD_BACK {
                return Err(self.session.refuse_stream().into());
            }
            // A copy: a slice would keep the whole chunk.
            self.held_back.push(Bytes::copy_from_slice(raw.json));
            return Ok(who);
        }
        match self.read(raw) {
            Ok(object) => _ = self.apply(object).await?,
            Err(error) => {
                let identity = Identity::from(&who);
                self.quarantine.put(identity.key.clone(), Instant::now());
                self.changes
                    .send(Change::Undecodable { identity, error })
                    .await?;
            }
        }
        Ok(who)
    }
}

/// Reads an object that came over the wire, decoded if there are subscribers.
pub(super) fn read<K, O: StoredForm<K>>(
    decoder: &Arc<Decoder<K>>,
    raw: RawJson<'_>,
    subscribers: &SubscriberCount,
) -> Result<IncomingObject<O>, DecodeError> {
    let fresh = O::read(decoder, raw)?;
    Ok(if subscribers.any() {
        fresh
    } else {
        fresh.without_decoded()
    })
}
