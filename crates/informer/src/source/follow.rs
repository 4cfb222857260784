//! A list and watch as it runs: what the session asks for is sent, and what comes is told.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use http::Response;
use kube::{Resource, client::Body};
use rand::{Rng as _, rngs::StdRng};
use serde::{Deserialize, de::DeserializeOwned};
use tokio::time::{Instant, sleep, sleep_until};
use tracing::Instrument as _;

use super::{
    Change, Changes, ListWatch, Stopped,
    request::Requests,
    workers::{Read, Workers},
};
use crate::{
    DecodeError, Form, Identity, ObjectKey, Verb, WatchError,
    decode::{Decoder, Line, LineTooLong, Lines, Page, PageError, PageMeta},
    trace,
    watch::{Answer, Aside, Ask, Session},
};

/// A [`ListWatch`] that runs.
pub(super) struct Follow<K: Resource, O> {
    requests: Requests<K>,
    decoder: Arc<Decoder<K>>,
    workers: Workers<K, O>,
    session: Session,
    aside: Aside<Instant>,
    rng: StdRng,
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

impl<K, O> Follow<K, O>
where
    K: Resource + DeserializeOwned + Send + Sync + 'static,
    O: Form<K>,
{
    /// What client-go uses: long enough to cost nothing, short enough that the watches of
    /// one API server that came back spread over the others again.
    const LASTS: std::ops::Range<u64> = 300..600;

    pub(super) fn new(source: ListWatch<K, O>, changes: Changes<O>) -> Self {
        let ListWatch {
            requests,
            backoff,
            streamed_lists,
            trim,
            rng,
            decoders,
            form: _,
        } = source;
        Self {
            workers: Workers::new(decoders.unwrap_or_else(Workers::<K, O>::default_threads)),
            decoder: Arc::new(Decoder::new(requests.types(), trim)),
            session: Session::new(Arc::clone(&requests.resource), backoff, streamed_lists),
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
                self.session.ended(stood, &mut self.rng)
            }
            Err(Break::Watch(error)) if !self.session.is_final(&error) => {
                self.workers.drop_all();
                let retry_in = self.session.broke(&error, stood, &mut self.rng);
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

    /// Reads one page of a list, object by object as they arrive.
    async fn list(&mut self, ask: &Ask) -> Result<(), Break> {
        let answer = self.requests.ask(ask, Duration::ZERO).await?;
        let patience = self.requests.patience;
        let mut body = answer.into_body();
        let mut page = Page::new(patience.bytes);
        let mut begun = false;
        while let Some(chunk) = self
            .requests
            .chunk(&mut body, Verb::List, patience.answer)
            .await?
        {
            page.push(chunk);
            while let Some(item) = page.next().map_err(|error| self.unreadable(error))? {
                if !begun && let Some(metadata) = page.metadata() {
                    self.begin_page(metadata).await?;
                    begun = true;
                }
                self.item(item).await?;
            }
        }
        let metadata = page
            .end()
            .map_err(|error| self.requests.garbled(Verb::List, error))?;
        if !begun {
            self.begin_page(&metadata).await?;
        }
        self.settle_all().await?;
        if let Some(version) = self.session.paged(&metadata) {
            self.changes
                .send(Change::ListEnded {
                    resource_version: Some(version),
                })
                .await?;
        }
        Ok(())
    }

    /// Looks at what a page says about the list, before any of its items is used.
    async fn begin_page(&mut self, metadata: &PageMeta) -> Result<(), Break> {
        self.session.check(metadata)?;
        if self.session.begins_picture() {
            self.begin_picture().await?;
        }
        Ok(())
    }

    /// Takes one object of a list.
    async fn item(&mut self, json: Bytes) -> Result<(), Break> {
        if !self.again && self.workers.are_wanted() {
            let read = self.workers.put(&self.decoder, json).await;
            return self.settle(read).await;
        }
        let object = if self.again {
            None
        } else {
            O::read(&self.decoder, &json).ok()
        };
        self.settle([Read { json, object }]).await
    }

    /// Takes what the workers still have of a list.
    async fn settle_all(&mut self) -> Result<(), Break> {
        loop {
            let read = self.workers.next(&self.decoder).await;
            if read.is_empty() {
                return Ok(());
            }
            self.settle(read).await?;
        }
    }

    /// Tells of objects of a list that are there. Those that could not be read in one go are
    /// read step by step, which finds out what is wrong.
    async fn settle(&mut self, read: impl IntoIterator<Item = Read<O>>) -> Result<(), Break> {
        for Read { json, object } in read {
            if let Some(object) = object {
                self.apply(object).await?;
                continue;
            }
            let identity = self
                .decoder
                .identity(&json)
                .map_err(|error| self.requests.garbled(Verb::List, error))?;
            self.present(identity, &json).await?;
        }
        Ok(())
    }

    fn unreadable(&self, error: PageError) -> WatchError {
        match error {
            PageError::Garbled(error) => self.requests.garbled(Verb::List, error),
            PageError::TooLong { limit } => self.requests.too_long(Verb::List, limit),
        }
    }

    /// Follows one watch to its end. `opened` becomes when it was opened.
    async fn watch(&mut self, ask: &Ask, opened: &mut Option<Instant>) -> Result<(), Break> {
        let lasts = Duration::from_secs(self.rng.random_range(Self::LASTS));
        let answer: Response<Body> = self.requests.ask(ask, lasts).await?;
        *opened = Some(Instant::now());
        if matches!(ask, Ask::StreamedList) {
            self.begin_picture().await?;
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

    async fn begin_picture(&mut self) -> Result<(), Stopped> {
        self.aside.clear();
        self.again = !self.changes.is_empty();
        self.workers.begin();
        self.changes.send(Change::ListStarted).await
    }

    async fn line(&mut self, line: Bytes) -> Result<(), Break> {
        let there = Line::there(&line).filter(|_| !self.again);
        if !self.session.is_following() {
            if let Some(object) = there
                && self.workers.are_wanted()
            {
                let read = self
                    .workers
                    .put(&self.decoder, line.slice_ref(object))
                    .await;
                return self.settle(read).await;
            }
            self.settle_all().await?;
        }
        if let Some(object) = there
            && let Ok(object) = O::read(&self.decoder, object)
        {
            let object = self.apply(object).await?;
            if let Some(version) = object.resource_version() {
                self.session.followed(version);
            }
            return Ok(());
        }
        let Line { kind, object } =
            Line::read(&line).map_err(|error| self.requests.garbled(Verb::Watch, error))?;
        match &*kind {
            "ADDED" | "MODIFIED" => {
                let identity = self.identity(object)?;
                let version = identity.resource_version.clone();
                self.present(identity, object).await?;
                self.followed(version);
            }
            "DELETED" => {
                let identity = self.identity(object)?;
                let version = identity.resource_version.clone();
                self.aside.forget(&identity.key);
                let last = O::read(&self.decoder, object).ok().map(Arc::new);
                self.changes
                    .send(Change::Deleted { identity, last })
                    .await?;
                self.followed(version);
            }
            "BOOKMARK" => self.bookmark(object).await?,
            "ERROR" => {
                let answer = Answer::read(500, object, None);
                return Err(
                    WatchError::answered(&self.requests.resource, Verb::Watch, answer).into(),
                );
            }
            // A type from the future. Its object may be a change that we must not miss, so
            // we do not read on past it.
            _ => {
                let error = DecodeError::Kind {
                    expected: "a watch event".to_owned(),
                    found: kind.into_owned(),
                };
                return Err(self.requests.garbled(Verb::Watch, error).into());
            }
        }
        Ok(())
    }

    async fn bookmark(&mut self, object: &[u8]) -> Result<(), Break> {
        let Ok(bookmark) = serde_json::from_slice::<Bookmark>(object) else {
            return Ok(());
        };
        let version = bookmark.metadata.resource_version;
        if version.is_empty() {
            return Ok(());
        }
        let picture = !matches!(self.session.ask(), Ask::Watch { .. });
        let ends = bookmark
            .metadata
            .annotations
            .is_some_and(|annotations| annotations.initial_events_end.as_deref() == Some("true"));
        if picture && ends {
            self.session.pictured(&version);
            self.again = false;
            self.changes
                .send(Change::ListEnded {
                    resource_version: Some(version),
                })
                .await?;
            self.changes.send(Change::Connected).await?;
        } else if !picture {
            self.session.followed(&version);
            self.progress().await?;
        }
        Ok(())
    }

    /// Tells of an object that is there, and decodes.
    async fn apply(&mut self, object: O) -> Result<Arc<O>, Stopped> {
        if !self.aside.is_empty() {
            self.aside.forget(&ObjectKey::of(&object));
        }
        let object = Arc::new(object);
        self.changes
            .send(Change::Applied(Arc::clone(&object)))
            .await?;
        Ok(object)
    }

    /// Tells of an object that is there.
    async fn present(&mut self, identity: Identity, object: &[u8]) -> Result<(), Break> {
        if self.changes.has(&identity) {
            self.aside.forget(&identity.key);
            self.changes.send(Change::Unchanged(identity)).await?;
            return Ok(());
        }
        match O::read(&self.decoder, object) {
            Ok(object) => _ = self.apply(object).await?,
            Err(error) => {
                self.aside.put(identity.key.clone(), Instant::now());
                self.changes
                    .send(Change::Undecodable { identity, error })
                    .await?;
            }
        }
        Ok(())
    }

    /// Looks once more at an object that did not decode.
    async fn look_again(&mut self, key: ObjectKey) -> Result<(), Break> {
        // Its turn is over, however the look ends.
        self.aside.put(key.clone(), Instant::now());
        match self.requests.object(&key).await {
            Ok(Some(body)) => {
                if let Ok(identity) = self.decoder.identity(&body)
                    && O::read(&self.decoder, &body).is_ok()
                {
                    self.present(identity, &body).await?;
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

    fn identity(&self, object: &[u8]) -> Result<Identity, Break> {
        self.decoder
            .identity(object)
            .map_err(|error| self.requests.garbled(Verb::Watch, error).into())
    }

    fn followed(&mut self, version: Option<String>) {
        if let Some(version) = version {
            self.session.followed(&version);
        }
    }

    async fn progress(&mut self) -> Result<(), Stopped> {
        let Some(version) = self.session.complete() else {
            return Ok(());
        };
        let resource_version = version.to_owned();
        self.changes
            .send(Change::Progress { resource_version })
            .await
    }
}

#[derive(Deserialize)]
struct Bookmark {
    metadata: BookmarkMeta,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct BookmarkMeta {
    #[serde(default)]
    resource_version: String,
    #[serde(default)]
    annotations: Option<Annotations>,
}

#[derive(Deserialize)]
struct Annotations {
    #[serde(rename = "k8s.io/initial-events-end", default)]
    initial_events_end: Option<String>,
}

/// Waits until `due`, or for ever.
async fn until(due: Option<Instant>) {
    match due {
        Some(due) => sleep_until(due).await,
        None => std::future::pending().await,
    }
}
