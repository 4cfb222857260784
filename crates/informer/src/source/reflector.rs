//! The running list and watch, as client-go's reflector: sends the requests of the session, and
//! processes their responses. `ListWatch::run` creates one for each run of the informer.

mod lines;
mod pages;
mod repetition;
mod reports;
mod stream;

use std::{pin::pin, sync::Arc, time::Duration};

use bytes::Bytes;
use kube::Resource;
use rand::rngs::StdRng;
use serde::de::DeserializeOwned;
use tokio::time::{Instant, sleep};

use self::{repetition::RepetitionCheck, reports::Reports};
use super::{
    Change, Changes, ListWatch, Stopped, list_watch::Settings, request::Requests, workers::Workers,
};
use crate::{
    DecodeError, HistoryWentBack, Identity, IncomingObject, LazyObject, ObjectIdentity, Shard,
    StoredForm, Verb, WatchError,
    decode::{BorrowedIdentity, Decoder, RawJson, pending_finalizers},
    log,
    subscription::SubscriberCount,
    trace,
    watch::{DecodeQuarantine, NextRequest, Session},
};

/// The state of one run of a [`ListWatch`].
pub(super) struct Reflector<'s, K: Resource, O> {
    types: &'s K::DynamicType,
    requests: &'s Requests,
    decoder: Arc<Decoder<K>>,
    workers: Workers<K, O>,
    session: Session,
    quarantine: DecodeQuarantine<Instant>,
    rng: &'s mut StdRng,
    changes: Changes<O>,

    /// Whether the current list may show objects that the store already has. Only then is the
    /// identity read before the object.
    may_show_known: bool,

    /// Whether the history went back and no list has been complete since. Then no stored object
    /// counts as known.
    went_back: bool,

    /// Objects of a streamed list, as JSON, that may have been deleted at a later version: then the
    /// list comes from a stale replica. They are sent if the version of the list shows that it is
    /// newer.
    held_back: Vec<Bytes>,

    /// Detects a current list that repeats its objects without an end.
    repetition: RepetitionCheck,

    /// What was logged.
    reports: Reports,
}

/// The shortest time of a watch that the read timeout of the client ends without being a failure: a
/// shorter one would lead to many requests.
const SHORTEST_TIMEOUT: Duration = Duration::from_secs(1);

/// Why a step ended early.
enum StepError {
    /// The informer has stopped.
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
    /// The maximum number of objects that are held back. A list that is not stale has few of them:
    /// only those that did not decode before. A stale replica may send many.
    const MAX_HELD_BACK: usize = 100;

    /// The maximum size in bytes of the objects that are held back.
    const MAX_HELD_BACK_BYTES: usize = 16 * 1024 * 1024;

    pub(super) fn new(source: &'s mut ListWatch<K, O>, changes: Changes<O>) -> Self {
        let ListWatch {
            types, settings, ..
        } = source;
        let Settings {
            requests,
            waits,
            streamed_lists,
            trim,
            rng,
            decoders,
            decoded,
            decode_cache,
        } = settings;
        Self {
            workers: Workers::new(decoders.unwrap_or_else(Workers::<K, O>::default_threads)),
            decoder: Arc::new(Decoder::new(types, trim.clone(), *decoded, *decode_cache)),
            session: Session::new(
                Arc::clone(&requests.resource),
                waits.clone(),
                *streamed_lists,
                requests.timeouts.silence,
            )
            .after(changes.version()),
            types,
            requests,
            quarantine: DecodeQuarantine::new(),
            rng,
            changes,
            may_show_known: false,
            went_back: false,
            held_back: Vec::new(),
            repetition: RepetitionCheck::default(),
            reports: Reports::default(),
        }
    }

    /// Runs until the informer stops.
    pub(super) async fn run(mut self) {
        loop {
            if let Err(Stopped) = self.run_request().await {
                return;
            }
        }
    }

    /// Sends the next request of the session, processes its response, and waits for the time that the
    /// session demands.
    async fn run_request(&mut self) -> Result<(), Stopped> {
        let mut opened = None;
        let request = self.session.next_request();
        let span = trace::request(&self.requests.resource, &request);
        let outcome = {
            let step = pin!(async {
                match &request {
                    NextRequest::List { .. } => self.list(&request).await,
                    NextRequest::Version => self.version(&request).await,
                    NextRequest::StreamedList | NextRequest::Watch { .. } => {
                        self.watch(&request, &mut opened).await
                    }
                }
            });
            span.within(step).await
        };
        trace::ended(
            &span,
            outcome.as_ref().err().map_or("ended", StepError::reason),
        );
        // The wait is not a part of the request.
        drop(span);
        let connected = opened.map_or(Duration::ZERO, |opened: Instant| opened.elapsed());
        let wait = match outcome {
            Ok(()) if opened.is_none() => self.wait_after_list(),
            Ok(()) => {
                self.changes.send(Change::Ended).await?;
                self.report_missing_namespace(connected).await;
                self.session.on_end(connected, self.rng)
            }
            Err(StepError::Watch(error)) if self.session.is_expected(&error) => {
                log::debug!(%error, "the server does not support the request, using another one");
                self.session.on_error(&error, connected, self.rng)
            }
            Err(StepError::Watch(error))
                if self.session.is_following()
                    && is_read_timeout(&error)
                    && connected >= SHORTEST_TIMEOUT =>
            {
                self.report_read_timeout(connected);
                self.changes.send(Change::Ended).await?;
                self.session.on_read_timeout(connected);
                Duration::ZERO
            }
            Err(StepError::Watch(error)) => {
                self.workers.drop_all();
                let retry_in = self.session.on_error(&error, connected, self.rng);
                let error = self.requests.named.explain(error).await;
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

    /// Begins a list. `are_whole` says whether the end of each object is known from its brackets, and
    /// `went_back` whether its version shows that the history went back.
    async fn begin_list(
        &mut self,
        are_whole: bool,
        went_back: Option<HistoryWentBack>,
    ) -> Result<(), Stopped> {
        self.quarantine.clear();
        self.held_back.clear();
        self.repetition = RepetitionCheck::default();
        if let Some(went_back) = went_back {
            log::warn!(
                resource = %self.requests.resource,
                seen = %went_back.seen,
                listed = %went_back.listed,
                "the history of the API server went back, replacing the store by its list"
            );
            self.went_back = true;
            self.changes
                .send(Change::HistoryWentBack(went_back))
                .await?;
        }
        self.may_show_known = !self.changes.is_empty();
        self.workers.begin(are_whole);
        self.changes.send(Change::ListStarted).await
    }

    /// Ends a list with `version`, which is empty if the kind has none.
    async fn end_list(&mut self, version: String) -> Result<(), Stopped> {
        let resource_version = Some(version).filter(|version| !version.is_empty());
        self.may_show_known = false;
        self.went_back = false;
        self.repetition = RepetitionCheck::default();
        self.changes
            .send(Change::ListEnded { resource_version })
            .await
    }

    /// Counts an object of a list.
    ///
    /// # Errors
    ///
    /// [`WatchErrorCause::Inconsistent`](crate::WatchErrorCause) if the list repeats its objects.
    fn count_listed(&mut self) -> Result<(), WatchError> {
        const MAX: usize = RepetitionCheck::MAX_REPEATED;
        self.repetition.received += 1;
        if self.repetition.received >= MAX && !self.has_new_objects() {
            return Err(self.session.repeats_objects(MAX));
        }
        Ok(())
    }

    /// Whether the list has shown a new object since the last check. The store lags by a few
    /// objects, so the numbers are approximate; but new objects increase them.
    fn has_new_objects(&mut self) -> bool {
        let undecodable = self.quarantine.len();
        let shown = self
            .changes
            .shown()
            .saturating_add(self.repetition.dropped.len());
        self.repetition.check(shown, undecodable)
    }

    /// Reads an object.
    fn read(&self, raw: RawJson<'_>) -> Result<IncomingObject<O>, DecodeError> {
        read(&self.decoder, raw, self.changes.subscribers())
    }

    /// Sends a decoded object.
    async fn send_decoded(
        &mut self,
        incoming: IncomingObject<O>,
    ) -> Result<LazyObject<O>, Stopped> {
        if !self.quarantine.is_empty() {
            self.quarantine.forget(&incoming.lazy.key());
        }
        let lazy = incoming.lazy.clone();
        self.changes.send(Change::Applied(incoming)).await?;
        Ok(lazy)
    }

    /// Whether the identity of an object has to be read before the object.
    fn reads_identity_first(&self) -> bool {
        self.may_show_known || self.requests.shard.is_some()
    }

    /// Whether the informer keeps an object: all, or those of its shard.
    fn is_kept(&self, object: &impl ObjectIdentity) -> bool {
        let shard = self.requests.shard;
        shard.is_none_or(|shard| shard.contains(object.uid().unwrap_or_default()))
    }

    /// Whether an object was deleted before the last complete version: its state is older, and the
    /// store does not have it. A streamed relist shows such an object if it comes from a stale
    /// replica. The object is held back until the version of the list is known.
    fn was_deleted(&self, identity: &BorrowedIdentity<'_>) -> bool {
        let version = identity.resource_version();
        version.is_some_and(|version| self.session.is_stale(version)) && !self.changes.has(identity)
    }

    /// Reads the identity of an object that exists, and returns it. Sends the object: as unchanged if
    /// the store has this state, as applied if it decodes, and otherwise as undecodable. An object
    /// that may have been deleted is held back instead, and one of another shard is dropped.
    async fn send_existing<'a>(
        &mut self,
        verb: Verb,
        raw: RawJson<'a>,
    ) -> Result<BorrowedIdentity<'a>, StepError> {
        let identity = self.decoder.borrowed_identity(raw.json);
        let identity = identity.map_err(|error| self.requests.malformed(verb, error))?;
        if !self.is_kept(&identity) {
            let uid = identity.uid().unwrap_or_default();
            self.repetition.dropped.insert(Shard::hash(uid));
            return Ok(identity);
        }
        if !self.went_back
            && let Some(known) = self.changes.known(&identity)
        {
            if !self.quarantine.is_empty() {
                self.quarantine.forget(&identity.key());
            }
            self.changes.send(Change::Unchanged(known)).await?;
            return Ok(identity);
        }
        if self.may_show_known && verb == Verb::Watch && self.was_deleted(&identity) {
            let bytes: usize = self.held_back.iter().map(Bytes::len).sum();
            let is_full = bytes.saturating_add(raw.json.len()) > Self::MAX_HELD_BACK_BYTES;
            if is_full || self.held_back.len() >= Self::MAX_HELD_BACK {
                return Err(self.session.refuse_stream().into());
            }
            // A copy, because a slice would keep the whole chunk in memory.
            self.held_back.push(Bytes::copy_from_slice(raw.json));
            return Ok(identity);
        }
        match self.read(raw) {
            Ok(object) => _ = self.send_decoded(object).await?,
            Err(error) => {
                let identity = Identity::from(&identity);
                self.quarantine.put(identity.key.clone(), Instant::now());
                self.changes
                    .send(Change::Undecodable {
                        identity,
                        error,
                        finalizers: pending_finalizers(raw.json),
                    })
                    .await?;
            }
        }
        Ok(identity)
    }
}

/// Whether the client ended the response because it received nothing for its read timeout.
fn is_read_timeout(error: &WatchError) -> bool {
    let mut source = std::error::Error::source(error);
    while let Some(error) = source {
        let io = error.downcast_ref::<std::io::Error>();
        if io.is_some_and(|it| it.kind() == std::io::ErrorKind::TimedOut) {
            return true;
        }
        source = error.source();
    }
    false
}

/// Reads an object, and keeps the decoded object if the informer has subscribers.
pub(super) fn read<K, O: StoredForm<K>>(
    decoder: &Arc<Decoder<K>>,
    raw: RawJson<'_>,
    subscribers: &SubscriberCount,
) -> Result<IncomingObject<O>, DecodeError> {
    let incoming = O::read(decoder, raw)?;
    Ok(if subscribers.any() {
        incoming
    } else {
        incoming.without_decoded()
    })
}
