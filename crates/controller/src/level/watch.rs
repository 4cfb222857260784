//! `Watch`: which objects of a kind a controller lists and watches.

use std::{fmt, hash::Hash, mem, sync::Arc};

use kube::{
    Api, Client, Resource,
    api::PartialObjectMeta,
    core::{ClusterResourceScope, NamespaceResourceScope},
};
use serde::de::DeserializeOwned;
use windlass_informer::{Event, Index, Informer, InvalidListWatch, LateIndex, ListWatch, Shard};

use super::ControllerBuildError;
use crate::Predicate;

/// Which objects of a kind a [`Controller`](crate::Controller) lists and watches: all, those of
/// some namespaces, or those that a selector matches.
///
/// | value | objects |
/// |--|--|
/// | `Watch::all()` | all, in all namespaces |
/// | `Watch::namespaced("shop")` | those of one namespace |
/// | `Watch::in_namespaces(["shop", "blog"])` | those of several namespaces, with a watch for each |
/// | `Watch::from(api)`, `Watch::from((api, api_resource))` | those of a [`kube::Api`], also of [another cluster](Self::of_another_cluster), and of kinds that are known only at run time |
/// | `Watch::from(list_watch)` | those of a [`ListWatch`] with its settings |
/// | `Watch::from(informer)` | those of an [`Informer`], which is shared with other controllers |
///
/// # Example
///
/// ```
/// use k8s_openapi::api::core::v1::{ConfigMap, Secret};
/// use windlass_controller::Watch;
///
/// let settings = Watch::<ConfigMap>::in_namespaces(["shop", "blog"]).labels("app=web");
/// let names_only = Watch::<Secret>::all().metadata_only();
/// # drop((settings, names_only));
/// ```
#[must_use = "a watch does nothing until it is given to a controller"]
pub struct Watch<K: Watchable> {
    pub(super) types: K::DynamicType,
    sources: Sources<K>,
    indexes: Indexes<K>,
    pub(super) predicate: Option<Box<dyn Predicate<K>>>,
    /// Whether settings were changed that a shared informer already has.
    changes_shared: bool,
    pub(super) is_of_another_cluster: bool,
}

/// Creates the lists and watches with the client of the controller.
type CreateLists<K> = dyn FnOnce(&Client) -> Result<Vec<ListWatch<K>>, InvalidListWatch> + Send;

/// The indexes of a watch.
pub(super) type Indexes<K> = Vec<Arc<AddIndex<K>>>;

/// Where the objects come from.
enum Sources<K: Watchable> {
    /// Created with the client of the controller.
    Listed(Box<CreateLists<K>>),
    Shared(Informer<K>),
}

/// Declares an index of any type of values in an informer that has not run.
pub(super) type AddIndex<K> = dyn Fn(&Informer<K>) -> Result<(), LateIndex> + Send + Sync;

/// The informers of a watch that were created for this controller, or the shared one.
pub(super) enum Opened<K: Watchable> {
    Own(Vec<ListWatch<K>>),
    Shared(Informer<K>),
}

/// A kind whose objects can be watched by a controller: every decoded kind of kube.
///
/// Implemented for all types with these bounds.
pub trait Watchable:
    Resource<DynamicType: Clone + Eq + Hash + Send + Sync + 'static>
    + Clone
    + DeserializeOwned
    + fmt::Debug
    + Send
    + Sync
    + 'static
{
}

impl<K> Watchable for K where
    K: Resource<DynamicType: Clone + Eq + Hash + Send + Sync + 'static>
        + Clone
        + DeserializeOwned
        + fmt::Debug
        + Send
        + Sync
        + 'static
{
}

// === impl Watch ===

impl<K: Watchable> Watch<K>
where
    K::DynamicType: Default,
{
    /// All objects, in all namespaces.
    pub fn all() -> Self {
        let types = K::DynamicType::default();
        let of = types.clone();
        Self::listed(types, move |client| {
            let api = Api::all_with(client.clone(), &of);
            Ok(vec![ListWatch::from((api, of))])
        })
    }

    /// The objects of one namespace.
    pub fn namespaced(namespace: impl Into<String>) -> Self
    where
        K: Resource<Scope = NamespaceResourceScope>,
    {
        Self::in_namespaces([namespace])
    }

    /// The objects of several namespaces, with one watch for each.
    /// [`Informers::add`](super::Informers::add) adds others while the controller runs.
    pub fn in_namespaces(namespaces: impl IntoIterator<Item = impl Into<String>>) -> Self
    where
        K: Resource<Scope = NamespaceResourceScope>,
    {
        let mut namespaces: Vec<String> = namespaces.into_iter().map(Into::into).collect();
        namespaces.sort_unstable();
        namespaces.dedup();
        Self::listed(K::DynamicType::default(), move |client| {
            let api = |namespace: &String| Api::namespaced(client.clone(), namespace);
            Ok(namespaces.iter().map(api).map(ListWatch::from).collect())
        })
    }

    /// The one object with this name, of a cluster-scoped kind.
    pub fn named(name: impl Into<String>) -> Self
    where
        K: Resource<Scope = ClusterResourceScope>,
    {
        Self::all().fields(format!("metadata.name={}", name.into()))
    }
}

impl<K: Watchable> Watch<K> {
    fn listed(
        types: K::DynamicType,
        lists: impl FnOnce(&Client) -> Result<Vec<ListWatch<K>>, InvalidListWatch> + Send + 'static,
    ) -> Self {
        Self {
            types,
            sources: Sources::Listed(Box::new(lists)),
            indexes: Vec::new(),
            predicate: None,
            changes_shared: false,
            is_of_another_cluster: false,
        }
    }

    /// The group, version and kind, which are `()` for types of Rust.
    #[must_use]
    pub const fn types(&self) -> &K::DynamicType {
        &self.types
    }

    /// Changes each list and watch. Returns a watch of a shared informer unchanged.
    fn map<T: Watchable<DynamicType = K::DynamicType>>(
        self,
        change: impl Fn(ListWatch<K>) -> Result<ListWatch<T>, InvalidListWatch> + Send + 'static,
    ) -> Result<Watch<T>, Self> {
        let Sources::Listed(lists) = self.sources else {
            return Err(self);
        };
        let listed = Watch::listed(self.types, move |client: &Client| {
            lists(client)?.into_iter().map(&change).collect()
        });
        Ok(Watch {
            is_of_another_cluster: self.is_of_another_cluster,
            ..listed
        })
    }

    /// Changes each list and watch. A shared informer has its own selectors and settings: an error of
    /// `build`.
    fn change(
        mut self,
        change: impl Fn(ListWatch<K>) -> Result<ListWatch<K>, InvalidListWatch> + Send + 'static,
    ) -> Self {
        let (indexes, predicate) = (mem::take(&mut self.indexes), self.predicate.take());
        let watch = self.map(change).unwrap_or_else(|shared| Self {
            changes_shared: true,
            ..shared
        });
        Self {
            indexes,
            predicate,
            ..watch
        }
    }

    /// Selects objects by labels, on the server: `app=web,tier in (front, back)`. An invalid
    /// selector is an error of [`build`](super::ControllerBuilder::build).
    pub fn labels(self, selector: impl Into<String>) -> Self {
        let selector = selector.into();
        self.change(move |list| list.labels(selector.clone()))
    }

    /// Selects objects by fields, on the server: `metadata.name=web`. An invalid selector is an
    /// error of [`build`](super::ControllerBuilder::build).
    pub fn fields(self, selector: impl Into<String>) -> Self {
        let selector = selector.into();
        self.change(move |list| list.fields(selector.clone()))
    }

    /// Selects the objects of `shard`, so that several replicas share the objects of a kind. Only for
    /// the primary kind: the children of an object belong to other shards than the object, and those of
    /// the objects of other replicas cause no calls.
    pub fn shard(self, shard: Shard) -> Self {
        self.settings(move |list| list.shard(shard))
    }

    /// Changes the settings of each list and watch, for example its page size or its backoff. A shared
    /// informer has settings of its own: for it this is an error of
    /// [`build`](super::ControllerBuilder::build).
    pub fn settings(self, change: impl Fn(ListWatch<K>) -> ListWatch<K> + Send + 'static) -> Self {
        self.change(move |list| Ok(change(list)))
    }

    /// Says that the objects are those of another cluster than that of the client of the controller:
    /// its versions say nothing about the writes of the calls, so that no call waits until the watch
    /// shows them.
    ///
    /// Without it a call that follows a write of the same resource waits for the
    /// [`own_write_timeout`](super::ControllerBuilder::own_write_timeout), and is then
    /// [stale](super::Context::is_stale) for up to 6 minutes.
    ///
    /// ```
    /// use k8s_openapi::api::core::v1::Secret;
    /// use windlass_controller::Watch;
    ///
    /// fn secrets_of(remote: kube::Client) -> Watch<Secret> {
    ///     Watch::from(kube::Api::all(remote)).of_another_cluster()
    /// }
    /// ```
    pub fn of_another_cluster(self) -> Self {
        Self {
            is_of_another_cluster: true,
            ..self
        }
    }

    /// Sets which events of the objects cause calls, for example only those that change the readiness of
    /// a Node, and not its heartbeats. The store and the handle show all objects. Each further filter
    /// rejects more. For the primary kind it is the [`filter`](super::ControllerBuilder::filter) of the
    /// controller, which replaces it.
    ///
    /// ```
    /// use k8s_openapi::api::apps::v1::Deployment;
    /// use windlass_controller::{GenerationChanged, Watch};
    ///
    /// // Without the events of their status.
    /// let deployments = Watch::<Deployment>::all().filter(GenerationChanged);
    /// # drop(deployments);
    /// ```
    pub fn filter(mut self, predicate: impl Predicate<K>) -> Self {
        self.predicate = Some(match self.predicate {
            Some(earlier) => {
                Box::new(move |event: &Event<K>| earlier.passes(event) && predicate.passes(event))
            }
            None => Box::new(predicate),
        });
        self
    }

    /// Declares `index`, for [`Informers::by`](super::Informers::by).
    pub fn index<V>(mut self, index: &Index<K, V>) -> Self
    where
        V: Clone + Eq + Hash + Send + Sync + 'static,
    {
        let index = index.clone();
        self.indexes
            .push(Arc::new(move |informer| informer.add_index(&index)));
        self
    }

    pub(super) fn indexes(&self) -> Indexes<K> {
        self.indexes.clone()
    }

    /// The lists and watches, and the indexes.
    pub(super) fn open(
        self,
        client: &Client,
    ) -> Result<(Opened<K>, Indexes<K>), ControllerBuildError> {
        if self.changes_shared {
            let kind = K::kind(&self.types).into_owned();
            return Err(ControllerBuildError::SharedInformer { kind });
        }
        let opened = match self.sources {
            Sources::Listed(lists) => Opened::Own(lists(client)?),
            Sources::Shared(informer) => Opened::Shared(informer),
        };
        Ok((opened, self.indexes))
    }
}

impl<K: Watchable> Watch<K>
where
    PartialObjectMeta<K>: Watchable<DynamicType = K::DynamicType>,
{
    /// Requests and keeps only the metadata of each object. Indexes and filters follow this call,
    /// and a shared informer cannot be changed: for it this is an error of
    /// [`build`](super::ControllerBuilder::build).
    pub fn metadata_only(self) -> Watch<PartialObjectMeta<K>> {
        let types = self.types.clone();
        self.map(|list| Ok(list.metadata())).unwrap_or_else(|_| {
            let nothing = Watch::listed(types, |_| Ok(Vec::new()));
            Watch {
                changes_shared: true,
                ..nothing
            }
        })
    }
}

impl<K: Watchable> From<Api<K>> for Watch<K>
where
    K::DynamicType: Default,
{
    fn from(api: Api<K>) -> Self {
        Self::from((api, K::DynamicType::default()))
    }
}

impl<K: Watchable> From<(Api<K>, K::DynamicType)> for Watch<K> {
    fn from((api, types): (Api<K>, K::DynamicType)) -> Self {
        let of = types.clone();
        Self::listed(types, move |_| Ok(vec![ListWatch::from((api, of))]))
    }
}

impl<K: Watchable> From<ListWatch<K>> for Watch<K>
where
    K::DynamicType: Default,
{
    fn from(list: ListWatch<K>) -> Self {
        Self::from((list, K::DynamicType::default()))
    }
}

impl<K: Watchable> From<(ListWatch<K>, K::DynamicType)> for Watch<K> {
    fn from((list, types): (ListWatch<K>, K::DynamicType)) -> Self {
        Self::listed(types, move |_| Ok(vec![list]))
    }
}

impl<K: Watchable> From<Informer<K>> for Watch<K>
where
    K::DynamicType: Default,
{
    fn from(informer: Informer<K>) -> Self {
        Self::from((informer, K::DynamicType::default()))
    }
}

impl<K: Watchable> From<(Informer<K>, K::DynamicType)> for Watch<K> {
    fn from((informer, types): (Informer<K>, K::DynamicType)) -> Self {
        Self {
            types,
            sources: Sources::Shared(informer),
            indexes: Vec::new(),
            predicate: None,
            changes_shared: false,
            is_of_another_cluster: false,
        }
    }
}

impl<K: Watchable> From<&Informer<K>> for Watch<K>
where
    K::DynamicType: Default,
{
    fn from(informer: &Informer<K>) -> Self {
        Self::from(informer.clone())
    }
}

impl<K: Watchable> fmt::Debug for Watch<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watch")
            .field("kind", &K::kind(&self.types))
            .finish_non_exhaustive()
    }
}
