//! The outcomes of mutants, their file, and their report.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    fmt::{self, Write as _},
    fs::{File, OpenOptions},
    hash::{DefaultHasher, Hash as _, Hasher as _},
    io::{BufRead as _, BufReader, Write as _},
    path::PathBuf,
};

use super::mutant::Mutant;
use crate::{Result, repository::Repository};

/// The outcomes of the mutants of a run, which are also appended to a file for later runs.
#[derive(Debug)]
pub(super) struct Outcomes<'a> {
    mutants: &'a [Mutant],
    found: Vec<Option<(Outcome, String)>>,
    file: File,

    /// The hash of the text of each mutated file.
    files: HashMap<&'a str, u64>,

    /// The hash of all files that can change the outcome of a test.
    all: u64,
}

/// The outcome of one mutant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// A test failed.
    Caught,

    /// A test took too long, too much memory or too much processor time; counts as detected.
    TimedOut,

    /// All tests passed.
    Missed,

    /// It does not compile, so it is not a test of the tests.
    Unviable,

    /// It is in a constant expression or returns another type, and was not tried.
    Untried,
}

// === impl Outcomes ===

impl<'a> Outcomes<'a> {
    /// Reads the outcomes in the file at `path` that are still valid.
    pub(super) fn open(
        repository: &Repository,
        path: PathBuf,
        mutants: &'a [Mutant],
    ) -> Result<Self> {
        let mut files = HashMap::new();
        for mutant in mutants {
            if !files.contains_key(&*mutant.file) {
                files.insert(&*mutant.file, hash(&repository.read(&mutant.file)?));
            }
        }
        let mut all = DefaultHasher::new();
        for source in repository.sources("rs")? {
            if !source.path.starts_with("xtask") {
                source.text.hash(&mut all);
            }
        }
        let mut options = OpenOptions::new();
        let file = options.create(true).read(true).append(true).open(path)?;
        let mut outcomes = Self {
            mutants,
            found: vec![None; mutants.len()],
            file,
            files,
            all: all.finish(),
        };
        let ids: HashMap<&str, usize> = (0..).zip(mutants).map(|(i, it)| (&*it.name, i)).collect();
        for line in BufReader::new(outcomes.file.try_clone()?).lines() {
            let line = line?;
            let mut fields = line.split('\t');
            let mut field = || fields.next().unwrap_or_default();
            let (key, outcome, name, detail) = (field(), field(), field(), field());
            let (Some(outcome), Some(id)) = (Outcome::read(outcome), ids.get(name)) else {
                continue;
            };
            if key == outcomes.key(*id, outcome) {
                outcomes.found[*id] = Some((outcome, detail.to_owned()));
            }
        }
        Ok(outcomes)
    }

    /// The hash of the names of all mutants.
    pub(super) fn list(&self) -> String {
        let names = self.mutants.iter().map(|it| &*it.name);
        format!("{:016x}", hash(&names.collect::<Vec<_>>().join("\n")))
    }

    /// The mutants that have no outcome yet.
    pub(super) fn open_ids(&self) -> impl Iterator<Item = usize> {
        let ids = (0..).zip(&self.found);
        ids.filter(|(_, it)| it.is_none()).map(|(id, _)| id)
    }

    /// The mutants with this outcome.
    pub(super) fn ids(&self, outcome: Outcome) -> BTreeSet<usize> {
        let ids = (0..).zip(&self.found);
        let ids = ids.filter(|(_, it)| it.as_ref().is_some_and(|(it, _)| *it == outcome));
        ids.map(|(id, _)| id).collect()
    }

    /// Records the outcome of a mutant. `detail` is the test, or the number of tests.
    pub(super) fn set(&mut self, id: usize, outcome: Outcome, detail: &str) -> Result<()> {
        if self.found[id]
            .as_ref()
            .is_some_and(|(it, _)| *it == outcome)
        {
            return Ok(());
        }
        let (key, name) = (self.key(id, outcome), &self.mutants[id].name);
        writeln!(self.file, "{key}\t{outcome:?}\t{name}\t{detail}")?;
        self.found[id] = Some((outcome, detail.to_owned()));
        Ok(())
    }

    /// As long as this is the same, so is the outcome of this mutant.
    fn key(&self, id: usize, outcome: Outcome) -> String {
        let key = match outcome {
            // A new test can detect it.
            Outcome::Missed => self.all,
            _ => self.files[&*self.mutants[id].file],
        };
        format!("{key:016x}")
    }

    /// The names of the mutants of `package` that no test detected.
    pub(super) fn missed(&self, package: &str) -> Vec<String> {
        self.with(Outcome::Missed)
            .filter(|(mutant, _)| mutant.package == package)
            .map(|(mutant, detail)| format!("{} ({detail})", mutant.name))
            .collect()
    }

    fn with(&self, outcome: Outcome) -> impl Iterator<Item = (&Mutant, &str)> {
        let all = self.mutants.iter().zip(&self.found);
        all.filter_map(move |(mutant, it)| match it {
            Some((it, detail)) if *it == outcome => Some((mutant, detail.as_str())),
            _ => None,
        })
    }

    /// A table of scores, and the mutants that were not caught. `excluded` are the mutants that
    /// `.cargo/mutants.toml` excludes.
    pub(super) fn report(&self, excluded: &[Mutant]) -> String {
        let mut counts: BTreeMap<&str, Counts> = BTreeMap::new();
        for (mutant, outcome) in self.mutants.iter().zip(&self.found) {
            if let Some((outcome, _)) = outcome {
                counts.entry(&mutant.package).or_default().add(*outcome);
            }
        }
        for mutant in excluded {
            counts.entry(&mutant.package).or_default().excluded += 1;
        }
        let mut report = String::from(
            "| package | viable | noticed | of them by a timeout | missed | score | unviable | \
             untried | excluded |\n|--|--:|--:|--:|--:|--:|--:|--:|--:|\n",
        );
        for (package, counts) in counts {
            _ = writeln!(report, "| {package} | {counts} |");
        }
        report.push_str(
            "\nUnviable: does not compile. Untried: without a switch, because it is in a constant \
             expression or its function returns `impl Trait`. Excluded: in `.cargo/mutants.toml`, \
             with the reason.\n",
        );
        for (outcome, title) in [
            (Outcome::Missed, "Missed"),
            (Outcome::TimedOut, "Timed out"),
            (Outcome::Untried, "Untried"),
            (Outcome::Unviable, "Unviable"),
        ] {
            let lines: Vec<_> = self.with(outcome).collect();
            if !lines.is_empty() {
                _ = writeln!(report, "\n{title}:");
            }
            for (mutant, detail) in lines {
                let detail = if detail.is_empty() {
                    String::new()
                } else {
                    format!(" ({detail})")
                };
                _ = writeln!(report, "- `{}`{detail}", mutant.name);
            }
        }
        report
    }
}

// === impl Outcome ===

impl Outcome {
    /// The outcome with this name in the file.
    fn read(name: &str) -> Option<Self> {
        let all = [
            Self::Caught,
            Self::TimedOut,
            Self::Missed,
            Self::Unviable,
            Self::Untried,
        ];
        all.into_iter().find(|it| format!("{it:?}") == name)
    }
}

/// The number of mutants of a package by outcome.
#[derive(Debug, Default)]
struct Counts {
    caught: usize,
    missed: usize,
    timed_out: usize,
    unviable: usize,
    untried: usize,
    excluded: usize,
}

// === impl Counts ===

impl Counts {
    fn add(&mut self, outcome: Outcome) {
        let count = match outcome {
            Outcome::Caught => &mut self.caught,
            Outcome::Missed => &mut self.missed,
            Outcome::TimedOut => &mut self.timed_out,
            Outcome::Unviable => &mut self.unviable,
            Outcome::Untried => &mut self.untried,
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
            untried,
            excluded,
            ..
        } = self;
        write!(
            f,
            "{viable} | {noticed} | {timed_out} | {missed} | {score} | {unviable} | {untried} | \
             {excluded}"
        )
    }
}

/// The same in every run of this build.
pub(super) fn hash(text: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use std::{collections::HashMap, env, fs::File, process};

    use super::{Mutant, Outcome, Outcomes};
    use crate::mutants::mutant::Place;

    fn mutant(name: &str) -> Mutant {
        Mutant {
            name: name.to_owned(),
            package: "p".to_owned(),
            file: String::new(),
            place: Place {
                genre: String::new(),
                line: 1,
                column: 1,
            },
            replacement: String::new(),
        }
    }

    #[test]
    fn the_score_is_the_part_of_the_viable_mutants_that_is_noticed() {
        let mutants = ["a", "b", "c", "d", "e", "f"].map(mutant);
        let path = env::temp_dir().join(format!("windlass-outcomes-{}", process::id()));
        let mut outcomes = Outcomes {
            mutants: &mutants,
            found: vec![None; mutants.len()],
            file: File::create(&path).expect("a file"),
            files: HashMap::from([("", 1)]),
            all: 2,
        };
        let mut set = |id, outcome, detail| outcomes.set(id, outcome, detail).expect("written");
        set(0, Outcome::Caught, "t");
        set(1, Outcome::Caught, "t");
        set(2, Outcome::Missed, "after all 7 tests");
        set(3, Outcome::Unviable, "");
        set(4, Outcome::TimedOut, "t");
        assert_eq!(outcomes.missed("p"), ["c (after all 7 tests)"]);
        assert_eq!(outcomes.open_ids().collect::<Vec<_>>(), [5]);
        let report = outcomes.report(&[mutant("g")]);
        for expected in [
            "| p | 4 | 3 | 1 | 1 | 75.0 % | 1 | 0 | 1 |\n",
            "\nMissed:\n- `c` (after all 7 tests)\n",
            "\nTimed out:\n- `e` (t)\n",
        ] {
            assert!(report.contains(expected), "{report}");
        }
        std::fs::remove_file(path).expect("removed");
    }
}
