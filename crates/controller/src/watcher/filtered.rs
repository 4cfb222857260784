//! A watcher with a predicate.

use std::{future::Future, sync::Arc};

use windlass_informer::Event;

use super::Watcher;
use crate::{Filtered, Predicate, predicate::filtered_hooks};

// === impl Filtered ===

impl<K, W, P> Watcher<K> for Filtered<W, P>
where
    K: Send + Sync + 'static,
    W: Watcher<K>,
    P: Predicate<K>,
{
    type Error = W::Error;

    fn add(&self, object: Arc<K>) -> impl Future<Output = Result<(), Self::Error>> + Send {
        self.handler.add(object)
    }

    fn update(
        &self,
        old: Arc<K>,
        new: Arc<K>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send {
        self.handler.update(old, new)
    }

    fn delete(&self, last: Arc<K>) -> impl Future<Output = Result<(), Self::Error>> + Send {
        self.handler.delete(last)
    }

    fn resync(&self, object: Arc<K>) -> impl Future<Output = Result<(), Self::Error>> + Send {
        self.handler.resync(object)
    }

    filtered_hooks!();
}
