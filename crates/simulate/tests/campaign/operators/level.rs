//! What the operators with a `Controller` share.

use windlass_controller::{Informers, Watchable};
use windlass_simulate::Process;

/// Checks the informers of one kind at the end.
pub(crate) fn observe<K: Watchable>(process: &Process, informers: &Informers<K>) {
    for informer in informers.informers() {
        process.observe(&informer);
    }
}
