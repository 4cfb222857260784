//! The result of a simulation: how much was tried, or what broke and how to see it again.

use std::{collections::BTreeMap, fmt, time::Duration};

use crate::{Fault, Plan, Trace, Violation};

/// What was tried, without a finding.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Summary {
    /// The name of the simulation.
    pub name: String,
    /// How many steps the run without faults had.
    pub steps: usize,
    /// The fields of the end state that differ between runs without faults: they are not
    /// compared.
    pub masked: Vec<String>,
    /// How many runs with one fault passed.
    pub single_faults: usize,
    /// How many runs with random faults passed.
    pub random: usize,
    /// How often each fault of the simulation took effect. It does not if a run has no step that it
    /// fits, or, for example, if a server lags and nothing changes meanwhile.
    pub faults: BTreeMap<Fault, usize>,
    /// In how many of the runs with faults every fault of the plan took effect.
    pub complete_runs: usize,
    /// How long it took, by the clock of the system.
    pub took: Duration,
}

/// A run that broke an oracle: the smallest that was found.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Failure {
    /// The name of the simulation.
    pub name: String,
    /// The plan that breaks the oracle, with no more faults and steps than that needs.
    pub plan: Plan,
    /// What was broken, the most telling first.
    pub violations: Vec<Violation>,
    /// What users do in that run.
    pub script: Vec<String>,
    /// What happened in it.
    pub trace: Trace,
    /// The name of the thread that ran it: of a test, the name of the test.
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
            random,
            faults,
            complete_runs,
            took,
        } = self;
        write!(
            f,
            "{name}: {steps} steps; {single_faults} runs with one fault and {random} with random \
             faults passed in {:.1} s; in {complete_runs} runs all faults that were planned took \
             effect",
            took.as_secs_f64(),
        )?;
        if let Some(first) = masked.first() {
            let count = masked.len();
            write!(
                f,
                "; {count} fields are not compared, {first:?} is the first"
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
    /// How many lines around the first fault are shown.
    const CONTEXT: usize = 60;

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
        writeln!(f, "faults (fault@step): {}", self.plan)?;
        if !self.script.is_empty() {
            writeln!(f, "users:")?;
        }
        for step in &self.script {
            writeln!(f, "  {step}")?;
        }
        writeln!(f, "trace around the faults:")?;
        let trace = self.trace.to_string();
        let lines: Vec<_> = trace.lines().collect();
        let first = lines.iter().position(|it| it.contains("<== ")).unwrap_or(0);
        let from = first.saturating_sub(Self::CONTEXT / 4);
        for line in lines.iter().skip(from).take(Self::CONTEXT) {
            writeln!(f, "{line}")?;
        }
        write!(f, "replay: {}", self.replay())
    }
}

impl std::error::Error for Failure {}
