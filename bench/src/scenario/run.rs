//! Runs children, one after the other, contenders in turn.

use std::{
    collections::BTreeMap,
    env,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use windlass_apiserver::{ApiServer, Listening};

use super::{Scenario, Served};
use crate::{
    Result,
    child::{Job, fill},
    contender::Contender,
    measure::Measured,
    progress::Progress,
    server::LoadServer,
};

/// Runs the scenarios.
#[derive(Debug)]
pub(crate) struct Runner {
    timed: PathBuf,
    counted: PathBuf,
    /// For the embedded server.
    runtime: tokio::runtime::Runtime,
}

/// What came of a scenario: the samples of each contender, by what they measure.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) scenario: Scenario,
    samples: BTreeMap<(&'static str, &'static str), Vec<f64>>,
}

/// The middle of some samples, and how far they lie apart.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spread {
    pub(crate) median: f64,
    pub(crate) least: f64,
    pub(crate) most: f64,
}

// === impl Runner ===

impl Runner {
    pub(crate) fn new() -> Result<Self> {
        let timed = env::current_exe()?;
        let counted = timed.with_file_name("windlass-bench-counted");
        build_counted(&timed)?;
        Ok(Self {
            timed,
            counted,
            runtime: tokio::runtime::Builder::new_multi_thread()
                .worker_threads(1)
                .enable_all()
                .build()?,
        })
    }

    pub(crate) fn run(&self, scenario: Scenario, progress: &mut Progress) -> Result<Outcome> {
        let embedded = match scenario.served {
            Served::Embedded => Some(self.embed(&scenario)?),
            Served::Load | Served::InProcess => None,
        };
        let mut outcome = Outcome {
            samples: BTreeMap::new(),
            scenario,
        };
        let Scenario { repeats, .. } = outcome.scenario;
        for counted in [false, true] {
            let wanted = outcome.scenario.numbers.iter();
            let wanted: Vec<_> = wanted
                .filter(|number| number.counted == counted)
                .copied()
                .collect();
            if wanted.is_empty() {
                continue;
            }
            // Counts hardly differ from run to run.
            let repeats = if counted { 1 } else { repeats };
            for repeat in 1..=repeats {
                for contender in outcome.scenario.contenders.clone() {
                    progress.step(&outcome.scenario.name, contender.name(), repeat, repeats);
                    let measured =
                        self.child(&outcome.scenario, contender, embedded.as_ref(), counted)?;
                    for number in &wanted {
                        if let Some(sample) = measured.get(number.measure) {
                            let samples = outcome.samples.entry((contender.name(), number.measure));
                            samples.or_default().push(sample);
                        }
                    }
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
        // A load server of its own: what one child asked for is not there for the next.
        let load = match scenario.served {
            Served::Load => Some(LoadServer::start(scenario.kind, scenario.count)?),
            Served::Embedded | Served::InProcess => None,
        };
        let url = load.as_ref().map(LoadServer::url);
        let job = Job {
            contender,
            task: scenario.task,
            kind: scenario.kind,
            count: scenario.count,
            lists: scenario.lists,
            url: url.or_else(|| embedded.map(Listening::url)),
        };
        let program = if counted { &self.counted } else { &self.timed };
        let output = Command::new(program)
            .arg("child")
            .arg(serde_json::to_string(&job)?)
            .stderr(Stdio::inherit())
            .output()?;
        if !output.status.success() {
            return Err(format!("{} of {} failed", contender.name(), scenario.name).into());
        }
        Ok(serde_json::from_slice(&output.stdout)?)
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
    /// What `contender` measured; none if it was not asked.
    pub(crate) fn spread(&self, contender: Contender, measure: &'static str) -> Option<Spread> {
        let mut samples = self.samples.get(&(contender.name(), measure))?.clone();
        samples.sort_by(f64::total_cmp);
        Some(Spread {
            median: samples[samples.len() / 2],
            least: *samples.first()?,
            most: *samples.last()?,
        })
    }
}
