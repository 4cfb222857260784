//! `CompositeBuilder`: configures and builds a `CompositeController`.

use std::{
    collections::HashSet,
    fmt,
    sync::{Arc, atomic::AtomicBool},
    time::Duration,
};

use kube::{
    Api, Client, Resource,
    api::{ApiResource, DynamicObject},
};
use serde::Serialize;
use windlass_controller::{
    Controller, ControllerBuilder, ExponentialBackoff, Informers, Mapper, OnSelectorExit, Watch,
    Watchable,
    children::{ChildKind, MANAGED_BY, managed_by},
};
use windlass_informer::ObjectKey;

use super::CompositeController;
use crate::{
    AsyncCompositeHandler, ChildConfig, CompositeBuildError, CompositeHandler,
    calls::{Calls, WatchedKind},
    threads::{OnThreads, Threads},
};

/// Configures and builds a [`CompositeController`].
#[must_use = "a builder does nothing until it is built"]
pub struct CompositeBuilder<P: Watchable> {
    builder: ControllerBuilder<P>,
    client: Client,
    parent_kind: ChildKind,
    /// The label of children by which they are watched.
    label: String,
    namespace: Option<String>,
    kinds: Vec<DeclaredKind>,
}

/// A kind of children.
struct DeclaredKind {
    types: ApiResource,
    kind: ChildKind,
    /// `None`: retired.
    config: Option<ChildConfig>,
}

// === impl CompositeBuilder ===

impl<P: Watchable + Serialize> CompositeBuilder<P> {
    pub(crate) fn new(client: Client, name: String, parents: Watch<P>) -> Self {
        let parent_kind = ChildKind::of::<P>(parents.types());
        let builder = Controller::builder(client.clone(), parents)
            .name(name.clone())
            .finalizer(name)
            .retry_policy(ExponentialBackoff::ROPERATOR)
            // Each change of a child causes a call, also an own one: the status follows from the
            // existing children.
            .own_write_timeout(Duration::ZERO);
        Self {
            builder,
            client,
            parent_kind,
            label: MANAGED_BY.to_owned(),
            namespace: None,
            kinds: Vec::new(),
        }
    }

    /// Declares a kind of children.
    pub fn child<C>(self, config: ChildConfig) -> Self
    where
        C: Resource<DynamicType = ()> + 'static,
    {
        self.declare(
            ApiResource::erase::<C>(&()),
            ChildKind::of::<C>(&()),
            Some(config),
        )
    }

    /// Declares a kind of children that is known only at run time.
    pub fn child_kind(self, types: ApiResource, config: ChildConfig) -> Self {
        let kind = ChildKind::of::<DynamicObject>(&types);
        let kind = if config.is_cluster_scoped {
            kind.cluster_scoped()
        } else {
            kind
        };
        self.declare(types, kind, Some(config))
    }

    /// Declares a kind of which an earlier version of the program has written children: they are
    /// deleted, and new ones are refused.
    pub fn retired_child<C>(self) -> Self
    where
        C: Resource<DynamicType = ()> + 'static,
    {
        self.declare(ApiResource::erase::<C>(&()), ChildKind::of::<C>(&()), None)
    }

    fn declare(mut self, types: ApiResource, kind: ChildKind, config: Option<ChildConfig>) -> Self {
        self.kinds.push(DeclaredKind {
            types,
            kind,
            config,
        });
        self
    }

    /// Watches objects of kind `O` that are no children, for example a configuration that several parents
    /// share: metacontroller's related objects. A change of one calls the handler for the parents whose
    /// keys `mapper` returns for its old and for its new state. The handler keeps the result, and reads
    /// the objects from it, so that a request does not have them. They are neither changed nor deleted.
    ///
    /// If a parent names the `O`, use [`refers_to`](Self::refers_to).
    pub fn watches<O: Watchable>(
        &mut self,
        others: Watch<O>,
        mapper: impl Mapper<O>,
    ) -> Informers<O> {
        self.builder.watches(others, mapper).informers().clone()
    }

    /// Watches objects of kind `O` to which parents refer, like [`watches`](Self::watches): a change of one
    /// calls the handler for the parents for which `references` returns its key.
    ///
    /// # Example
    ///
    /// The theme of a site is in the secret that it names:
    ///
    /// ```no_run
    /// use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret};
    /// use serde_json::json;
    /// use windlass_composite::{ChildConfig, CompositeController, SyncRequest, SyncResponse};
    /// use windlass_controller::{Failure, Watch};
    /// use windlass_informer::ObjectKey;
    ///
    /// fn theme_of(site: &ConfigMap) -> Option<ObjectKey> {
    ///     let name = site.data.as_ref()?.get("theme")?.as_str();
    ///     Some(ObjectKey::in_namespace(name, site.metadata.namespace.as_deref()))
    /// }
    ///
    /// # fn example(client: kube::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// let mut builder = CompositeController::builder(client, "sites", Watch::<ConfigMap>::all())
    ///     .finalizer("example.io/sites")
    ///     .child::<Pod>(ChildConfig::recreate());
    /// let themes = builder.refers_to(Watch::<Secret>::all(), theme_of);
    /// let controller = builder.build(move |request: &SyncRequest<ConfigMap>| {
    ///     let theme = theme_of(request.parent()).and_then(|key| themes.get(&key));
    ///     Ok::<_, Failure>(SyncResponse::new(json!({ "themed": theme.is_some() })))
    /// })?;
    /// # drop(controller);
    /// # Ok(())
    /// # }
    /// ```
    pub fn refers_to<O, F, I>(&mut self, others: Watch<O>, references: F) -> Informers<O>
    where
        O: Watchable,
        F: Fn(&P) -> I + Send + Sync + 'static,
        I: IntoIterator<Item = ObjectKey>,
    {
        self.builder
            .refers_to(others, references)
            .informers()
            .clone()
    }

    /// Sets the finalizer of the parents. The default is the name of the controller. A built-in kind
    /// requires a finalizer with a domain, as in `example.io/websites`.
    pub fn finalizer(self, name: impl Into<String>) -> Self {
        let builder = self.builder.finalizer(name);
        Self { builder, ..self }
    }

    /// Adds no finalizer to the parents: for children that all have their parent as owner, so that
    /// Kubernetes deletes them. Then `finalize` is never called, and `sync` is not called for a parent that
    /// is marked for deletion. Kinds with [`ChildConfig::elsewhere`] are refused by
    /// [`build`](Self::build). Parents that have the finalizer of an earlier version of the program keep
    /// it, and cannot be deleted until it is removed.
    pub fn without_finalizer(self) -> Self {
        let builder = self.builder.without_finalizer();
        Self { builder, ..self }
    }

    /// Sets what happens when a parent with the finalizer leaves the selector of its watch. By default the
    /// finalizer is removed without a call of `finalize`, and this is logged at `WARN`. With
    /// [`OnSelectorExit::CleanUp`] it is called, and the children are deleted after it. Otherwise they stay
    /// as they are.
    pub fn on_selector_exit(self, then: OnSelectorExit) -> Self {
        let builder = self.builder.on_selector_exit(then);
        Self { builder, ..self }
    }

    /// Watches children in one namespace only, except for those of a kind with
    /// [`ChildConfig::elsewhere`] and cluster-scoped ones: for parents of one namespace. By default in
    /// all namespaces.
    pub fn children_in(self, namespace: impl Into<String>) -> Self {
        Self {
            namespace: Some(namespace.into()),
            ..self
        }
    }

    /// Watches children by this label, which each child in a response has, with the value of
    /// [`managed_by`]: for a program that had labels of its own.
    #[doc(hidden)]
    pub fn children_with(self, label: impl Into<String>) -> Self {
        let label = label.into();
        Self { label, ..self }
    }

    /// Changes the settings of the underlying controller: concurrency, the time limit of calls, hooks.
    /// Its default retry policy is [`ExponentialBackoff::ROPERATOR`].
    ///
    /// The children are those of its field manager, as
    /// [`CompositeController::builder`](crate::CompositeController::builder) says.
    pub fn with_controller(
        self,
        configure: impl FnOnce(ControllerBuilder<P>) -> ControllerBuilder<P>,
    ) -> Self {
        let builder = configure(self.builder);
        Self { builder, ..self }
    }

    /// Builds a controller that calls `handler` on threads on which it may block.
    ///
    /// # Errors
    ///
    /// [`CompositeBuildError`] if a kind was declared twice, the finalizer, a selector or a setting is
    /// invalid, or children elsewhere are declared without a finalizer.
    pub fn build(
        self,
        handler: impl CompositeHandler<P>,
    ) -> Result<CompositeController<P>, CompositeBuildError> {
        let threads = Arc::new(Threads::default());
        let handler = OnThreads::new(handler, Arc::clone(&threads));
        self.built(handler, threads)
    }

    /// Builds a controller that awaits the calls of `handler`.
    ///
    /// # Errors
    ///
    /// Like [`build`](Self::build).
    pub fn build_async(
        self,
        handler: impl AsyncCompositeHandler<P>,
    ) -> Result<CompositeController<P>, CompositeBuildError> {
        self.built(handler, Arc::default())
    }

    fn built(
        self,
        handler: impl AsyncCompositeHandler<P>,
        threads: Arc<Threads>,
    ) -> Result<CompositeController<P>, CompositeBuildError> {
        let mut declared = HashSet::new();
        for DeclaredKind { kind, types, .. } in &self.kinds {
            if !declared.insert(kind.resource()) {
                return Err(CompositeBuildError::DuplicateKind {
                    kind: types.kind.clone(),
                    api_version: types.api_version.clone(),
                });
            }
        }
        let mut builder = self.builder;
        let has_finalizer = builder.has_finalizer();
        let selector = format!("{}={}", self.label, managed_by(builder.manager()));
        let mut kinds = Vec::with_capacity(self.kinds.len());
        for DeclaredKind {
            types,
            kind,
            config,
        } in self.kinds
        {
            if !has_finalizer && config.as_ref().is_some_and(|it| it.is_elsewhere) {
                return Err(CompositeBuildError::ElsewhereWithoutFinalizer {
                    kind: types.kind,
                    api_version: types.api_version,
                });
            }
            let is_everywhere =
                kind.is_cluster_scoped() || config.as_ref().is_none_or(|it| it.is_elsewhere);
            let api = match self.namespace.as_ref().filter(|_| !is_everywhere) {
                Some(namespace) => Api::namespaced_with(self.client.clone(), namespace, &types),
                None => Api::all_with(self.client.clone(), &types),
            };
            let children = Watch::<DynamicObject>::from((api, types.clone())).labels(&*selector);
            kinds.push(WatchedKind {
                owned: builder.owns(children),
                types,
                kind,
                config,
            });
        }
        let controller = builder.build(Calls {
            handler,
            kinds,
            parent_kind: self.parent_kind,
            is_generation_undeclared: AtomicBool::new(false),
        })?;
        Ok(CompositeController::new(controller, threads))
    }
}

impl<P: Watchable> fmt::Debug for CompositeBuilder<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kinds: Vec<_> = self.kinds.iter().map(|it| &it.types.kind).collect();
        f.debug_struct("CompositeBuilder")
            .field("builder", &self.builder)
            .field("children", &kinds)
            .finish_non_exhaustive()
    }
}
