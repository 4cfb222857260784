//! The addresses and ports of a Service that the API server has allocated. *(pure)*

use serde_json::Value;

/// `desired` without the addresses and ports that `existing` has allocated: another object cannot have
/// them before the existing one was deleted. `None` if there are none.
pub(super) fn without_own(desired: &Value, existing: &Value) -> Option<Value> {
    let (mut body, existing) = (desired.clone(), &existing["spec"]);
    let own_ports = ports_of(existing);
    let own_addresses = addresses_of(existing);
    let spec = body.get_mut("spec")?.as_object_mut()?;
    for port in spec
        .get_mut("ports")
        .and_then(Value::as_array_mut)
        .into_iter()
        .flatten()
    {
        let is_own = node_port(port).is_some_and(|port| own_ports.contains(&port));
        if let (true, Some(port)) = (is_own, port.as_object_mut()) {
            port.remove("nodePort");
        }
    }
    spec.retain(|field, value| match field.as_str() {
        "clusterIP" => !own_addresses.contains(&&*value),
        "clusterIPs" => {
            let addresses = value.as_array().map(Vec::as_slice).unwrap_or_default();
            addresses.is_empty() || !addresses.iter().all(|it| own_addresses.contains(&it))
        }
        "healthCheckNodePort" => !is_number(value) || *value != existing["healthCheckNodePort"],
        "loadBalancerIP" => !is_address(value) || *value != existing["loadBalancerIP"],
        _ => true,
    });
    (body != *desired).then_some(body)
}

/// The node ports of a specification, with their protocols.
fn ports_of(spec: &Value) -> Vec<(u64, &str)> {
    let ports = spec["ports"].as_array();
    ports.into_iter().flatten().filter_map(node_port).collect()
}

fn node_port(port: &Value) -> Option<(u64, &str)> {
    let number = port["nodePort"].as_u64().filter(|it| *it != 0)?;
    Some((number, port["protocol"].as_str().unwrap_or("TCP")))
}

fn addresses_of(spec: &Value) -> Vec<&Value> {
    let others = spec["clusterIPs"].as_array();
    let all = others.into_iter().flatten().chain([&spec["clusterIP"]]);
    all.filter(|it| is_address(it)).collect()
}

fn is_address(value: &Value) -> bool {
    value
        .as_str()
        .is_some_and(|it| !it.is_empty() && it != "None")
}

fn is_number(value: &Value) -> bool {
    value.as_u64().is_some_and(|it| it != 0)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn service(spec: &Value) -> Value {
        json!({ "kind": "Service", "metadata": { "name": "web" }, "spec": spec })
    }

    #[test]
    fn only_what_the_existing_object_has_is_removed() {
        let existing = service(&json!({
            "clusterIP": "10.0.0.5", "clusterIPs": ["10.0.0.5", "fd00::5"],
            "healthCheckNodePort": 30090, "loadBalancerIP": "1.2.3.4",
            "ports": [
                { "port": 80, "protocol": "TCP", "nodePort": 30080 },
                { "port": 53, "protocol": "UDP", "nodePort": 30053 },
            ],
        }));
        for (desired, rest) in [
            (
                json!({
                    "type": "LoadBalancer", "clusterIP": "10.0.0.5", "clusterIPs": ["10.0.0.5"],
                    "healthCheckNodePort": 30090, "loadBalancerIP": "1.2.3.4",
                    "ports": [{ "port": 80, "nodePort": 30080 }],
                }),
                Some(json!({ "type": "LoadBalancer", "ports": [{ "port": 80 }] })),
            ),
            // One is of another object.
            (
                json!({ "ports": [{ "nodePort": 30080 }, { "nodePort": 30081 }] }),
                Some(json!({ "ports": [{}, { "nodePort": 30081 }] })),
            ),
            // Another protocol has ports of its own.
            (json!({ "ports": [{ "nodePort": 30053 }] }), None),
            (
                json!({ "ports": [{ "nodePort": 30080, "protocol": "UDP" }] }),
                None,
            ),
            (json!({ "clusterIPs": ["10.0.0.5", "fd00::6"] }), None),
            (json!({ "clusterIP": "10.0.0.6" }), None),
            (json!({ "healthCheckNodePort": 30091 }), None),
            (json!({ "clusterIP": "None", "clusterIPs": [] }), None),
            (json!("text"), None),
        ] {
            let left = without_own(&service(&desired), &existing);
            assert_eq!(left, rest.map(|rest| service(&rest)), "{desired}");
        }
        let headless = service(&json!({ "clusterIP": "None", "clusterIPs": ["None"] }));
        assert_eq!(without_own(&headless, &headless), None);
    }
}
