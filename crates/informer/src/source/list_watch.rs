//! List and watch through an API server.

use std::{fmt, num::NonZeroU32, sync::Arc, time::Duration};

use bytes::Bytes;
use http::Response;
use kube::{Api, Resource, client::Body};
use rand::{Rng, SeedableRng as _, rngs::StdRng};
use serde::{Deserialize, de::DeserializeOwned};
use tokio::time::{Instant, sleep, sleep_until};

use super::{
    Change, Changes, Source, Stopped,
    request::{Requests, resource_name},
};
use crate::{
    Backoff, DecodeError, Identity, Trim, WatchError,
    decode::{Decoder, Line, Lines},
    watch::{Answer, Aside, Ask, Session, Verb},
};

/// Lists and watches the objects of a kind through an API server.
///
/// # Contract
///
/// *Promised.* The first list is consistent: it shows every write that was answered before
/// it was asked for. It comes as a stream where the server streams lists, and in pages where
/// it does not. A watch that breaks resumes where it was; only a history that is gone asks
/// for another list, and what that list shows unchanged is neither decoded nor told again.
/// An object that does not decode is set aside and looked at again, now and then; the
/// others flow on. Errors are told and retried with a backoff of this source's own.
///
/// *Not promised.* That each state of an object is seen.
///
/// An [`Api`] alone is a source with these defaults:
///
/// | what | default |
/// |--|--|
/// | selectors | none |
/// | page size | 500 |
/// | streamed lists | yes, where the server can |
/// | backoff | [`Backoff::CLIENT_GO`] |
/// | length of a watch | 5 to 10 minutes, at random |
/// | silence that breaks a watch | 3 minutes: the server sends a bookmark each minute |
/// | longest line of a watch, longest page of a list | 256 MiB |
/// | fields dropped | `metadata.managedFields` |
///
/// # Example
///
/// ```no_run
/// use k8s_openapi::api::core::v1::Pod;
/// use kube::{Api, Client};
/// use windlass_informer::{Informer, ListWatch};
///
/// # fn main() -> Result<(), windlass_informer::InvalidListWatch> {
/// # let client: Client = unimplemented!();
/// let web = ListWatch::new(Api::<Pod>::namespaced(client, "shop"))
///     .labels("app=web")?
///     .fields("status.phase=Running")?;
/// let pods = Informer::new(web);
/// # Ok(())
/// # }
/// ```
#[must_use = "a source does nothing until an informer runs it"]
pub struct ListWatch<K: Resource> {
    requests: Requests<K>,
    backoff: Backoff,
    streamed_lists: bool,
    trim: Trim,
    rng: StdRng,
}

/// Why a list and watch cannot be as it was asked for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidListWatch {
    /// A selector is empty or holds characters that no selector holds.
    #[error("{which} selector {selector:?} is not valid: {why}")]
    Selector {
        /// `label` or `field`.
        which: &'static str,
        /// What was given.
        selector: String,
        /// What is wrong with it.
        why: &'static str,
    },
}

// === impl ListWatch ===

impl<K: Resource> ListWatch<K> {
    /// What client-go and kubectl use.
    pub const DEFAULT_PAGE_SIZE: NonZeroU32 = NonZeroU32::new(500).unwrap();

    /// Three bookmarks, which the API server sends once a minute.
    pub const DEFAULT_SILENCE: Duration = Duration::from_secs(180);

    /// A page of 500 objects at the size limit of etcd is larger; one of real objects is
    /// not.
    pub const DEFAULT_MAX_BYTES: usize = 256 * 1024 * 1024;

    /// What client-go uses: long enough to cost nothing, short enough that the watches of
    /// one API server that came back spread over the others again.
    const LASTS: std::ops::Range<u64> = 300..600;

    /// Lists and watches what `api` reaches: all namespaces, or one.
    ///
    /// A kind that is known only at run time comes with its type: `ListWatch::new((api,
    /// api_resource))`.
    pub fn new(api: impl Into<Self>) -> Self {
        api.into()
    }

    /// Only objects with these labels: `app=web,tier in (front, back),!legacy`.
    ///
    /// An object that ceases to match is told as deleted.
    ///
    /// # Errors
    ///
    /// [`InvalidListWatch`] if no API server could read `selector`. What only the server can
    /// know comes back from [`Informer::run`](crate::Informer::run).
    pub fn labels(mut self, selector: impl Into<String>) -> Result<Self, InvalidListWatch> {
        self.requests.labels = checked("label", selector.into())?;
        Ok(self)
    }

    /// Only objects with these fields: `status.phase=Running`. Which fields can be selected
    /// depends on the kind.
    ///
    /// # Errors
    ///
    /// [`InvalidListWatch`] if no API server could read `selector`. What only the server can
    /// know comes back from [`Informer::run`](crate::Informer::run).
    pub fn fields(mut self, selector: impl Into<String>) -> Result<Self, InvalidListWatch> {
        let selector = selector.into();
        if selector.split(',').any(|term| !term.contains('=')) {
            return Err(InvalidListWatch::Selector {
                which: "field",
                selector,
                why: "each term must be `path=value` or `path!=value`",
            });
        }
        self.requests.fields = checked("field", selector)?;
        Ok(self)
    }

    /// How many objects a page of a list holds. The default is 500.
    pub fn page_size(mut self, size: NonZeroU32) -> Self {
        self.requests.page_size = size.get();
        self
    }

    /// Whether lists are streamed where the server can. The default is yes; what happens
    /// where it cannot is found out once, and costs one request.
    pub fn streamed_lists(self, streamed_lists: bool) -> Self {
        Self {
            streamed_lists,
            ..self
        }
    }

    /// How long to wait after a break.
    pub fn backoff(self, backoff: Backoff) -> Self {
        Self { backoff, ..self }
    }

    /// How long a connection may be silent before it is given up. The default is 3 minutes.
    /// Below the minute in which the server sends a bookmark, quiet watches break for
    /// nothing.
    pub fn silence(mut self, silence: Duration) -> Self {
        self.requests.patience.silence = silence;
        self
    }

    /// The greatest number of bytes of one page of a list, and of one line of a watch.
    pub fn max_bytes(mut self, bytes: usize) -> Self {
        self.requests.patience.bytes = bytes;
        self
    }

    /// Which fields are dropped before an object is kept.
    pub fn trim(self, trim: Trim) -> Self {
        Self { trim, ..self }
    }

    /// Makes the jitter of waits the same in each run.
    pub fn seed(self, seed: u64) -> Self {
        Self {
            rng: StdRng::seed_from_u64(seed),
            ..self
        }
    }
}

impl<K: Resource> From<Api<K>> for ListWatch<K>
where
    K::DynamicType: Default,
{
    fn from(api: Api<K>) -> Self {
        Self::from((api, K::DynamicType::default()))
    }
}

impl<K: Resource> From<(Api<K>, K::DynamicType)> for ListWatch<K> {
    fn from((api, types): (Api<K>, K::DynamicType)) -> Self {
        Self {
            requests: Requests::new(api, types),
            backoff: Backoff::CLIENT_GO,
            streamed_lists: true,
            trim: Trim::default(),
            rng: StdRng::from_os_rng(),
        }
    }
}

impl<K: Resource> fmt::Debug for ListWatch<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ListWatch")
            .field("requests", &self.requests)
            .field("backoff", &self.backoff)
            .field("streamed_lists", &self.streamed_lists)
            .finish_non_exhaustive()
    }
}

impl<K> Source<K> for ListWatch<K>
where
    K: Resource + DeserializeOwned + Send + Sync + 'static,
{
    fn resource(&self) -> String {
        self.requests.resource.to_string()
    }

    async fn run(self, changes: Changes<K>) -> Result<(), WatchError> {
        let resource = Arc::clone(&self.requests.resource);
        let mut run = Run {
            decoder: Decoder::new(self.requests.types(), Arc::new(self.trim)),
            requests: self.requests,
            session: Session::new(resource, self.backoff, self.streamed_lists),
            aside: Aside::new(),
            rng: self.rng,
            changes,
        };
        loop {
            match run.once().await {
                Ok(()) => {}
                Err(Break::Stopped) => return Ok(()),
                Err(Break::Watch(error)) => return Err(error),
            }
        }
    }
}

impl<K> Source<K> for Api<K>
where
    K: Resource + DeserializeOwned + Send + Sync + 'static,
    K::DynamicType: Default,
{
    fn resource(&self) -> String {
        resource_name::<K>(&K::DynamicType::default())
    }

    async fn run(self, changes: Changes<K>) -> Result<(), WatchError> {
        ListWatch::new(self).run(changes).await
    }
}

impl<K> Source<K> for (Api<K>, K::DynamicType)
where
    K: Resource + DeserializeOwned + Send + Sync + 'static,
{
    fn resource(&self) -> String {
        resource_name::<K>(&self.1)
    }

    async fn run(self, changes: Changes<K>) -> Result<(), WatchError> {
        ListWatch::new(self).run(changes).await
    }
}

/// A source that runs.
struct Run<K: Resource> {
    requests: Requests<K>,
    decoder: Decoder<K>,
    session: Session,
    aside: Aside<Instant>,
    rng: StdRng,
    changes: Changes<K>,
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

// === impl Run ===

impl<K: Resource + DeserializeOwned> Run<K> {
    /// Sends one request, uses what comes, and waits as long as its end asks for.
    async fn once(&mut self) -> Result<(), Break> {
        let mut opened = None;
        let outcome = match self.session.ask() {
            ask @ Ask::List { .. } => self.list(&ask).await,
            ask => self.watch(&ask, &mut opened).await,
        };
        let stood = opened.map_or(Duration::ZERO, |opened: Instant| opened.elapsed());
        let wait = match outcome {
            Ok(()) if opened.is_none() => Duration::ZERO,
            Ok(()) => {
                self.changes.send(Change::Ended).await?;
                self.session.ended(stood, &mut self.rng)
            }
            Err(Break::Watch(error)) if !self.session.is_final(&error) => {
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

    async fn list(&mut self, ask: &Ask) -> Result<(), Break> {
        let answer = self.requests.ask(ask, Duration::ZERO).await?;
        let body = self.requests.whole(answer, Verb::List).await?;
        let page = self
            .decoder
            .page(&body)
            .map_err(|error| self.requests.garbled(Verb::List, error))?;
        self.session.check(&page)?;
        if self.session.begins_picture() {
            self.aside.clear();
            self.changes.send(Change::ListStarted).await?;
        }
        for item in &page.items {
            let identity = self
                .decoder
                .identity(item.get())
                .map_err(|error| self.requests.garbled(Verb::List, error))?;
            self.present(identity, item.get()).await?;
        }
        if let Some(version) = self.session.paged(&page) {
            self.changes
                .send(Change::ListEnded {
                    resource_version: Some(version),
                })
                .await?;
        }
        Ok(())
    }

    /// Follows one watch to its end. `opened` becomes when it was opened.
    async fn watch(&mut self, ask: &Ask, opened: &mut Option<Instant>) -> Result<(), Break> {
        let lasts = Duration::from_secs(self.rng.random_range(ListWatch::<K>::LASTS));
        let answer: Response<Body> = self.requests.ask(ask, lasts).await?;
        *opened = Some(Instant::now());
        if matches!(ask, Ask::StreamedList) {
            self.aside.clear();
            self.changes.send(Change::ListStarted).await?;
        } else {
            self.changes.send(Change::Connected).await?;
        }
        let mut body = answer.into_body();
        let mut lines = Lines::new(self.requests.patience.bytes);
        loop {
            let again = self.aside.next().map(|(due, key)| (due, key.clone()));
            let chunk = tokio::select! {
                biased;
                chunk = self.requests.chunk(&mut body, Verb::Watch) => chunk?,
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
            let too_long = |_| WatchError::TooLong {
                resource: Arc::clone(&self.requests.resource),
                verb: Verb::Watch,
                limit: self.requests.patience.bytes,
            };
            lines.push(chunk).map_err(too_long)?;
            while let Some(line) = lines.next() {
                let line: Bytes = line.map_err(|error| WatchError::TooLong {
                    resource: Arc::clone(&self.requests.resource),
                    verb: Verb::Watch,
                    limit: error.limit,
                })?;
                self.line(&line).await?;
            }
        }
    }

    async fn line(&mut self, line: &[u8]) -> Result<(), Break> {
        let Line { kind, object } = self
            .decoder
            .line(line)
            .map_err(|error| self.requests.garbled(Verb::Watch, error))?;
        let object = object.get();
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
                let last = self.decoder.object(object).ok().map(Arc::new);
                self.changes
                    .send(Change::Deleted { identity, last })
                    .await?;
                self.followed(version);
            }
            "BOOKMARK" => self.bookmark(object).await?,
            "ERROR" => {
                let answer = Answer::read(500, object.as_bytes(), None);
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

    async fn bookmark(&mut self, object: &str) -> Result<(), Break> {
        let Ok(bookmark) = serde_json::from_str::<Bookmark>(object) else {
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

    /// Tells of an object that is there.
    async fn present(&mut self, identity: Identity, object: &str) -> Result<(), Break> {
        if self.changes.has(&identity) {
            self.aside.forget(&identity.key);
            self.changes.send(Change::Unchanged(identity)).await?;
            return Ok(());
        }
        match self.decoder.object(object) {
            Ok(object) => {
                self.aside.forget(&identity.key);
                self.changes.send(Change::Applied(Arc::new(object))).await?;
            }
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
    async fn look_again(&mut self, key: crate::ObjectKey) -> Result<(), Break> {
        // Its turn is over, however the look ends.
        self.aside.put(key.clone(), Instant::now());
        match self.requests.object(&key).await {
            Ok(Some(body)) => {
                let Ok(object) = std::str::from_utf8(&body) else {
                    return Ok(());
                };
                if let Ok(identity) = self.decoder.identity(object)
                    && self.decoder.object(object).is_ok()
                {
                    self.present(identity, object).await?;
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

    fn identity(&self, object: &str) -> Result<Identity, Break> {
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

fn checked(which: &'static str, selector: String) -> Result<Option<String>, InvalidListWatch> {
    let why = if selector.trim().is_empty() {
        "it is empty; leave it out to select everything"
    } else if selector.chars().any(char::is_control) {
        "it holds control characters"
    } else if selector.matches('(').count() != selector.matches(')').count() {
        "its parentheses do not match"
    } else {
        return Ok(Some(selector));
    };
    Err(InvalidListWatch::Selector {
        which,
        selector,
        why,
    })
}
