//! Converts the numbers of an applied object to the types of their fields, like the real server:
//! integers are cut to their width, and floats without a fraction become integers.
//!
//! Other values are not changed. If they are invalid, decoding reports the same error.

use serde_json::{Number, Value};

use super::table::{FieldType, Struct, named};

/// Converts the numbers in `object`, of type `kind`.
///
/// # Errors
///
/// The real server's error for the first number that does not fit its field.
pub(crate) fn convert(kind: &'static Struct, object: &mut Value) -> Result<(), String> {
    let Value::Object(members) = object else {
        return Ok(());
    };
    for (name, value) in members.iter_mut() {
        if let Some(field) = kind.fields.get(name.as_str()) {
            convert_value(&field.shape, value)?;
        }
    }
    Ok(())
}

fn convert_value(shape: &FieldType, value: &mut Value) -> Result<(), String> {
    match (shape, &mut *value) {
        (FieldType::Int32(_) | FieldType::Int64(_), Value::Number(number)) => {
            let is_narrow = matches!(shape, FieldType::Int32(_));
            let whole = whole(number).ok_or_else(|| {
                let wanted = if is_narrow { "int32" } else { "int64" };
                format!("cannot convert float64 to {wanted}")
            })?;
            #[expect(
                clippy::cast_possible_truncation,
                reason = "the real server cuts integers to 32 bits"
            )]
            let cut = if is_narrow {
                i64::from(whole as i32)
            } else {
                whole
            };
            *value = cut.into();
            Ok(())
        }
        (FieldType::Struct(name), value) => {
            named(name).map_or(Ok(()), |found| convert(found, value))
        }
        (FieldType::List(_, items), Value::Array(list)) => list
            .iter_mut()
            .try_for_each(|item| convert_value(items, item)),
        (FieldType::Map(_, values), Value::Object(members)) => {
            let mut members = members.values_mut();
            members.try_for_each(|member| convert_value(values, member))
        }
        _ => Ok(()),
    }
}

/// A number as an integer. `None` if it has a fraction.
fn whole(number: &Number) -> Option<i64> {
    if let Some(whole) = number.as_i64() {
        return Some(whole);
    }
    let float = number.as_f64()?;
    #[expect(
        clippy::cast_possible_truncation,
        reason = "a float without a fraction that is too large becomes the largest integer"
    )]
    (float.fract() == 0.0).then_some(float as i64)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::table::kind;
    use super::convert;

    fn converted(value: &Value) -> Result<Value, String> {
        let lease = kind("coordination.k8s.io/v1", "Lease").expect("a kind");
        let mut object = json!({ "spec": { "leaseDurationSeconds": value } });
        convert(lease, &mut object)?;
        Ok(object["spec"]["leaseDurationSeconds"].take())
    }

    #[test]
    fn integers_are_cut_and_fractions_are_refused() {
        assert_eq!(converted(&json!(15)), Ok(json!(15)));
        assert_eq!(converted(&json!(2.0)), Ok(json!(2)));
        assert_eq!(converted(&json!(4_294_967_297_u64)), Ok(json!(1)));
        assert_eq!(converted(&json!("x")), Ok(json!("x")));
        let error = "cannot convert float64 to int32".to_owned();
        assert_eq!(converted(&json!(1.5)), Err(error));
    }
}
