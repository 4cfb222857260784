//! Requests of lists and watches, and the classification of their responses.

use std::{fmt, sync::Arc, time::Duration};

use bytes::Bytes;
use http::{Request, Response, header};
use http_body_util::BodyExt as _;
use kube::{Api, Client, Resource, client::Body};
use tokio::time::{Instant, timeout};

use super::{
    kind_name::KindName,
    timeouts::{TimeBudget, Timeouts},
};
use crate::{
    ObjectKey, Shard, WatchError, WatchErrorCause,
    api_request::{NOT_FOUND, ServerStatus, path_segment, sent_once},
    decode::{DecodeError, PageError},
    message::one_line,
    watch::{NextRequest, Verb},
};

/// Sends the requests for one kind.
pub(super) struct Requests {
    client: Client,
    url: String,

    /// The namespace of the objects. `None` for all, and for kinds without namespaces.
    pub(super) namespace: Option<String>,

    /// Whether only the metadata of the objects is requested.
    pub(super) is_metadata: bool,

    pub(super) resource: Arc<str>,
    /// The kind, to look up its plural.
    pub(super) named: KindName,
    pub(super) labels: Option<String>,
    pub(super) fields: Option<String>,
    /// The objects that are kept. `None` for all.
    pub(super) shard: Option<Shard>,
    pub(super) page_size: u32,
    pub(super) timeouts: Timeouts,

    /// The maximum size in bytes of one object of a list, and of one line of a watch.
    pub(super) max_bytes: usize,
}

// === impl Requests ===

impl Requests {
    /// The namespace in the path.
    pub(super) fn namespace(&self) -> Option<&str> {
        let (_, rest) = self.url.split_once("/namespaces/")?;
        rest.split('/').next()
    }

    pub(super) fn new<K: Resource>(api: Api<K>, types: &K::DynamicType) -> Self {
        let url = api.resource_url().to_owned();
        let namespace = api.namespace().map(ToOwned::to_owned);
        let client = api.into_client();
        Self {
            named: KindName::new::<K>(client.clone(), types, &url),
            url,
            namespace,
            client,
            is_metadata: K::metadata_api(),
            resource: Arc::from(resource_name::<K>(types)),
            labels: None,
            fields: None,
            shard: None,
            page_size: super::ListWatch::<K>::DEFAULT_PAGE_SIZE.get(),
            timeouts: Timeouts {
                progress: Duration::from_secs(30),
                list: super::ListWatch::<K>::DEFAULT_LIST_TIMEOUT,
                silence: super::ListWatch::<K>::DEFAULT_SILENCE,
                max_retry_after: super::ListWatch::<K>::DEFAULT_MAX_RETRY_AFTER,
                poll: super::ListWatch::<K>::DEFAULT_POLL_INTERVAL,
            },
            max_bytes: super::ListWatch::<K>::DEFAULT_MAX_BYTES,
        }
    }

    /// Sends the next request of the session. `lasts` is the requested duration of a watch.
    pub(super) async fn send(
        &self,
        request: &NextRequest,
        lasts: Duration,
    ) -> Result<Response<Body>, WatchError> {
        let verb = match request {
            NextRequest::List { .. } | NextRequest::Version => Verb::List,
            NextRequest::StreamedList | NextRequest::Watch { .. } => Verb::Watch,
        };
        self.get(self.url(request, lasts), verb).await
    }

    fn url(&self, request: &NextRequest, lasts: Duration) -> String {
        let path = format!("{}?", self.url);
        let begins = path.len();
        let mut query = form_urlencoded::Serializer::for_suffix(path, begins);
        if let Some(labels) = &self.labels {
            query.append_pair("labelSelector", labels);
        }
        if let Some(fields) = &self.fields {
            query.append_pair("fieldSelector", fields);
        }
        if let Some(shard) = &self.shard {
            // A server that does not know it sends all objects.
            query.append_pair("shardSelector", &shard.selector());
        }
        match request {
            NextRequest::List { token, paged } => {
                if *paged {
                    query.append_pair("limit", &self.page_size.to_string());
                }
                if let Some(token) = token {
                    query.append_pair("continue", token);
                }
            }
            NextRequest::Version => _ = query.append_pair("limit", "1"),
            NextRequest::StreamedList | NextRequest::Watch { .. } => {
                query.append_pair("watch", "true");
                query.append_pair("allowWatchBookmarks", "true");
                query.append_pair("timeoutSeconds", &lasts.as_secs().to_string());
                if let NextRequest::Watch { after } = request {
                    query.append_pair("resourceVersion", after);
                } else {
                    // No version: at least as new as every write that was acknowledged before this
                    // request.
                    query.append_pair("sendInitialEvents", "true");
                    query.append_pair("resourceVersionMatch", "NotOlderThan");
                }
            }
        }
        query.finish()
    }

    /// Requests the object of type `K` with this key. `None` if the API server says that it does
    /// not exist. (A proxy may also respond with 404, by mistake.)
    pub(super) async fn object<K: Resource>(
        &self,
        types: &K::DynamicType,
        key: &ObjectKey,
    ) -> Result<Option<Bytes>, WatchError> {
        let url = format!(
            "{}/{}",
            K::url_path(types, key.namespace()),
            path_segment(key.name())
        );
        match self.send_once(url, Verb::Watch).await? {
            Ok(response) => self.whole(response, Verb::Watch).await.map(Some),
            Err(status) if status.code == 404 && status.reason == NOT_FOUND => Ok(None),
            Err(status) => Err(self.status_error(Verb::Watch, status)),
        }
    }

    /// Reads the whole body of `response`.
    async fn whole(&self, response: Response<Body>, verb: Verb) -> Result<Bytes, WatchError> {
        let mut body = response.into_body();
        let mut time_budget = self.time_budget();
        let mut whole = Vec::new();
        while let Some(chunk) = self.chunk(&mut body, verb, &mut time_budget).await? {
            if whole.len().saturating_add(chunk.len()) > self.max_bytes {
                return Err(self.too_long(verb, self.max_bytes));
            }
            whole.extend_from_slice(&chunk);
        }
        Ok(Bytes::from(whole))
    }

    /// The time for a response that is not a watch.
    pub(super) fn time_budget(&self) -> TimeBudget {
        TimeBudget::new(self.timeouts)
    }

    /// The next chunk of a finite `body`. `None` at its end.
    ///
    /// # Errors
    ///
    /// [`WatchError`] if the connection breaks, or `time_budget` is used up.
    pub(super) async fn chunk(
        &self,
        body: &mut Body,
        verb: Verb,
        time_budget: &mut TimeBudget,
    ) -> Result<Option<Bytes>, WatchError> {
        let began = Instant::now();
        let chunk = timeout(time_budget.next(), self.frame(body, verb)).await;
        let is_left = time_budget.waited(began.elapsed());
        match chunk {
            Ok(chunk) if is_left => chunk,
            _ if is_left => Err(self.silent(verb, self.timeouts.progress)),
            _ => Err(self.overdue(verb)),
        }
    }

    /// The next chunk of `body`. `None` at its end.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future before it is ready loses no data.
    pub(super) async fn frame(
        &self,
        body: &mut Body,
        verb: Verb,
    ) -> Result<Option<Bytes>, WatchError> {
        loop {
            match body.frame().await {
                None => return Ok(None),
                // Trailers are not used.
                Some(Ok(frame)) => {
                    if let Ok(chunk) = frame.into_data() {
                        return Ok(Some(chunk));
                    }
                }
                Some(Err(error)) => return Err(self.connection(verb, error)),
            }
        }
    }

    pub(super) fn silent(&self, verb: Verb, limit: Duration) -> WatchError {
        self.error(verb, WatchErrorCause::Silent { limit })
    }

    pub(super) fn overdue(&self, verb: Verb) -> WatchError {
        let limit = self.timeouts.list;
        self.error(verb, WatchErrorCause::Overdue { limit })
    }

    /// The error of a page that cannot be read.
    pub(super) fn unreadable(&self, error: PageError) -> WatchError {
        let cause = match error {
            PageError::Malformed(source) => WatchErrorCause::Malformed { source },
            PageError::TooLong { limit } => WatchErrorCause::TooLong { limit },
            error @ PageError::Late { .. } => WatchErrorCause::Inconsistent {
                why: format!("{error}; ask for smaller pages with `page_size`"),
            },
        };
        self.error(Verb::List, cause)
    }

    /// The error of a response that is not a success. Limits the wait that it demands.
    pub(super) fn status_error(&self, verb: Verb, mut status: ServerStatus) -> WatchError {
        let longest = self.timeouts.max_retry_after;
        status.retry_after = status.retry_after.map(|wait| wait.min(longest));
        WatchError::from_status(&self.resource, verb, status)
    }

    pub(super) fn too_long(&self, verb: Verb, limit: usize) -> WatchError {
        self.error(verb, WatchErrorCause::TooLong { limit })
    }

    pub(super) fn malformed(&self, verb: Verb, source: DecodeError) -> WatchError {
        self.error(verb, WatchErrorCause::Malformed { source })
    }

    fn connection(&self, verb: Verb, source: kube::Error) -> WatchError {
        let source = Box::new(source);
        self.error(verb, WatchErrorCause::Connection { source })
    }

    fn error(&self, verb: Verb, cause: WatchErrorCause) -> WatchError {
        WatchError::new(Arc::clone(&self.resource), verb, cause)
    }

    /// Sends one request once. Its response decides the next request of the session.
    async fn get(&self, url: String, verb: Verb) -> Result<Response<Body>, WatchError> {
        let response = self.send_once(url, verb).await?;
        response.map_err(|status| self.status_error(verb, status))
    }

    /// Sends one request once, and reads the status of a response that is not a success.
    async fn send_once(
        &self,
        url: String,
        verb: Verb,
    ) -> Result<Result<Response<Body>, ServerStatus>, WatchError> {
        let body = sent_once(Vec::new()).await;
        let body = body.map_err(|error| self.connection(verb, error))?;
        let request = Request::get(url)
            .header(header::ACCEPT, self.accept(verb))
            // Since 1.37 the API server compresses watches if the client accepts it: one gzip
            // member for each event, which saves little and costs CPU time on both sides.
            .header(header::ACCEPT_ENCODING, "identity")
            .body(body)
            .map_err(|error| self.connection(verb, kube::Error::HttpError(error)))?;
        let limit = self.timeouts.progress;
        let response = timeout(limit, self.client.send(request))
            .await
            .map_err(|_| self.silent(verb, limit))?
            .map_err(|error| self.connection(verb, error))?;
        let content_type = response.headers().get(header::CONTENT_TYPE);
        if let Some(page) = content_type.filter(|it| it.as_bytes().starts_with(b"text/html"))
            // A proxy is also overloaded, or does not reach the server.
            && !matches!(response.status().as_u16(), 429 | 500..)
        {
            let content_type = String::from_utf8_lossy(page.as_bytes());
            let cause = WatchErrorCause::NotKubernetes {
                code: response.status().as_u16(),
                content_type: one_line(&content_type).into_owned(),
            };
            return Err(self.error(verb, cause));
        }
        Ok(if response.status().is_success() {
            Ok(response)
        } else {
            Err(ServerStatus::of(response, limit).await)
        })
    }

    fn accept(&self, verb: Verb) -> &'static str {
        match (self.is_metadata, verb) {
            (false, _) => "application/json",
            (true, Verb::List) => {
                "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
            }
            (true, Verb::Watch) => "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1",
        }
    }
}

impl fmt::Debug for Requests {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Requests")
            .field("url", &self.url)
            .field("labels", &self.labels)
            .field("fields", &self.fields)
            .field("shard", &self.shard)
            .finish_non_exhaustive()
    }
}

/// The name of a kind for logs and errors: `websites.example.io`, or `pods` in the core group.
#[doc(hidden)]
#[must_use]
pub fn resource_name<K: Resource>(types: &K::DynamicType) -> String {
    let group = K::group(types);
    let plural = K::plural(types);
    if group.is_empty() {
        plural.into_owned()
    } else {
        format!("{plural}.{group}")
    }
}
