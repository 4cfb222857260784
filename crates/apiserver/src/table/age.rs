//! Formats ages like kubectl.
//!
//! Source: apimachinery `pkg/util/duration`, Kubernetes 1.36, for where the units change.

use jiff::Timestamp;
use serde_json::Value;

/// Formats the time between `value` and `now`, such as `5m30s` or `3d`.
///
/// Returns `<unknown>` without a time, and `<invalid>` if it is malformed or in the future.
pub(super) fn since(value: Option<&Value>, now: Timestamp) -> String {
    match value {
        None | Some(Value::Null) => "<unknown>".to_owned(),
        Some(value) => match value.as_str().map(str::parse::<Timestamp>) {
            Some(Ok(then)) => between(then, now),
            _ => "<invalid>".to_owned(),
        },
    }
}

/// Formats the time from `then` to `now`.
pub(super) fn between(then: Timestamp, now: Timestamp) -> String {
    // Truncated to seconds, so that a clock that is less than two seconds ahead is tolerated.
    human(now.duration_since(then).as_secs())
}

/// Formats a number of seconds in one or two units.
pub(super) fn human(seconds: i64) -> String {
    const MINUTE: i64 = 60;
    const HOUR: i64 = 60 * MINUTE;
    const DAY: i64 = 24 * HOUR;
    const YEAR: i64 = 365 * DAY;

    /// Formats two units, the second only if it is not 0.
    fn two(large: i64, unit: char, small: i64, other: char) -> String {
        match small {
            0 => format!("{large}{unit}"),
            small => format!("{large}{unit}{small}{other}"),
        }
    }

    let (minutes, hours, days) = (seconds / MINUTE, seconds / HOUR, seconds / DAY);
    if seconds < -1 {
        "<invalid>".to_owned()
    } else if seconds < 0 {
        "0s".to_owned()
    } else if seconds < 2 * MINUTE {
        format!("{seconds}s")
    } else if minutes < 10 {
        two(minutes, 'm', seconds % MINUTE, 's')
    } else if minutes < 180 {
        format!("{minutes}m")
    } else if hours < 8 {
        two(hours, 'h', minutes % 60, 'm')
    } else if hours < 48 {
        format!("{hours}h")
    } else if hours < 24 * 8 {
        two(days, 'd', hours % 24, 'h')
    } else if seconds < 2 * YEAR {
        format!("{days}d")
    } else if seconds < 8 * YEAR {
        two(days / 365, 'y', days % 365, 'd')
    } else {
        format!("{}y", days / 365)
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use serde_json::json;

    use super::{human, since};

    #[test]
    fn an_age_has_two_or_three_digits() {
        for (seconds, text) in [
            (-2, "<invalid>"),
            (-1, "0s"),
            (0, "0s"),
            (119, "119s"),
            (120, "2m"),
            (330, "5m30s"),
            (600, "10m"),
            (179 * 60, "179m"),
            (3 * 3600, "3h"),
            (3 * 3600 + 60, "3h1m"),
            (47 * 3600, "47h"),
            (48 * 3600, "2d"),
            (49 * 3600, "2d1h"),
            (9 * 86_400, "9d"),
            (2 * 365 * 86_400, "2y"),
            (2 * 365 * 86_400 + 86_400, "2y1d"),
            (9 * 365 * 86_400, "9y"),
        ] {
            assert_eq!(human(seconds), text, "{seconds}");
        }
    }

    #[test]
    fn a_malformed_time_has_no_age() {
        let now: Timestamp = "2024-01-02T00:05:30Z".parse().expect("it is a time");
        assert_eq!(since(Some(&json!("2024-01-02T00:00:00Z")), now), "5m30s");
        assert_eq!(since(None, now), "<unknown>");
        assert_eq!(since(Some(&json!("soon")), now), "<invalid>");
    }
}
