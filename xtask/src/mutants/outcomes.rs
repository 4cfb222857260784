//! The outcomes of mutants, and their report.

use std::{collections::BTreeMap, fmt, fmt::Write as _, fs, path::Path};

use crate::Result;

/// The outcomes of mutants, by package and name.
#[derive(Debug, Default)]
pub(super) struct Outcomes {
    mutants: BTreeMap<(String, String), Outcome>,
}

/// The outcome of one mutant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    /// A test failed.
    Caught,

    /// All tests passed.
    Missed,

    /// The tests timed out; counts as detected.
    TimedOut,

    /// It does not compile, so it is not a test of the tests.
    Unviable,
}

// === impl Outcomes ===

impl Outcomes {
    /// Reads the lists that cargo-mutants wrote to `folder` while it mutated `package`.
    pub(super) fn read(package: &str, folder: &Path) -> Result<Self> {
        let mut mutants = BTreeMap::new();
        for (file, outcome) in [
            ("caught.txt", Outcome::Caught),
            ("missed.txt", Outcome::Missed),
            ("timeout.txt", Outcome::TimedOut),
            ("unviable.txt", Outcome::Unviable),
        ] {
            let path = folder.join(file);
            let names = fs::read_to_string(&path)
                .map_err(|error| format!("cannot read {}: {error}", path.display()))?;
            for name in names.lines() {
                mutants.insert((package.to_owned(), name.to_owned()), outcome);
            }
        }
        Ok(Self { mutants })
    }

    /// The names of the mutants of `package` that no test detected.
    pub(super) fn missed(&self, package: &str) -> Vec<String> {
        let missed = self
            .mutants
            .iter()
            .filter(|((of, _), outcome)| of == package && **outcome == Outcome::Missed);
        missed.map(|((_, name), _)| name.clone()).collect()
    }

    /// Adds the outcomes of another package, or later outcomes of the same mutants.
    pub(super) fn add(&mut self, other: Self) {
        self.mutants.extend(other.mutants);
    }

    /// A table of scores, and the mutants that were not caught.
    pub(super) fn report(&self) -> String {
        let mut counts: BTreeMap<&str, Counts> = BTreeMap::new();
        for ((package, _), outcome) in &self.mutants {
            counts.entry(package).or_default().add(*outcome);
        }
        let mut report = String::from(
            "| package | viable | noticed | of them by a timeout | missed | score | unviable |\n\
             |--|--:|--:|--:|--:|--:|--:|\n",
        );
        for (package, counts) in counts {
            _ = writeln!(report, "| {package} | {counts} |");
        }
        for (outcome, title) in [
            (Outcome::Missed, "Missed"),
            (Outcome::TimedOut, "Timed out"),
            (Outcome::Unviable, "Unviable"),
        ] {
            let names = self.mutants.iter().filter(|(_, it)| **it == outcome);
            let names: Vec<&String> = names.map(|((_, name), _)| name).collect();
            if !names.is_empty() {
                _ = writeln!(report, "\n{title}:");
                for name in names {
                    _ = writeln!(report, "- `{name}`");
                }
            }
        }
        report
    }
}

/// The number of mutants of a package by outcome.
#[derive(Debug, Default)]
struct Counts {
    caught: usize,
    missed: usize,
    timed_out: usize,
    unviable: usize,
}

// === impl Counts ===

impl Counts {
    fn add(&mut self, outcome: Outcome) {
        let count = match outcome {
            Outcome::Caught => &mut self.caught,
            Outcome::Missed => &mut self.missed,
            Outcome::TimedOut => &mut self.timed_out,
            Outcome::Unviable => &mut self.unviable,
        };
        *count += 1;
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let noticed = self.caught + self.timed_out;
        let viable = noticed + self.missed;
        let tenths = (noticed * 1000).checked_div(viable);
        let score = tenths.map_or_else(
            || "-".to_owned(),
            |tenths| format!("{}.{} %", tenths / 10, tenths % 10),
        );
        let Self {
            timed_out,
            missed,
            unviable,
            ..
        } = self;
        write!(
            f,
            "{viable} | {noticed} | {timed_out} | {missed} | {score} | {unviable}"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::{Outcome, Outcomes};

    fn outcomes(of: &[(&str, Outcome)]) -> Outcomes {
        let mutants = of.iter();
        let mutants =
            mutants.map(|(name, outcome)| (("p".to_owned(), (*name).to_owned()), *outcome));
        Outcomes {
            mutants: mutants.collect(),
        }
    }

    #[test]
    fn a_mutant_that_the_second_pass_catches_counts_as_caught() {
        let mut all = outcomes(&[
            ("a", Outcome::Caught),
            ("b", Outcome::Missed),
            ("c", Outcome::Missed),
            ("d", Outcome::Unviable),
            ("e", Outcome::TimedOut),
        ]);
        assert_eq!(all.missed("p"), ["b", "c"]);
        all.add(outcomes(&[("b", Outcome::Caught), ("c", Outcome::Missed)]));
        let report = all.report();
        assert!(
            report.contains("| p | 4 | 3 | 1 | 1 | 75.0 % | 1 |"),
            "{report}"
        );
        assert!(report.contains("Missed:\n- `c`\n"), "{report}");
        assert!(report.contains("Timed out:\n- `e`\n"), "{report}");
    }
}
