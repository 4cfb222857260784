//! Rewrites read requests so that the response is as old as that of a lagging server. *(pure)*

use http::Uri;

use super::Target;

/// A read that allows an old state, as it is sent to the server instead.
pub(super) enum Stale {
    /// The URI of a list at an old version.
    List(Uri),
    /// The URI of a list of one object at an old version.
    Get(Uri),
    /// The client requests a newer version than the lagging server has.
    Refused,
}

/// Rewrites a request so that the response has the state of `revision`. Returns `None` if the
/// client requests the newest state or an exact version.
pub(super) fn rewrite(target: &Target, uri: &Uri, revision: u64) -> Option<Stale> {
    if !matches!(target.verb, "list" | "get") || target.resource.is_empty() {
        return None;
    }
    let query = uri.query().unwrap_or_default();
    let pairs: Vec<_> = form_urlencoded::parse(query.as_bytes()).collect();
    let value = |name: &str| {
        let found = pairs.iter().find(|(key, _)| key == name);
        found.map(|(_, value)| value.as_ref())
    };
    let wanted: u64 = value("resourceVersion")?.parse().ok()?;
    if value("resourceVersionMatch") == Some("Exact") || value("continue").is_some() {
        return None;
    }
    if wanted > revision {
        return Some(Stale::Refused);
    }
    let mut rewritten = form_urlencoded::Serializer::new(String::new());
    let others = pairs
        .iter()
        .filter(|(key, _)| !matches!(key.as_ref(), "resourceVersion" | "resourceVersionMatch"));
    rewritten.extend_pairs(others);
    rewritten.append_pair("resourceVersion", &revision.to_string());
    rewritten.append_pair("resourceVersionMatch", "Exact");
    if target.verb == "list" {
        let uri = format!("{}?{}", uri.path(), rewritten.finish());
        return Some(Stale::List(uri.parse().ok()?));
    }
    rewritten.append_pair("fieldSelector", &format!("metadata.name={}", target.name));
    let (collection, _) = target.path.rsplit_once('/')?;
    let uri = format!("{collection}?{}", rewritten.finish());
    Some(Stale::Get(uri.parse().ok()?))
}
