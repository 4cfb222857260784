//! Times in RFC 3339, formatted and parsed like in Go. *(pure)*

use jiff::Timestamp;

/// The first second of the year 1, Go's zero time.
const ZERO: i64 = -62_135_596_800;

/// The last supported second: 30 December 9999, 22:00 UTC.
const LAST: i64 = 253_402_207_200;

const NANOS_PER_SECOND: i64 = 1_000_000_000;

/// Formats a time in whole seconds. `Some(None)` for the zero time, `None` for an unsupported time.
#[expect(clippy::option_option, reason = "two ways to have no text")]
pub(crate) fn format(seconds: i64) -> Option<Option<String>> {
    if seconds == ZERO {
        return Some(None);
    }
    let time = timestamp(seconds)?;
    Some(Some(time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()))
}

/// Formats a time in microseconds. The rest of the nanoseconds is cut off.
#[expect(clippy::option_option, reason = "two ways to have no text")]
pub(crate) fn format_micros(seconds: i64, nanos: i32) -> Option<Option<String>> {
    // `nanos` can be negative, or more than a second.
    let nanos = i64::from(nanos) / 1000 * 1000;
    let seconds = seconds.checked_add(nanos.div_euclid(NANOS_PER_SECOND))?;
    let micros = nanos.rem_euclid(NANOS_PER_SECOND) / 1000;
    if seconds == ZERO && micros == 0 {
        return Some(None);
    }
    let time = timestamp(seconds)?;
    let whole = time.strftime("%Y-%m-%dT%H:%M:%S");
    Some(Some(format!("{whole}.{micros:06}Z")))
}

/// Parses a time in RFC 3339 as seconds and microseconds.
pub(crate) fn parse(text: &str) -> Option<(i64, i32)> {
    let time: Timestamp = text.parse().ok()?;
    let micros = time.as_nanosecond().div_euclid(1000);
    let seconds = i64::try_from(micros.div_euclid(1_000_000)).ok()?;
    let micros = i32::try_from(micros.rem_euclid(1_000_000)).ok()?;
    (ZERO..=LAST)
        .contains(&seconds)
        .then_some((seconds, micros))
}

/// Whether this is Go's zero time.
pub(crate) fn is_zero(seconds: i64, micros: i32) -> bool {
    seconds == ZERO && micros == 0
}

fn timestamp(seconds: i64) -> Option<Timestamp> {
    if !(ZERO..=LAST).contains(&seconds) {
        return None;
    }
    Timestamp::from_second(seconds).ok()
}

#[cfg(test)]
mod tests {
    use super::{LAST, ZERO, format, format_micros, parse};

    #[test]
    fn times_are_written_as_go_writes_them() {
        let text = |text: &str| Some(Some(text.to_owned()));
        assert_eq!(format(0), text("1970-01-01T00:00:00Z"));
        assert_eq!(format(LAST), text("9999-12-30T22:00:00Z"));
        assert_eq!(format(ZERO + 1), text("0001-01-01T00:00:01Z"));
        assert_eq!(format(ZERO), Some(None));
        assert_eq!(format(LAST + 1), None);
        assert_eq!(format(i64::MIN), None);
        assert_eq!(format_micros(1, 5_999), text("1970-01-01T00:00:01.000005Z"));
        assert_eq!(format_micros(-1, 0), text("1969-12-31T23:59:59.000000Z"));
        assert_eq!(
            format_micros(0, i32::MAX),
            text("1970-01-01T00:00:02.147483Z")
        );
        assert_eq!(format_micros(0, -1000), text("1969-12-31T23:59:59.999999Z"));
        assert_eq!(format_micros(i64::MAX, i32::MAX), None);
    }

    #[test]
    fn a_time_with_an_offset_is_the_same_time() {
        assert_eq!(parse("1970-01-01T02:00:00+02:00"), Some((0, 0)));
        assert_eq!(parse("1969-12-31T23:59:59.5Z"), Some((-1, 500_000)));
        assert_eq!(parse("yesterday"), None);
        assert_eq!(parse(""), None);
    }
}
