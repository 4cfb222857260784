//! Authorization of a request.

use super::verb::Verb;
use super::{ApiService, Call};
use crate::authorize::Attributes;
use crate::selector::FieldSelector;
use crate::status::{About, Status};
use crate::user::User;
use crate::wire::{Query, ResourcePath, Target};

/// Authorizes a request with RBAC and the authorizer, if they are enabled.
///
/// # Errors
///
/// 403 if one of them denies the request.
pub(super) fn check(
    service: &ApiService,
    user: &User,
    verb: Verb,
    path: &ResourcePath,
    query: &Query,
) -> Result<(), Status> {
    if !service.shared.authorizes() {
        return Ok(());
    }
    let namespace = match (&path.namespace, &path.name) {
        (Some(namespace), _) => namespace.as_str(),
        // As in Kubernetes, the attributes of a request to a namespace contain its name.
        (None, Some(name)) if path.resource == "namespaces" && path.group.is_empty() => name,
        (None, _) => "",
    };
    let attributes = Attributes {
        user: user.name.clone(),
        groups: user.groups.clone(),
        verb: verb.name().to_owned(),
        group: path.group.clone(),
        version: path.version.clone(),
        resource: path.resource.clone(),
        subresource: path.subresource.clone().unwrap_or_default(),
        namespace: namespace.to_owned(),
        name: path
            .name
            .clone()
            .or_else(|| selected_name(verb, query))
            .unwrap_or_default(),
    };
    service.shared.authorize(&attributes)
}

/// Authorizes a request for a document about the server with RBAC, if it is enabled. The verb is the
/// method of the request.
///
/// # Errors
///
/// 403 if no role allows it.
pub(super) fn check_path(service: &ApiService, call: &Call, target: &Target) -> Result<(), Status> {
    let is_path = !matches!(
        target,
        Target::Resource(_) | Target::Unknown { group: Some(_) }
    );
    let path = call.parts.uri.path();
    let verb = call.parts.method.as_str().to_lowercase();
    if !is_path || service.shared.allows_path(&call.user, &verb, path) {
        return Ok(());
    }
    let about = About {
        group: "",
        resource: "",
        kind: "",
        name: "",
    };
    let detail = format!("User {:?} cannot {verb} path {path:?}", call.user.name);
    Err(Status::forbidden(&about, &detail))
}

/// Returns the name in `fieldSelector=metadata.name=x`, which restricts a list or watch to
/// one object. As in Kubernetes, other verbs have no name, also a deletecollection.
fn selected_name(verb: Verb, query: &Query) -> Option<String> {
    if !matches!(verb.name(), "list" | "watch") {
        return None;
    }
    FieldSelector::name_in(query.get("fieldSelector"))
}
