//! Amounts of resources, and the total requests and limits of a pod.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use crate::typed::Quantity;

/// Quantities by the name of their resource.
pub(super) type Amounts = BTreeMap<String, Quantity>;

/// Parses quantities. Malformed ones are skipped.
pub(super) fn read(amounts: &Value) -> Amounts {
    let members = amounts.as_object().into_iter().flatten();
    let parsed = members.filter_map(|(name, amount)| {
        let amount = match amount {
            Value::String(text) => Quantity::parse(text).ok()?,
            Value::Number(number) => Quantity::parse(&number.to_string()).ok()?,
            _ => return None,
        };
        Some((name.clone(), amount))
    });
    parsed.collect()
}

/// Writes quantities as a JSON object.
pub(super) fn written(amounts: &Amounts) -> Value {
    let members = amounts.iter();
    let members = members.map(|(name, amount)| (name.clone(), Value::from(amount.to_string())));
    members.collect::<Map<_, _>>().into()
}

/// Adds `more` to `sum`.
pub(super) fn add(sum: &mut Amounts, more: &Amounts) {
    for (name, amount) in more {
        let total = sum.entry(name.clone()).or_insert(Quantity::count(0));
        *total = total.plus(*amount);
    }
}

/// Raises each amount of `sum` to that of `other` if that is larger.
fn raise(sum: &mut Amounts, other: &Amounts) {
    for (name, amount) in other {
        let total = sum.entry(name.clone()).or_insert(*amount);
        *total = total.max(*amount);
    }
}

/// The total requests or limits (`field`) of a pod, without its overhead.
///
/// Init containers run one after the other, before the containers. Those with the restart policy
/// `Always` keep running.
pub(super) fn of_pod(spec: &Value, field: &str) -> Amounts {
    let mut sum = Amounts::new();
    for container in containers(spec, "containers") {
        add(&mut sum, &read(&container["resources"][field]));
    }
    let (mut lasting, mut peak) = (Amounts::new(), Amounts::new());
    for container in containers(spec, "initContainers") {
        let own = read(&container["resources"][field]);
        if container["restartPolicy"] == "Always" {
            add(&mut sum, &own);
            add(&mut lasting, &own);
            raise(&mut peak, &lasting);
        } else {
            let mut now = own;
            add(&mut now, &lasting);
            raise(&mut peak, &now);
        }
    }
    raise(&mut sum, &peak);
    // The resources of the pod have priority over the sum of its containers.
    let whole = read(&spec["resources"][field]).into_iter();
    let whole = whole.filter(|(name, _)| is_of_whole_pod(name));
    sum.extend(whole);
    sum
}

/// Whether pod-level resources support this resource.
fn is_of_whole_pod(name: &str) -> bool {
    matches!(name, "cpu" | "memory") || name.starts_with("hugepages-")
}

/// The containers in the field `list` of a pod spec.
pub(super) fn containers<'a>(spec: &'a Value, list: &str) -> impl Iterator<Item = &'a Value> {
    spec[list].as_array().into_iter().flatten()
}
