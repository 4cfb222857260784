//! The methods of [`Controller`] that take streams of objects.

use std::{fmt::Debug, hash::Hash, sync::Arc};

use futures::{Stream, StreamExt as _};
use kube::Resource;
use serde::de::DeserializeOwned;
use windlass_controller::{Mapper as _, Owners};
use windlass_informer::ObjectKey;

use super::{
    Controller,
    delays::Delays,
    informers::name,
    primary::Primary,
    triggers::{Trigger, mapped},
    watch_errors::WatchErrors,
};
use crate::{
    reflector::{ObjectRef, Store},
    watcher,
};

// === impl Controller ===

impl<K> Controller<K>
where
    K: Clone + Resource + DeserializeOwned + Debug + Send + Sync + 'static,
    K::DynamicType: Eq + Hash + Clone,
{
    /// Creates a controller of the objects that `trigger` yields, which `reader` has.
    ///
    /// The watch, its backoff and its store are those of the caller. A call gets the object that
    /// `reader` has at its begin, and does not begin if `reader` has none. A stream yields the objects
    /// of a list before the store has them: their calls begin when the list has ended.
    pub fn for_stream(
        trigger: impl Stream<Item = Result<K, watcher::Error>> + Send + 'static,
        reader: Store<K>,
    ) -> Self
    where
        K::DynamicType: Default,
    {
        Self::for_stream_with(trigger, reader, K::DynamicType::default())
    }

    /// Like [`for_stream`](Self::for_stream), for a kind that is known only at run time.
    pub fn for_stream_with(
        trigger: impl Stream<Item = Result<K, watcher::Error>> + Send + 'static,
        reader: Store<K>,
        dyntype: K::DynamicType,
    ) -> Self {
        let trigger = trigger.map(|object| match object {
            Ok(object) => Trigger::Object(ObjectKey::of(&object)),
            Err(error) => Trigger::Failed(error),
        });
        Self::of_triggers(trigger, reader, dyntype)
    }

    /// Creates a controller whose objects `trigger` names.
    pub(super) fn of_triggers(
        trigger: impl Stream<Item = Trigger> + Send + 'static,
        reader: Store<K>,
        dyntype: K::DynamicType,
    ) -> Self {
        let primary = Primary::stream(reader, name::<K>(&dyntype));
        let (delays, errors) = (Arc::<Delays>::default(), Arc::<WatchErrors>::default());
        let mut controller = Self::of(primary, dyntype, delays, errors);
        controller.triggers.push(trigger.boxed());
        controller
    }

    /// Like [`owns`](Self::owns), with a stream of the caller.
    #[must_use]
    pub fn owns_stream<Child: Resource<DynamicType = ()> + Send + 'static>(
        self,
        trigger: impl Stream<Item = Result<Child, watcher::Error>> + Send + 'static,
    ) -> Self {
        self.owns_stream_with(trigger, ())
    }

    /// Like [`owns_stream`](Self::owns_stream), for a kind that is known only at run time.
    #[must_use]
    pub fn owns_stream_with<Child: Resource + Send + 'static>(
        mut self,
        trigger: impl Stream<Item = Result<Child, watcher::Error>> + Send + 'static,
        _dyntype: Child::DynamicType,
    ) -> Self
    where
        Child::DynamicType: Debug + Eq + Hash + Clone,
    {
        let owners = Owners::of::<K>(&self.dyntype);
        let trigger = trigger.map(move |child| match child {
            Ok(child) => Trigger::Keys(owners.keys(&child).into_iter().collect()),
            Err(error) => Trigger::Failed(error),
        });
        self.triggers.push(trigger.boxed());
        self
    }

    /// Like [`watches`](Self::watches), with a stream of the caller. `mapper` is called with the
    /// states that the stream yields.
    #[must_use]
    pub fn watches_stream<Other, I>(
        self,
        trigger: impl Stream<Item = Result<Other, watcher::Error>> + Send + 'static,
        mapper: impl Fn(Other) -> I + Sync + Send + 'static,
    ) -> Self
    where
        Other: Clone + Resource + DeserializeOwned + Debug + Send + 'static,
        Other::DynamicType: Default + Debug + Clone,
        I: 'static + IntoIterator<Item = ObjectRef<K>>,
        I::IntoIter: Send,
    {
        self.watches_stream_with(trigger, mapper, Other::DynamicType::default())
    }

    /// Like [`watches_stream`](Self::watches_stream), for a kind that is known only at run time.
    #[must_use]
    pub fn watches_stream_with<Other, I>(
        mut self,
        trigger: impl Stream<Item = Result<Other, watcher::Error>> + Send + 'static,
        mapper: impl Fn(Other) -> I + Sync + Send + 'static,
        _dyntype: Other::DynamicType,
    ) -> Self
    where
        Other: Clone + Resource + DeserializeOwned + Debug + Send + 'static,
        Other::DynamicType: Debug + Clone,
        I: 'static + IntoIterator<Item = ObjectRef<K>>,
        I::IntoIter: Send,
    {
        let trigger = trigger.map(move |other| match other {
            Ok(other) => Trigger::Keys(mapped(|| mapper(other))),
            Err(error) => Trigger::Failed(error),
        });
        self.triggers.push(trigger.boxed());
        self
    }
}
