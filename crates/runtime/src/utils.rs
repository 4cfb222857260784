//! Helpers for streams of watch events.

mod reflect;

use std::hash::Hash;

use futures::{Stream, TryStream};
use kube::Resource;
#[doc(inline)]
pub use kube::runtime::utils::{
    Backoff, CancelableJoinHandle, EventDecode, EventModify, Predicate, PredicateConfig,
    PredicateFilter, ResetTimerBackoff, StreamBackoff, predicates,
};
use kube::runtime::{utils::WatchStreamExt as KubeStreamExt, watcher::DefaultBackoff};

pub use self::reflect::Reflect;
use crate::{reflector::store::Writer, watcher};

/// Methods of streams of watch events.
///
/// The same methods as those of `kube::runtime::WatchStreamExt`, with the
/// [`Writer`] of this crate. If both traits are in scope, for example with
/// `use kube::prelude::*`, the compiler reports the methods as ambiguous: import only this one.
pub trait WatchStreamExt: Stream {
    /// Waits after each error, with the default backoff.
    fn default_backoff(self) -> StreamBackoff<Self, DefaultBackoff>
    where
        Self: TryStream + Sized,
    {
        KubeStreamExt::default_backoff(self)
    }

    /// Waits after each error, with `b`.
    fn backoff<B>(self, b: B) -> StreamBackoff<Self, B>
    where
        B: Backoff,
        Self: TryStream + Sized,
    {
        KubeStreamExt::backoff(self, b)
    }

    /// The objects that were added or changed.
    fn applied_objects<K>(self) -> EventDecode<Self>
    where
        Self: Stream<Item = Result<watcher::Event<K>, watcher::Error>> + Sized,
    {
        KubeStreamExt::applied_objects(self)
    }

    /// The objects that were added, changed or deleted.
    fn touched_objects<K>(self) -> EventDecode<Self>
    where
        Self: Stream<Item = Result<watcher::Event<K>, watcher::Error>> + Sized,
    {
        KubeStreamExt::touched_objects(self)
    }

    /// Calls `f` with each object.
    fn modify<F, K>(self, f: F) -> EventModify<Self, F>
    where
        Self: Stream<Item = Result<watcher::Event<K>, watcher::Error>> + Sized,
        F: FnMut(&mut K),
    {
        KubeStreamExt::modify(self, f)
    }

    /// The objects for which the value of `predicate` changed.
    fn predicate_filter<K, P>(
        self,
        predicate: P,
        config: PredicateConfig,
    ) -> PredicateFilter<Self, K, P>
    where
        Self: Stream<Item = Result<K, watcher::Error>> + Sized,
        K: Resource + 'static,
        P: Predicate<K> + 'static,
    {
        KubeStreamExt::predicate_filter(self, predicate, config)
    }

    /// Keeps the objects in the store of `writer`.
    fn reflect<K>(self, writer: Writer<K>) -> Reflect<Self, K>
    where
        Self: Stream<Item = watcher::Result<watcher::Event<K>>> + Sized,
        K: Resource + Clone + 'static,
        K::DynamicType: Eq + Hash + Clone,
    {
        Reflect::new(self, writer)
    }

    /// Keeps the objects in the store of `writer`, and sends them to its subscribers.
    fn reflect_shared<K>(self, writer: Writer<K>) -> impl Stream<Item = Self::Item>
    where
        Self: Stream<Item = watcher::Result<watcher::Event<K>>> + Sized,
        K: Resource + Clone + 'static,
        K::DynamicType: Eq + Hash + Clone,
    {
        crate::reflector(writer, self)
    }
}

impl<St: ?Sized> WatchStreamExt for St where St: Stream {}
