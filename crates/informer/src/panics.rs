//! Catches panics of user code, and formats them.

use std::{
    any::Any,
    panic::{AssertUnwindSafe, catch_unwind},
};

use crate::message::one_line;

/// Enough to find the cause, and too short for a whole object.
const LIMIT: usize = 256;

/// Calls `user_code`. Returns the message if it panics.
pub(crate) fn catch<T>(user_code: impl FnOnce() -> T) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(user_code)).map_err(panic_message)
}

/// Returns the message of a panic as one line, cut to 256 characters. Drops the payload, and
/// catches a panic of its `Drop`.
#[doc(hidden)]
#[must_use]
pub fn panic_message(payload: Box<dyn Any + Send>) -> String {
    let text = payload
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| payload.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("a panic without a message");
    let message = match text.char_indices().nth(LIMIT - 1) {
        // More than one character is left, so one makes space for the ellipsis.
        Some((at, last)) if at + last.len_utf8() < text.len() => format!("{}…", &text[..at]),
        _ => text.to_owned(),
    };
    drop_payload(payload);
    // Shorter than the limit of `one_line`, so only line breaks and control characters change.
    one_line(&message).into_owned()
}

/// Drops the payload of a panic, and catches a panic of its `Drop`.
pub(crate) fn drop_payload(payload: Box<dyn Any + Send>) {
    if let Err(second) = catch_unwind(AssertUnwindSafe(|| drop(payload))) {
        // A payload whose `Drop` panics may panic with another such payload.
        std::mem::forget(second);
    }
}

#[cfg(test)]
mod tests {
    use std::panic::panic_any;

    use super::catch;

    #[test]
    fn a_message_is_cut_to_256_characters() {
        for length in [0, 1, 255, 256, 257, 1000] {
            let text = "ä".repeat(length);
            let message = catch(|| panic!("{text}")).expect_err("it panics");
            assert_eq!(message.chars().count(), length.min(256));
            assert_eq!(message.ends_with('…'), length > 256, "{length}");
        }
    }

    #[test]
    fn a_message_is_one_line() {
        let message = catch(|| panic!("left\r\nFORGED {}", "\u{1b}[2J")).expect_err("it panics");
        assert_eq!(message, "left  FORGED  [2J");
        let long = format!("{}\n\n", "x".repeat(255));
        let message = catch(|| panic!("{long}")).expect_err("it panics");
        assert_eq!(message, format!("{}…", "x".repeat(255)));
    }

    #[test]
    fn a_payload_whose_drop_panics_is_caught() {
        struct Bomb;

        impl Drop for Bomb {
            fn drop(&mut self) {
                panic!("again");
            }
        }

        let message = catch(|| panic_any(Bomb)).expect_err("it panics");
        assert_eq!(message, "a panic without a message");
    }
}
