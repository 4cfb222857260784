//! One watch or streamed list, and its timeouts.

use std::{future::Future, ops::Range, pin::Pin, time::Duration};

use bytes::Bytes;
use http::Response;
use kube::{Resource, client::Body};
use rand::Rng as _;
use serde::de::DeserializeOwned;
use tokio::time::Instant;

use super::{Reflector, StepError};
use crate::{
    ObjectKey, StoredForm, Verb, WatchError,
    decode::{LineTooLong, Lines, RawJson},
    log,
    source::{Change, timeouts::TimeBudget, until},
    watch::NextRequest,
};

/// The next thing that happens in a watch.
enum Next {
    Chunk(Option<Bytes>),
    /// An undecodable object was requested again. This is the response.
    Rechecked(ObjectKey, Rechecked),
    /// An undecodable object is due to be requested again.
    Due,
    /// The deadline of the watch has passed.
    Late,
}

/// An object, or `None` if it does not exist.
type Rechecked = Result<Option<Bytes>, WatchError>;
type Recheck<'s> = Pin<Box<dyn Future<Output = (ObjectKey, Rechecked)> + Send + 's>>;

/// The deadlines of a watch.
struct WatchLimits {
    /// When the watch ends in any case.
    ends: Option<Instant>,
    /// When the last line came that shows that the server makes progress.
    alive: Instant,
    /// The remaining time for a streamed list.
    list: TimeBudget,
}

// === impl Reflector ===

impl<'s, K, O> Reflector<'s, K, O>
where
    K: Resource + DeserializeOwned + Send + Sync + 'static,
    O: StoredForm<K>,
{
    /// The requested duration of a watch in seconds, as in client-go: long enough to cost nothing,
    /// and short enough that the watches spread over all API servers after one was restarted.
    const WATCH_SECONDS: Range<u64> = 300..600;

    /// How long after the requested duration a watch may last, so that the server ends it first.
    const GRACE: Duration = Duration::from_secs(30);

    /// Processes one watch to its end. Sets `opened` to the time at which it was opened.
    pub(super) async fn watch(
        &mut self,
        request: &NextRequest,
        opened: &mut Option<Instant>,
    ) -> Result<(), StepError> {
        let lasts = Duration::from_secs(self.rng.random_range(Self::WATCH_SECONDS));
        let response: Response<Body> = self.requests.send(request, lasts).await?;
        let now = Instant::now();
        *opened = Some(now);
        if matches!(request, NextRequest::StreamedList) {
            self.begin_list(false, None).await?;
        } else {
            self.may_show_known = false;
            self.changes.send(Change::Connected).await?;
        }
        // If the silence timeout is longer than a watch, it also limits the watch.
        let silence = self.requests.timeouts.silence;
        let mut limits = WatchLimits {
            ends: now.checked_add(lasts.saturating_add(Self::GRACE).max(silence)),
            // Not `now`: sending may have waited for a handler.
            alive: Instant::now(),
            list: self.requests.time_budget(),
        };
        let mut body = response.into_body();
        let mut lines = Lines::new(self.requests.max_bytes);
        let mut recheck: Option<Recheck<'s>> = None;
        loop {
            let waiting = Instant::now();
            let deadline = self.deadline(&limits, waiting);
            if deadline.is_some_and(|deadline| deadline <= waiting) {
                return self.on_deadline(&limits, waiting);
            }
            let due = match recheck {
                Some(_) => None,
                None => self.quarantine.next().map(|(due, _)| due),
            };
            let next = tokio::select! {
                biased;
                chunk = self.requests.frame(&mut body, Verb::Watch) => Next::Chunk(chunk?),
                (key, rechecked) = recheck_result(&mut recheck) => Next::Rechecked(key, rechecked),
                () = until(due) => Next::Due,
                () = until(deadline) => Next::Late,
            };
            let now = Instant::now();
            limits.list.waited(now.saturating_duration_since(waiting));
            match next {
                // An incomplete line at the end is dropped. The server sends it again after the
                // version from which the next watch resumes.
                Next::Chunk(None) => return Ok(()),
                Next::Chunk(Some(chunk)) => {
                    if self.chunk(&mut lines, chunk).await? {
                        self.session.on_progress();
                        // The time that the informer took for the chunk is not counted.
                        limits.alive = Instant::now();
                    }
                }
                Next::Rechecked(key, rechecked) => {
                    recheck = None;
                    self.rechecked(&key, rechecked).await?;
                }
                Next::Due => recheck = self.recheck(now),
                Next::Late => {}
            }
        }
    }

    /// Processes the lines that `chunk` completes. Returns whether one of them shows progress of
    /// the server.
    async fn chunk(&mut self, lines: &mut Lines, chunk: Bytes) -> Result<bool, StepError> {
        let requests = self.requests;
        let too_long = |error: LineTooLong| requests.too_long(Verb::Watch, error.limit);
        lines.push(chunk).map_err(too_long)?;
        let mut is_alive = false;
        while let Some(line) = lines.next() {
            is_alive |= self.line(line.map_err(too_long)?).await?;
        }
        Ok(is_alive)
    }

    /// When the watch has been silent, or has lasted, for too long. Bytes and empty lines are not
    /// progress: a proxy sends them to keep a connection open.
    fn deadline(&self, limits: &WatchLimits, now: Instant) -> Option<Instant> {
        let timeouts = &self.requests.timeouts;
        let (silence, end) = if self.session.is_following() {
            (timeouts.silence, limits.ends)
        } else {
            (timeouts.progress, now.checked_add(limits.list.left()))
        };
        let silent = limits.alive.checked_add(silence);
        silent.into_iter().chain(end).min()
    }

    /// The deadline of the watch has passed.
    fn on_deadline(&mut self, limits: &WatchLimits, now: Instant) -> Result<(), StepError> {
        let timeouts = &self.requests.timeouts;
        if !self.session.is_following() {
            return Err(StepError::Watch(if limits.list.left().is_zero() {
                self.requests.overdue(Verb::Watch)
            } else {
                self.requests.silent(Verb::Watch, timeouts.progress)
            }));
        }
        if limits.ends.is_some_and(|ends| ends <= now) {
            return Ok(());
        }
        if self.session.expects_bookmarks() {
            return Err(self.requests.silent(Verb::Watch, timeouts.silence).into());
        }
        // Without bookmarks, a quiet watch looks like a dead one. The version of the server
        // distinguishes them.
        self.session.on_silence();
        Ok(())
    }

    /// Requests the undecodable object that is due.
    fn recheck(&mut self, now: Instant) -> Option<Recheck<'s>> {
        let key = self.quarantine.take_due(now)?;
        let (requests, types) = (self.requests, self.types);
        Some(Box::pin(async move {
            let rechecked = requests.object::<K>(types, &key).await;
            (key, rechecked)
        }))
    }

    /// Processes the response for an undecodable object.
    async fn rechecked(&mut self, key: &ObjectKey, rechecked: Rechecked) -> Result<(), StepError> {
        if !self.quarantine.contains(key) {
            // A newer state has come meanwhile, or a delete.
            return Ok(());
        }
        match rechecked {
            Ok(Some(body)) => {
                let raw = RawJson::of(&body);
                // Any other object may be outside of the selector, and no event would remove it.
                let is_requested = (self.decoder.identity(&body)).is_ok_and(|it| it.key == *key);
                if !is_requested {
                    log::debug!(resource = %self.requests.resource, %key, "received another object than the requested one, retrying later");
                } else if self.read(raw).is_ok() {
                    self.send_existing(Verb::Watch, raw).await?;
                }
            }
            // The watch reports the delete.
            Ok(None) => _ = self.quarantine.forget(key),
            Err(error) => {
                log::debug!(resource = %self.requests.resource, %key, %error, "cannot request an undecodable object, retrying later");
            }
        }
        Ok(())
    }
}

/// Waits for the response of the request; for `None` forever.
async fn recheck_result(recheck: &mut Option<Recheck<'_>>) -> (ObjectKey, Rechecked) {
    match recheck {
        Some(recheck) => recheck.await,
        None => std::future::pending().await,
    }
}
