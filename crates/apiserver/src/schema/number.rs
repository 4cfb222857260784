//! Prints and compares numbers like Go, because messages and limits come from Go.

use serde_json::Value;

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
    use super::is_integer;
    #[test]
    fn integers_survive_a_division() {
        assert!(is_integer(3.0));
        assert!(is_integer(0.3 / 0.1));
        assert!(!is_integer(1.5));
        assert!(!is_integer(1e300));
    }
}
