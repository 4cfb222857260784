//! Converts objects between a served version and the stored version.

mod autoscaler;

use serde_json::Value;

/// The difference between an object in one version and the stored object.
///
/// The versions of custom resources differ only in `apiVersion`, because their conversion strategy is
/// `None`. The same is true for built-in kinds, except events and autoscalers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum View {
    /// No difference.
    Same,
    /// `events.k8s.io/v1`, stored as `v1`.
    Events,
    /// `autoscaling/v1`, stored as `autoscaling/v2`.
    Autoscaler,
}

/// The fields of an event that have different names in `events.k8s.io/v1` and in `v1`.
const EVENT_FIELDS: &[(&str, &str)] = &[
    ("regarding", "involvedObject"),
    ("note", "message"),
    ("deprecatedSource", "source"),
    ("deprecatedFirstTimestamp", "firstTimestamp"),
    ("deprecatedLastTimestamp", "lastTimestamp"),
    ("deprecatedCount", "count"),
    ("reportingController", "reportingComponent"),
];

// === impl View ===

impl View {
    /// Converts a stored object to this version.
    pub(crate) fn present(self, stored: &Value) -> Value {
        let mut object = stored.clone();
        match self {
            Self::Same => {}
            Self::Events => {
                for (here, there) in EVENT_FIELDS {
                    rename(&mut object, there, here);
                }
            }
            Self::Autoscaler => autoscaler::present(&mut object),
        }
        object
    }

    /// Converts an object of this version to the stored version.
    pub(crate) fn store(self, object: &mut Value) {
        match self {
            Self::Same => {}
            Self::Events => {
                for (here, there) in EVENT_FIELDS {
                    rename(object, here, there);
                }
            }
            Self::Autoscaler => autoscaler::store(object),
        }
    }
}

fn rename(object: &mut Value, from: &str, to: &str) {
    if let Some(members) = object.as_object_mut()
        && let Some(value) = members.remove(from)
    {
        members.insert(to.to_owned(), value);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::View;

    #[test]
    fn an_event_reads_in_both_groups() {
        let new = json!({ "regarding": { "kind": "Pod" }, "note": "hi", "reason": "Said" });
        let mut stored = new.clone();
        View::Events.store(&mut stored);
        assert_eq!(
            stored,
            json!({ "involvedObject": { "kind": "Pod" }, "message": "hi", "reason": "Said" })
        );
        assert_eq!(View::Events.present(&stored), new);
        assert_eq!(View::Same.present(&stored), stored);
    }
}
