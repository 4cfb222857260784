//! Problems that an informer recovers from, for its error handler.

use std::{fmt, sync::Arc, time::Duration};

use crate::{DecodeError, ErrorChain, ObjectKey, WatchError, WatchErrorCause, log};

/// A problem from which the informer recovers.
///
/// Displays as one line of bounded length with the kind, the reason, and the next step.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Problem<'a> {
    /// A list or a watch broke, and is retried.
    Watch {
        /// The kind, as `plural.group`.
        resource: &'a str,
        /// Why it broke.
        error: &'a WatchError,
        /// The time until the retry.
        retry_in: Duration,
    },

    /// An object does not decode. It is quarantined, and requested again later.
    Object {
        /// The kind, as `plural.group`.
        resource: &'a str,
        /// Which object.
        key: &'a ObjectKey,
        /// Why it does not decode.
        error: &'a DecodeError,
        /// The finalizers of an object that is being deleted, which keep it. Empty otherwise.
        finalizers: &'a [String],
    },
}

/// A user's error handler.
pub(crate) type ErrorHandler = Arc<dyn Fn(&Problem<'_>) + Send + Sync>;

// === impl Problem ===

impl fmt::Display for Problem<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Watch {
                error, retry_in, ..
            } => {
                let error = ErrorChain::new(*error);
                write!(f, "{error}; retrying in {retry_in:.1?}")
            }
            Self::Object {
                resource,
                key,
                error,
                finalizers,
            } => {
                write!(f, "cannot decode {resource} {key}, quarantined: {error}")?;
                match Release::of(resource, key, finalizers) {
                    Some(release) => write!(f, "; {release}"),
                    None => Ok(()),
                }
            }
        }
    }
}

/// What to do about an object that does not decode and is being deleted.
struct Release<'a> {
    resource: &'a str,
    key: &'a ObjectKey,
    finalizers: &'a [String],
}

// === impl Release ===

impl<'a> Release<'a> {
    /// `None` if the object is not being deleted, or no finalizer keeps it.
    fn of(resource: &'a str, key: &'a ObjectKey, finalizers: &'a [String]) -> Option<Self> {
        let release = Self {
            resource,
            key,
            finalizers,
        };
        (!finalizers.is_empty()).then_some(release)
    }
}

impl fmt::Display for Release<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        /// An object has few finalizers; a line has a bounded length.
        const SHOWN: usize = 5;

        let shown = self.finalizers.get(..SHOWN).unwrap_or(self.finalizers);
        write!(
            f,
            "it is being deleted, and its finalizers keep it ({}): correct the object, or clean up \
             by hand and remove the finalizer of this operator, and no other",
            shown.join(", "),
        )?;
        for (index, finalizer) in shown.iter().enumerate() {
            self.command(f, index, finalizer)?;
        }
        Ok(())
    }
}

impl Release<'_> {
    /// Writes the command that removes one finalizer. It fails if the list has changed, so that it
    /// removes no other one. No command contains text that a shell reads as more than a name.
    fn command(&self, f: &mut fmt::Formatter<'_>, index: usize, finalizer: &str) -> fmt::Result {
        let (name, namespace) = (self.key.name(), self.key.namespace());
        if ![name, namespace.unwrap_or_default(), finalizer]
            .iter()
            .all(|it| is_plain(it))
        {
            return Ok(());
        }
        write!(f, "; `kubectl patch {} {name}", self.resource)?;
        if let Some(namespace) = namespace {
            write!(f, " -n {namespace}")?;
        }
        let path = format!("/metadata/finalizers/{index}");
        write!(
            f,
            r#" --type=json -p '[{{"op":"test","path":"{path}","value":"{finalizer}"}},{{"op":"remove","path":"{path}"}}]'`"#
        )
    }
}

/// Whether a name of an object or finalizer has only characters that Kubernetes allows in most names.
fn is_plain(text: &str) -> bool {
    text.bytes()
        .all(|it| it.is_ascii_alphanumeric() || b"-._/".contains(&it))
}

/// The default error handler: logs the problem. An expired history is routine, so it is logged as
/// information.
pub fn log(problem: &Problem<'_>) {
    match problem {
        Problem::Watch {
            resource,
            error,
            retry_in,
        } => {
            let (reason, chain) = (error.reason(), ErrorChain::new(*error));
            if let WatchErrorCause::Expired { .. } = error.cause {
                log::info!(resource, reason, error = %chain, ?retry_in, "watch expired, relisting");
            } else {
                log::warn!(resource, reason, error = %chain, ?retry_in, "list or watch failed, retrying");
            }
        }
        Problem::Object {
            resource,
            key,
            error,
            finalizers,
        } => match Release::of(resource, key, finalizers) {
            Some(release) => {
                log::warn!(resource, %key, %error, "object does not decode, quarantined; {release}");
            }
            None => log::warn!(resource, %key, %error, "object does not decode, quarantined"),
        },
    }
}
