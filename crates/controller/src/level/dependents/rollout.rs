//! `Rollout`: the progress of the children of one dependent, and how many more are updated. *(pure)*

use super::{DependentState, erased::Progress, states::Reported};
use crate::children::ChildError;

/// The progress of the children of one dependent.
#[derive(Debug, Default)]
pub(super) struct Rollout {
    /// The children that are as desired, or are being replaced.
    updated: usize,
    /// The children that wait for their update, or whose update was refused.
    outdated: usize,
    /// Of the updated ones, those that are not ready, or whose update was refused.
    unready: usize,
    /// Why the first of these is not ready.
    unready_reason: Option<String>,
    /// Which child has failed.
    failed_reason: Option<String>,
    errors: Vec<ChildError>,
}

// === impl Rollout ===

impl Rollout {
    /// Whether one more child is updated, if at most this many are at a time.
    pub(super) const fn allows_update(&self, at_most: usize) -> bool {
        self.failed_reason.is_none() && self.unready < at_most
    }

    /// Counts a child that is not updated in this call.
    pub(super) const fn wait(&mut self) {
        self.outdated += 1;
    }

    /// Counts a child that was applied.
    pub(super) fn add(&mut self, child: &str, applied: Result<Progress, ChildError>) {
        match applied {
            Ok(Progress::Ready) => {}
            Ok(Progress::NotReady) => {
                self.unready += 1;
                (self.unready_reason).get_or_insert_with(|| format!("{child} is not ready"));
            }
            Ok(Progress::Failed) => {
                (self.failed_reason).get_or_insert_with(|| format!("{child} has failed"));
            }
            Ok(Progress::Outdated) => return self.wait(),
            Err(error) => {
                self.errors.push(error);
                self.unready += 1;
                (self.unready_reason).get_or_insert_with(|| format!("{child} is not ready"));
                return self.wait();
            }
        }
        self.updated += 1;
    }

    /// The state of the dependent called `name`, and the errors of its children.
    pub(super) fn reported(mut self, name: &str) -> (Reported, Vec<ChildError>) {
        let errors = std::mem::take(&mut self.errors);
        (self.state(name), errors)
    }

    fn state(self, name: &str) -> Reported {
        let (state, reason) = match (self.failed_reason, self.unready_reason) {
            (Some(failed), _) => (DependentState::Failed, Some(failed)),
            (None, unready) if self.unready > 0 => (DependentState::NotReady, unready),
            (None, _) if self.outdated > 0 => (DependentState::NotReady, None),
            (None, _) => return (DependentState::Ready, None),
        };
        if self.outdated == 0 || (reason.is_some() && self.updated + self.outdated == 1) {
            return (state, reason);
        }
        let reason = reason.unwrap_or_else(|| format!("{name} is not updated"));
        let (waiting, count) = (self.outdated, self.updated + self.outdated);
        let reason = format!("{reason}, {waiting} of {count} children wait for their update");
        (state, Some(reason))
    }
}

#[cfg(test)]
mod tests {
    use windlass_informer::ObjectKey;

    use super::*;

    fn refused() -> ChildError {
        ChildError::NotOurs {
            resource: "pods".to_owned(),
            key: ObjectKey::new("pod-9"),
        }
    }

    /// Adds these children: `r`eady, `n`ot ready, `f`ailed, `e`rror, `o`utdated, `w`aiting.
    fn rollout(children: &str) -> Rollout {
        let mut rollout = Rollout::default();
        for (index, child) in children.chars().enumerate() {
            let name = format!("pod-{index}");
            match child {
                'r' => rollout.add(&name, Ok(Progress::Ready)),
                'n' => rollout.add(&name, Ok(Progress::NotReady)),
                'f' => rollout.add(&name, Ok(Progress::Failed)),
                'o' => rollout.add(&name, Ok(Progress::Outdated)),
                'e' => rollout.add(&name, Err(refused())),
                _ => rollout.wait(),
            }
        }
        rollout
    }

    /// Rows: BO-41
    #[test]
    fn a_child_is_updated_if_fewer_than_the_limit_are_not_ready_and_none_has_failed() {
        for (children, at_most, allows_update) in [
            ("", 1, true),
            ("", 0, false),
            ("rr", 1, true),
            ("rn", 1, false),
            ("rn", 2, true),
            ("nn", 2, false),
            ("re", 1, false),
            ("oo", 1, true),
            ("rf", 1, false),
            ("rf", 9, false),
        ] {
            let found = rollout(children).allows_update(at_most);
            assert_eq!(found, allows_update, "{children} {at_most}");
        }
    }

    /// Rows: BO-41
    #[test]
    fn a_failed_child_is_reported_before_those_that_are_not_ready() {
        for (children, state, reason) in [
            ("", DependentState::Ready, None),
            ("rr", DependentState::Ready, None),
            ("rn", DependentState::NotReady, Some("pod-1 is not ready")),
            ("nf", DependentState::Failed, Some("pod-1 has failed")),
            (
                "nww",
                DependentState::NotReady,
                Some("pod-0 is not ready, 2 of 3 children wait for their update"),
            ),
            (
                "fw",
                DependentState::Failed,
                Some("pod-0 has failed, 1 of 2 children wait for their update"),
            ),
            (
                "ro",
                DependentState::NotReady,
                Some("pods is not updated, 1 of 2 children wait for their update"),
            ),
            (
                "rw",
                DependentState::NotReady,
                Some("pods is not updated, 1 of 2 children wait for their update"),
            ),
        ] {
            let (reported, _) = rollout(children).reported("pods");
            assert_eq!(reported, (state, reason.map(str::to_owned)), "{children}");
        }
    }
}
