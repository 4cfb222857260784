//! Response texts: objects, watch lines, lists.

pub(crate) const END: &str = r#"{"type":"BOOKMARK","object":{"kind":"ConfigMap","apiVersion":"v1","metadata":{"resourceVersion":"10","annotations":{"k8s.io/initial-events-end":"true"}}}}"#;

pub(crate) fn object(name: &str, version: usize, value: &str) -> String {
    format!(
        r#"{{"kind":"ConfigMap","apiVersion":"v1","metadata":{{"name":"{name}","namespace":"default","uid":"uid-{name}","resourceVersion":"{version}"}},"data":{{"value":"{value}"}}}}"#
    )
}

fn event(kind: &str, object: &str) -> String {
    format!(r#"{{"type":"{kind}","object":{object}}}"#)
}

pub(crate) fn added(name: &str, version: usize, value: &str) -> String {
    event("ADDED", &object(name, version, value))
}

pub(crate) fn modified(name: &str, version: usize, value: &str) -> String {
    event("MODIFIED", &object(name, version, value))
}

pub(crate) fn deleted(name: &str, version: usize) -> String {
    event("DELETED", &object(name, version, "1"))
}

pub(crate) fn error(code: u16, reason: &str) -> String {
    event(
        "ERROR",
        &format!(r#"{{"kind":"Status","code":{code},"reason":"{reason}"}}"#),
    )
}

/// A bookmark in a watch.
pub(crate) fn bookmark(version: usize) -> String {
    event(
        "BOOKMARK",
        &format!(r#"{{"kind":"ConfigMap","metadata":{{"resourceVersion":"{version}"}}}}"#),
    )
}

/// The closing bookmark of a streamed list.
pub(crate) fn end(version: usize) -> String {
    END.replace("10", &version.to_string())
}

/// An object that is no config map, though it says so.
pub(crate) fn bad(name: &str, version: usize) -> String {
    object(name, version, "1").replace(r#"{"value":"1"}"#, "7")
}

/// A page of a list, with the `continue` of the next.
pub(crate) fn page(version: &str, objects: &[(&str, usize)], next: &str) -> String {
    list(version, objects).replace(r#""continue":"""#, &format!(r#""continue":"{next}""#))
}

pub(crate) fn list(version: &str, objects: &[(&str, usize)]) -> String {
    let items: Vec<String> = objects
        .iter()
        .map(|(name, version)| object(name, *version, "1"))
        .collect();
    format!(
        r#"{{"kind":"ConfigMapList","apiVersion":"v1","metadata":{{"resourceVersion":"{version}","continue":""}},"items":[{}]}}"#,
        items.join(",")
    )
}
