//! A reconciler with a predicate.

use std::future::Future;

use windlass_informer::Event;

use super::{Outcome, Reconciler, Request};
use crate::{Filtered, Predicate, predicate::filtered_hooks};

// === impl Filtered ===

impl<K, R: Reconciler<K>, P: Predicate<K>> Reconciler<K> for Filtered<R, P> {
    type Error = R::Error;

    fn reconcile(
        &self,
        request: Request<K>,
    ) -> impl Future<Output = Result<Outcome, Self::Error>> + Send {
        self.handler.reconcile(request)
    }

    filtered_hooks!();
}
