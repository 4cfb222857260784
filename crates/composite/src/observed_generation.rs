//! `observedGeneration` in the status of a parent: the generation whose children were all applied.

use serde_json::Value;
use windlass_controller::ChildError;

/// The field.
pub(crate) const FIELD: &str = "observedGeneration";

/// Adds the field to `status`: `generation` if all children of that generation were applied, and
/// otherwise the value that the parent has. A status that is not a map, or a parent without a
/// generation, gets none.
pub(crate) fn add_to(status: &mut Value, generation: i64, all_applied: bool, observed: &Value) {
    let Value::Object(fields) = status else {
        return;
    };
    let value = match (all_applied, observed.get(FIELD)) {
        (true, _) if generation > 0 => generation.into(),
        (false, Some(before)) => before.clone(),
        _ => return,
    };
    fields.insert(FIELD.to_owned(), value);
}

/// Whether the API server refused a status because its schema has no such field.
pub(crate) fn is_refused(error: &ChildError) -> bool {
    let ChildError::UndeclaredField { field, .. } = error else {
        return false;
    };
    field.strip_prefix("status.") == Some(FIELD)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(generation: i64, all_applied: bool, observed: &Value, expected: &Value) {
        let mut status = json!({ "ready": true });
        add_to(&mut status, generation, all_applied, observed);
        assert_eq!(status.get(FIELD).unwrap_or(&Value::Null), expected);
    }

    #[test]
    fn the_generation_advances_only_after_all_children_were_applied() {
        let before = json!({ "observedGeneration": 1 });
        check(2, true, &before, &json!(2));
        check(2, false, &before, &json!(1));
        check(1, false, &Value::Null, &Value::Null);
        check(0, true, &Value::Null, &Value::Null);
        let mut text = json!("ready");
        add_to(&mut text, 1, true, &Value::Null);
        assert_eq!(text, json!("ready"));
    }
}
