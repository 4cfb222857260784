//! What is due when.
//!
//! A sorted set of due times: to set and to cancel one costs O(log n), the next one is read
//! at its front, and nothing ticks.

use std::{
    collections::BTreeMap,
    ops::{Add, Sub},
    time::Duration,
};

use super::ready::LaneId;

/// A point in time, counted from when the engine was made.
///
/// The engine never reads a clock: it is told the time. Eight bytes rather than the sixteen
/// of an `Instant`, because there is one for every pending retry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Moment(u64);

/// What was written down in an [`Agenda`]: enough to cancel it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Appointment {
    due: Moment,
    /// Tells apart what is due at the same time, in the order in which it was set.
    number: u64,
}

/// The due times of everything that is pending.
#[derive(Debug, Default)]
pub(crate) struct Agenda {
    lanes: BTreeMap<Appointment, LaneId>,
    numbers: u64,
}

// === impl Moment ===

impl Moment {
    /// So far away that nothing due then ever comes.
    pub(crate) const NEVER: Self = Self(u64::MAX);

    /// The moment `elapsed` after the beginning; what is too far away is [`NEVER`](Self::NEVER).
    pub(crate) fn after(elapsed: Duration) -> Self {
        Self(u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX))
    }

    /// The time between the beginning and this moment.
    pub(crate) const fn elapsed(self) -> Duration {
        Duration::from_nanos(self.0)
    }
}

impl Add<Duration> for Moment {
    type Output = Self;

    /// Never overflows: what a user asks for may be as long as `Duration::MAX`.
    fn add(self, rhs: Duration) -> Self {
        Self(self.0.saturating_add(Self::after(rhs).0))
    }
}

impl Sub for Moment {
    type Output = Duration;

    fn sub(self, rhs: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(rhs.0))
    }
}

// === impl Agenda ===

impl Agenda {
    /// Notes that something in `lane` is due at `due`.
    pub(crate) fn set(&mut self, due: Moment, lane: LaneId) -> Appointment {
        let number = self.numbers;
        self.numbers += 1;
        let appointment = Appointment { due, number };
        self.lanes.insert(appointment, lane);
        appointment
    }

    /// Forgets `appointment`, if it has not come due.
    pub(crate) fn cancel(&mut self, appointment: Appointment) {
        self.lanes.remove(&appointment);
    }

    /// When the next thing is due.
    pub(crate) fn next_due(&self) -> Option<Moment> {
        self.lanes.keys().next().map(|appointment| appointment.due)
    }

    /// Takes the first thing that is due by `now`.
    pub(crate) fn take_due(&mut self, now: Moment) -> Option<(Appointment, LaneId)> {
        let first = self.lanes.first_entry()?;
        (first.key().due <= now).then(|| first.remove_entry())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_due_comes_in_the_order_of_its_due_times() {
        check(
            "set 5, set 3, set 4, take 9, take 9, take 9, take 9",
            "3 4 5 -",
        );
    }

    #[test]
    fn nothing_comes_before_it_is_due() {
        check("set 5, take 4, take 5, take 5", "- 5 -");
    }

    #[test]
    fn what_is_due_at_once_comes_in_the_order_in_which_it_was_set() {
        let mut agenda = Agenda::default();
        for lane in 0..3 {
            agenda.set(at(7), lane);
        }
        let taken: Vec<_> = std::iter::from_fn(|| agenda.take_due(at(7)))
            .map(|(_, lane)| lane)
            .collect();
        assert_eq!(taken, [0, 1, 2]);
    }

    #[test]
    fn what_was_cancelled_never_comes() {
        check("set 5, set 3, cancel 3, take 9, take 9", "5 -");
    }

    #[test]
    fn a_delay_without_end_saturates() {
        assert_eq!(at(5) + Duration::MAX, Moment::NEVER);
        assert_eq!(at(5) - at(7), Duration::ZERO);
    }

    fn at(seconds: u64) -> Moment {
        Moment::after(Duration::from_secs(seconds))
    }

    /// Runs `script` against a new agenda; `came` is the due time of each `take`.
    #[track_caller]
    fn check(script: &str, came: &str) {
        let mut agenda = Agenda::default();
        let mut set = Vec::new();
        let mut taken = Vec::new();
        for step in script.split(", ") {
            let (verb, seconds) = step.split_once(' ').expect("a verb and a time");
            let time = at(seconds.parse().expect("a number of seconds"));
            match verb {
                "set" => set.push(agenda.set(time, 0)),
                "cancel" => {
                    let which = set.iter().find(|it| it.due == time).expect("was set");
                    agenda.cancel(*which);
                }
                _ => taken.push(match agenda.take_due(time) {
                    Some((it, _)) => it.due.elapsed().as_secs().to_string(),
                    None => "-".to_owned(),
                }),
            }
        }
        assert_eq!(taken.join(" "), came, "{script}");
    }
}
