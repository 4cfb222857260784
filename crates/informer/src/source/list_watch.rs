//! `ListWatch`: lists and watches through an API server, with its settings.

mod form;
mod source;

use std::{
    marker::PhantomData,
    num::{NonZeroU32, NonZeroUsize},
    sync::Arc,
    time::Duration,
};

use kube::Resource;
use rand::{SeedableRng as _, rngs::StdRng};

use super::request::Requests;
use crate::{Backoff, Shard, Trim, watch::Waits};

/// Lists and watches the objects of a kind through an API server.
///
/// # Contract
///
/// *Guaranteed.* The first list is consistent: it shows every write that was acknowledged before
/// the request. It is streamed if the server supports that, and paged otherwise. A broken watch
/// resumes at its last version; only an expired version requires another list, which neither
/// decodes nor delivers unchanged objects. An object that does not decode is quarantined and
/// requested again, at most one such object each second; the other objects are delivered. Errors
/// are reported and retried with a backoff of this source; no error ends it.
///
/// A list with a lower version than an earlier one comes from a stale replica of the API server and
/// is rejected. If a second response in a row is stale, and it answers a paged list request without
/// `resourceVersion`, then a cluster was restored from a backup: the list is accepted, the store
/// becomes equal to it, and
/// [`history_went_back`](crate::Informer::history_went_back) shows it. Versions that are not numbers
/// are not compared.
///
/// *Not guaranteed.* That every state of an object is reported.
///
/// An [`Api`](kube::Api) alone is a source with these default settings:
///
/// | setting | default |
/// |--|--|
/// | selectors, shard | none |
/// | page size | 500 |
/// | streamed lists | yes, if the server supports them |
/// | backoff | [`Backoff::CLIENT_GO`] |
/// | duration of a watch | 5 to 10 minutes, at random |
/// | silence that ends a watch, without an event or bookmark | 3 minutes: the server sends a bookmark each minute |
/// | silence that breaks a list | 30 seconds |
/// | longest time for one page, or for a streamed list | 5 minutes |
/// | longest wait that a server can demand (`Retry-After`) | 5 minutes |
/// | longest line of a watch, longest object of a list | 16 MiB |
/// | stored form | JSON, and decoded while a handler processes the object or it is read often |
/// | threads that decode a long list | those of the runtime, at most 4 |
/// | trimmed fields | `metadata.managedFields` |
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
/// # Memory and decoding
///
/// A decoded object is as large as its type, even if its fields are not used: a `Pod` of
/// `k8s-openapi` takes six times the memory of its JSON. Therefore each object is decoded on
/// arrival, for the subscribers, and then kept as JSON. A read of the store decodes it again, and
/// caches it ([`decode_cache`](Self::decode_cache)).
///
/// To change this: [`decoded`](Self::decoded) keeps all objects decoded, [`raw`](Self::raw) decodes
/// an object only when it is read, and [`metadata`](Self::metadata) requests only the metadata. Or
/// use your own type, which declares only the fields that you read. The other fields are then not
/// decoded (the kept JSON still has them):
///
/// ```
/// use k8s_openapi::{api::core::v1::Pod, apimachinery::pkg::apis::meta::v1::ObjectMeta};
/// use kube::Resource;
/// use serde::Deserialize;
///
/// /// The fields of a Pod that say on which node it runs.
/// #[derive(Clone, Debug, Deserialize, Resource)]
/// #[resource(inherit = Pod)]
/// struct PodNode {
///     metadata: ObjectMeta,
///     spec: PodNodeSpec,
/// }
///
/// #[derive(Clone, Debug, Deserialize)]
/// #[serde(rename_all = "camelCase")]
/// struct PodNodeSpec {
///     node_name: Option<String>,
/// }
///
/// assert_eq!(PodNode::plural(&()), "pods");
/// let pod = r#"{"metadata":{"name":"web"},"spec":{"nodeName":"a","containers":[]}}"#;
/// let pod: PodNode = serde_json::from_str(pod)?;
/// assert_eq!(pod.spec.node_name.as_deref(), Some("a"));
/// # Ok::<(), serde_json::Error>(())
/// ```
#[must_use = "a source does nothing until an informer runs it"]
pub struct ListWatch<K: Resource, O = K> {
    /// The group, version and plural name of the kind: `()` if `K` knows them.
    pub(super) types: K::DynamicType,
    pub(super) settings: Settings,
    form: PhantomData<fn() -> O>,
}

/// The settings of a list and watch.
pub(super) struct Settings {
    pub(super) requests: Requests,
    pub(super) waits: Waits,
    pub(super) streamed_lists: bool,
    pub(super) trim: Trim,
    pub(super) rng: StdRng,

    /// The number of threads that decode a long list. `None` for the default.
    pub(super) decoders: Option<NonZeroUsize>,

    /// Whether the store keeps all objects decoded.
    pub(super) decoded: bool,

    /// The maximum size in bytes of the cache of decoded objects.
    pub(super) decode_cache: usize,
}

/// Why a setting is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidListWatch {
    /// A selector is empty or has characters that no selector can have.
    #[error("{which} selector {selector:?} is not valid: {why}")]
    Selector {
        /// `label` or `field`.
        which: &'static str,
        /// The given selector.
        selector: String,
        /// Why it is invalid.
        why: &'static str,
    },
}

// === impl ListWatch ===

impl<K: Resource> ListWatch<K> {
    /// Lists and watches the objects of `api`: of all namespaces, or of one.
    ///
    /// For a kind that is known only at run time, also pass its `ApiResource`:
    /// `ListWatch::new((api, api_resource))`.
    pub fn new(api: impl Into<Self>) -> Self {
        api.into()
    }

    /// The namespace whose objects it lists. `None` for all namespaces, and for a kind without
    /// namespaces.
    ///
    /// # Example
    ///
    /// ```no_run
    /// use k8s_openapi::api::core::v1::Pod;
    /// use kube::{Api, Client};
    /// use windlass_informer::ListWatch;
    ///
    /// # fn namespaces(client: Client) {
    /// let web = ListWatch::new(Api::<Pod>::namespaced(client.clone(), "shop"));
    /// assert_eq!(web.namespace(), Some("shop"));
    /// assert_eq!(ListWatch::new(Api::<Pod>::all(client)).namespace(), None);
    /// # }
    /// ```
    #[must_use]
    pub fn namespace(&self) -> Option<&str> {
        self.settings.requests.namespace()
    }

    /// The default of [`page_size`](Self::page_size), in objects: as in client-go and kubectl.
    pub(crate) const DEFAULT_PAGE_SIZE: NonZeroU32 = NonZeroU32::new(500).unwrap();

    /// The default of [`silence`](Self::silence): three bookmarks, of which the API server sends one
    /// each minute.
    pub(crate) const DEFAULT_SILENCE: Duration = Duration::from_secs(180);

    /// The default of [`list_timeout`](Self::list_timeout): the API server ends a list after one
    /// minute, and a slow network takes more time to deliver it.
    pub(crate) const DEFAULT_LIST_TIMEOUT: Duration = Duration::from_secs(300);

    /// The default of [`max_retry_after`](Self::max_retry_after): longer than any API server
    /// demands. A proxy that demands a day would otherwise stop the watch for a day.
    pub(crate) const DEFAULT_MAX_RETRY_AFTER: Duration = Duration::from_secs(300);

    /// The default of [`poll_interval`](Self::poll_interval): half of the interval in which a metrics
    /// server measures by default, so that each measurement is seen.
    pub(crate) const DEFAULT_POLL_INTERVAL: Duration = Duration::from_secs(30);

    /// The default of [`max_bytes`](Self::max_bytes): ten times the limit of etcd for one object,
    /// because JSON can be longer than what etcd stores. A line takes several times its length.
    pub(crate) const DEFAULT_MAX_BYTES: usize = 16 * 1024 * 1024;

    /// The default of [`decode_cache`](Self::decode_cache), in bytes: about 1,000 decoded Pods.
    pub(crate) const DEFAULT_DECODE_CACHE: usize = 32 * 1024 * 1024;
}

impl<K: Resource, O> ListWatch<K, O> {
    /// Selects objects by labels: `app=web,tier in (front, back),!legacy`.
    ///
    /// An object that no longer matches is reported as deleted.
    ///
    /// # Errors
    ///
    /// [`InvalidListWatch`] if `selector` cannot be valid. Other errors of a selector are found by
    /// the server, reported as [`WatchErrorCause::Invalid`](crate::WatchErrorCause), and retried.
    pub fn labels(mut self, selector: impl Into<String>) -> Result<Self, InvalidListWatch> {
        self.settings.requests.labels = checked("label", selector.into())?;
        Ok(self)
    }

    /// Selects objects by fields: `status.phase=Running`. The selectable fields depend on the kind.
    ///
    /// # Errors
    ///
    /// [`InvalidListWatch`] if `selector` cannot be valid. Other errors of a selector are found by
    /// the server, reported as [`WatchErrorCause::Invalid`](crate::WatchErrorCause), and retried.
    pub fn fields(mut self, selector: impl Into<String>) -> Result<Self, InvalidListWatch> {
        let selector = selector.into();
        if lacks_value(&selector) {
            return Err(InvalidListWatch::Selector {
                which: "field",
                selector,
                why: "each term must be `path=value` or `path!=value`",
            });
        }
        self.settings.requests.fields = checked("field", selector)?;
        Ok(self)
    }

    /// Keeps only the objects of `shard`, so that several replicas share the objects of a kind. The
    /// default is all objects.
    ///
    /// The server is asked for them alone (KEP-5866). One that does not support that sends all
    /// objects, and those of other shards are dropped before they are decoded.
    ///
    /// A sharded list is decoded by one thread, so that [`decoders`](Self::decoders) has no effect.
    /// Objects without a uid, such as the metrics of Pods, all belong to one shard.
    pub fn shard(mut self, shard: Shard) -> Self {
        self.settings.requests.shard = Some(shard);
        self
    }

    /// The number of objects in a page of a list. The default is 500.
    pub fn page_size(mut self, size: NonZeroU32) -> Self {
        self.settings.requests.page_size = size.get();
        self
    }

    /// Whether to stream lists (the watch-list of KEP-3157) if the server supports it. The default
    /// is yes. Missing support is detected once, which costs one request.
    pub fn streamed_lists(mut self, streamed_lists: bool) -> Self {
        self.settings.streamed_lists = streamed_lists;
        self
    }

    /// The backoff after an error. The default is [`Backoff::CLIENT_GO`]: 0.8 to 30 seconds.
    pub fn backoff(mut self, backoff: Backoff) -> Self {
        self.settings.waits = backoff.into();
        self
    }

    /// Waits after an error for the time that `delay` returns, with the number of earlier errors in
    /// a row. `None` stands for the wait of [`Backoff::CLIENT_GO`].
    #[doc(hidden)]
    pub fn delays(
        mut self,
        delay: impl Fn(u32) -> Option<Duration> + Send + Sync + 'static,
    ) -> Self {
        self.settings.waits = Waits::Delays(Arc::new(delay));
        self
    }

    /// How long a watch may deliver no event or bookmark. The default is 3 minutes. Below one
    /// minute, the bookmark interval of the server, quiet watches break without a reason.
    ///
    /// If the server has sent bookmarks before, silence is an error
    /// ([`WatchErrorCause::Silent`](crate::WatchErrorCause)). Otherwise the watch ends, and the next
    /// one begins, without an error. In both cases the version of the server is requested before the
    /// next watch, which detects a cluster that was restored from a backup.
    pub fn silence(mut self, silence: Duration) -> Self {
        self.settings.requests.timeouts.silence = silence;
        self
    }

    /// How long one page of a list, or a streamed list, may take to arrive, without the time in
    /// which the informer waits for its handlers. The default is 5 minutes.
    pub fn list_timeout(mut self, timeout: Duration) -> Self {
        self.settings.requests.timeouts.list = timeout;
        self
    }

    /// The longest wait that a server can demand with `Retry-After` or `retryAfterSeconds`. A longer
    /// demand is cut to it. The default is 5 minutes.
    pub fn max_retry_after(mut self, wait: Duration) -> Self {
        self.settings.requests.timeouts.max_retry_after = wait;
        self
    }

    /// The wait between two lists of a kind that the server cannot watch. The default is 30 seconds.
    /// An interval below a second counts as a second.
    ///
    /// Such a kind has lists without `resourceVersion`, or its watches are refused with 405: the
    /// metrics of Pods and nodes, `componentstatuses`, and some aggregated APIs. It is listed
    /// repeatedly, which is logged once. After every ten lists a watch is tried again, because a proxy
    /// may have refused it by mistake. Each list without versions reports each object as updated.
    pub fn poll_interval(mut self, interval: Duration) -> Self {
        self.settings.requests.timeouts.poll = interval;
        self
    }

    /// The maximum size in bytes of one object of a list, and of one line of a watch. The size of a
    /// list is not limited. The default is 16 MiB.
    pub fn max_bytes(mut self, bytes: usize) -> Self {
        self.settings.requests.max_bytes = bytes;
        self
    }

    /// The maximum size in bytes of the decoded objects that stay decoded after a read of the store,
    /// or after a `Controller` has reconciled them again. The default is 32 MiB; 0 keeps none.
    ///
    /// The size of a decoded object is estimated as six times its JSON: about 33 KB for a Pod, as
    /// measured. A `ConfigMap` takes less than this estimate. If the metric
    /// `informer_decode_cache_reads_total` counts many misses, readers read more objects than fit:
    /// raise the limit, or keep the objects [`decoded`](ListWatch::decoded).
    pub fn decode_cache(mut self, max_bytes: usize) -> Self {
        self.settings.decode_cache = max_bytes;
        self
    }

    /// The fields that are removed before an object is decoded and stored. The default is
    /// `metadata.managedFields`.
    pub fn trim(mut self, trim: Trim) -> Self {
        self.settings.trim = trim;
        self
    }

    /// The number of threads of the runtime that decode a long list, after its first few hundred
    /// objects. The default is that of the runtime, at most four. The events and their order do not
    /// depend on it.
    pub fn decoders(mut self, threads: NonZeroUsize) -> Self {
        self.settings.decoders = Some(threads);
        self
    }

    /// The seed of the jitter, for tests.
    pub fn seed(mut self, seed: u64) -> Self {
        self.settings.rng = StdRng::seed_from_u64(seed);
        self
    }
}

/// Whether a term of a field selector has no `=`. Terms are separated by commas that are not escaped,
/// and empty ones have no meaning.
fn lacks_value(selector: &str) -> bool {
    let mut is_escaped = false;
    let mut terms = selector.split(|it: char| {
        let is_separator = it == ',' && !is_escaped;
        is_escaped = it == '\\' && !is_escaped;
        is_separator
    });
    terms.any(|term| !term.is_empty() && !term.contains('='))
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
