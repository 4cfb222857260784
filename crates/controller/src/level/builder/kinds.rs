//! The other kinds of a controller: owned, watched, and referred to.

use std::sync::Arc;

use futures::{FutureExt as _, future::BoxFuture};
use kube::Client;
use windlass_informer::{Event, ObjectKey, resource_name};

use super::ControllerBuilder;
use crate::{
    AddError, ChildSelector, ControllerBuildError, InformerController, Informers, Kind, Mapper,
    Owned, Referred, Related, Trigger, Watch, Watchable,
    children::{ChildKind, ParentOf},
    level::{
        claims::Claims,
        own::OwnWriteTracker,
        references::{self, Referrers},
        triggers::Target,
    },
};

/// Adds the informers and the mapper of a secondary kind, once the engine exists. Returns what follows
/// an optional kind.
pub(super) type AddSecondary<K> = Box<
    dyn FnOnce(&Wiring<'_, K>) -> Result<Option<BoxFuture<'static, ()>>, ControllerBuildError>
        + Send,
>;

/// A kind whose objects the primary objects own.
pub(super) struct OwnedResource {
    /// As `plural.group`.
    name: String,
    is_claimed: bool,
    is_of_another_cluster: bool,
}

/// The controller to which a secondary kind is added.
pub(super) struct Wiring<'a, K: Watchable> {
    pub(super) controller: &'a InformerController,
    pub(super) primary: &'a Kind<K>,
    pub(super) client: &'a Client,
    pub(super) own: &'a OwnWriteTracker,
    pub(super) target: &'a Target,
    /// Whether calls begin without the kind.
    pub(super) is_optional: bool,
}

// === impl ControllerBuilder ===

impl<K: Watchable> ControllerBuilder<K> {
    /// Watches the objects of kind `C` that objects of kind `K` own: a change, creation or deletion
    /// of one reconciles its owners.
    pub fn owns<C: Watchable>(&mut self, children: Watch<C>) -> Owned<K, C> {
        let owners = self.owners::<C>(&children.types);
        self.add_owned(children, owners, false)
    }

    /// Watches the objects of kind `C` that objects of kind `K` own and select by their labels, as a
    /// `ReplicaSet` does with its Pods.
    ///
    /// The reconciler calls [`Owned::claim`], which adopts the objects without a controller that the
    /// selector of its object matches, releases the children that it does not match, and returns the
    /// children. A change, creation or deletion of a child reconciles its owners, and a change or
    /// creation of an object without a controller reconciles the objects whose selectors match it.
    ///
    /// `selector` is a function that returns the selector in the spec, or [`GeneratedSelector`], which
    /// selects by the uid of the parent.
    ///
    /// *Required.* The `children` are not watched by labels that can change: a child that leaves the
    /// watch is not released. The selector matches all children of this resource that an object has: a
    /// second handle for the resource is an error of [`build`](Self::build).
    ///
    /// ```no_run
    /// use k8s_openapi::api::{apps::v1::ReplicaSet, core::v1::Pod};
    /// use windlass_controller::{Context, Controller, Failure, Outcome, Watch};
    ///
    /// # fn example(client: kube::Client) -> Result<(), windlass_controller::ControllerBuildError> {
    /// let mut sets = Controller::<ReplicaSet>::builder(client, Watch::all());
    /// let pods = sets.claims(Watch::<Pod>::all(), |set: &ReplicaSet| {
    ///     set.spec.clone().unwrap_or_default().selector
    /// });
    /// let sets = sets.build(move |cx: Context<ReplicaSet>| {
    ///     let pods = pods.clone();
    ///     async move {
    ///         let pods = pods.claim(&cx).await?;
    ///         cx.write_status(serde_json::json!({ "replicas": pods.len() })).await?;
    ///         Ok::<_, Failure>(Outcome::done())
    ///     }
    /// })?;
    /// # drop(sets);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// [`GeneratedSelector`]: crate::GeneratedSelector
    pub fn claims<C: Watchable>(
        &mut self,
        children: Watch<C>,
        selector: impl ChildSelector<K>,
    ) -> Owned<K, C> {
        let claims = Claims::new(selector);
        let owners = self.owners::<C>(&children.types);
        let claimants = claims.claimants(owners, &self.primaries);
        let owned = self.add_owned(children, claimants, true);
        owned.informers().declare(&claims.orphans);
        owned.claimed(claims)
    }

    /// Refuses children that the calls cannot write, and a resource with claimed children that has
    /// another handle: each would release the children of the other.
    pub(super) fn check_owned(owned: &[OwnedResource]) -> Result<(), ControllerBuildError> {
        if let Some(elsewhere) = owned.iter().find(|it| it.is_of_another_cluster) {
            return Err(ControllerBuildError::ChildrenOfAnotherCluster {
                resource: elsewhere.name.clone(),
            });
        }
        let of = |name: &str| owned.iter().filter(|it| it.name == name).count();
        let mut claimed = owned.iter().filter(|it| it.is_claimed);
        match claimed.find(|it| of(&it.name) > 1) {
            Some(OwnedResource { name, .. }) => Err(ControllerBuildError::ClaimedTwice {
                resource: name.clone(),
            }),
            None => Ok(()),
        }
    }

    fn owners<C: Watchable>(&self, children: &C::DynamicType) -> ParentOf {
        ParentOf::of::<K>(self.primaries.types(), ChildKind::of::<C>(children))
    }

    fn add_owned<C: Watchable>(
        &mut self,
        children: Watch<C>,
        mapper: impl Mapper<C>,
        is_claimed: bool,
    ) -> Owned<K, C> {
        let name = resource_name::<C>(&children.types);
        self.owned.push(OwnedResource {
            name,
            is_claimed,
            is_of_another_cluster: children.is_of_another_cluster,
        });
        let index = Owned::<K, C>::index(&children.types);
        let informers = self.add_secondary(children, mapper);
        // Also in the informers that are added later.
        informers.declare(&index);
        Owned::new(informers, index)
    }

    /// Watches objects of kind `O`: a change of one reconciles the objects of kind `K` whose keys
    /// `mapper` returns for its old and for its new state.
    ///
    /// If a `K` names the `O`, use [`refers_to`](Self::refers_to).
    pub fn watches<O: Watchable>(
        &mut self,
        others: Watch<O>,
        mapper: impl Mapper<O>,
    ) -> Related<K, O> {
        Related::new(self.add_secondary(others, mapper))
    }

    /// Watches objects of kind `O` to which objects of kind `K` refer, for example the `Secret` that
    /// a spec names: a change of one reconciles the objects that refer to it.
    ///
    /// `references` returns the keys to which an object refers: none, one, or several. The primary
    /// objects are indexed by them, so there is no mapper and no scan.
    ///
    /// ```no_run
    /// use k8s_openapi::api::core::v1::{Pod, ServiceAccount};
    /// use windlass_controller::{Controller, Watch};
    /// use windlass_informer::ObjectKey;
    ///
    /// # fn example(client: kube::Client) {
    /// let mut pods = Controller::<Pod>::builder(client, Watch::all());
    /// let accounts = pods.refers_to(Watch::<ServiceAccount>::all(), |pod: &Pod| {
    ///     let name = pod.spec.as_ref()?.service_account_name.clone()?;
    ///     Some(ObjectKey::new(name).within(pod.metadata.namespace.clone()?))
    /// });
    /// # drop(accounts);
    /// # }
    /// ```
    pub fn refers_to<O, F, I>(&mut self, others: Watch<O>, references: F) -> Referred<K, O>
    where
        O: Watchable,
        F: Fn(&K) -> I + Send + Sync + 'static,
        I: IntoIterator<Item = ObjectKey>,
    {
        let keys = references::references(references);
        let referrers = Referrers::new(&self.primaries, Arc::clone(&keys));
        Referred::new(self.add_secondary(others, referrers), keys)
    }

    /// Reconciles objects for another cause: a stream, an interval, or a handle.
    pub fn trigger(&mut self, when: impl Into<Trigger>) -> &mut Self {
        self.triggers.push(when.into());
        self
    }

    /// Adds a watch with a mapper to the primary kind.
    fn add_secondary<O: Watchable>(
        &mut self,
        mut watch: Watch<O>,
        mapper: impl Mapper<O>,
    ) -> Informers<O> {
        let predicate = watch.predicate.take();
        let informers = Informers::new(watch.types.clone());
        let added = informers.clone();
        self.secondaries.push(Box::new(move |wiring| {
            let controller = wiring.controller;
            let kind = wiring.kind::<O>(&resource_name::<O>(added.types()))?;
            added.attach(controller, kind.clone(), wiring.client, None, watch)?;
            wiring.own.watch(&added);
            if let Some(predicate) = predicate {
                let passes = move |event: &Event<O>| predicate.passes(event);
                controller.add_mapper(&kind, wiring.primary, mapper.filter(passes))?;
            } else {
                controller.add_mapper(&kind, wiring.primary, mapper)?;
            }
            let target = wiring.target.clone();
            let follow = || added.follow(move || target.wake_all()).boxed();
            Ok(wiring.is_optional.then(follow))
        }));
        informers
    }
}

// === impl Wiring ===

impl<K: Watchable> Wiring<'_, K> {
    /// A kind for a further watch of `resource`: with a number, if another watch has the name.
    fn kind<O: Watchable>(&self, resource: &str) -> Result<Kind<O>, AddError> {
        /// More watches of one resource than a controller has.
        const MOST: u32 = 1000;
        let new = |name: &str| {
            if self.is_optional {
                self.controller.optional_kind(name)
            } else {
                self.controller.kind(name)
            }
        };
        new(resource).or_else(|taken| {
            let names = (2..MOST).map(|number| format!("{resource}-{number}"));
            let free = names.map(|name| new(&name)).find_map(Result::ok);
            free.ok_or(taken)
        })
    }
}
