//! `Mode`: whether an object is paused by its annotation.

use kube::api::ObjectMeta;

/// The annotation that pauses an object, with the value `true`.
pub const PAUSED: &str = "windlass.dev/paused";

/// Whether a call may write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Mode {
    /// It may.
    Normal,
    /// The object has the annotation `windlass.dev/paused: "true"`. The call is made, so that the
    /// status stays up to date, but nothing else is written: [`apply`](crate::Owned::apply),
    /// [`delete`](crate::Owned::delete) and [`prune`](crate::Owned::prune) do nothing, and
    /// [`Context::client`](crate::Context::client) refuses writes except of a status and of Events.
    /// A call that fails after such a refusal ends without an error and without a retry. The clean-up
    /// waits. The removal of the annotation reconciles the object. An object that leaves the selector of
    /// its watch is [treated](crate::OnSelectorExit) as if it were not paused, because no later event
    /// of it follows.
    Paused,
}

/// The API server was not asked to write, because the object of the call is paused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{method} {target} was not sent: the object of this call is paused by its annotation {PAUSED}; \
     remove the annotation to continue, or check `Context::mode` before the write"
)]
pub struct WritePaused {
    pub(crate) method: &'static str,
    /// The path of the request, or the child.
    pub(crate) target: String,
}

// === impl Mode ===

impl Mode {
    /// The mode of an object with these metadata.
    pub(crate) fn of(metadata: &ObjectMeta) -> Self {
        let annotations = metadata.annotations.as_ref();
        match annotations.and_then(|annotations| annotations.get(PAUSED)) {
            Some(value) if value == "true" => Self::Paused,
            _ => Self::Normal,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_value_true_pauses_an_object() {
        for (value, mode) in [
            (Some("true"), Mode::Paused),
            (Some("false"), Mode::Normal),
            (Some(""), Mode::Normal),
            (None, Mode::Normal),
        ] {
            let metadata = ObjectMeta {
                annotations: value.map(|value| [(PAUSED.to_owned(), value.to_owned())].into()),
                ..ObjectMeta::default()
            };
            assert_eq!(Mode::of(&metadata), mode, "{value:?}");
        }
    }
}
