//! Conditions of objects. *(pure)*

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use serde::{Deserialize as _, Deserializer};

/// The condition types that this controller writes.
const OURS: [&str; 5] = [
    ACCEPTED,
    PROGRAMMED,
    RESOLVED_REFS,
    CONFLICTED,
    OVERLAPPING_TLS,
];

pub(crate) const ACCEPTED: &str = "Accepted";
pub(crate) const PROGRAMMED: &str = "Programmed";
pub(crate) const RESOLVED_REFS: &str = "ResolvedRefs";
pub(crate) const CONFLICTED: &str = "Conflicted";
pub(crate) const OVERLAPPING_TLS: &str = "OverlappingTLSConfig";

/// A condition without a time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Verdict {
    /// The type of the condition.
    pub(crate) about: &'static str,
    pub(crate) holds: bool,
    /// A reason that the Gateway API defines.
    pub(crate) reason: &'static str,
    /// A message for people.
    pub(crate) message: String,
}

// === impl Verdict ===

impl Verdict {
    pub(crate) fn yes(
        about: &'static str,
        reason: &'static str,
        message: impl Into<String>,
    ) -> Self {
        Self {
            about,
            holds: true,
            reason,
            message: message.into(),
        }
    }

    pub(crate) fn no(
        about: &'static str,
        reason: &'static str,
        message: impl Into<String>,
    ) -> Self {
        Self {
            holds: false,
            ..Self::yes(about, reason, message)
        }
    }
}

/// The conditions of this controller in a status.
///
/// A status is applied with these only: the API server keeps the conditions of other writers.
pub(crate) fn ours<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<Condition>, D::Error> {
    let mut conditions = Vec::<Condition>::deserialize(from)?;
    conditions.retain(|condition| OURS.contains(&&*condition.type_));
    Ok(conditions)
}

/// The new conditions of an object of `generation`, from `verdicts` and the `old` conditions.
///
/// A condition with an unchanged status keeps its time, so that equal verdicts need no write.
pub(crate) fn conditions(
    old: &[Condition],
    verdicts: &[Verdict],
    generation: Option<i64>,
    now: &Time,
) -> Vec<Condition> {
    let conditions = verdicts.iter().map(|verdict| {
        let status = if verdict.holds { "True" } else { "False" };
        let before = find(old, verdict.about).filter(|before| before.status == status);
        Condition {
            type_: verdict.about.to_owned(),
            status: status.to_owned(),
            reason: verdict.reason.to_owned(),
            message: verdict.message.clone(),
            observed_generation: generation,
            last_transition_time: before
                .map_or(now, |before| &before.last_transition_time)
                .clone(),
        }
    });
    conditions.collect()
}

/// The condition of the type `about`.
pub(crate) fn find<'c>(conditions: &'c [Condition], about: &str) -> Option<&'c Condition> {
    conditions.iter().find(|condition| condition.type_ == about)
}

#[cfg(test)]
mod tests {
    use k8s_openapi::jiff::Timestamp;

    use super::*;

    #[test]
    fn a_changed_condition_gets_a_new_time() {
        let first = conditions(&[], &[accepted(true)], Some(1), &at(10));
        let second = conditions(&first, &[accepted(false)], Some(1), &at(20));
        assert_eq!(second[0].last_transition_time, at(20));
    }

    #[test]
    fn conditions_of_others_are_not_read_and_our_obsolete_ones_are_removed() {
        let mut old = conditions(&[], &[accepted(true), accepted(true)], None, &at(10));
        old[0].type_ = "example.io/Painted".to_owned();
        old[1].type_ = OVERLAPPING_TLS.to_owned();
        let old = ours(serde_json::to_value(old).expect("JSON")).expect("conditions");
        assert_eq!(old.len(), 1);
        let new = conditions(&old, &[accepted(true)], None, &at(20));
        let types: Vec<_> = new.iter().map(|condition| &condition.type_).collect();
        assert_eq!(types, [ACCEPTED]);
    }

    fn accepted(holds: bool) -> Verdict {
        Verdict {
            holds,
            ..Verdict::yes(ACCEPTED, ACCEPTED, "")
        }
    }

    fn at(second: i64) -> Time {
        Time(Timestamp::from_second(second).expect("a second of 1970"))
    }
}
