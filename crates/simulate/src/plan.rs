//! A plan: the seed of a run, and which faults it injects at which steps.

use std::{fmt, str::FromStr};

use crate::fault::{Fault, UnknownFault};

/// The seed of a run, which faults it injects at which steps, and which steps of the users it
/// leaves out.
///
/// Its text replays the run: `7: crash-after@12, cut-before@30; without 2`.
///
/// # Example
///
/// ```
/// use windlass_simulate::Plan;
///
/// let plan: Plan = "7: crash-after@12, cut-before@30; without 2".parse()?;
/// assert_eq!(plan.seed, 7);
/// assert_eq!(plan.to_string(), "7: crash-after@12, cut-before@30; without 2");
/// # Ok::<(), windlass_simulate::InvalidPlan>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// Everything random in the run follows from it.
    pub seed: u64,
    /// The faults, by step.
    pub faults: Vec<PlannedFault>,
    /// The steps of the users that are left out, counted from 0.
    pub without: Vec<usize>,
}

/// A fault and its step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PlannedFault {
    /// The first step at which it can happen, counted from 1. It happens at this step or, if
    /// that is of a kind that does not fit, at the first later one that does.
    pub step: u64,
    /// What happens.
    pub fault: Fault,
}

/// The text is no plan.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidPlan {
    /// A number is missing or malformed.
    #[error("a plan is written as `seed: fault@step, fault@step; without step`, not {text:?}")]
    Form {
        /// What was read.
        text: String,
    },
    /// The name of a fault is unknown.
    #[error(transparent)]
    Fault(#[from] UnknownFault),
}

// === impl Plan ===

impl Plan {
    /// A plan without faults.
    #[must_use]
    pub const fn quiet(seed: u64) -> Self {
        Self {
            seed,
            faults: Vec::new(),
            without: Vec::new(),
        }
    }

    /// A plan with one fault.
    #[must_use]
    pub fn single(seed: u64, step: u64, fault: Fault) -> Self {
        Self {
            faults: vec![PlannedFault { step, fault }],
            ..Self::quiet(seed)
        }
    }

    /// The same run without its faults.
    pub(crate) fn without_faults(&self) -> Self {
        Self {
            faults: Vec::new(),
            ..self.clone()
        }
    }

    pub(crate) fn has(&self, is: impl Fn(Fault) -> bool) -> bool {
        self.faults.iter().any(|it| is(it.fault))
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:", self.seed)?;
        for (index, planned) in self.faults.iter().enumerate() {
            let comma = if index > 0 { "," } else { "" };
            write!(f, "{comma} {planned}")?;
        }
        if !self.without.is_empty() {
            let steps: Vec<_> = self.without.iter().map(ToString::to_string).collect();
            write!(f, "; without {}", steps.join(" "))?;
        }
        Ok(())
    }
}

impl FromStr for Plan {
    type Err = InvalidPlan;

    fn from_str(text: &str) -> Result<Self, InvalidPlan> {
        let malformed = || InvalidPlan::Form {
            text: text.chars().take(200).collect(),
        };
        let (faults, without) = text.split_once("; without ").unwrap_or((text, ""));
        let (seed, faults) = faults.split_once(':').unwrap_or((faults, ""));
        let faults = faults.split(',').map(str::trim);
        let faults = faults.filter(|it| !it.is_empty()).map(|planned| {
            let (fault, step) = planned.split_once('@').ok_or_else(malformed)?;
            Ok(PlannedFault {
                step: step.parse().map_err(|_| malformed())?,
                fault: fault.parse()?,
            })
        });
        let without = without.split_whitespace();
        Ok(Self {
            seed: seed.trim().parse().map_err(|_| malformed())?,
            faults: faults.collect::<Result<_, InvalidPlan>>()?,
            without: (without.map(|it| it.parse().map_err(|_| malformed())))
                .collect::<Result<_, _>>()?,
        })
    }
}

impl fmt::Display for PlannedFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}", self.fault, self.step)
    }
}
