//! Runs the child processes one after the other; the contenders take turns.

use std::{
    collections::BTreeMap,
    env,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use windlass_apiserver::{ApiServer, Listening};

use super::{Number, Programs, Scenario, Served};
use crate::{
    Result,
    child::{Job, Task, fill},
    contender::Contender,
    measure::Measured,
    progress::Progress,
    server::LoadServer,
    servers,
};

/// Runs the scenarios.
#[derive(Debug)]
pub(crate) struct Runner {
    timed: PathBuf,
    counted: PathBuf,
    programs: Programs,
    /// The runtime of the embedded server.
    runtime: tokio::runtime::Runtime,
}

/// The outcome of a scenario: the samples of each contender, by measurement.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) scenario: Scenario,
    samples: BTreeMap<(&'static str, &'static str), Vec<f64>>,
    /// The contenders whose samples come from another outcome.
    taken: Vec<Contender>,
}

/// The median, minimum and maximum of samples.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spread {
    pub(crate) median: f64,
    pub(crate) least: f64,
    pub(crate) most: f64,
}

/// The spread below which samples count as equal, as a share of their median. It is less than a
/// relevant difference between two contenders.
const STEADY: f64 = 0.05;

// === impl Runner ===

impl Runner {
    pub(crate) fn new(programs: Programs) -> Result<Self> {
        let timed = env::current_exe()?;
        let counted = timed.with_file_name("windlass-bench-counted");
        build_counted(&timed)?;
        Ok(Self {
            timed,
            counted,
            programs,
            runtime: tokio::runtime::Builder::new_multi_thread()
                .worker_threads(1)
                .enable_all()
                .build()?,
        })
    }

    /// Runs `scenario`. `earlier` are the outcomes of the previous scenarios.
    pub(crate) fn run(
        &self,
        scenario: Scenario,
        earlier: &[Outcome],
        progress: &mut Progress,
    ) -> Result<Outcome> {
        let embedded = match scenario.served {
            Served::Embedded => Some(self.embed(&scenario)?),
            Served::Load | Served::InProcess | Served::Contender | Served::Nobody => None,
        };
        let mut outcome = Outcome::new(scenario);
        let contenders = &mut outcome.scenario.contenders;
        contenders.retain(|contender| self.programs.have(*contender));
        outcome.take(earlier);
        let Scenario { repeats, .. } = outcome.scenario;
        for counted in [false, true] {
            // Counts are almost equal in each run.
            let repeats = if counted { 1 } else { repeats };
            for repeat in 1..=repeats {
                for contender in outcome.scenario.contenders.clone() {
                    let wanted = outcome.scenario.numbers.iter();
                    let wanted: Vec<_> = wanted
                        .filter(|number| number.pass(contender) == counted)
                        .copied()
                        .collect();
                    if wanted.is_empty() || outcome.taken.contains(&contender) {
                        continue;
                    }
                    progress.step(&outcome.scenario.name, contender.name(), repeat, repeats);
                    let measured =
                        self.child(&outcome.scenario, contender, embedded.as_ref(), counted)?;
                    for number in wanted {
                        outcome.note(contender, number, &measured);
                    }
                }
                if repeat > 1 && outcome.is_steady() {
                    break;
                }
            }
        }
        Ok(outcome)
    }

    fn child(
        &self,
        scenario: &Scenario,
        contender: Contender,
        embedded: Option<&Listening>,
        counted: bool,
    ) -> Result<Measured> {
        if let Task::Serve(load) = scenario.task {
            let (program, arguments): (_, &[_]) = match self.programs.get(contender) {
                Some(program) => (program, &[]),
                None => (&*self.timed, &["serve"]),
            };
            let measured = servers::measure(program, arguments, load);
            return self.runtime.block_on(measured);
        }
        // A separate load server for each child, so that no state is shared.
        let load = match scenario.served {
            Served::Load => Some(LoadServer::start(scenario.kind, scenario.count)?),
            Served::Embedded | Served::InProcess | Served::Contender | Served::Nobody => None,
        };
        let url = load.as_ref().map(LoadServer::url);
        let job = Job {
            contender,
            form: scenario.form,
            task: scenario.task,
            keeps: scenario.keeps,
            kind: scenario.kind,
            count: scenario.count,
            lists: scenario.lists,
            url: url.or_else(|| embedded.map(Listening::url)),
        };
        let program = match self.programs.get(contender) {
            Some(program) => program,
            None if counted => &self.counted,
            None => &self.timed,
        };
        let output = Command::new(program)
            .arg("child")
            .arg(serde_json::to_string(&job)?)
            .stderr(Stdio::inherit())
            .output()?;
        if !output.status.success() {
            return Err(format!("{} of {} failed", contender.name(), scenario.name).into());
        }
        Ok(Measured::read(&output.stdout)?)
    }

    fn embed(&self, scenario: &Scenario) -> Result<Listening> {
        self.runtime.block_on(async {
            let server = ApiServer::new();
            fill(&server.client(), scenario.kind, scenario.count).await?;
            Ok(server.listen(([127, 0, 0, 1], 0)).await?)
        })
    }
}

/// Builds the counting binary; `cargo run` builds only the binary that it runs.
fn build_counted(timed: &Path) -> Result<()> {
    let Some(cargo) = env::var_os("CARGO") else {
        return Ok(());
    };
    let release = timed.components().any(|part| part.as_os_str() == "release");
    let mut build = Command::new(cargo);
    build.args([
        "build",
        "--quiet",
        "-p",
        "windlass-bench",
        "--bin",
        "windlass-bench-counted",
    ]);
    if release {
        build.arg("--release");
    }
    if build.status()?.success() {
        Ok(())
    } else {
        Err("cannot build windlass-bench-counted".into())
    }
}

// === impl Outcome ===

impl Outcome {
    pub(crate) fn new(scenario: Scenario) -> Self {
        Self {
            samples: BTreeMap::new(),
            taken: Vec::new(),
            scenario,
        }
    }

    /// Reuses the samples of contenders with the same task in an earlier scenario.
    fn take(&mut self, earlier: &[Self]) {
        let Some(like) = &self.scenario.like else {
            return;
        };
        let mut earlier = earlier.iter();
        let Some(earlier) = earlier.find(|outcome| outcome.scenario.name == like.name) else {
            return;
        };
        for contender in &like.contenders {
            let name = contender.name();
            for (measure, samples) in &earlier.samples {
                if measure.0 == name {
                    self.samples.insert(*measure, samples.clone());
                }
            }
            self.taken.push(*contender);
        }
    }

    /// Adds the sample of `number`, if it was measured.
    pub(crate) fn note(&mut self, contender: Contender, number: Number, measured: &Measured) {
        if let Some(sample) = measured.get(number.measure) {
            let samples = self.samples.entry((contender.name(), number.measure));
            samples.or_default().push(sample);
        }
    }

    /// A missing number of Windlass, or of the first peer if that is written in Rust.
    pub(crate) fn missing(&self) -> Option<String> {
        let both = [Contender::Windlass, Contender::Runtime].into_iter();
        let both = both.filter(|it| self.scenario.contenders.contains(it));
        let all = both.flat_map(|it| self.scenario.numbers.iter().map(move |number| (it, number)));
        let mut missing = all.filter(|(it, number)| self.spread(*it, number.measure).is_none());
        let (contender, number) = missing.next()?;
        Some(format!("{} of {}", number.suffix, contender.name()))
    }

    /// The peers of Windlass. The ratio refers to the first one.
    pub(crate) fn peers(&self) -> impl Iterator<Item = Contender> {
        let contenders = self.scenario.contenders.iter().copied();
        contenders.filter(|contender| contender.is_peer())
    }

    /// The spread of the samples of `contender`. None without samples.
    pub(crate) fn spread(&self, contender: Contender, measure: &'static str) -> Option<Spread> {
        let mut samples = self.samples.get(&(contender.name(), measure))?.clone();
        samples.sort_by(f64::total_cmp);
        Spread::of(&samples)
    }

    /// Whether the CPU times of each contender are almost equal, so that no further sample is
    /// necessary. False for scenarios without CPU times.
    fn is_steady(&self) -> bool {
        let mut contenders = self.scenario.contenders.iter();
        contenders.all(|contender| {
            let spread = self.spread(*contender, Number::CPU.measure);
            spread.is_some_and(|spread| spread.most - spread.least <= STEADY * spread.median)
        })
    }
}

// === impl Spread ===

impl Spread {
    /// Computes the spread of samples.
    fn of(samples: &[f64]) -> Option<Self> {
        let half = samples.len() / 2;
        let above = *samples.get(half)?;
        let below = if samples.len().is_multiple_of(2) {
            samples[half - 1]
        } else {
            above
        };
        Some(Self {
            median: f64::midpoint(below, above),
            least: *samples.first()?,
            most: *samples.last()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::Spread;

    #[test]
    fn the_median_of_two_samples_is_between_them() {
        check(&[3.0], (3.0, 3.0, 3.0));
        check(&[2.0, 4.0], (2.0, 3.0, 4.0));
        check(&[2.0, 3.0, 9.0], (2.0, 3.0, 9.0));
        assert!(Spread::of(&[]).is_none());
    }

    #[track_caller]
    #[expect(clippy::float_cmp, reason = "whole numbers")]
    fn check(samples: &[f64], (least, median, most): (f64, f64, f64)) {
        let spread = Spread::of(samples).expect("there are samples");
        assert_eq!(spread.least, least);
        assert_eq!(spread.median, median);
        assert_eq!(spread.most, most);
    }
}
