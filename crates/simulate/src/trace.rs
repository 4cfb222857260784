//! The trace of a run: all steps in order with their virtual times.

use std::{fmt, hash::Hasher as _, time::Duration};

use crate::{
    Fault,
    fault::{StepKind, Subject},
    world::Origin,
};

/// The trace of a run: all steps in order with their virtual times.
#[derive(Clone, Debug, Default)]
pub struct Trace {
    lines: Vec<Line>,
    /// The number of lines that were dropped.
    dropped: u64,
    steps: Vec<TracedStep>,
    /// The number of the last step, also after the faults have ended.
    last_step: u64,
    /// The number of lines when the last fault had ended.
    faults_ended: Option<usize>,
}

#[derive(Clone, Debug)]
struct Line {
    at: Duration,
    text: String,
}

/// A step of a run.
#[derive(Clone, Debug)]
pub(crate) struct TracedStep {
    pub(crate) number: u64,
    pub(crate) kind: StepKind,
    pub(crate) subject: Subject,
    /// The namespace and name of its object, as `namespace/name`.
    pub(crate) object: Option<String>,
    pub(crate) text: String,
}

// === impl Trace ===

impl Trace {
    /// The largest number of lines. More lines are only counted, so that memory stays bounded.
    const LONGEST: usize = 100_000;

    /// A hash of the whole trace. It is equal for equal runs, in every process.
    #[must_use]
    pub fn digest(&self) -> u64 {
        // The keys of this hasher are constant, unlike the keys of a `HashMap`.
        let mut hasher = std::hash::DefaultHasher::new();
        for line in &self.lines {
            hasher.write_u128(line.at.as_nanos());
            hasher.write(line.text.as_bytes());
        }
        hasher.write_u64(self.dropped);
        hasher.finish()
    }

    /// The first line that differs in `other`, here and there. Kubernetes Events are left out: kube's
    /// recorder puts the time of the system into them.
    pub(crate) fn difference(&self, other: &Self) -> Option<(String, String)> {
        let lines = |trace: &Self| -> Vec<_> {
            let lines = trace.lines.iter().filter(|line| !line.is_about_events());
            lines.map(Line::to_string).collect()
        };
        let (own, others) = (lines(self), lines(other));
        (0..own.len().max(others.len())).find_map(|at| {
            let end = || "the end".to_owned();
            let [own, others] = [&own, &others].map(|it| it.get(at).cloned().unwrap_or_else(end));
            (own != others).then_some((own, others))
        })
    }

    /// The number of steps until the last fault had ended.
    #[must_use]
    pub fn steps(&self) -> usize {
        self.steps.len()
    }

    pub(crate) fn active_steps(&self) -> &[TracedStep] {
        &self.steps
    }

    pub(crate) fn next_step(&self) -> u64 {
        self.last_step + 1
    }

    pub(crate) fn step(
        &mut self,
        at: Duration,
        origin: Origin,
        step: TracedStep,
        fault: Option<Fault>,
    ) {
        let number = step.number;
        self.last_step = number;
        let text = match fault {
            Some(fault) => format!("{origin} #{number} {}  <== {fault}", step.text),
            None => format!("{origin} #{number} {}", step.text),
        };
        self.push(at, text);
        if self.faults_ended.is_none() {
            self.steps.push(step);
        }
    }

    pub(crate) fn line(&mut self, at: Duration, origin: Option<Origin>, text: &str) {
        let text = match origin {
            Some(origin) => format!("{origin} {text}"),
            None => format!("     {text}"),
        };
        self.push(at, text);
    }

    pub(crate) fn end_faults(&mut self, at: Duration) {
        self.push(at, "     no faults from here on".to_owned());
        self.faults_ended = Some(self.lines.len());
    }

    fn push(&mut self, at: Duration, text: String) {
        if self.lines.len() < Self::LONGEST {
            self.lines.push(Line { at, text });
        } else {
            self.dropped += 1;
        }
    }
}

impl fmt::Display for Trace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for line in &self.lines {
            writeln!(f, "{line}")?;
        }
        if self.dropped > 0 {
            writeln!(f, "            and {} more lines", self.dropped)?;
        }
        Ok(())
    }
}

// === impl Line ===

impl Line {
    /// Whether it is a request for, or a watch event about, Kubernetes Events.
    fn is_about_events(&self) -> bool {
        self.text.contains(" events ") || self.text.contains("/events/")
    }
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:>10.3}s {}", self.at.as_secs_f64(), self.text)
    }
}

// === impl Origin ===

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "r{}.{}", self.replica, self.incarnation)
    }
}
