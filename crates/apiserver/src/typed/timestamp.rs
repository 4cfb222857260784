//! Times as Kubernetes writes them.

use std::fmt::Write as _;

use jiff::Timestamp;

/// A time with its seconds, in UTC.
///
/// # Errors
///
/// What Go says of a text that is no time.
pub(crate) fn seconds(text: &str) -> Result<String, String> {
    const LAYOUT: &str = "2006-01-02T15:04:05Z07:00";
    let rest = clock(text, LAYOUT)?;
    let time = parse(text).ok_or_else(|| refused(text, LAYOUT, rest))?;
    Ok(time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string())
}

/// A time with its microseconds, in UTC.
///
/// # Errors
///
/// What Go says of a text that is no time.
pub(super) fn micros(text: &str) -> Result<String, String> {
    const LAYOUT: &str = "2006-01-02T15:04:05.000000Z07:00";
    let rest = clock(text, LAYOUT)?;
    // The fraction must have six digits.
    let digits = rest.strip_prefix('.').map_or(0, |rest| {
        rest.bytes().take_while(u8::is_ascii_digit).count()
    });
    if digits < 6 {
        return Err(refusal(text, LAYOUT, rest, ".000000"));
    }
    let rest = &rest[7..];
    if digits > 6 {
        return Err(refusal(text, LAYOUT, rest, "Z07:00"));
    }
    let time = parse(text).ok_or_else(|| refused(text, LAYOUT, rest))?;
    Ok(time.strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string())
}

/// A time whose date and time of day [`clock`] has read.
fn parse(text: &str) -> Option<Timestamp> {
    // Go takes one digit for the hour.
    let (date, time) = text.split_at_checked(DATE)?;
    let zero = if time[1..].starts_with(':') { "0" } else { "" };
    let is_whole = text.is_ascii() && !text.contains('[');
    let whole = format!("{date}{zero}{time}");
    whole.parse().ok().filter(|_| is_whole)
}

/// Why a time whose zone is `rest` is refused: its zone, or else its day.
fn refused(text: &str, layout: &str, rest: &str) -> String {
    let is_day_wrong = text
        .get(DATE - 1..)
        .is_some_and(|time| parse(&format!("2000-01-01{time}")).is_some());
    if is_day_wrong {
        return format!("parsing time {}: day out of range", quoted(text));
    }
    refusal(text, layout, rest, "Z07:00")
}

/// How long a date is, with the `T` after it.
const DATE: usize = "2006-01-02T".len();

fn refusal(text: &str, layout: &str, rest: &str, wanted: &str) -> String {
    let (text, rest) = (quoted(text), quoted(rest));
    format!("parsing time {text} as {layout:?}: cannot parse {rest} as {wanted:?}")
}

/// A text as Go quotes it in errors about times.
fn quoted(text: &str) -> String {
    let mut quoted = String::from('"');
    for byte in text.bytes() {
        match byte {
            b'"' | b'\\' => quoted.extend(['\\', char::from(byte)]),
            b' '..=b'~' => quoted.push(char::from(byte)),
            // Writing to a text cannot fail.
            _ => _ = write!(quoted, "\\x{byte:02x}"),
        }
    }
    quoted + "\""
}

/// Reads a date and a time of day; gives what follows.
fn clock<'a>(text: &'a str, layout: &str) -> Result<&'a str, String> {
    // What stands in the layout, and what the largest number is.
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
            return Err(refusal(text, layout, rest, part));
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
        for (text, what) in [
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
