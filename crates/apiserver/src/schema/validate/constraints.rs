//! The constraints of strings, numbers, arrays and objects.

use serde_json::{Map, Number, Value};

use super::super::{
    format::{Check, StringFormat},
    node::{Additional, Node, Pattern},
    number,
    value_path::ValuePath,
};
use super::fit::{Multiple, Numeric, not_multiple, out_of_range};
use super::old::OldElements;
use super::{Report, Validation, untyped};
use crate::status::{FieldError, float_text};

/// The total cost of matching the texts of one value against patterns
/// ([`Pattern::cost`](super::super::node::Pattern::cost)). The slowest patterns take 0.04 to 0.2 ns
/// for each unit, so at most 3 seconds, in which other writes wait. A text of 2 MiB can be matched
/// against a pattern of 8 KiB, which most published patterns need, and a text of 128 KiB against one
/// of 128 KiB.
pub(super) const MAX_MATCHING: u64 = 1 << 34;

impl Validation<'_> {
    /// Takes the cost of matching `text` from the rest. Returns false if this or an earlier match is
    /// too expensive.
    fn may_match(self, pattern: &Pattern, text: &str) -> bool {
        let left = self.matching.get();
        let left = left.and_then(|left| left.checked_sub(pattern.cost(text)));
        self.matching.set(left);
        left.is_some()
    }

    pub(super) fn string(
        self,
        node: &Node,
        text: &str,
        value: &Value,
        at: &ValuePath<'_>,
        report: &mut Report,
    ) {
        report.checks += 1;
        let rules = &node.rules;
        // Each of the three rules is checked only if the previous ones are satisfied.
        let length = || u64::try_from(text.chars().count()).unwrap_or(u64::MAX);
        // The pattern is last, because a text that is too long is not matched.
        let pattern = || {
            let pattern = rules.pattern.as_ref();
            pattern.filter(|pattern| self.may_match(pattern, text) && !pattern.is_match(text))
        };
        if let Some(most) = rules.length.most.filter(|most| length() > *most) {
            let most = usize::try_from(most).unwrap_or(usize::MAX);
            report.add(FieldError::too_long(self.path(at), most));
        } else if let Some(least) = rules.length.least.filter(|least| length() < *least) {
            let rule = format_args!("should be at least {least} chars long");
            report.add(self.invalid(at, value, rule));
        } else if let Some(pattern) = pattern() {
            let rule = format_args!("should match '{}'", pattern.text);
            report.add(self.invalid(at, value, rule));
        }
        if let Some(StringFormat {
            name,
            check: Check::Text(is_right),
        }) = &rules.format
        {
            report.checks += 1;
            if !is_right(text) {
                let why = format!("{at} in body must be of type {name}: {value}");
                report.add(FieldError::type_invalid(self.path(at), value, why));
            }
        }
    }

    pub(super) fn number(
        self,
        node: &Node,
        number: &Number,
        value: &Value,
        at: &ValuePath<'_>,
        report: &mut Report,
    ) {
        report.checks += 2;
        let rules = &node.rules;
        let numeric = Numeric::from(number);
        if let Some(kind) = out_of_range(node, numeric) {
            report.add(untyped(&format!(
                "Checked value must be of type {kind} in {at}"
            )));
        }
        match rules
            .multiple_of
            .and_then(|factor| not_multiple(numeric, factor))
        {
            None => {}
            Some(Multiple::Broken(rule)) => report.add(self.invalid(at, value, rule)),
            Some(Multiple::BadFactor(factor)) => {
                let why = format!("factor MultipleOf declared for {at} must be positive: {factor}");
                report.add(FieldError::invalid(self.path(at), &factor, why));
            }
        }
        for (bound, is_least) in [(rules.minimum, true), (rules.maximum, false)] {
            let Some(bound) = bound else { continue };
            let (order, limit) = match numeric {
                Numeric::Integer(integer) => {
                    let limit = number::cut(bound.value);
                    (integer.partial_cmp(&limit), limit.to_string())
                }
                Numeric::Float(float) => (float.partial_cmp(&bound.value), float_text(bound.value)),
            };
            let within = order.is_none_or(|order| match (is_least, bound.exclusive) {
                (true, false) => order.is_ge(),
                (true, true) => order.is_gt(),
                (false, false) => order.is_le(),
                (false, true) => order.is_lt(),
            });
            if !within {
                let side = if is_least { "greater" } else { "less" };
                let or_equal = if bound.exclusive { "" } else { " or equal to" };
                let rule = format_args!("should be {side} than{or_equal} {limit}");
                report.add(self.invalid(at, value, rule));
            }
        }
    }

    pub(super) fn array(
        self,
        node: &Node,
        elements: &[Value],
        at: &ValuePath<'_>,
        report: &mut Report,
    ) {
        report.checks += 2;
        if let Some(items) = &node.items {
            let old = OldElements::of(node, self.old);
            for (i, element) in elements.iter().enumerate() {
                if report.is_full() {
                    break;
                }
                let validation = self.below(old.find(element));
                report.merge(validation.value(items, element, &at.index(i)));
            }
        }
        let rules = &node.rules;
        let count = elements.len();
        if let Some(least) = rules.items.least.filter(|least| fewer(count, *least)) {
            let rule = format_args!("should have at least {least} items");
            report.add(self.invalid(at, &count.into(), rule));
        }
        if let Some(most) = rules.items.most.and_then(|most| exceeded(count, most)) {
            report.add(FieldError::too_many(self.path(at), count, most));
        }
        let repeats = |i: usize| elements[..i].contains(&elements[i]);
        if rules.unique && (1..count).any(repeats) {
            report.add(self.invalid(at, &"".into(), "shouldn't contain duplicates"));
        }
    }

    pub(super) fn object(
        self,
        node: &Node,
        fields: &Map<String, Value>,
        at: &ValuePath<'_>,
        report: &mut Report,
    ) {
        report.checks += 1;
        let rules = &node.rules;
        let count = fields.len();
        if let Some(least) = rules.properties.least.filter(|least| fewer(count, *least)) {
            let rule = format_args!("should have at least {least} properties");
            report.add(self.invalid(at, &count.into(), rule));
        }
        if let Some(most) = rules.properties.most.and_then(|most| exceeded(count, most)) {
            report.add(FieldError::too_many(self.path(at), count, most));
        }
        for (name, value) in fields {
            if report.is_full() {
                break;
            }
            let at_field = at.child(name);
            let below = self.below(self.old.and_then(|old| old.get(name)));
            match (node.properties.get(name), &node.additional) {
                (Some(field), _) => report.merge(below.value(field, value, &at_field)),
                (None, Additional::Each(each)) => {
                    report.merge(below.value(each, value, &at_field));
                }
                (None, Additional::Refused) => {
                    let why = format!("{at_field} in body is a forbidden property");
                    let name = Value::from(name.as_str());
                    report.add(FieldError::invalid(self.path(at), &name, why));
                }
                (None, Additional::Anything | Additional::Unsaid) => {}
            }
        }
        for name in &rules.required {
            if !fields.contains_key(name) {
                report.add(FieldError::required(self.path(&at.child(name)), ""));
            }
        }
    }
}

fn fewer(count: usize, least: u64) -> bool {
    u64::try_from(count).is_ok_and(|count| count < least)
}

/// Returns `most` if there are more.
fn exceeded(count: usize, most: u64) -> Option<usize> {
    usize::try_from(most).ok().filter(|most| count > *most)
}
