//! Parses durations in the format of Go, such as `1h30m` or `1.5s`. *(pure)*

use std::fmt::Write as _;
use std::time::Duration;

/// Parses `text`. A negative duration is zero.
///
/// # Errors
///
/// The message of Go if it is not a duration.
pub(crate) fn parse(text: &str) -> Result<Duration, String> {
    let invalid = || format!("time: invalid duration {}", quoted(text));
    let (is_negative, mut rest) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    if rest == "0" {
        return Ok(Duration::ZERO);
    }
    if rest.is_empty() {
        return Err(invalid());
    }
    let mut total: u64 = 0;
    while !rest.is_empty() {
        let (whole, after) = digits(rest);
        let (fraction, after) = match after.strip_prefix('.') {
            Some(after) => digits(after),
            None => ("", after),
        };
        if whole.is_empty() && fraction.is_empty() {
            return Err(invalid());
        }
        let end = after.find(|c: char| c == '.' || c.is_ascii_digit());
        let (unit, after) = after.split_at(end.unwrap_or(after.len()));
        let nanoseconds: u64 = match unit {
            "" => return Err(format!("time: missing unit in duration {}", quoted(text))),
            "ns" => 1,
            // Both signs for a millionth.
            "us" | "µs" | "μs" => 1_000,
            "ms" => 1_000_000,
            "s" => 1_000_000_000,
            "m" => 60_000_000_000,
            "h" => 3_600_000_000_000,
            other => {
                let (unit, text) = (quoted(other), quoted(text));
                return Err(format!("time: unknown unit {unit} in duration {text}"));
            }
        };
        let whole = match whole {
            "" => Some(0),
            whole => whole.parse::<u64>().ok(),
        };
        let whole = whole.and_then(|whole| whole.checked_mul(nanoseconds));
        let sum = whole.and_then(|whole| {
            total
                .checked_add(whole)?
                .checked_add(part(fraction, nanoseconds))
        });
        // Go counts the nanoseconds in a signed number.
        total = sum
            .filter(|sum| i64::try_from(*sum).is_ok())
            .ok_or_else(invalid)?;
        rest = after;
    }
    Ok(Duration::from_nanos(if is_negative { 0 } else { total }))
}

/// Splits the digits at the beginning off.
fn digits(text: &str) -> (&str, &str) {
    let end = text.find(|c: char| !c.is_ascii_digit());
    text.split_at(end.unwrap_or(text.len()))
}

/// The part of a unit that the digits of a fraction mean.
fn part(fraction: &str, unit: u64) -> u64 {
    let mut scale = unit;
    let mut sum = 0;
    for digit in fraction.bytes() {
        scale /= 10;
        sum += u64::from(digit - b'0') * scale;
    }
    sum
}

/// A text as Go quotes it here.
fn quoted(text: &str) -> String {
    let mut quoted = "\"".to_owned();
    for byte in text.bytes() {
        match byte {
            b'"' | b'\\' => quoted.extend(['\\', char::from(byte)]),
            b' '..0x80 => quoted.push(char::from(byte)),
            _ => _ = write!(quoted, "\\x{byte:02x}"),
        }
    }
    quoted.push('"');
    quoted
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;

    use super::parse;

    #[test]
    fn durations_are_read_like_in_go() {
        for (text, milliseconds) in [
            ("0", 0),
            ("-5s", 0),
            ("+5s", 5_000),
            ("1h5m", 3_900_000),
            ("1.5s", 1_500),
            (".25s", 250),
            ("1.s", 1_000),
            ("2ms3000us", 5),
            ("1000µs", 1),
        ] {
            assert_eq!(
                parse(text),
                Ok(Duration::from_millis(milliseconds)),
                "{text}"
            );
        }
    }

    /// Measured on kube-apiserver v1.36.3.
    #[test]
    fn an_invalid_duration_has_the_message_of_go() {
        for (text, message) in [
            ("nonsense", r#"invalid duration "nonsense""#),
            ("", r#"invalid duration """#),
            (".s", r#"invalid duration ".s""#),
            ("9999999999h", r#"invalid duration "9999999999h""#),
            ("µs", r#"invalid duration "\xc2\xb5s""#),
            ("5", r#"missing unit in duration "5""#),
            ("-5", r#"missing unit in duration "-5""#),
            ("1.5", r#"missing unit in duration "1.5""#),
            ("1h5", r#"missing unit in duration "1h5""#),
            ("5x", r#"unknown unit "x" in duration "5x""#),
            (r#"1x"y"#, r#"unknown unit "x\"y" in duration "1x\"y""#),
        ] {
            assert_eq!(parse(text), Err(format!("time: {message}")), "{text}");
        }
    }

    proptest! {
        #[test]
        fn no_text_makes_the_parser_panic(text in ".{0,40}") {
            _ = parse(&text);
        }
    }
}
