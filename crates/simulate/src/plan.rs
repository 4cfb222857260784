//! A plan: the seed of a run, and the faults that it injects at which steps.

use std::{fmt, str::FromStr};

use crate::fault::{Fault, UnknownFault};

/// The plan of a run: its seed, the faults that it injects at which steps, and the steps of the
/// users that it omits.
///
/// The text form replays the run: `7: crash-after@12, cut-before@30; without 2`.
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
    /// The seed of all random choices in the run.
    pub seed: u64,
    /// The faults, ordered by step.
    pub faults: Vec<PlannedFault>,
    /// The indexes of the omitted steps of the users, counted from 0.
    pub without: Vec<usize>,
}

/// A fault and its step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PlannedFault {
    /// The first step at which the fault can be injected, counted from 1. If the fault does not fit
    /// this step, it is injected at the first later step that it fits.
    pub step: u64,
    /// The injected fault.
    pub fault: Fault,
}

/// The text is not a valid plan.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidPlan {
    /// A number is missing or malformed.
    #[error("invalid plan {text:?}: expected `seed: fault@step, fault@step; without step`")]
    Form {
        /// The text that was parsed.
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
