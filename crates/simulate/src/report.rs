//! The result of a simulation: a summary of the runs, or a failure and how to replay it.

use std::{collections::BTreeMap, fmt, time::Duration};

mod excerpt;

use self::excerpt::excerpt;
use crate::{Fault, Plan, Trace, Violation};

/// The summary of a simulation in which no oracle was broken.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Summary {
    /// The name of the simulation.
    pub name: String,
    /// The number of steps of the run without faults.
    pub steps: usize,
    /// The fields of the end state that differ between runs without faults, and are therefore not
    /// compared.
    pub masked: Vec<String>,
    /// The number of runs with one fault. All of them passed.
    pub single_faults: usize,
    /// The number of runs with two faults at one object. All of them passed.
    pub fault_pairs: usize,
    /// The number of runs with random faults. All of them passed.
    pub random: usize,
    /// How often each fault of the simulation took effect. A planned fault has no effect if the run
    /// has no step that it fits, or, for example, if a server lags and nothing changes meanwhile.
    pub faults: BTreeMap<Fault, usize>,
    /// The number of runs with faults in which every fault of the plan took effect.
    pub complete_runs: usize,
    /// The duration of the simulation in real time.
    pub took: Duration,
}

/// The smallest run found that broke an oracle.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Failure {
    /// The name of the simulation.
    pub name: String,
    /// The plan that breaks the oracle, without unnecessary faults and steps.
    pub plan: Plan,
    /// The broken oracles, the most informative one first.
    pub violations: Vec<Violation>,
    /// The steps of the users in that run.
    pub script: Vec<String>,
    /// The trace of that run.
    pub trace: Trace,
    /// The name of the thread that ran it, which in a test is the name of the test.
    pub(crate) test: Option<String>,
}

// === impl Summary ===

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            name,
            steps,
            masked,
            single_faults,
            fault_pairs,
            random,
            faults,
            complete_runs,
            took,
        } = self;
        write!(
            f,
            "{name}: {steps} steps; {single_faults} runs with one fault and {random} runs with \
             random faults passed in {:.1} s, and {fault_pairs} with two faults at one object; all planned faults took effect in {complete_runs} \
             runs",
            took.as_secs_f64(),
        )?;
        if let Some(first) = masked.first() {
            let count = masked.len();
            write!(
                f,
                "; {count} fields are not compared, the first is {first:?}"
            )?;
        }
        write!(f, "\n  faults that took effect:")?;
        for (index, (fault, count)) in faults.iter().enumerate() {
            let comma = if index > 0 { "," } else { "" };
            write!(f, "{comma} {fault} {count}")?;
        }
        Ok(())
    }
}

// === impl Failure ===

impl Failure {
    /// The name of the first oracle that was broken.
    #[must_use]
    pub fn oracle(&self) -> &str {
        self.violations.first().map_or("", |it| it.oracle.as_str())
    }

    /// The command that replays the run.
    #[must_use]
    pub fn replay(&self) -> String {
        let test = self.test.as_deref().unwrap_or("<the test>");
        format!(
            "WINDLASS_SIMULATION='{}' cargo test {test} -- --nocapture",
            self.plan
        )
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "simulation {:?} broke {}", self.name, self.oracle())?;
        for violation in self.violations.iter().take(8) {
            writeln!(f, "  {violation}")?;
        }
        if self.plan.faults.is_empty() {
            let plan = &self.plan;
            writeln!(
                f,
                "no fault was injected: it breaks in a run without faults ({plan})"
            )?;
        } else {
            writeln!(f, "faults (fault@step): {}", self.plan)?;
        }
        if !self.script.is_empty() {
            writeln!(f, "steps of the users:")?;
        }
        for step in &self.script {
            writeln!(f, "  {step}")?;
        }
        let texts: Vec<_> = self.violations.iter().map(|it| it.text.as_str()).collect();
        writeln!(f, "trace around the faults, and of the named objects:")?;
        f.write_str(&excerpt(&self.trace.to_string(), &texts.join(" ")))?;
        write!(f, "replay: {}", self.replay())
    }
}

impl std::error::Error for Failure {}
