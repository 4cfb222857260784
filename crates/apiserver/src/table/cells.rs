//! What the cells of the built-in kinds say.

use jiff::Timestamp;
use serde_json::Value;

use super::age;

pub(super) mod pod;

/// What stands where there is nothing.
pub(super) const NONE: &str = "<none>";

// Fields of every object.

pub(super) fn name(object: &Value, _: Timestamp) -> Value {
    text(object, "/metadata/name", "")
}

pub(super) fn age(object: &Value, now: Timestamp) -> Value {
    age::since(object.pointer("/metadata/creationTimestamp"), now).into()
}

pub(super) fn created(object: &Value, _: Timestamp) -> Value {
    text(object, "/metadata/creationTimestamp", "")
}

// Fields that several kinds have.

/// The string at `pointer`, or `absent`.
pub(super) fn text(object: &Value, pointer: &str, absent: &str) -> Value {
    str_at(object, pointer, absent).into()
}

/// The number at `pointer`; nothing is 0.
pub(super) fn count(object: &Value, pointer: &str) -> Value {
    int_at(object, pointer).into()
}

fn str_at<'a>(object: &'a Value, pointer: &str, absent: &'a str) -> &'a str {
    let found = object.pointer(pointer).and_then(Value::as_str);
    found.filter(|text| !text.is_empty()).unwrap_or(absent)
}

fn int_at(object: &Value, pointer: &str) -> i64 {
    object
        .pointer(pointer)
        .and_then(Value::as_i64)
        .unwrap_or_default()
}

fn list_at<'a>(object: &'a Value, pointer: &str) -> &'a [Value] {
    object
        .pointer(pointer)
        .and_then(Value::as_array)
        .map_or(&[], Vec::as_slice)
}

/// The strings in `field` of each element at `pointer`, joined.
fn joined(object: &Value, pointer: &str, field: &str, by: &str) -> String {
    let texts = list_at(object, pointer)
        .iter()
        .map(|element| str_at(element, field, ""));
    texts.collect::<Vec<_>>().join(by)
}

/// Labels as `a=b,c=d`.
fn labels(object: &Value, pointer: &str) -> String {
    let labels = object.pointer(pointer).and_then(Value::as_object);
    let pairs = labels.into_iter().flatten().map(|(name, value)| {
        let value = value.as_str().unwrap_or_default();
        format!("{name}={value}")
    });
    match pairs.collect::<Vec<_>>().join(",") {
        none if none.is_empty() => NONE.to_owned(),
        labels => labels,
    }
}

pub(super) fn phase(object: &Value, _: Timestamp) -> Value {
    text(object, "/status/phase", "")
}

pub(super) fn kind(object: &Value, _: Timestamp) -> Value {
    text(object, "/type", "")
}

/// How many entries the maps `data` and `binaryData` have.
pub(super) fn entries(object: &Value, _: Timestamp) -> Value {
    let maps = ["data", "binaryData"]
        .into_iter()
        .filter_map(|map| object.get(map)?.as_object());
    maps.map(serde_json::Map::len).sum::<usize>().into()
}

pub(super) fn holder(object: &Value, _: Timestamp) -> Value {
    text(object, "/spec/holderIdentity", "")
}

pub(super) fn role(object: &Value, _: Timestamp) -> Value {
    let kind = str_at(object, "/roleRef/kind", "");
    format!("{kind}/{}", str_at(object, "/roleRef/name", "")).into()
}

// What makes pods.

pub(super) fn ready_of_desired(object: &Value, _: Timestamp) -> Value {
    let ready = int_at(object, "/status/readyReplicas");
    format!("{ready}/{}", int_at(object, "/spec/replicas")).into()
}

pub(super) fn container_names(object: &Value, _: Timestamp) -> Value {
    joined(object, "/spec/template/spec/containers", "/name", ",").into()
}

pub(super) fn container_images(object: &Value, _: Timestamp) -> Value {
    joined(object, "/spec/template/spec/containers", "/image", ",").into()
}

pub(super) fn node_selector(object: &Value, _: Timestamp) -> Value {
    labels(object, "/spec/template/spec/nodeSelector").into()
}

/// A label selector as one would write it after `-l`.
pub(super) fn selector(object: &Value, _: Timestamp) -> Value {
    let mut parts = Vec::new();
    if object.pointer("/spec/selector/matchLabels").is_some() {
        parts.push(labels(object, "/spec/selector/matchLabels"));
    }
    for expression in list_at(object, "/spec/selector/matchExpressions") {
        let key = str_at(expression, "/key", "");
        let values = list_at(expression, "/values")
            .iter()
            .filter_map(Value::as_str);
        let values = values.collect::<Vec<_>>().join(",");
        parts.push(match str_at(expression, "/operator", "") {
            "In" => format!("{key} in ({values})"),
            "NotIn" => format!("{key} notin ({values})"),
            "DoesNotExist" => format!("!{key}"),
            _ => key.to_owned(),
        });
    }
    // A replication controller selects by labels alone.
    if parts.is_empty() && object.pointer("/spec/selector").is_some() {
        parts.push(labels(object, "/spec/selector"));
    }
    match parts.join(",") {
        none if none.is_empty() => NONE.into(),
        selector => selector.into(),
    }
}

// Jobs.

pub(super) fn job_status(object: &Value, _: Timestamp) -> Value {
    let is_true = |wanted: &str| {
        list_at(object, "/status/conditions")
            .iter()
            .any(|condition| {
                str_at(condition, "/type", "") == wanted
                    && str_at(condition, "/status", "") == "True"
            })
    };
    let status = if is_true("Complete") {
        "Complete"
    } else if is_true("Failed") {
        "Failed"
    } else if object.pointer("/metadata/deletionTimestamp").is_some() {
        "Terminating"
    } else {
        let conditions = [
            ("Suspended", "Suspended"),
            ("FailureTarget", "FailureTarget"),
            ("SuccessCriteriaMet", "SuccessCriteriaMet"),
        ];
        conditions
            .into_iter()
            .find(|(kind, _)| is_true(kind))
            .map_or("Running", |(_, word)| word)
    };
    status.into()
}

pub(super) fn completions(object: &Value, _: Timestamp) -> Value {
    let succeeded = int_at(object, "/status/succeeded");
    let wanted = object.pointer("/spec/completions").and_then(Value::as_i64);
    let parallelism = int_at(object, "/spec/parallelism");
    match wanted {
        Some(wanted) => format!("{succeeded}/{wanted}").into(),
        None if parallelism > 1 => format!("{succeeded}/1 of {parallelism}").into(),
        None => format!("{succeeded}/1").into(),
    }
}

pub(super) fn job_duration(object: &Value, now: Timestamp) -> Value {
    let time = |pointer| object.pointer(pointer)?.as_str()?.parse::<Timestamp>().ok();
    let Some(start) = time("/status/startTime") else {
        return "".into();
    };
    age::between(start, time("/status/completionTime").unwrap_or(now)).into()
}

pub(super) fn suspend(object: &Value, _: Timestamp) -> Value {
    let suspended = object.pointer("/spec/suspend") == Some(&Value::Bool(true));
    let words = if suspended { "True" } else { "False" };
    words.into()
}

pub(super) fn active(object: &Value, _: Timestamp) -> Value {
    list_at(object, "/status/active").len().into()
}

pub(super) fn last_schedule(object: &Value, now: Timestamp) -> Value {
    match object.pointer("/status/lastScheduleTime") {
        None | Some(Value::Null) => NONE.into(),
        time => age::since(time, now).into(),
    }
}

// Services and ingresses.

pub(super) fn service_type(object: &Value, _: Timestamp) -> Value {
    text(object, "/spec/type", "")
}

pub(super) fn cluster_ip(object: &Value, _: Timestamp) -> Value {
    text(
        object,
        "/spec/clusterIPs/0",
        str_at(object, "/spec/clusterIP", NONE),
    )
}

pub(super) fn external_ip(object: &Value, _: Timestamp) -> Value {
    let fixed = list_at(object, "/spec/externalIPs")
        .iter()
        .filter_map(Value::as_str);
    let mut addresses: Vec<_> = fixed.collect();
    match str_at(object, "/spec/type", "") {
        "ClusterIP" | "NodePort" if addresses.is_empty() => NONE.into(),
        "ClusterIP" | "NodePort" => addresses.join(",").into(),
        "LoadBalancer" => {
            let mut all = load_balancer(object);
            all.append(&mut addresses);
            if all.is_empty() {
                "<pending>".into()
            } else {
                all.join(",").into()
            }
        }
        "ExternalName" => text(object, "/spec/externalName", ""),
        _ => "<unknown>".into(),
    }
}

fn load_balancer(object: &Value) -> Vec<&str> {
    let ingress = list_at(object, "/status/loadBalancer/ingress").iter();
    let addresses = ingress.map(|entry| str_at(entry, "/ip", str_at(entry, "/hostname", "")));
    let mut addresses: Vec<_> = addresses.filter(|address| !address.is_empty()).collect();
    addresses.sort_unstable();
    addresses.dedup();
    addresses
}

pub(super) fn ports(object: &Value, _: Timestamp) -> Value {
    let ports = list_at(object, "/spec/ports").iter().map(|port| {
        let protocol = str_at(port, "/protocol", "TCP");
        let number = int_at(port, "/port");
        match int_at(port, "/nodePort") {
            0 => format!("{number}/{protocol}"),
            node => format!("{number}:{node}/{protocol}"),
        }
    });
    match ports.collect::<Vec<_>>().join(",") {
        none if none.is_empty() => NONE.into(),
        ports => ports.into(),
    }
}

pub(super) fn service_selector(object: &Value, _: Timestamp) -> Value {
    labels(object, "/spec/selector").into()
}

pub(super) fn hosts(object: &Value, _: Timestamp) -> Value {
    let rules = list_at(object, "/spec/rules")
        .iter()
        .map(|rule| str_at(rule, "/host", ""));
    let hosts: Vec<_> = rules.filter(|host| !host.is_empty()).collect();
    match hosts.as_slice() {
        [] => "*".into(),
        [first, second, third, more @ ..] if !more.is_empty() => {
            format!("{first},{second},{third} + {} more...", more.len()).into()
        }
        hosts => hosts.join(",").into(),
    }
}

pub(super) fn address(object: &Value, _: Timestamp) -> Value {
    load_balancer(object).join(",").into()
}

pub(super) fn ingress_ports(object: &Value, _: Timestamp) -> Value {
    let tls = !list_at(object, "/spec/tls").is_empty();
    let ports = if tls { "80, 443" } else { "80" };
    ports.into()
}

// Nodes.

pub(super) fn node_status(object: &Value, _: Timestamp) -> Value {
    let conditions = list_at(object, "/status/conditions");
    let ready = conditions
        .iter()
        .find(|condition| str_at(condition, "/type", "") == "Ready");
    let word = match ready.map(|condition| str_at(condition, "/status", "")) {
        None => "Unknown",
        Some("True") => "Ready",
        Some(_) => "NotReady",
    };
    if object.pointer("/spec/unschedulable") == Some(&Value::Bool(true)) {
        format!("{word},SchedulingDisabled").into()
    } else {
        word.into()
    }
}

pub(super) fn node_roles(object: &Value, _: Timestamp) -> Value {
    let labels = object
        .pointer("/metadata/labels")
        .and_then(Value::as_object);
    let roles = labels.into_iter().flatten().filter_map(|(label, value)| {
        match label.strip_prefix("node-role.kubernetes.io/") {
            Some(role) => Some(role),
            None if label == "kubernetes.io/role" => value.as_str(),
            None => None,
        }
    });
    let mut roles: Vec<_> = roles.filter(|role| !role.is_empty()).collect();
    roles.sort_unstable();
    roles.dedup();
    if roles.is_empty() {
        NONE.into()
    } else {
        roles.join(",").into()
    }
}

pub(super) fn node_version(object: &Value, _: Timestamp) -> Value {
    text(object, "/status/nodeInfo/kubeletVersion", "")
}

// Events, of both API groups.

/// The first of `pointers` at which something stands.
fn first<'a>(object: &'a Value, pointers: &[&str]) -> Option<&'a Value> {
    let mut found = pointers
        .iter()
        .filter_map(|pointer| object.pointer(pointer));
    found.find(|value| !value.is_null())
}

pub(super) fn first_seen(object: &Value, now: Timestamp) -> Value {
    let first = first(
        object,
        &["/firstTimestamp", "/deprecatedFirstTimestamp", "/eventTime"],
    );
    age::since(first, now).into()
}

pub(super) fn last_seen(object: &Value, now: Timestamp) -> Value {
    let pointers = [
        "/series/lastObservedTime",
        "/lastTimestamp",
        "/deprecatedLastTimestamp",
    ];
    match first(object, &pointers) {
        None => first_seen(object, now),
        last => age::since(last, now).into(),
    }
}

pub(super) fn event_count(object: &Value, _: Timestamp) -> Value {
    let count = first(object, &["/series/count", "/count", "/deprecatedCount"]);
    count
        .and_then(Value::as_i64)
        .filter(|count| *count != 0)
        .unwrap_or(1)
        .into()
}

pub(super) fn event_object(object: &Value, _: Timestamp) -> Value {
    let Some(about) = first(object, &["/involvedObject", "/regarding"]) else {
        return "".into();
    };
    let kind = str_at(about, "/kind", "").to_lowercase();
    match str_at(about, "/name", "") {
        "" => kind.into(),
        name => format!("{kind}/{name}").into(),
    }
}

pub(super) fn event_field(object: &Value, _: Timestamp) -> Value {
    let field = first(
        object,
        &["/involvedObject/fieldPath", "/regarding/fieldPath"],
    );
    field.and_then(Value::as_str).unwrap_or_default().into()
}

pub(super) fn event_source(object: &Value, _: Timestamp) -> Value {
    let find = |pointers: &[&'static str]| {
        let texts = pointers.iter().map(|pointer| str_at(object, pointer, ""));
        texts
            .into_iter()
            .find(|text| !text.is_empty())
            .unwrap_or_default()
    };
    let component = find(&[
        "/source/component",
        "/deprecatedSource/component",
        "/reportingComponent",
        "/reportingController",
    ]);
    match find(&[
        "/source/host",
        "/deprecatedSource/host",
        "/reportingInstance",
    ]) {
        "" => component.into(),
        host => format!("{component}, {host}").into(),
    }
}

pub(super) fn event_message(object: &Value, _: Timestamp) -> Value {
    let message = first(object, &["/message", "/note"]);
    message
        .and_then(Value::as_str)
        .unwrap_or_default()
        .trim()
        .into()
}
