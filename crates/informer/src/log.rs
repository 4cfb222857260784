//! Log events that never panic, whatever the subscriber and the values of their fields do.
//!
//! `tracing_subscriber::fmt` panics if neither its writer nor stderr can be written, for example
//! because the reader of a pipe has ended or the disk is full. A field can panic too: the `Display`
//! of a user's error. Such an event is lost. The task that logs it continues.

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::panics::drop_payload;

/// Emits an event. Catches its panic.
pub fn guarded(event: impl FnOnce()) {
    if let Err(payload) = catch_unwind(AssertUnwindSafe(event)) {
        drop_payload(payload);
    }
}

/// The crate whose macros are called.
pub use tracing;

/// [`tracing::error!`], without its panics.
#[macro_export]
#[doc(hidden)]
macro_rules! __log_error {
    ($($event:tt)*) => { $crate::log::guarded(|| $crate::log::tracing::error!($($event)*)) };
}

/// [`tracing::warn!`], without its panics.
#[macro_export]
#[doc(hidden)]
macro_rules! __log_warn {
    ($($event:tt)*) => { $crate::log::guarded(|| $crate::log::tracing::warn!($($event)*)) };
}

/// [`tracing::info!`], without its panics.
#[macro_export]
#[doc(hidden)]
macro_rules! __log_info {
    ($($event:tt)*) => { $crate::log::guarded(|| $crate::log::tracing::info!($($event)*)) };
}

/// [`tracing::debug!`], without its panics.
#[macro_export]
#[doc(hidden)]
macro_rules! __log_debug {
    ($($event:tt)*) => { $crate::log::guarded(|| $crate::log::tracing::debug!($($event)*)) };
}

pub use crate::{
    __log_debug as debug, __log_error as error, __log_info as info, __log_warn as warn,
};

#[cfg(test)]
mod tests {
    use std::{fmt, panic::panic_any};

    use tracing::{Event, Metadata, Subscriber, span, subscriber::with_default};

    use crate::log;

    /// A subscriber whose events cannot be written, or whose fields are formatted.
    struct Fails {
        formats: bool,
    }

    impl Subscriber for Fails {
        fn enabled(&self, _: &Metadata<'_>) -> bool {
            true
        }

        fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
            span::Id::from_u64(1)
        }

        fn record(&self, _: &span::Id, _: &span::Record<'_>) {}

        fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}

        fn event(&self, event: &Event<'_>) {
            assert!(self.formats, "the disk is full");
            event.record(&mut |_: &_, value: &dyn fmt::Debug| drop(format!("{value:?}")));
        }

        fn enter(&self, _: &span::Id) {}

        fn exit(&self, _: &span::Id) {}
    }

    struct Panics;

    impl fmt::Display for Panics {
        fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
            panic_any(7)
        }
    }

    #[test]
    fn an_event_that_cannot_be_written_or_formatted_does_not_panic() {
        for formats in [false, true] {
            with_default(Fails { formats }, || {
                log::error!(error = %Panics, "failed");
                log::warn!("{}", Panics);
                log::info!(error = %Panics, "failed");
                log::debug!(error = %Panics, "failed");
            });
        }
    }
}
