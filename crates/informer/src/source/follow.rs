//! A list and watch as it runs: what the session asks for is sent, and what comes is told.

mod lines;
mod pages;

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use http::Response;
use kube::{Resource, client::Body};
use rand::{Rng as _, rngs::StdRng};
use serde::de::DeserializeOwned;
use tokio::time::{Instant, sleep, sleep_until};
use tracing::Instrument as _;

use super::{Change, Changes, ListWatch, Stopped, request::Requests, workers::Workers};
use crate::{
    DecodeError, Form, Fresh, Identity, Kept, Named as _, ObjectKey, Verb, WatchError,
    decode::{Decoder, LineTooLong, Lines, Raw, Who},
    subscription::Heard,
    trace,
    watch::{Aside, Ask, Session},
};

/// A [`ListWatch`] that runs.
pub(super) struct Follow<'s, K: Resource, O> {
    requests: &'s mut Requests<K>,
    decoder: Arc<Decoder<K>>,
    workers: Workers<K, O>,
    session: Session,
    aside: Aside<Instant>,
    rng: &'s mut StdRng,
    changes: Changes<O>,

    /// Whether a picture is being taken that may show what the store has already. Only then
    /// is an identity worth reading before its object: everything else is news.
    again: bool,
}

/// Why a step did not come to its end.
enum Break {
    /// Nobody hears us any more.
    Stopped,
    Watch(WatchError),
}

impl From<Stopped> for Break {
    fn from(Stopped: Stopped) -> Self {
        Self::Stopped
    }
}

impl From<WatchError> for Break {
    fn from(error: WatchError) -> Self {
        Self::Watch(error)
    }
}

// === impl Break ===

impl Break {
    fn reason(&self) -> &'static str {
        match self {
            Self::Stopped => "stopped",
            Self::Watch(error) => error.reason(),
        }
    }
}

// === impl Follow ===

impl<'s, K, O> Follow<'s, K, O>
where
    K: Resource + DeserializeOwned + Send + Sync + 'static,
    O: Form<K>,
{
    /// What client-go uses: long enough to cost nothing, short enough that the watches of
    /// one API server that came back spread over the others again.
    const LASTS: std::ops::Range<u64> = 300..600;

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
            decoder: Arc::new(
                Decoder::new(requests.types(), trim.clone()).keeping_decoded(*decoded),
            ),
            session: Session::new(Arc::clone(&requests.resource), *backoff, *streamed_lists),
            requests,
            aside: Aside::new(),
            rng,
            changes,
            again: false,
        }
    }

    /// Runs until nobody hears it any more, or it meets what no waiting mends.
    pub(super) async fn run(mut self) -> Result<(), WatchError> {
        loop {
            match self.once().await {
                Ok(()) => {}
                Err(Break::Stopped) => return Ok(()),
                Err(Break::Watch(error)) => return Err(error),
            }
        }
    }

    /// Sends one request, uses what comes, and waits as long as its end asks for.
    async fn once(&mut self) -> Result<(), Break> {
        let mut opened = None;
        let ask = self.session.ask();
        let span = trace::request(&self.requests.resource, &ask);
        let outcome = async {
            match &ask {
                Ask::List { .. } => self.list(&ask).await,
                _ => self.watch(&ask, &mut opened).await,
            }
        };
        let outcome = outcome.instrument(span.clone()).await;
        trace::ended(&span, outcome.as_ref().err().map_or("ended", Break::reason));
        // Whatever wait follows is not a part of the request.
        drop(span);
        let stood = opened.map_or(Duration::ZERO, |opened: Instant| opened.elapsed());
        let wait = match outcome {
            Ok(()) if opened.is_none() => Duration::ZERO,
            Ok(()) => {
                self.changes.send(Change::Ended).await?;
                self.session.ended(stood, self.rng)
            }
            Err(Break::Watch(error)) if !self.session.is_final(&error) => {
                self.workers.drop_all();
                let retry_in = self.session.broke(&error, stood, self.rng);
                self.changes
                    .send(Change::Interrupted { error, retry_in })
                    .await?;
                retry_in
            }
            Err(end) => return Err(end),
        };
        if !wait.is_zero() {
            sleep(wait).await;
        }
        Ok(())
    }

    /// Follows one watch to its end. `opened` becomes when it was opened.
    async fn watch(&mut self, ask: &Ask, opened: &mut Option<Instant>) -> Result<(), Break> {
        let lasts = Duration::from_secs(self.rng.random_range(Self::LASTS));
        let answer: Response<Body> = self.requests.ask(ask, lasts).await?;
        *opened = Some(Instant::now());
        if matches!(ask, Ask::StreamedList) {
            self.begin_picture(false).await?;
        } else {
            self.again = false;
            self.changes.send(Change::Connected).await?;
        }
        let mut body = answer.into_body();
        let mut lines = Lines::new(self.requests.patience.bytes);
        loop {
            let again = self.aside.next().map(|(due, key)| (due, key.clone()));
            let patience = &self.requests.patience;
            let limit = if self.session.is_following() {
                patience.silence
            } else {
                patience.answer
            };
            let chunk = tokio::select! {
                biased;
                chunk = self.requests.chunk(&mut body, Verb::Watch, limit) => chunk?,
                () = until(again.as_ref().map(|(due, _)| *due)) => {
                    if let Some((_, key)) = again {
                        self.look_again(key).await?;
                    }
                    continue;
                }
            };
            // Half a line at the end is dropped: whatever it was comes again after the
            // place that we resume from.
            let Some(chunk) = chunk else { return Ok(()) };
            let too_long = |error: LineTooLong| self.requests.too_long(Verb::Watch, error.limit);
            lines.push(chunk).map_err(too_long)?;
            while let Some(line) = lines.next() {
                let line: Bytes =
                    line.map_err(|error| self.requests.too_long(Verb::Watch, error.limit))?;
                self.line(line).await?;
            }
        }
    }

    /// A whole picture begins, whose objects are cut out of it by their brackets if they
    /// `are_whole`.
    async fn begin_picture(&mut self, are_whole: bool) -> Result<(), Stopped> {
        self.aside.clear();
        self.again = !self.changes.is_empty();
        self.workers.begin(are_whole);
        self.changes.send(Change::ListStarted).await
    }

    /// Reads an object that came over the wire.
    fn read(&self, raw: Raw<'_>) -> Result<Fresh<O>, DecodeError> {
        read(&self.decoder, raw, self.changes.heard())
    }

    /// Tells of an object that is there, and decodes.
    async fn apply(&mut self, fresh: Fresh<O>) -> Result<Kept<O>, Stopped> {
        if !self.aside.is_empty() {
            self.aside.forget(&fresh.kept.key());
        }
        let kept = fresh.kept.clone();
        self.changes.send(Change::Applied(fresh)).await?;
        Ok(kept)
    }

    /// Tells of an object that is there, and says who it is.
    async fn present<'a>(&mut self, verb: Verb, raw: Raw<'a>) -> Result<Who<'a>, Break> {
        let who = self.decoder.who(raw.json);
        let who = who.map_err(|error| self.requests.garbled(verb, error))?;
        if let Some(known) = self.changes.known(&who) {
            if !self.aside.is_empty() {
                self.aside.forget(&who.key());
            }
            self.changes.send(Change::Unchanged(known)).await?;
            return Ok(who);
        }
        match self.read(raw) {
            Ok(object) => _ = self.apply(object).await?,
            Err(error) => {
                let identity = Identity::from(&who);
                self.aside.put(identity.key.clone(), Instant::now());
                self.changes
                    .send(Change::Undecodable { identity, error })
                    .await?;
            }
        }
        Ok(who)
    }

    /// Looks once more at an object that did not decode.
    async fn look_again(&mut self, key: ObjectKey) -> Result<(), Break> {
        // Its turn is over, however the look ends.
        self.aside.put(key.clone(), Instant::now());
        match self.requests.object(&key).await {
            Ok(Some(body)) => {
                let raw = Raw::of(&body);
                if self.decoder.who(&body).is_ok() && self.read(raw).is_ok() {
                    self.present(Verb::Watch, raw).await?;
                }
            }
            // The watch will tell, or has told.
            Ok(None) => _ = self.aside.forget(&key),
            Err(error) => {
                tracing::debug!(resource = %self.requests.resource, %key, %error, "cannot look again at an object that does not decode");
            }
        }
        Ok(())
    }
}

/// Reads an object that came over the wire, decoded for whoever is told: for nobody, if none are.
pub(super) fn read<K, O: Form<K>>(
    decoder: &Arc<Decoder<K>>,
    raw: Raw<'_>,
    heard: &Heard,
) -> Result<Fresh<O>, DecodeError> {
    let fresh = O::read(decoder, raw)?;
    Ok(if heard.any() { fresh } else { fresh.unheard() })
}

/// Waits until `due`, or for ever.
async fn until(due: Option<Instant>) {
    match due {
        Some(due) => sleep_until(due).await,
        None => std::future::pending().await,
    }
}
