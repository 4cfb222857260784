//! Decoding on several threads, for lists that are long.

use std::{collections::VecDeque, marker::PhantomData, num::NonZeroUsize, sync::Arc};

use bytes::Bytes;
use kube::Resource;
use serde::de::DeserializeOwned;
use tokio::runtime::{Handle, RuntimeFlavor};
use tokio_util::task::AbortOnDropHandle;

use super::reflector::read;
use crate::{Decoder, IncomingObject, StoredForm, decode::RawJson, subscription::SubscriberCount};

/// Decodes objects on other threads of the runtime, and gives them back in the order in which
/// they came.
///
/// To hand an object over and to take it back costs more than it saves where there are few, so
/// the first of a list are not taken. A runtime of one thread has no others to hand them to.
pub(super) struct Workers<K, O> {
    /// How many batches may be under way.
    limit: usize,

    /// How many objects of this list came before.
    seen: usize,

    /// Whether they were cut out of it by their brackets.
    are_whole: bool,

    batch: Vec<Bytes>,
    under_way: VecDeque<AbortOnDropHandle<Vec<DecodedItem<O>>>>,
    decoder: PhantomData<fn() -> K>,
}

/// An object as it came, and what it is; none if it is wrong in any way.
pub(super) struct DecodedItem<O> {
    pub(super) json: Bytes,
    pub(super) object: Option<IncomingObject<O>>,
}

// === impl Workers ===

impl<K, O> Workers<K, O>
where
    K: Resource + DeserializeOwned + Send + Sync + 'static,
    O: StoredForm<K>,
{
    /// A page of a list, by default.
    const PARALLEL_THRESHOLD: usize = 500;

    /// Half a millisecond's work, for objects as large as Pods.
    const BATCH: usize = 16;

    pub(super) fn new(threads: NonZeroUsize) -> Self {
        Self {
            limit: threads.get(),
            seen: 0,
            are_whole: false,
            batch: Vec::new(),
            under_way: VecDeque::new(),
            decoder: PhantomData,
        }
    }

    /// How many threads decode by default: as many as the runtime has, up to four, which
    /// is more than one connection feeds. One if it has one.
    pub(super) fn default_threads() -> NonZeroUsize {
        const MOST: usize = 4;
        let threads = match Handle::try_current() {
            Ok(runtime) if runtime.runtime_flavor() == RuntimeFlavor::MultiThread => {
                runtime.metrics().num_workers()
            }
            _ => 1,
        };
        NonZeroUsize::new(threads.min(MOST)).unwrap_or(NonZeroUsize::MIN)
    }

    /// Another list begins, whose objects are cut out of it by their brackets if they
    /// `are_whole`. What was under way for the last one is dropped.
    pub(super) fn begin(&mut self, are_whole: bool) {
        self.seen = 0;
        self.are_whole = are_whole;
        self.drop_all();
    }

    /// What is under way is not wanted any more.
    pub(super) fn drop_all(&mut self) {
        self.batch.clear();
        self.under_way.clear();
    }

    /// Whether the next object of the list is to be handed over.
    pub(super) fn should_offload(&mut self) -> bool {
        self.seen += 1;
        self.limit > 1 && self.seen > Self::PARALLEL_THRESHOLD
    }

    /// Hands an object over. Returns what has been decoded meanwhile, if there is too much
    /// under way.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses objects: the list has to begin again.
    pub(super) async fn put(
        &mut self,
        decoder: &Arc<Decoder<K>>,
        subscribers: &SubscriberCount,
        json: Bytes,
    ) -> Vec<DecodedItem<O>> {
        self.batch.push(json);
        if self.batch.len() < Self::BATCH {
            return Vec::new();
        }
        self.send(decoder, subscribers);
        if self.under_way.len() <= self.limit {
            return Vec::new();
        }
        self.oldest().await
    }

    /// What was handed over first and not given back yet; nothing if that is all.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses objects: the list has to begin again.
    pub(super) async fn next(
        &mut self,
        decoder: &Arc<Decoder<K>>,
        subscribers: &SubscriberCount,
    ) -> Vec<DecodedItem<O>> {
        if !self.batch.is_empty() {
            self.send(decoder, subscribers);
        }
        self.oldest().await
    }

    fn send(&mut self, decoder: &Arc<Decoder<K>>, subscribers: &SubscriberCount) {
        let (decoder, subscribers) = (Arc::clone(decoder), subscribers.clone());
        let batch = std::mem::replace(&mut self.batch, Vec::with_capacity(Self::BATCH));
        let is_whole = self.are_whole;
        let decode = async move {
            let read = |json: Bytes| {
                let raw = RawJson {
                    json: &json,
                    is_whole,
                };
                let object = read(&decoder, raw, &subscribers).ok();
                DecodedItem { json, object }
            };
            batch.into_iter().map(read).collect()
        };
        self.under_way
            .push_back(AbortOnDropHandle::new(tokio::spawn(decode)));
    }

    async fn oldest(&mut self) -> Vec<DecodedItem<O>> {
        match self.under_way.pop_front() {
            None => Vec::new(),
            // A type whose decoding panics is the user's, and so is its panic.
            Some(batch) => match batch.await {
                Ok(read) => read,
                Err(ended) => match ended.try_into_panic() {
                    Ok(panic) => std::panic::resume_unwind(panic),
                    // The runtime is shutting down, and we with it.
                    Err(_) => std::future::pending().await,
                },
            },
        }
    }
}
