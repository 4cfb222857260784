//! The `renewTime`s that a lease can have by writes of one candidate. *(pure)*

use jiff::Timestamp;

/// The `renewTime` of the last write that is known to have been applied, and those of all later ones, in
/// order: a write without a response may be applied after a read that did not show it.
#[derive(Debug, Default)]
pub(super) struct Writes(Vec<Timestamp>);

/// The most that are remembered: more than a leader with the default timing sends without a successful
/// one.
const MOST: usize = 32;

// === impl Writes ===

impl Writes {
    /// Adds a write, which is later than all before it.
    pub(super) fn add(&mut self, renewed: Timestamp) {
        self.0.push(renewed);
        if self.0.len() > MOST {
            // Not the first one, which the lease has if none of the others was applied.
            self.0.remove(1);
        }
    }

    /// Notes that this write was applied. Those before it cannot be applied any more: each is for an
    /// older version of the lease.
    pub(super) fn confirm(&mut self, renewed: Option<Timestamp>) {
        self.0.retain(|it| Some(*it) >= renewed);
    }

    pub(super) fn has(&self, renewed: Option<Timestamp>) -> bool {
        renewed.is_some_and(|renewed| self.0.contains(&renewed))
    }

    pub(super) fn last(&self) -> Option<Timestamp> {
        self.0.last().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_and_the_last_writes_are_remembered() {
        let at = |second| Timestamp::from_second(second).expect("a time");
        let mut writes = Writes::default();
        for second in 0..1000 {
            writes.add(at(second));
        }
        assert_eq!(writes.0.len(), MOST);
        assert!(writes.has(Some(at(0))) && writes.has(Some(at(999))));
        assert!(!writes.has(Some(at(1))) && !writes.has(None));
    }
}
