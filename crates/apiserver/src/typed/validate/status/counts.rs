//! Counts in a status: none is negative, and some are not above others.

use super::super::{At, Faults};

/// The counts of a kind.
struct Counts {
    /// The names of the types.
    kinds: &'static [&'static str],
    /// The counts that may not be negative, in the order of their errors.
    fields: &'static [&'static str],
    /// Counts that may not be above another one, and how the error names that one.
    limits: &'static [(&'static str, &'static str, &'static str)],
    /// Whether the count of collisions may not decrease.
    has_collisions: bool,
}

const COUNTS: [Counts; 6] = [
    Counts {
        kinds: &["apps.v1.Deployment"],
        fields: &[
            "observedGeneration",
            "replicas",
            "updatedReplicas",
            "readyReplicas",
            "availableReplicas",
            "unavailableReplicas",
            "terminatingReplicas",
            "collisionCount",
        ],
        limits: &[
            ("updatedReplicas", "replicas", "status.replicas"),
            ("readyReplicas", "replicas", "status.replicas"),
            ("availableReplicas", "replicas", "status.replicas"),
            ("availableReplicas", "readyReplicas", "readyReplicas"),
        ],
        has_collisions: true,
    },
    Counts {
        kinds: &["apps.v1.ReplicaSet", "core.v1.ReplicationController"],
        fields: &[
            "replicas",
            "fullyLabeledReplicas",
            "readyReplicas",
            "availableReplicas",
            "observedGeneration",
            "terminatingReplicas",
        ],
        limits: &[
            ("fullyLabeledReplicas", "replicas", "status.replicas"),
            ("readyReplicas", "replicas", "status.replicas"),
            ("availableReplicas", "replicas", "status.replicas"),
            ("availableReplicas", "readyReplicas", "readyReplicas"),
        ],
        has_collisions: false,
    },
    Counts {
        kinds: &["apps.v1.StatefulSet"],
        fields: &[
            "replicas",
            "readyReplicas",
            "currentReplicas",
            "updatedReplicas",
            "availableReplicas",
            "observedGeneration",
            "collisionCount",
        ],
        limits: &[
            ("readyReplicas", "replicas", "status.replicas"),
            ("currentReplicas", "replicas", "status.replicas"),
            ("updatedReplicas", "replicas", "status.replicas"),
            ("availableReplicas", "replicas", "status.replicas"),
            ("availableReplicas", "readyReplicas", "status.readyReplicas"),
        ],
        has_collisions: true,
    },
    Counts {
        kinds: &["apps.v1.DaemonSet"],
        fields: &[
            "currentNumberScheduled",
            "numberMisscheduled",
            "desiredNumberScheduled",
            "numberReady",
            "observedGeneration",
            "updatedNumberScheduled",
            "numberAvailable",
            "numberUnavailable",
            "collisionCount",
        ],
        limits: &[],
        has_collisions: true,
    },
    Counts {
        kinds: &["policy.v1.PodDisruptionBudget"],
        fields: &[
            "disruptionsAllowed",
            "currentHealthy",
            "desiredHealthy",
            "expectedPods",
        ],
        limits: &[],
        has_collisions: false,
    },
    Counts {
        kinds: &["autoscaling.v2.HorizontalPodAutoscaler"],
        fields: &["currentReplicas", "desiredReplicas"],
        limits: &[],
        has_collisions: false,
    },
];

/// Checks the counts of a kind that has some.
pub(super) fn check(kind: &str, old: At<'_>, at: At<'_>, faults: &mut Faults) {
    let Some(counts) = COUNTS.iter().find(|it| it.kinds.contains(&kind)) else {
        return;
    };
    faults.not_negative(at, counts.fields);
    let count = |field: &str| at.number(field).unwrap_or_default();
    for (field, limit, name) in counts.limits {
        if count(field) > count(limit) {
            let why = format!("cannot be greater than {name}");
            faults.invalid(at.path(field), &count(field).into(), why);
        }
    }
    let field = "collisionCount";
    let (before, after) = (old.number(field), at.number(field));
    if counts.has_collisions && before.is_some() && after < before {
        let found = count(field).into();
        faults.invalid(at.path(field), &found, "cannot be decremented");
    }
}
