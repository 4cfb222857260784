//! Type and range of a value.

use serde_json::{Number, Value};

use crate::schema::{
    format::{Check, StringFormat},
    node::{Node, Type, Types},
    number,
};
use crate::status::float_text;

/// A number of a value, as Go decodes it.
#[derive(Clone, Copy, Debug)]
pub(super) enum Numeric {
    Integer(i64),
    Float(f64),
}

// === impl Numeric ===

impl From<&Number> for Numeric {
    #[expect(
        clippy::cast_precision_loss,
        reason = "what Go does with a number beyond int64"
    )]
    fn from(number: &Number) -> Self {
        match (number.as_i64(), number.as_u64(), number.as_f64()) {
            (Some(integer), ..) => Self::Integer(integer),
            (None, Some(large), _) => Self::Float(large as f64),
            (None, None, float) => Self::Float(float.unwrap_or_default()),
        }
    }
}

/// The type that was wanted and the one that was found, if they differ.
pub(super) fn wrong_type<'a>(
    node: &'a Node,
    format: Option<&'a StringFormat>,
    value: &Value,
) -> Option<(&'a str, &'static str)> {
    let types = node.types;
    let Some(found) = Type::of(value) else {
        let allowed = types == Types::Any || node.nullable;
        return (!allowed).then(|| (types.name(), "null"));
    };
    let is_integer_after_all =
        || types.contains(Type::Integer) && value.as_f64().is_some_and(number::is_integer);
    let fits = types.contains(found)
        || (found == Type::Number && is_integer_after_all())
        || (found == Type::Integer && types.contains(Type::Number));
    let is_text_like = matches!(found, Type::String | Type::Array);
    match format {
        // Kubernetes names the format here, and what it calls the value's.
        Some(format) if !is_text_like && !fits => {
            let found = match found {
                Type::Integer => "int64",
                Type::Number => "float64",
                Type::Array | Type::Boolean | Type::Object | Type::String => "",
            };
            (found != format.name).then_some((format.name.as_str(), found))
        }
        // The format decides about a string, and nothing about a list.
        Some(_)
            if is_text_like && !types.contains(Type::Integer) && !types.contains(Type::Number) =>
        {
            None
        }
        _ if fits => None,
        _ => Some((types.name(), found.name())),
    }
}

/// The expected type of a number that does not fit the type and format of its node.
pub(super) fn out_of_range(node: &Node, numeric: Numeric) -> Option<&'static str> {
    let check = node.rules.format.as_ref().map(|format| format.check);
    match (node.types, check) {
        (Types::One(Type::Integer), check) => {
            let is_64 = match numeric {
                Numeric::Integer(_) => true,
                Numeric::Float(float) => number::is_integer(float) && float.fract() == 0.0,
            };
            let is_32 = match numeric {
                Numeric::Integer(integer) => i32::try_from(integer).is_ok(),
                Numeric::Float(float) => {
                    is_64 && (f64::from(i32::MIN)..=f64::from(i32::MAX)).contains(&float)
                }
            };
            match check {
                Some(Check::Int32) => (!is_32).then_some("integer with format int32"),
                Some(Check::Int64) => (!is_64).then_some("integer with format int64"),
                _ => (!is_64).then_some("integer (default format)"),
            }
        }
        (Types::One(Type::Number), Some(Check::Float)) => match numeric {
            Numeric::Float(float) if float.abs() > f64::from(f32::MAX) => {
                Some("number with format float")
            }
            Numeric::Float(_) | Numeric::Integer(_) => None,
        },
        _ => None,
    }
}

/// The violated rule of a number that is not a multiple of `factor`.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Multiple {
    /// The rule itself.
    Broken(String),

    /// The factor, as it was compared, is none.
    BadFactor(Value),
}

/// The violated rule if `numeric` is not a multiple of `factor`.
///
/// Kubernetes truncates the factor to an integer before it compares an integer with it. So no
/// integer is a multiple of 0.5: the factor becomes 0, which is reported as an error.
pub(super) fn not_multiple(numeric: Numeric, factor: f64) -> Option<Multiple> {
    match numeric {
        Numeric::Integer(integer) => match number::cut(factor) {
            factor if factor <= 0 => Some(Multiple::BadFactor(factor.into())),
            factor => {
                let is_multiple = integer.checked_rem(factor).unwrap_or_default() == 0;
                (!is_multiple)
                    .then(|| Multiple::Broken(format!("should be a multiple of {factor}")))
            }
        },
        Numeric::Float(_) if factor <= 0.0 => Some(Multiple::BadFactor(factor.into())),
        Numeric::Float(float) => {
            let times = if factor < 1.0 {
                1.0 / factor * float
            } else {
                float / factor
            };
            (!number::is_integer(times)).then(|| {
                let factor = float_text(factor);
                Multiple::Broken(format!("should be a multiple of {factor}"))
            })
        }
    }
}
