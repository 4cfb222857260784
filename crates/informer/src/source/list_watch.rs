//! List and watch through an API server.

use std::{
    fmt,
    marker::PhantomData,
    num::{NonZeroU32, NonZeroUsize},
    time::Duration,
};

use kube::{Api, Resource, api::PartialObjectMeta};
use rand::{SeedableRng as _, rngs::StdRng};
use serde::de::DeserializeOwned;

use super::{
    Changes, Source,
    reflector::Reflector,
    request::{Requests, resource_name},
};
use crate::{Backoff, RawObject, StoredForm, Trim, WatchError, random_seed};

/// Lists and watches the objects of a kind through an API server.
///
/// # Contract
///
/// *Guaranteed.* The first list is consistent: it shows every write that was answered before
/// it was asked for. It comes as a stream where the server streams lists, and in pages where
/// it does not. A watch that breaks resumes where it was; only a history that is gone asks
/// for another list, and what that list shows unchanged is neither decoded nor told again.
/// An object that does not decode is set aside and requested again, at most one such object
/// each second; the others flow on. Errors are reported and retried with a backoff of this
/// source's own; none of them ends it.
///
/// A version lower than one seen before is the answer of a stale replica, and refused. It is
/// believed only from a list in pages without `resourceVersion`, and only if the answer before
/// was from the past too: then a cluster was restored from a backup, the store becomes equal
/// to that list, and a new [epoch](crate::Store::epoch) begins. Versions that are not numbers
/// are not compared.
///
/// *Not guaranteed.* That each state of an object is seen.
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
/// | silence that ends a watch, without an event or bookmark | 3 minutes: the server sends a bookmark each minute |
/// | silence that breaks a list | 30 seconds |
/// | longest time for one page, or for a streamed list | 5 minutes |
/// | longest wait that a server can ask for | 5 minutes |
/// | longest line of a watch, longest object of a list | 256 MiB |
/// | form in which an object is kept | JSON, and decoded while it is worked on or often read |
/// | threads that decode a long list | those of the runtime, up to 4 |
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
///
/// # What an object costs
///
/// A decoded object is as large as its type, whether its fields are used or not: a `Pod` of
/// `k8s-openapi` takes five times its JSON. So each object is decoded when it comes, for
/// subscribers, and kept as JSON; what the store is asked for is decoded again, and
/// stays decoded for as long as it is asked for again and again ([`Store`](crate::Store)).
/// [`decoded`](Self::decoded) keeps everything decoded, [`packed`](Self::raw) decodes
/// nothing before it is read, and [`metadata`](Self::metadata) asks for no more than names
/// and labels. A type of yours that declares what is read is a kind like any other; what
/// it does not declare is not decoded, nor kept where it is kept decoded:
///
/// ```
/// use k8s_openapi::{api::core::v1::Pod, apimachinery::pkg::apis::meta::v1::ObjectMeta};
/// use kube::Resource;
/// use serde::Deserialize;
///
/// /// A Pod, of which only matters where it runs.
/// #[derive(Clone, Debug, Deserialize, Resource)]
/// #[resource(inherit = Pod)]
/// struct Placed {
///     metadata: ObjectMeta,
///     spec: PlacedSpec,
/// }
///
/// #[derive(Clone, Debug, Deserialize)]
/// #[serde(rename_all = "camelCase")]
/// struct PlacedSpec {
///     node_name: Option<String>,
/// }
///
/// assert_eq!(Placed::plural(&()), "pods");
/// let pod = r#"{"metadata":{"name":"web"},"spec":{"nodeName":"a","containers":[]}}"#;
/// let pod: Placed = serde_json::from_str(pod)?;
/// assert_eq!(pod.spec.node_name.as_deref(), Some("a"));
/// # Ok::<(), serde_json::Error>(())
/// ```
#[must_use = "a source does nothing until an informer runs it"]
pub struct ListWatch<K: Resource, O = K> {
    pub(super) requests: Requests<K>,
    pub(super) backoff: Backoff,
    pub(super) streamed_lists: bool,
    pub(super) trim: Trim,
    pub(super) rng: StdRng,
    pub(super) decoders: Option<NonZeroUsize>,
    pub(super) decoded: bool,
    pub(super) form: PhantomData<fn() -> O>,
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
    /// Lists and watches what `api` reaches: all namespaces, or one.
    ///
    /// A kind that is known only at run time comes with its type: `ListWatch::new((api,
    /// api_resource))`.
    pub fn new(api: impl Into<Self>) -> Self {
        api.into()
    }

    /// What client-go and kubectl use.
    pub const DEFAULT_PAGE_SIZE: NonZeroU32 = NonZeroU32::new(500).unwrap();

    /// Three bookmarks, which the API server sends once a minute.
    pub const DEFAULT_SILENCE: Duration = Duration::from_secs(180);

    /// The API server ends a list after one minute; the rest is for slow networks.
    pub const DEFAULT_LIST_TIMEOUT: Duration = Duration::from_secs(300);

    /// Longer than any API server asks for. A proxy that asks for a day would stall a watch
    /// for a day.
    pub const DEFAULT_MAX_RETRY_AFTER: Duration = Duration::from_secs(300);

    /// More than a hundred times what etcd takes for one object; what is longer is none.
    pub const DEFAULT_MAX_BYTES: usize = 256 * 1024 * 1024;

    /// Keeps only the metadata of each object, and asks the server for no more: a few hundred
    /// bytes instead of many thousand, where names, labels and owners are enough.
    ///
    /// # Example
    ///
    /// ```no_run
    /// use k8s_openapi::api::core::v1::Secret;
    /// use kube::{Api, Client, ResourceExt as _};
    /// use windlass_informer::{Informer, ListWatch};
    ///
    /// # fn secrets(client: Client) {
    /// let secrets = ListWatch::new(Api::<Secret>::all(client)).metadata();
    /// let secrets = Informer::new(secrets.raw());
    /// for secret in secrets.store().list() {
    ///     println!("{}: {} bytes are kept", secret.key(), secret.json().len());
    /// }
    /// # }
    /// # use windlass_informer::ObjectIdentity as _;
    /// ```
    pub fn metadata(self) -> ListWatch<PartialObjectMeta<K>> {
        self.into_form()
    }

    /// Keeps each object decoded, for as long as it is there: for a store that is read all the
    /// time, or of a type whose objects are smaller than their JSON.
    ///
    /// To read one is then to count a reference, always. A `Pod` of `k8s-openapi` takes five
    /// times the memory.
    pub fn decoded(self) -> Self {
        Self {
            decoded: true,
            ..self
        }
    }

    /// Keeps the JSON of each object, which is decoded when it is read, and not before:
    /// see [`RawObject`].
    pub fn raw(self) -> ListWatch<K, RawObject<K>> {
        self.into_form()
    }

    /// The same list and watch, of the same resource, in another form.
    fn into_form<T, O>(self) -> ListWatch<T, O>
    where
        T: Resource<DynamicType = K::DynamicType>,
    {
        let Self {
            requests,
            backoff,
            streamed_lists,
            trim,
            rng,
            decoders,
            decoded,
            form: PhantomData,
        } = self;
        ListWatch {
            requests: requests.about(),
            backoff,
            streamed_lists,
            trim,
            rng,
            decoders,
            decoded,
            form: PhantomData,
        }
    }
}

impl<K: Resource, O> ListWatch<K, O> {
    /// Only objects with these labels: `app=web,tier in (front, back),!legacy`.
    ///
    /// An object that ceases to match is reported as deleted.
    ///
    /// # Errors
    ///
    /// [`InvalidListWatch`] if no API server could read `selector`. What only the server can
    /// know is reported as [`WatchError::Invalid`], and tried again.
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
    /// know is reported as [`WatchError::Invalid`], and tried again.
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

    /// How long a watch may stand without an event or bookmark. The default is 3 minutes.
    /// Below the minute in which the server sends a bookmark, quiet watches break for
    /// nothing.
    ///
    /// From a server that has sent bookmarks, silence is an error
    /// ([`WatchError::Silent`]). From one that never has, the watch ends and goes on without
    /// an error. In both cases the server is first asked for its version, so that a cluster
    /// that was restored from a backup is found out.
    pub fn silence(mut self, silence: Duration) -> Self {
        self.requests.timeouts.silence = silence;
        self
    }

    /// How long one page of a list, or a streamed list, may take to arrive, without the time
    /// in which the informer waits for its handlers. The default is 5 minutes.
    pub fn list_timeout(mut self, timeout: Duration) -> Self {
        self.requests.timeouts.list = timeout;
        self
    }

    /// The longest wait that a server can ask for with `Retry-After` or `retryAfterSeconds`.
    /// A wait up to it is never undercut. The default is 5 minutes.
    pub fn max_retry_after(mut self, wait: Duration) -> Self {
        self.requests.timeouts.max_retry_after = wait;
        self
    }

    /// The greatest number of bytes of one object of a list, and of one line of a watch. A list
    /// is read object by object, so it may be of any length.
    pub fn max_bytes(mut self, bytes: usize) -> Self {
        self.requests.max_bytes = bytes;
        self
    }

    /// Which fields are dropped before an object is kept.
    pub fn trim(self, trim: Trim) -> Self {
        Self { trim, ..self }
    }

    /// How many threads of the runtime decode a long list: its objects after the first few
    /// hundred. The default is as many as the runtime has, up to four; on a runtime of one thread
    /// it is one. The events are the same, and in the same order.
    pub fn decoders(self, threads: NonZeroUsize) -> Self {
        Self {
            decoders: Some(threads),
            ..self
        }
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
            rng: StdRng::seed_from_u64(random_seed()),
            decoders: None,
            decoded: false,
            form: PhantomData,
        }
    }
}

impl<K: Resource, O> fmt::Debug for ListWatch<K, O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ListWatch")
            .field("requests", &self.requests)
            .field("backoff", &self.backoff)
            .field("streamed_lists", &self.streamed_lists)
            .finish_non_exhaustive()
    }
}

impl<K, O> Source<O> for ListWatch<K, O>
where
    K: Resource + DeserializeOwned + Send + Sync + 'static,
    O: StoredForm<K>,
{
    fn resource(&self) -> String {
        self.requests.resource.to_string()
    }

    async fn run(&mut self, changes: Changes<O>) -> Result<(), WatchError> {
        Reflector::new(self, changes).run().await;
        Ok(())
    }
}

/// An [`Api`] with the defaults of [`ListWatch`]. `K` is `Clone` because an `Api` asks for that
/// to be cloned, for each start of the informer; `ListWatch::new(api)` does not.
impl<K> Source<K> for Api<K>
where
    K: Resource + Clone + DeserializeOwned + Send + Sync + 'static,
    K::DynamicType: Default,
{
    fn resource(&self) -> String {
        resource_name::<K>(&K::DynamicType::default())
    }

    async fn run(&mut self, changes: Changes<K>) -> Result<(), WatchError> {
        ListWatch::<K>::new(self.clone()).run(changes).await
    }
}

/// The same, for a kind whose type is known at run time.
impl<K> Source<K> for (Api<K>, K::DynamicType)
where
    K: Resource + Clone + DeserializeOwned + Send + Sync + 'static,
    K::DynamicType: Clone,
{
    fn resource(&self) -> String {
        resource_name::<K>(&self.1)
    }

    async fn run(&mut self, changes: Changes<K>) -> Result<(), WatchError> {
        ListWatch::<K>::new(self.clone()).run(changes).await
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
