//! The methods of [`Controller`] that take streams of shared objects.

use std::{fmt::Debug, hash::Hash, sync::Arc};

use futures::{Stream, StreamExt as _};
use kube::Resource;
use serde::de::DeserializeOwned;
use windlass_controller::{Mapper as _, Owners};
use windlass_informer::ObjectKey;

use super::{
    Controller,
    triggers::{Trigger, mapped},
};
use crate::reflector::{ObjectRef, Store};

// === impl Controller ===

impl<K> Controller<K>
where
    K: Clone + Resource + DeserializeOwned + Debug + Send + Sync + 'static,
    K::DynamicType: Eq + Hash + Clone,
{
    /// Like [`for_stream`](Self::for_stream), with a stream of shared objects, for example of
    /// [`Writer::subscribe`](crate::reflector::store::Writer::subscribe).
    pub fn for_shared_stream(
        trigger: impl Stream<Item = Arc<K>> + Send + 'static,
        reader: Store<K>,
    ) -> Self
    where
        K::DynamicType: Default,
    {
        Self::for_shared_stream_with(trigger, reader, K::DynamicType::default())
    }

    /// Like [`for_shared_stream`](Self::for_shared_stream), for a kind that is known only at run
    /// time.
    pub fn for_shared_stream_with(
        trigger: impl Stream<Item = Arc<K>> + Send + 'static,
        reader: Store<K>,
        dyntype: K::DynamicType,
    ) -> Self {
        let trigger = trigger.map(|object| Trigger::Object(ObjectKey::of(&*object)));
        Self::of_triggers(trigger, reader, dyntype)
    }

    /// Like [`owns_stream`](Self::owns_stream), with a stream of shared objects.
    #[must_use]
    pub fn owns_shared_stream<Child>(
        self,
        trigger: impl Stream<Item = Arc<Child>> + Send + 'static,
    ) -> Self
    where
        Child: Resource<DynamicType = ()> + Send + 'static,
    {
        self.owns_shared_stream_with(trigger, ())
    }

    /// Like [`owns_shared_stream`](Self::owns_shared_stream), for a kind that is known only at run
    /// time.
    #[must_use]
    pub fn owns_shared_stream_with<Child: Resource + Send + 'static>(
        mut self,
        trigger: impl Stream<Item = Arc<Child>> + Send + 'static,
        _dyntype: Child::DynamicType,
    ) -> Self
    where
        Child::DynamicType: Debug + Eq + Hash + Clone,
    {
        let owners = Owners::of::<K>(&self.dyntype);
        let trigger =
            trigger.map(move |child| Trigger::Keys(owners.keys(&*child).into_iter().collect()));
        self.triggers.push(trigger.boxed());
        self
    }

    /// Like [`watches_stream`](Self::watches_stream), with a stream of shared objects.
    #[must_use]
    pub fn watches_shared_stream<Other, I>(
        self,
        trigger: impl Stream<Item = Arc<Other>> + Send + 'static,
        mapper: impl Fn(Arc<Other>) -> I + Sync + Send + 'static,
    ) -> Self
    where
        Other: Clone + Resource + DeserializeOwned + Debug + Send + 'static,
        Other::DynamicType: Default + Debug + Clone,
        I: 'static + IntoIterator<Item = ObjectRef<K>>,
        I::IntoIter: Send,
    {
        self.watches_shared_stream_with(trigger, mapper, Other::DynamicType::default())
    }

    /// Like [`watches_shared_stream`](Self::watches_shared_stream), for a kind that is known only at
    /// run time.
    #[must_use]
    pub fn watches_shared_stream_with<Other, I>(
        mut self,
        trigger: impl Stream<Item = Arc<Other>> + Send + 'static,
        mapper: impl Fn(Arc<Other>) -> I + Sync + Send + 'static,
        _dyntype: Other::DynamicType,
    ) -> Self
    where
        Other: Clone + Resource + DeserializeOwned + Debug + Send + 'static,
        Other::DynamicType: Debug + Clone,
        I: 'static + IntoIterator<Item = ObjectRef<K>>,
        I::IntoIter: Send,
    {
        let trigger = trigger.map(move |other| Trigger::Keys(mapped(|| mapper(other))));
        self.triggers.push(trigger.boxed());
        self
    }
}
