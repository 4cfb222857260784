//! Spans of operators. All names are in this file.

use tracing::info_span;
use windlass_informer::GuardedSpan;
#[cfg(feature = "webhook")]
use windlass_informer::{ObjectKey, is_unseen, one_line};

/// One candidate from its start to its end. Its log lines are in this span.
pub(crate) fn election(lease: &str, identity: &str) -> GuardedSpan {
    GuardedSpan::new(|| info_span!("leader-election", lease, identity))
}

/// One call of the handler of an admission webhook. The API server chooses the uid, the kind and the name.
#[cfg(feature = "webhook")]
pub(crate) fn webhook(webhook: &str, uid: &str, kind: &str, object: &ObjectKey) -> GuardedSpan {
    if is_unseen() {
        return GuardedSpan::none();
    }
    let [uid, kind] = [uid, kind].map(one_line);
    GuardedSpan::new(|| info_span!("webhook", webhook, uid = &*uid, kind = &*kind, %object))
}
