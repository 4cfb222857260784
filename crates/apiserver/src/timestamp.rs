//! Times as Kubernetes decodes and writes them. *(pure)*
//!
//! Source: Go's `time.Parse` with the layouts of `metav1.Time` and `metav1.MicroTime`, and its
//! errors.

use std::fmt::Write as _;

use jiff::{SignedDuration, Timestamp, civil::DateTime, tz::TimeZone};

/// Decodes a `metav1.Time`, and returns it in UTC, without a fraction of a second.
///
/// # Errors
///
/// Go's error if `text` is not a time.
pub(crate) fn seconds(text: &str) -> Result<String, String> {
    const LAYOUT: &str = "2006-01-02T15:04:05Z07:00";
    let rest = clock(text, LAYOUT)?;
    let time = parse(text).ok_or_else(|| day_or_zone_error(text, LAYOUT, rest))?;
    Ok(time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string())
}

/// Decodes a `metav1.MicroTime`, and returns it in UTC, with six digits of a fraction.
///
/// # Errors
///
/// Go's error if `text` is not a time with six digits of a fraction.
pub(crate) fn micros(text: &str) -> Result<String, String> {
    const LAYOUT: &str = "2006-01-02T15:04:05.000000Z07:00";
    let rest = clock(text, LAYOUT)?;
    // The fraction must have six digits.
    let digits = rest.strip_prefix('.').map_or(0, |rest| {
        rest.bytes().take_while(u8::is_ascii_digit).count()
    });
    if digits < 6 {
        return Err(mismatch(text, LAYOUT, rest, ".000000"));
    }
    let rest = &rest[7..];
    if digits > 6 {
        return Err(mismatch(text, LAYOUT, rest, "Z07:00"));
    }
    let time = parse(text).ok_or_else(|| day_or_zone_error(text, LAYOUT, rest))?;
    Ok(time.strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string())
}

/// Parses a time whose date and time of day [`clock`] has accepted, and returns it in UTC. Go's years
/// are 0 to 9999.
fn parse(text: &str) -> Option<DateTime> {
    // Go accepts an hour of one digit.
    let (date, time) = text.split_at_checked(DATE)?;
    let zero = if time[1..].starts_with(':') { "0" } else { "" };
    let is_whole = text.is_ascii() && !text.contains('[');
    let whole = format!("{date}{zero}{time}");
    if !is_whole {
        return None;
    }
    if let Ok(time) = whole.parse::<Timestamp>() {
        return Some(TimeZone::UTC.to_datetime(time));
    }
    // The last day of the year 9999 is not a `Timestamp`.
    let (local, offset) = if let Some(local) = whole.strip_suffix('Z') {
        (local, SignedDuration::ZERO)
    } else {
        let (local, zone) = whole.split_at_checked(whole.len().checked_sub("+07:00".len())?)?;
        (local, offset(zone)?)
    };
    local.parse::<DateTime>().ok()?.checked_sub(offset).ok()
}

/// The offset from UTC of a zone such as `+07:00`.
fn offset(zone: &str) -> Option<SignedDuration> {
    let (hours, minutes) = zone.get(1..)?.split_once(':')?;
    let (hours, minutes): (i64, i64) = (hours.parse().ok()?, minutes.parse().ok()?);
    let offset = SignedDuration::from_mins(hours * 60 + minutes);
    match zone.as_bytes().first()? {
        b'+' => Some(offset),
        b'-' => Some(-offset),
        _ => None,
    }
}

/// Go's error about a time whose date and time of day [`clock`] has accepted: it is about the day
/// if the rest is valid, else about the zone, which is `rest`.
fn day_or_zone_error(text: &str, layout: &str, rest: &str) -> String {
    let is_day_wrong = text
        .get(DATE - 1..)
        .is_some_and(|time| parse(&format!("2000-01-01{time}")).is_some());
    if is_day_wrong {
        return format!("parsing time {}: day out of range", quoted(text));
    }
    mismatch(text, layout, rest, "Z07:00")
}

/// The length of a date, with the `T` after it.
const DATE: usize = "2006-01-02T".len();

/// Go's error about a time whose `rest` does not match `wanted`, the part of `layout` there.
fn mismatch(text: &str, layout: &str, rest: &str, wanted: &str) -> String {
    let (text, rest) = (quoted(text), quoted(rest));
    format!("parsing time {text} as {layout:?}: cannot parse {rest} as {wanted:?}")
}

/// Quotes a text as Go does in errors about times.
fn quoted(text: &str) -> String {
    let mut quoted = String::from('"');
    for byte in text.bytes() {
        match byte {
            b'"' | b'\\' => quoted.extend(['\\', char::from(byte)]),
            b' '..=b'~' => quoted.push(char::from(byte)),
            // Writing to a `String` cannot fail.
            _ => _ = write!(quoted, "\\x{byte:02x}"),
        }
    }
    quoted + "\""
}

/// Checks the date and the time of day at the start of `text`, and returns the rest.
fn clock<'a>(text: &'a str, layout: &str) -> Result<&'a str, String> {
    // Each part of the layout, with the name and the largest value of a number.
    const PARTS: [(&str, Option<(&str, u8)>); 11] = [
        ("2006", None),
        ("-", None),
        ("01", Some(("month", 12))),
        ("-", None),
        ("02", None),
        ("T", None),
        ("15", Some(("hour", 23))),
        (":", None),
        ("04", Some(("minute", 59))),
        (":", None),
        ("05", Some(("second", 59))),
    ];
    let mut rest = text;
    for (part, range) in PARTS {
        let mut length = part.len();
        let second = rest.as_bytes().get(1);
        if part == "15" && !second.is_some_and(u8::is_ascii_digit) {
            length = 1;
        }
        let is_number = part.starts_with(|c: char| c.is_ascii_digit());
        let fits = rest.split_at_checked(length).filter(|(found, _)| {
            *found == part || is_number && found.bytes().all(|byte| byte.is_ascii_digit())
        });
        let Some((found, after)) = fits else {
            return Err(mismatch(text, layout, rest, part));
        };
        let number: u8 = found.parse().unwrap_or_default();
        if let Some((what, most)) = range
            && (number > most || number == 0 && what == "month")
        {
            return Err(format!(
                "parsing time {}: {what} out of range",
                quoted(text)
            ));
        }
        rest = after;
    }
    Ok(rest)
}

#[cfg(test)]
mod tests {
    use super::{micros, seconds};

    #[test]
    fn times_are_those_of_kubernetes() {
        assert_eq!(
            seconds("2026-01-02T03:04:05.678+01:00").as_deref(),
            Ok("2026-01-02T02:04:05Z")
        );
        assert_eq!(
            micros("2026-01-02T03:04:05.123456+01:00").as_deref(),
            Ok("2026-01-02T02:04:05.123456Z")
        );
        assert_eq!(
            micros("2026-01-02T03:04:05Z").expect_err("a fraction is missing"),
            "parsing time \"2026-01-02T03:04:05Z\" as \"2006-01-02T15:04:05.000000Z07:00\": \
             cannot parse \"Z\" as \".000000\""
        );
        assert_eq!(
            seconds("yesterday").expect_err("it is no time"),
            "parsing time \"yesterday\" as \"2006-01-02T15:04:05Z07:00\": cannot parse \
             \"yesterday\" as \"2006\""
        );
        assert_eq!(
            seconds("2026-01-02T3:04:05Z").as_deref(),
            Ok("2026-01-02T03:04:05Z")
        );
        // The last second of Go's times, which is outside of a `Timestamp`.
        assert_eq!(
            micros("9999-12-31T23:59:59.000000Z").as_deref(),
            Ok("9999-12-31T23:59:59.000000Z")
        );
        assert_eq!(
            seconds("9999-12-31T23:59:59+01:00").as_deref(),
            Ok("9999-12-31T22:59:59Z")
        );
        assert_eq!(
            micros("0000-01-01T00:00:00.000000Z").as_deref(),
            Ok("0000-01-01T00:00:00.000000Z")
        );
        for (text, what) in [
            ("9999-12-32T00:00:00Z", "day"),
            ("2026-13-02T03:04:05Z", "month"),
            ("2026-00-02T03:04:05Z", "month"),
            ("2026-02-30T03:04:05Z", "day"),
            ("2026-01-02T24:04:05Z", "hour"),
            ("2026-01-02T23:60:05Z", "minute"),
            ("2026-01-02T23:59:60Z", "second"),
        ] {
            let why = seconds(text).expect_err("a part is out of range");
            assert_eq!(why, format!("parsing time {text:?}: {what} out of range"));
        }
        for wrong in [
            "",
            "2026-01-02",
            "2026-01-02 03:04:05Z",
            "2026-01-02T03:04:05",
        ] {
            assert!(seconds(wrong).is_err(), "{wrong}");
        }
    }
}
