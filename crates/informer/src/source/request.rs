//! The requests of a list and a watch, and what their answers mean.

use std::{convert::Infallible, fmt, sync::Arc, time::Duration};

use bytes::Bytes;
use http::{HeaderMap, Request, Response, StatusCode, header};
use http_body_util::{BodyExt as _, Empty};
use kube::{Api, Client, Resource, client::Body};
use tokio::time::timeout;

use crate::{
    ObjectKey, WatchError,
    decode::DecodeError,
    watch::{Answer, Ask, Verb},
};

/// Sends the requests of one kind, in one place of it.
pub(super) struct Requests<K: Resource> {
    client: Client,

    /// Lends bodies that no middleware can clone: see [`Requests::get`].
    blank: Option<Client>,

    url: String,
    types: K::DynamicType,
    pub(super) resource: Arc<str>,
    pub(super) labels: Option<String>,
    pub(super) fields: Option<String>,
    pub(super) page_size: u32,
    pub(super) patience: Patience,
}

/// How long to wait for what.
#[derive(Clone, Copy, Debug)]
pub(super) struct Patience {
    /// The longest time without a byte while an answer is awaited: its head, a list, or what
    /// is there at the beginning of a streamed list. A server that works on one keeps talking.
    pub(super) answer: Duration,

    /// The longest time without a byte while nothing need happen.
    pub(super) silence: Duration,

    /// The greatest number of bytes of one object of a list, and of one line of a watch.
    pub(super) bytes: usize,
}

// === impl Requests ===

impl<K: Resource> Requests<K> {
    pub(super) fn new(api: Api<K>, types: K::DynamicType) -> Self {
        let resource = resource_name::<K>(&types);
        Self {
            url: api.resource_url().to_owned(),
            client: api.into_client(),
            blank: None,
            types,
            resource: Arc::from(resource),
            labels: None,
            fields: None,
            page_size: super::ListWatch::<K>::DEFAULT_PAGE_SIZE.get(),
            patience: Patience {
                answer: Duration::from_secs(30),
                silence: super::ListWatch::<K>::DEFAULT_SILENCE,
                bytes: super::ListWatch::<K>::DEFAULT_MAX_BYTES,
            },
        }
    }

    /// The same requests, about objects of another form: theirs is the same resource.
    pub(super) fn about<T>(self) -> Requests<T>
    where
        T: Resource<DynamicType = K::DynamicType>,
    {
        let Self {
            client,
            blank,
            url,
            types,
            resource,
            labels,
            fields,
            page_size,
            patience,
        } = self;
        Requests {
            client,
            blank,
            url,
            types,
            resource,
            labels,
            fields,
            page_size,
            patience,
        }
    }

    pub(super) fn types(&self) -> &K::DynamicType {
        &self.types
    }

    /// Sends what the session asks for. `lasts` is how long a watch should last.
    pub(super) async fn ask(
        &mut self,
        ask: &Ask,
        lasts: Duration,
    ) -> Result<Response<Body>, WatchError> {
        let verb = match ask {
            Ask::List { .. } => Verb::List,
            Ask::StreamedList | Ask::Watch { .. } => Verb::Watch,
        };
        self.get(self.url(ask, lasts), verb).await
    }

    fn url(&self, ask: &Ask, lasts: Duration) -> String {
        let path = format!("{}?", self.url);
        let begins = path.len();
        let mut query = form_urlencoded::Serializer::for_suffix(path, begins);
        if let Some(labels) = &self.labels {
            query.append_pair("labelSelector", labels);
        }
        if let Some(fields) = &self.fields {
            query.append_pair("fieldSelector", fields);
        }
        match ask {
            Ask::List { token, paged } => {
                if *paged {
                    query.append_pair("limit", &self.page_size.to_string());
                }
                if let Some(token) = token {
                    query.append_pair("continue", token);
                }
            }
            Ask::StreamedList | Ask::Watch { .. } => {
                query.append_pair("watch", "true");
                query.append_pair("allowWatchBookmarks", "true");
                query.append_pair("timeoutSeconds", &lasts.as_secs().to_string());
                if let Ask::Watch { after } = ask {
                    query.append_pair("resourceVersion", after);
                } else {
                    // No version: as new as any write that was answered before this request.
                    query.append_pair("sendInitialEvents", "true");
                    query.append_pair("resourceVersionMatch", "NotOlderThan");
                }
            }
        }
        query.finish()
    }

    /// Reads one object; none if it is gone.
    pub(super) async fn object(&mut self, key: &ObjectKey) -> Result<Option<Bytes>, WatchError> {
        let url = format!(
            "{}/{}",
            K::url_path(&self.types, key.namespace()),
            key.name()
        );
        match self.get(url, Verb::Watch).await {
            Ok(answer) => self.whole(answer, Verb::Watch).await.map(Some),
            Err(WatchError::UnknownKind { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The whole body of `answer`.
    pub(super) async fn whole(
        &self,
        answer: Response<Body>,
        verb: Verb,
    ) -> Result<Bytes, WatchError> {
        let mut body = answer.into_body();
        let mut whole = Vec::new();
        while let Some(chunk) = self.chunk(&mut body, verb, self.patience.answer).await? {
            if whole.len() + chunk.len() > self.patience.bytes {
                return Err(self.too_long(verb, self.patience.bytes));
            }
            whole.extend_from_slice(&chunk);
        }
        Ok(Bytes::from(whole))
    }

    /// The next piece of `body`; none at its end. Nothing may come for `limit` at most.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future before it is ready loses nothing.
    pub(super) async fn chunk(
        &self,
        body: &mut Body,
        verb: Verb,
        limit: Duration,
    ) -> Result<Option<Bytes>, WatchError> {
        loop {
            let frame = timeout(limit, body.frame())
                .await
                .map_err(|_| WatchError::Silent {
                    resource: Arc::clone(&self.resource),
                    verb,
                    limit,
                })?;
            match frame {
                None => return Ok(None),
                // Trailers say nothing that we need.
                Some(Ok(frame)) => {
                    if let Ok(chunk) = frame.into_data() {
                        return Ok(Some(chunk));
                    }
                }
                Some(Err(error)) => return Err(self.connection(verb, error)),
            }
        }
    }

    pub(super) fn too_long(&self, verb: Verb, limit: usize) -> WatchError {
        WatchError::TooLong {
            resource: Arc::clone(&self.resource),
            verb,
            limit,
        }
    }

    pub(super) fn garbled(&self, verb: Verb, source: DecodeError) -> WatchError {
        WatchError::Garbled {
            resource: Arc::clone(&self.resource),
            verb,
            source,
        }
    }

    fn connection(&self, verb: Verb, source: kube::Error) -> WatchError {
        WatchError::Connection {
            resource: Arc::clone(&self.resource),
            verb,
            source: Box::new(source),
        }
    }

    /// Sends one request, once: what comes back decides what the session does next.
    ///
    /// kube's client repeats a request by itself when the answer is 429, 503 or 504, up to
    /// fifteen times, unless it cannot clone the request's body. We have our own backoff,
    /// and something to tell meanwhile, so our empty bodies are of the kind that cannot be
    /// cloned. Only an answer carries such a body, so they come from a client whose only
    /// service is to answer with one.
    async fn get(&mut self, url: String, verb: Verb) -> Result<Response<Body>, WatchError> {
        let blank = self.blank.get_or_insert_with(|| {
            let service = tower::service_fn(|_| async {
                Ok::<_, Infallible>(Response::new(Empty::<Bytes>::new()))
            });
            Client::new(service, "default")
        });
        let body = match blank.send(Request::new(Body::empty())).await {
            Ok(answer) => answer.into_body(),
            Err(_) => Body::empty(),
        };
        let request = Request::get(url)
            .header(header::ACCEPT, Self::accept(verb))
            // Since 1.37 the API server compresses watches for whoever may take it, one
            // gzip member an event, which buys little and costs both sides.
            .header(header::ACCEPT_ENCODING, "identity")
            .body(body)
            .map_err(|error| self.connection(verb, kube::Error::HttpError(error)))?;
        let answer = timeout(self.patience.answer, self.client.send(request))
            .await
            .map_err(|_| WatchError::Silent {
                resource: Arc::clone(&self.resource),
                verb,
                limit: self.patience.answer,
            })?
            .map_err(|error| self.connection(verb, error))?;
        if answer.status().is_success() {
            return Ok(answer);
        }
        Err(self.refused(answer, verb).await)
    }

    async fn refused(&self, answer: Response<Body>, verb: Verb) -> WatchError {
        /// A `Status` is small; whatever is larger is a page of HTML.
        const LONGEST: usize = 64 * 1024;

        let status: StatusCode = answer.status();
        let retry_after = retry_after(answer.headers());
        let mut body = answer.into_body();
        let mut text = Vec::new();
        while let Ok(Some(chunk)) = self.chunk(&mut body, verb, self.patience.answer).await {
            text.extend_from_slice(&chunk);
            if text.len() > LONGEST {
                break;
            }
        }
        let mut answer = Answer::read(status.as_u16(), &text, retry_after);
        // A body is free to contradict the status line; the status line decides.
        answer.code = status.as_u16();
        WatchError::answered(&self.resource, verb, answer)
    }

    fn accept(verb: Verb) -> &'static str {
        match (K::metadata_api(), verb) {
            (false, _) => "application/json",
            (true, Verb::List) => {
                "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
            }
            (true, Verb::Watch) => "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1",
        }
    }
}

impl<K: Resource> fmt::Debug for Requests<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Requests")
            .field("url", &self.url)
            .field("labels", &self.labels)
            .field("fields", &self.fields)
            .finish_non_exhaustive()
    }
}

/// What people call a kind: `websites.example.io`, or `pods` in the core group.
pub(super) fn resource_name<K: Resource>(types: &K::DynamicType) -> String {
    let group = K::group(types);
    let plural = K::plural(types);
    if group.is_empty() {
        plural.into_owned()
    } else {
        format!("{plural}.{group}")
    }
}

/// The `Retry-After` header, in its form of seconds; the form of a date is not used by API
/// servers.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let seconds = headers.get(header::RETRY_AFTER)?.to_str().ok()?;
    seconds.trim().parse().ok().map(Duration::from_secs)
}
