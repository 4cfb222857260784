//! Decodes long lists on several threads.

use std::{collections::VecDeque, marker::PhantomData, num::NonZeroUsize, sync::Arc};

use bytes::Bytes;
use kube::Resource;
use serde::de::DeserializeOwned;
use tokio::runtime::{Handle, RuntimeFlavor};
use tokio_util::task::AbortOnDropHandle;

use super::reflector::read;
use crate::{Decoder, IncomingObject, StoredForm, decode::RawJson, subscription::SubscriberCount};

/// Decodes objects on other threads of the runtime, and returns them in their original order.
///
/// Moving an object to another thread costs more than it saves for short lists, so the first
/// objects of a list are decoded on the task itself. A single-threaded runtime decodes all of them
/// there.
pub(super) struct Workers<K, O> {
    /// How many batches may be in progress.
    limit: usize,

    /// How many objects of this list were seen.
    seen: usize,

    /// Whether the end of each object is known from its brackets.
    are_whole: bool,

    batch: Vec<Bytes>,
    under_way: VecDeque<AbortOnDropHandle<Vec<DecodedItem<O>>>>,
    decoder: PhantomData<fn() -> K>,
}

/// An object as JSON and decoded. `None` if it does not decode.
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
    /// The number of objects after which a list counts as long: a page of the default size.
    const PARALLEL_THRESHOLD: usize = 500;

    /// About half a millisecond of work for Pods.
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

    /// The default number of threads: that of the runtime, at most four, which is more than one
    /// connection can feed.
    pub(super) fn default_threads() -> NonZeroUsize {
        const MAX_THREADS: usize = 4;
        let threads = match Handle::try_current() {
            Ok(runtime) if runtime.runtime_flavor() == RuntimeFlavor::MultiThread => {
                runtime.metrics().num_workers()
            }
            _ => 1,
        };
        NonZeroUsize::new(threads.min(MAX_THREADS)).unwrap_or(NonZeroUsize::MIN)
    }

    /// Begins another list, and drops the batches of the last one. `are_whole` says whether the end
    /// of each object is known from its brackets.
    pub(super) fn begin(&mut self, are_whole: bool) {
        self.seen = 0;
        self.are_whole = are_whole;
        self.drop_all();
    }

    /// Drops all batches.
    pub(super) fn drop_all(&mut self) {
        self.batch.clear();
        self.under_way.clear();
    }

    /// Counts an object, and returns whether to decode it on another thread.
    pub(super) fn should_offload(&mut self) -> bool {
        self.seen += 1;
        self.limit > 1 && self.seen > Self::PARALLEL_THRESHOLD
    }

    /// Adds an object. Returns the oldest decoded batch if too many batches are in progress.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses objects, so the list has to begin again.
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

    /// Returns the oldest batch, or nothing if there is none.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses objects, so the list has to begin again.
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
            // The panic of a type's `Deserialize`: it continues on this task.
            Some(batch) => match batch.await {
                Ok(read) => read,
                Err(ended) => match ended.try_into_panic() {
                    Ok(panic) => std::panic::resume_unwind(panic),
                    // The runtime shuts down, and drops this task too.
                    Err(_) => std::future::pending().await,
                },
            },
        }
    }
}
