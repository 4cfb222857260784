//! The calls and writes of a journal, as a test reads them.

use std::{fmt, ops::Deref, time::Duration};

use windlass_controller::{Action, CallOutcome, CallReport};
use windlass_informer::ErrorChain;

/// A write request of an operator, with its answer. Writes to leases are not recorded.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Write {
    /// The time since the start of the kit.
    pub at: Duration,
    /// `create`, `update`, `patch` or `delete`.
    pub verb: &'static str,
    /// The resource with its group, such as `deployments.apps`.
    pub resource: String,
    /// The namespace and name of the object, such as `default/blog`.
    pub object: String,
    /// The subresource, such as `status`, or an empty text.
    pub subresource: String,
    /// The field manager of the request, or an empty text.
    pub manager: String,
    /// The code of the answer.
    pub code: u16,
    /// What the write changed, such as `.spec.replicas: 1 -> 2`; `nothing` if it changed nothing.
    pub change: String,
}

/// A call of a handler that has ended.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Call {
    /// The time of its end since the start of the kit.
    pub at: Duration,
    /// The name of the kind in its controller.
    pub kind: String,
    /// The namespace and name of the object, such as `default/blog`.
    pub object: String,
    /// The action of the call.
    pub action: Action,
    /// The number of earlier failed calls of the same request.
    pub attempt: u32,
    /// The error, if the call failed.
    pub error: Option<String>,
    /// Whether the call was dropped before its end.
    pub abandoned: bool,
    /// The delay, if the handler asked for another call.
    pub requeued: Option<Duration>,
}

/// The calls of handlers, in the order of their ends.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Calls(pub(super) Vec<Call>);

// === impl Call ===

impl Call {
    pub(super) fn of(at: Duration, report: &CallReport<'_>) -> Self {
        Self {
            at,
            kind: report.kind.to_owned(),
            object: report.key.to_string(),
            action: report.action,
            attempt: report.attempt,
            error: match report.outcome {
                CallOutcome::Failed(error) | CallOutcome::Conflict(error) => {
                    Some(ErrorChain::new(error).to_string())
                }
                _ => None,
            },
            abandoned: matches!(report.outcome, CallOutcome::Abandoned),
            requeued: match report.outcome {
                CallOutcome::Requeued(delay) => Some(delay),
                _ => None,
            },
        }
    }
}

// === impl Calls ===

impl Calls {
    /// The calls for one object: its namespace and name, such as `default/blog`.
    #[must_use]
    pub fn of(&self, object: &str) -> Self {
        Self(
            self.0
                .iter()
                .filter(|it| it.object == object)
                .cloned()
                .collect(),
        )
    }

    /// The number of failed calls.
    #[must_use]
    pub fn failed(&self) -> usize {
        self.0.iter().filter(|it| it.error.is_some()).count()
    }

    /// The number of calls that were dropped before their end.
    #[must_use]
    pub fn abandoned(&self) -> usize {
        self.0.iter().filter(|it| it.abandoned).count()
    }
}

impl Deref for Calls {
    type Target = [Call];

    fn deref(&self) -> &[Call] {
        &self.0
    }
}

impl fmt::Debug for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            kind,
            object,
            action,
            attempt,
            ..
        } = self;
        let at = self.at.as_secs_f64();
        write!(
            f,
            "{at:>9.3}s {kind} {object} {} attempt {attempt}: ",
            action.as_str()
        )?;
        match (&self.error, self.requeued) {
            (Some(error), _) => f.write_str(error),
            (None, Some(delay)) => write!(f, "requeued after {delay:?}"),
            (None, None) if self.abandoned => f.write_str("abandoned"),
            (None, None) => f.write_str("done"),
        }
    }
}

impl fmt::Debug for Write {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            verb,
            resource,
            object,
            manager,
            code,
            change,
            ..
        } = self;
        let at = self.at.as_secs_f64();
        write!(
            f,
            "{at:>9.3}s {verb} {resource} {object}{}",
            slash(&self.subresource)
        )?;
        if !manager.is_empty() {
            write!(f, " by {manager}")?;
        }
        write!(f, ": {code}, {change}")
    }
}

/// A subresource as the end of a path.
pub(super) fn slash(subresource: &str) -> String {
    match subresource {
        "" => String::new(),
        it => format!("/{it}"),
    }
}
