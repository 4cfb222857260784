//! Conditions: the part of a status that says what is true of an object, and since when.

use std::time::SystemTime;

use k8s_openapi::{
    apimachinery::pkg::apis::meta::v1::{Condition, Time},
    jiff::Timestamp,
};
use windlass_informer::wall_clock;

/// A condition to be set: its type, status and reason, and a message.
///
/// # Example
///
/// ```
/// use windlass_controller::{Conditions as _, NewCondition};
///
/// let mut conditions = Vec::new();
/// let generation = 3;
/// assert!(conditions.set(generation, NewCondition::no("Ready", "PodsNotReady"))?);
/// let since = conditions[0].last_transition_time.clone();
///
/// // The same status: the time stays, and nothing has to be written.
/// assert!(!conditions.set(generation, NewCondition::no("Ready", "PodsNotReady"))?);
/// assert_eq!(conditions[0].last_transition_time, since);
/// # Ok::<(), windlass_controller::InvalidCondition>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use = "a condition is not set before it is passed to `Conditions::set`"]
pub struct NewCondition {
    type_: String,
    status: &'static str,
    reason: String,
    message: String,
}

/// Lists of conditions in which conditions are set by type.
pub trait Conditions {
    /// Sets a condition for this generation of the object. Returns whether anything changed, so that
    /// the status has to be written.
    ///
    /// The time of the last transition changes only if the status of the condition does. The order
    /// of the conditions stays, and a new one is added at the end. A message is cut to 32,768
    /// characters.
    ///
    /// # Errors
    ///
    /// [`InvalidCondition`] if the API server would refuse the type or the reason.
    fn set(&mut self, generation: i64, condition: NewCondition) -> Result<bool, InvalidCondition>;
}

/// A condition has a type or a reason that the API server would refuse in each write of the status.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidCondition {
    /// The reason is no word in upper camel case.
    #[error(
        "the reason {reason:?} of condition {condition:?} is invalid: it begins with a letter, has \
         letters, digits, `_`, `,` and `:`, ends with a letter, digit or `_`, and has at most 1024 \
         characters"
    )]
    Reason {
        /// The type of the condition.
        condition: String,
        /// The reason.
        reason: String,
    },

    /// The type is not a name.
    #[error(
        "the condition type {condition:?} is invalid: it has letters, digits, `-`, `_` and `.`, \
         begins and ends with a letter or digit, and has at most 316 characters"
    )]
    Type {
        /// The type of the condition.
        condition: String,
    },
}

/// The longest message of a condition, in characters. The schema of conditions has this limit.
const MAX_MESSAGE: usize = 32_768;

/// The longest reason.
const MAX_REASON: usize = 1024;

/// The longest type.
const MAX_TYPE: usize = 316;

// === impl NewCondition ===

impl NewCondition {
    /// The condition is true.
    pub fn yes(condition: impl Into<String>, reason: impl Into<String>) -> Self {
        Self::new(condition, "True", reason)
    }

    /// The condition is false.
    pub fn no(condition: impl Into<String>, reason: impl Into<String>) -> Self {
        Self::new(condition, "False", reason)
    }

    /// It is not known whether the condition is true.
    pub fn unknown(condition: impl Into<String>, reason: impl Into<String>) -> Self {
        Self::new(condition, "Unknown", reason)
    }

    fn new(condition: impl Into<String>, status: &'static str, reason: impl Into<String>) -> Self {
        Self {
            type_: condition.into(),
            status,
            reason: reason.into(),
            message: String::new(),
        }
    }

    /// Sets the message, for people. By default it is empty.
    pub fn message(self, message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            ..self
        }
    }

    fn check(&self) -> Result<(), InvalidCondition> {
        let is_name = |char: char| char.is_ascii_alphanumeric() || "-_./".contains(char);
        let is_end = |char: Option<char>| char.is_some_and(|char| char.is_ascii_alphanumeric());
        let (first, last) = (self.type_.chars().next(), self.type_.chars().last());
        let is_valid = self.type_.len() <= MAX_TYPE && self.type_.chars().all(is_name);
        if !is_valid || !is_end(first) || !is_end(last) {
            return Err(InvalidCondition::Type {
                condition: windlass_informer::one_line(&self.type_).into_owned(),
            });
        }
        let is_word = |char: char| char.is_ascii_alphanumeric() || "_,:".contains(char);
        let (first, last) = (self.reason.chars().next(), self.reason.chars().last());
        let is_valid = self.reason.len() <= MAX_REASON
            && self.reason.chars().all(is_word)
            && first.is_some_and(|char| char.is_ascii_alphabetic())
            && last.is_some_and(|char| char.is_ascii_alphanumeric() || char == '_');
        if !is_valid {
            return Err(InvalidCondition::Reason {
                condition: self.type_.clone(),
                reason: windlass_informer::one_line(&self.reason).into_owned(),
            });
        }
        Ok(())
    }
}

// === impl Conditions ===

impl Conditions for Vec<Condition> {
    fn set(&mut self, generation: i64, condition: NewCondition) -> Result<bool, InvalidCondition> {
        condition.check()?;
        let message: String = condition.message.chars().take(MAX_MESSAGE).collect();
        let mut new = Condition {
            type_: condition.type_,
            status: condition.status.to_owned(),
            reason: condition.reason,
            message,
            observed_generation: Some(generation),
            last_transition_time: transition_time(),
        };
        let Some(known) = self.iter_mut().find(|known| known.type_ == new.type_) else {
            self.push(new);
            return Ok(true);
        };
        if known.status == new.status {
            new.last_transition_time = known.last_transition_time.clone();
        }
        let is_changed = *known != new;
        *known = new;
        Ok(is_changed)
    }
}

/// The present time in whole seconds, as the API server keeps it.
pub(crate) fn transition_time() -> Time {
    let since = wall_clock().duration_since(SystemTime::UNIX_EPOCH);
    let seconds = since.map_or(0, |since| {
        i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
    });
    Time(Timestamp::from_second(seconds).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use windlass_informer::SimulatedHost;

    use super::*;

    fn at(conditions: &[Condition]) -> Vec<String> {
        let shown = conditions.iter().map(|it| {
            let since = it.last_transition_time.0.as_second();
            let generation = it.observed_generation.unwrap_or_default();
            format!(
                "{} {} {} g{generation} {since}",
                it.type_, it.status, it.reason
            )
        });
        shown.collect()
    }

    /// Rows: BO-17
    #[tokio::test(start_paused = true)]
    async fn the_time_of_a_condition_changes_only_with_its_status() {
        let _host = SimulatedHost::enter(7, SystemTime::UNIX_EPOCH);
        let mut conditions = Vec::new();
        let mut set = |generation, condition| {
            let changed = conditions.set(generation, condition).expect("valid");
            (changed, at(&conditions))
        };
        let later = || tokio::time::advance(Duration::from_secs(10));
        let no = || NewCondition::no("Ready", "Starting");
        assert_eq!(
            set(1, no()),
            (true, vec!["Ready False Starting g1 0".into()])
        );
        later().await;
        assert_eq!(
            set(1, no()),
            (false, vec!["Ready False Starting g1 0".into()])
        );
        assert_eq!(
            set(2, no()),
            (true, vec!["Ready False Starting g2 0".into()])
        );
        let other = set(2, NewCondition::unknown("Synced", "Asked"));
        assert_eq!(other.1[1], "Synced Unknown Asked g2 10");
        later().await;
        let yes = set(2, NewCondition::yes("Ready", "Started").message("all"));
        let expected = ["Ready True Started g2 20", "Synced Unknown Asked g2 10"];
        assert_eq!((yes.0, &*yes.1), (true, &expected.map(str::to_owned)[..]));
        later().await;
        let message = set(2, NewCondition::yes("Ready", "Started").message("both"));
        assert_eq!((message.0, &*message.1[0]), (true, expected[0]));
    }

    /// Rows: BO-17
    #[test]
    fn what_the_api_server_would_refuse_is_an_error_at_once() {
        let mut conditions = Vec::new();
        let mut check = |condition: &str, reason: &str| {
            conditions
                .set(1, NewCondition::yes(condition, reason))
                .is_ok()
        };
        assert!(check("Ready", "A1_b,c:D"));
        assert!(check("example.io/Ready", "Done_"));
        for reason in ["", "1A", "with space", "Ends:", "Größe", &"A".repeat(1025)] {
            assert!(!check("Ready", reason), "{reason}");
        }
        for condition in ["", "-Ready", "Ready.", "is ready", &"A".repeat(317)] {
            assert!(!check(condition, "Reason"), "{condition}");
        }
        let long = NewCondition::yes("Long", "Long").message("é".repeat(MAX_MESSAGE + 7));
        conditions.set(1, long).expect("it is cut");
        let message = &conditions.last().expect("it was added").message;
        assert_eq!(message.chars().count(), MAX_MESSAGE);
    }
}
