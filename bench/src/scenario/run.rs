//! Runs children, one after the other, contenders in turn.

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
    /// For the embedded server.
    runtime: tokio::runtime::Runtime,
}

/// What came of a scenario: the samples of each contender, by what they measure.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) scenario: Scenario,
    samples: BTreeMap<(&'static str, &'static str), Vec<f64>>,
    /// Those whose samples are another outcome's.
    taken: Vec<Contender>,
}

/// The middle of some samples, and how far they lie apart.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spread {
    pub(crate) median: f64,
    pub(crate) least: f64,
    pub(crate) most: f64,
}

/// How far samples may lie apart that are equal for this purpose, as a share of their median: less
/// than what the difference between two contenders has to be to mean anything.
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

    /// Runs `scenario`; `earlier` is what came of others.
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
            // Counts hardly differ from run to run.
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
        // A load server of its own: what one child asked for is not there for the next.
        let load = match scenario.served {
            Served::Load => Some(LoadServer::start(scenario.kind, scenario.count)?),
            Served::Embedded | Served::InProcess | Served::Contender | Served::Nobody => None,
        };
        let url = load.as_ref().map(LoadServer::url);
        let job = Job {
            contender,
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

/// Builds the other binary beside this one; `cargo run` builds only the one that it runs.
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

    /// Takes the samples of those who do the same in a scenario that was run earlier.
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

    /// Takes a sample of `number`, if it was measured.
    pub(crate) fn note(&mut self, contender: Contender, number: Number, measured: &Measured) {
        if let Some(sample) = measured.get(number.measure) {
            let samples = self.samples.entry((contender.name(), number.measure));
            samples.or_default().push(sample);
        }
    }

    /// A number of Windlass, or of the first peer where that is in Rust, that was not measured.
    pub(crate) fn missing(&self) -> Option<String> {
        let both = [Contender::Windlass, Contender::Runtime].into_iter();
        let both = both.filter(|it| self.scenario.contenders.contains(it));
        let all = both.flat_map(|it| self.scenario.numbers.iter().map(move |number| (it, number)));
        let mut missing = all.filter(|(it, number)| self.spread(*it, number.measure).is_none());
        let (contender, number) = missing.next()?;
        Some(format!("{} of {}", number.suffix, contender.name()))
    }

    /// The peers that Windlass is compared with; the ratio is to the first.
    pub(crate) fn peers(&self) -> impl Iterator<Item = Contender> {
        let contenders = self.scenario.contenders.iter().copied();
        contenders.filter(|contender| contender.is_peer())
    }

    /// What `contender` measured; none if it was not asked.
    pub(crate) fn spread(&self, contender: Contender, measure: &'static str) -> Option<Spread> {
        let mut samples = self.samples.get(&(contender.name(), measure))?.clone();
        samples.sort_by(f64::total_cmp);
        Spread::of(&samples)
    }

    /// Whether the CPU time of no contender differs much from run to run, so that it need not be
    /// taken again. What has no CPU time is never known to be.
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
    /// Of samples in their order.
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
