//! Durations as Go writes and reads them: `1h2m3.5s`. *(pure)*

/// The units in nanoseconds. A name comes before its prefixes, such as `ms` before `m`.
const UNITS: [(&str, u64); 8] = [
    ("h", 3_600_000_000_000),
    ("ms", 1_000_000),
    ("m", 60_000_000_000),
    ("ns", 1),
    ("us", 1_000),
    ("µs", 1_000),
    ("μs", 1_000),
    ("s", SECOND),
];

const SECOND: u64 = 1_000_000_000;

/// Formats a duration in nanoseconds.
pub(crate) fn format(nanos: i64) -> String {
    let sign = if nanos < 0 { "-" } else { "" };
    let nanos = nanos.unsigned_abs();
    let text = if nanos == 0 {
        "0s".to_owned()
    } else if nanos < SECOND {
        // The unit is the largest one that is not larger than the duration.
        match nanos {
            0..1_000 => format!("{nanos}ns"),
            1_000..1_000_000 => format!("{}µs", fraction(nanos, 1_000)),
            _ => format!("{}ms", fraction(nanos, 1_000_000)),
        }
    } else {
        let (minutes, rest) = (nanos / (60 * SECOND), nanos % (60 * SECOND));
        let seconds = fraction(rest, SECOND);
        match (minutes / 60, minutes % 60) {
            (0, 0) => format!("{seconds}s"),
            (0, minutes) => format!("{minutes}m{seconds}s"),
            (hours, minutes) => format!("{hours}h{minutes}m{seconds}s"),
        }
    };
    format!("{sign}{text}")
}

/// Formats `nanos` in a unit, without trailing zeros.
fn fraction(nanos: u64, unit: u64) -> String {
    let (whole, rest) = (nanos / unit, nanos % unit);
    if rest == 0 {
        return whole.to_string();
    }
    let width = unit.ilog10() as usize;
    let digits = format!("{rest:0width$}");
    format!("{whole}.{}", digits.trim_end_matches('0'))
}

/// Parses a duration as nanoseconds.
pub(crate) fn parse(text: &str) -> Option<i64> {
    let (negative, mut rest) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    if rest == "0" {
        return Some(0);
    }
    let mut nanos = 0_i128;
    while !rest.is_empty() || nanos == 0 {
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let (number, after) = rest.split_at(end);
        let (name, unit) = UNITS.iter().find(|(name, _)| after.starts_with(name))?;
        nanos = nanos.checked_add(part(number, *unit)?)?;
        rest = after.strip_prefix(name)?;
        if rest.is_empty() {
            break;
        }
    }
    i64::try_from(if negative { -nanos } else { nanos }).ok()
}

/// Converts a number such as `1.5` with a unit to nanoseconds.
fn part(number: &str, unit: u64) -> Option<i128> {
    let (whole, digits) = number.split_once('.').unwrap_or((number, ""));
    if whole.is_empty() && digits.is_empty() {
        return None;
    }
    let whole: i128 = if whole.is_empty() {
        0
    } else {
        whole.parse().ok()?
    };
    let mut nanos = whole.checked_mul(unit.into())?;
    let mut unit = unit;
    for digit in digits.chars() {
        unit /= 10;
        nanos = nanos.checked_add(i128::from(digit.to_digit(10)?) * i128::from(unit))?;
    }
    Some(nanos)
}

#[cfg(test)]
mod tests {
    use super::{format, parse};

    #[test]
    fn durations_are_written_as_go_writes_them_and_read_again() {
        for (nanos, text) in [
            (0, "0s"),
            (1, "1ns"),
            (1_100, "1.1µs"),
            (2_200_000, "2.2ms"),
            (3_300_000_000, "3.3s"),
            (245_000_000_000, "4m5s"),
            (245_001_000_000, "4m5.001s"),
            (18_367_001_000_000, "5h6m7.001s"),
            (480_000_000_001, "8m0.000000001s"),
            (-90_000_000_000, "-1m30s"),
            (i64::MAX, "2562047h47m16.854775807s"),
            (i64::MIN, "-2562047h47m16.854775808s"),
        ] {
            assert_eq!(format(nanos), text);
            assert_eq!(parse(text), Some(nanos), "{text}");
        }
        assert_eq!(parse("1.5h"), Some(5_400_000_000_000));
        assert_eq!(parse(".5s"), Some(500_000_000));
        for text in ["", "1", "s", ".s", "1x", "-", "9999999999h", "1h 2m"] {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
