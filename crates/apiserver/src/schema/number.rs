//! Prints and compares numbers like Go, because messages and limits come from Go.

use serde_json::Value;

/// Prints a float like `%v`: in the shortest form, with an exponent from `1e+21` on.
pub(crate) fn float_text(float: f64) -> String {
    let size = float.abs();
    if size == 0.0 || (1e-4..1e21).contains(&size) {
        return float.to_string();
    }
    let text = format!("{float:e}");
    match text.split_once('e') {
        Some((digits, exponent)) => {
            let (sign, power) = match exponent.strip_prefix('-') {
                Some(power) => ('-', power),
                None => ('+', exponent),
            };
            format!("{digits}e{sign}{power:0>2}")
        }
        None => text,
    }
}

/// Converts the whole numbers in `value` to integers, like Go: `1.0` to `1`.
pub(crate) fn write_whole(value: &mut Value) {
    match value {
        Value::Number(number) if number.is_f64() => {
            let whole = number.as_f64().filter(|it| it.fract() == 0.0);
            // Through a text, because a conversion would truncate large numbers.
            if let Some(whole) = whole.and_then(|it| format!("{it}").parse::<i64>().ok()) {
                *value = whole.into();
            }
        }
        Value::Array(items) => items.iter_mut().for_each(write_whole),
        Value::Object(members) => members.values_mut().for_each(write_whole),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Truncates a limit of a schema to an integer, like Go's `int64(limit)`.
#[expect(
    clippy::cast_possible_truncation,
    reason = "an integer is compared with the integer part of a limit; out of range, the nearest"
)]
pub(super) fn cut(limit: f64) -> i64 {
    limit as i64
}

/// Returns whether `float` is an integer that JSON represents exactly.
///
/// Source: go-openapi `swag`, `IsFloat64AJSONInteger`: within 2^53, and close enough to
/// an integer for the rounding errors of a division.
pub(super) fn is_integer(float: f64) -> bool {
    /// 2^53 - 1, the largest integer that every JSON parser represents exactly.
    const LARGEST: f64 = 9_007_199_254_740_991.0;
    /// The tolerance of swag.
    const EPSILON: f64 = 1e-9;

    if !float.is_finite() || float.abs() > LARGEST {
        return false;
    }
    let distance = (float - float.trunc()).abs();
    let nearest = (float - float.round()).abs();
    distance == 0.0 || nearest < EPSILON * float.abs().max(f64::MIN_POSITIVE)
}

#[cfg(test)]
mod tests {
    use super::{float_text, is_integer};

    #[test]
    fn numbers_are_printed_as_go_prints_them() {
        assert_eq!(float_text(3.0), "3");
        assert_eq!(float_text(1.5), "1.5");
        assert_eq!(float_text(1e21), "1e+21");
        assert_eq!(float_text(1.5e-7), "1.5e-07");
    }

    #[test]
    fn integers_survive_a_division() {
        assert!(is_integer(3.0));
        assert!(is_integer(0.3 / 0.1));
        assert!(!is_integer(1.5));
        assert!(!is_integer(1e300));
    }
}
