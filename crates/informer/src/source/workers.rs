//! Decodes long lists on several threads.
//!
//! Guaranteed: the objects come back in the order of the list, at most one batch for each thread and
//! one more are in progress, and dropping the workers drops the batches that have not begun.

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

#[cfg(test)]
mod tests {
    use std::{num::NonZeroUsize, sync::Arc};

    use bytes::Bytes;
    use k8s_openapi::api::core::v1::ConfigMap;

    use super::{DecodedItem, Workers};
    use crate::{Decoder, ObjectIdentity as _, Trim, subscription::SubscriberCount};

    const LIMIT: usize = 3;
    const BATCH: usize = Workers::<ConfigMap, ConfigMap>::BATCH;

    struct List {
        workers: Workers<ConfigMap, ConfigMap>,
        decoder: Arc<Decoder<ConfigMap>>,
        subscribers: SubscriberCount,
    }

    // === impl List ===

    impl List {
        fn new() -> Self {
            Self {
                workers: Workers::new(NonZeroUsize::new(LIMIT).expect("not zero")),
                decoder: Arc::new(Decoder::new(&(), Trim::default(), false, 0)),
                subscribers: SubscriberCount::default(),
            }
        }

        /// Puts objects with these numbers as names. Returns the names of the returned objects.
        async fn put(&mut self, numbers: impl IntoIterator<Item = usize>) -> Vec<usize> {
            let mut all = Vec::new();
            for number in numbers {
                let json = format!(r#"{{"metadata":{{"name":"{number}"}}}}"#);
                let json = Bytes::from(json);
                let (decoder, subscribers) = (&self.decoder, &self.subscribers);
                let items = self.workers.put(decoder, subscribers, json).await;
                all.extend(names(items));
            }
            all
        }

        /// Takes all remaining objects.
        async fn rest(&mut self) -> Vec<usize> {
            let mut all = Vec::new();
            loop {
                let items = self.workers.next(&self.decoder, &self.subscribers).await;
                if items.is_empty() {
                    return all;
                }
                all.extend(names(items));
            }
        }
    }

    fn names(items: Vec<DecodedItem<ConfigMap>>) -> impl Iterator<Item = usize> {
        let name = |item: DecodedItem<ConfigMap>| {
            let object = item.object.expect("it decodes");
            object.lazy.name().parse().expect("a number")
        };
        items.into_iter().map(name)
    }

    #[tokio::test]
    async fn all_objects_are_returned_in_order() {
        for count in [0, 1, BATCH - 1, BATCH, BATCH + 1, 10 * BATCH + 7] {
            let mut list = List::new();
            let mut all = list.put(0..count).await;
            all.extend(list.rest().await);
            assert_eq!(all, (0..count).collect::<Vec<_>>());
        }
    }

    #[tokio::test]
    async fn whole_batches_are_sent_and_a_bounded_number_is_in_progress() {
        let mut list = List::new();
        let full = LIMIT * BATCH;
        for count in 1..=full {
            assert!(list.put([count]).await.is_empty());
            assert_eq!(list.workers.under_way.len(), count / BATCH);
        }
        let oldest = list.put(full + 1..=full + BATCH).await;
        assert_eq!(oldest, (1..=BATCH).collect::<Vec<_>>());
        assert_eq!(list.workers.under_way.len(), LIMIT);
    }

    /// Batches of a list that broke off are not part of the next one.
    #[tokio::test]
    async fn a_new_list_does_not_return_objects_of_the_previous_list() {
        let mut list = List::new();
        list.put(0..=BATCH).await;
        list.workers.begin(true);
        assert!(list.workers.are_whole);
        assert!(list.rest().await.is_empty());

        list.put(0..=BATCH).await;
        list.workers.drop_all();
        assert!(list.rest().await.is_empty());
    }

    #[tokio::test]
    async fn only_the_objects_of_a_long_list_are_offloaded() {
        let mut workers = List::new().workers;
        for _ in 0..2 {
            let threshold = Workers::<ConfigMap, ConfigMap>::PARALLEL_THRESHOLD;
            assert!((0..threshold).all(|_| !workers.should_offload()));
            assert!((0..1000).all(|_| workers.should_offload()));
            workers.begin(true);
        }
        let mut workers = Workers::<ConfigMap, ConfigMap>::new(NonZeroUsize::MIN);
        assert!((0..1000).all(|_| !workers.should_offload()));
    }
    #[test]
    fn as_many_threads_decode_as_the_runtime_has_and_at_most_four() {
        use tokio::runtime::Builder;

        let default = || Workers::<ConfigMap, ConfigMap>::default_threads().get();
        assert_eq!(default(), 1, "without a runtime");
        let single = Builder::new_current_thread().build().expect("a runtime");
        assert_eq!(single.block_on(async { default() }), 1);
        for (threads, expected) in [(1, 1), (2, 2), (3, 3), (6, 4)] {
            let runtime = Builder::new_multi_thread().worker_threads(threads).build();
            let decoders = runtime.expect("a runtime").block_on(async { default() });
            assert_eq!(decoders, expected);
        }
    }
}
