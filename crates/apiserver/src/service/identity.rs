//! Identifies the user of a request, from its token or its impersonation headers.

use std::iter;

use http::HeaderMap;
use http::header::AUTHORIZATION;
use percent_encoding::percent_decode_str;

use crate::authorize::Attributes;
use crate::cluster::AUDIENCE;
use crate::shared::Shared;
use crate::status::Status;
use crate::user::User;

/// Returns the user of a request with these headers.
///
/// # Errors
///
/// 401 for a token that this server did not issue, 400 for impersonation headers without a user, 403
/// if the impersonation is not authorized.
pub(super) fn of(headers: &HeaderMap, shared: &Shared) -> Result<User, Status> {
    let user = authenticated(headers, shared)?;
    let Some(wanted) = impersonated(headers)? else {
        return Ok(user);
    };
    if shared.authorizes() {
        let account = wanted.name.strip_prefix("system:serviceaccount:");
        let who = match account.and_then(|account| account.split_once(':')) {
            Some((namespace, name)) => ("serviceaccounts", namespace, name),
            None => ("users", "", &*wanted.name),
        };
        let groups = wanted.groups.iter().map(|group| ("groups", "", &**group));
        let asks = |resource: &str, namespace: &str, name: &str| Attributes {
            user: user.name.clone(),
            groups: user.groups.clone(),
            verb: "impersonate".to_owned(),
            resource: resource.to_owned(),
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            ..Attributes::default()
        };
        for (resource, namespace, name) in iter::once(who).chain(groups) {
            shared.authorize(&asks(resource, namespace, name))?;
        }
        // The uid and the extra fields are resources of `authentication.k8s.io`.
        let of_user = |attributes: Attributes| Attributes {
            group: "authentication.k8s.io".to_owned(),
            version: "v1".to_owned(),
            ..attributes
        };
        for (key, values) in &wanted.extra {
            for value in values {
                shared.authorize(&Attributes {
                    subresource: key.clone(),
                    ..of_user(asks("userextras", "", value))
                })?;
            }
        }
        if !wanted.uid.is_empty() {
            shared.authorize(&of_user(asks("uids", "", &wanted.uid)))?;
        }
    }
    let mut wanted = wanted;
    wanted.add_implied_groups();
    Ok(wanted)
}

/// Returns the user of the bearer token; the administrator if the request has no token.
fn authenticated(headers: &HeaderMap, shared: &Shared) -> Result<User, Status> {
    let header = headers.get(AUTHORIZATION);
    let header = header.and_then(|value| value.to_str().ok());
    let Some((scheme, token)) = header.and_then(|value| value.split_once(' ')) else {
        return Ok(User::admin());
    };
    if !scheme.eq_ignore_ascii_case("bearer") {
        return Ok(User::admin());
    }
    let now = shared.now();
    shared
        .read(|cluster| cluster.user_of_token(token.trim(), &[AUDIENCE], now))
        .map(|found| found.user)
        .map_err(|_| Status::unauthorized())
}

/// Returns the user in the headers `Impersonate-…`.
fn impersonated(headers: &HeaderMap) -> Result<Option<User>, Status> {
    const EXTRA: &str = "impersonate-extra-";
    let mut user = User::default();
    let mut is_named = false;
    for (name, value) in headers {
        let Ok(value) = value.to_str() else {
            continue;
        };
        let value = value.to_owned();
        if value.is_empty() && name == "impersonate-user" {
            continue;
        }
        match name.as_str() {
            "impersonate-user" => user.name = value,
            "impersonate-uid" => user.uid = value,
            "impersonate-group" => user.groups.push(value),
            name => {
                let Some(key) = name.strip_prefix(EXTRA) else {
                    continue;
                };
                let key = percent_decode_str(key).decode_utf8_lossy().into_owned();
                user.extra.entry(key).or_default().push(value);
            }
        }
        is_named = true;
    }
    if is_named && user.name.is_empty() {
        return Err(Status::bad_request(format!(
            "requested {} without impersonating a user name",
            go_user(&user)
        )));
    }
    Ok(is_named.then_some(user))
}

/// Formats a user as Go does with `%#v`.
fn go_user(user: &User) -> String {
    let list = |texts: &[String]| {
        let texts: Vec<_> = texts.iter().map(|text| format!("{text:?}")).collect();
        format!("[]string{{{}}}", texts.join(", "))
    };
    let groups = match user.groups.as_slice() {
        [] => "[]string(nil)".to_owned(),
        groups => list(groups),
    };
    let extra: Vec<_> = user
        .extra
        .iter()
        .map(|(key, values)| format!("{key:?}:{}", list(values)))
        .collect();
    let extra = match extra.as_slice() {
        [] => "map[string][]string(nil)".to_owned(),
        extra => format!("map[string][]string{{{}}}", extra.join(", ")),
    };
    format!(
        "&user.DefaultInfo{{Name:\"\", UID:{:?}, Groups:{groups}, Extra:{extra}}}",
        user.uid
    )
}
