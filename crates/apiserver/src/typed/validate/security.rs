//! The security contexts of pods and their containers.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{At, Faults};
use crate::metadata::syntax;
use crate::status::FieldError;

/// The types of seccomp and `AppArmor` profiles.
const PROFILES: [&str; 3] = ["Localhost", "RuntimeDefault", "Unconfined"];

pub(super) fn pod(at: At<'_>, is_pid_shared: bool, faults: &mut Faults) {
    for field in ["fsGroup", "runAsUser", "runAsGroup"] {
        id(at.path(field), at.get(field), faults);
    }
    for (number, group) in at.list("supplementalGroups").iter().enumerate() {
        let path = format!("{}[{number}]", at.path("supplementalGroups"));
        id(path, Some(group), faults);
    }
    let mut names = BTreeSet::new();
    at.each("sysctls", |at| {
        let name = at.text("name");
        let path = at.path("name");
        if name.is_empty() {
            faults.required(path, "");
        } else if !is_sysctl(name) {
            let why = "must have at most 253 characters and match regex \
                       ^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?$";
            faults.invalid(path, &name.into(), why);
        } else if !names.insert(name.to_owned()) {
            faults.add(FieldError::duplicate(path, &name.into()));
        }
    });
    faults.must_be_one_of(at, "fsGroupChangePolicy", &["Always", "OnRootMismatch"]);
    faults.must_be_one_of(at, "supplementalGroupsPolicy", &["Merge", "Strict"]);
    profiles(at, faults);
    if is_pid_shared {
        let why = "ShareProcessNamespace and HostPID cannot both be enabled";
        faults.invalid(at.path("shareProcessNamespace"), &true.into(), why);
    }
}

/// Privileged containers are allowed, like on servers with `--allow-privileged`.
pub(super) fn container(at: At<'_>, faults: &mut Faults) {
    for field in ["runAsUser", "runAsGroup"] {
        id(at.path(field), at.get(field), faults);
    }
    faults.must_be_one_of(at, "procMount", &["Default", "Unmasked"]);
    profiles(at, faults);
    if at.get("allowPrivilegeEscalation") != Some(&false.into()) {
        return;
    }
    if at.get("privileged") == Some(&true.into()) {
        let why = "cannot set `allowPrivilegeEscalation` to false and `privileged` to true";
        faults.invalid(at.path, at.value, why);
    }
    let added = at
        .value
        .pointer("/capabilities/add")
        .and_then(Value::as_array);
    if added.is_some_and(|added| added.iter().any(|it| it == "CAP_SYS_ADMIN")) {
        let why = "cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` \
                   CAP_SYS_ADMIN";
        faults.invalid(at.path, at.value, why);
    }
}

/// A user ID or a group ID.
fn id(path: String, number: Option<&Value>, faults: &mut Faults) {
    if let Some(number) = number
        && !number
            .as_i64()
            .is_some_and(|it| i32::try_from(it).is_ok_and(|it| it >= 0))
    {
        faults.invalid(path, number, "must be between 0 and 2147483647, inclusive");
    }
}

fn profiles(at: At<'_>, faults: &mut Faults) {
    at.inner("seccompProfile", |at| {
        profile(at, "seccompProfile", "seccomp", faults);
        let path = at.text("localhostProfile");
        if at.text("type") == "Localhost" {
            faults.wrong(
                at.path("localhostProfile"),
                &path.into(),
                syntax::relative_path(path),
            );
        }
    });
    at.inner("appArmorProfile", |at| {
        profile(at, "appArmorProfile", "AppArmor", faults);
        let path = at.text("localhostProfile");
        if at.text("type") == "Localhost" && path.trim() != path {
            let why = "must not be padded with whitespace";
            faults.invalid(at.path("localhostProfile"), &path.into(), why);
        }
    });
}

/// The rules that seccomp and `AppArmor` profiles share.
fn profile(at: At<'_>, field: &str, what: &str, faults: &mut Faults) {
    let local = at.get("localhostProfile");
    match at.text("type") {
        "" => {
            let why = format!("type is required when {field} is set");
            faults.required(at.path("type"), &why);
        }
        "Localhost" if local.is_none() => {
            let why = format!("must be set when {what} type is Localhost");
            faults.required(at.path("localhostProfile"), &why);
        }
        "Localhost" => return,
        _ => faults.one_of(at, "type", &PROFILES),
    }
    if let Some(local) = local {
        // The real server shows the whole value for a seccomp profile.
        let value = if what == "seccomp" { at.value } else { local };
        let why = format!("can only be set when {what} type is Localhost");
        faults.invalid(at.path("localhostProfile"), value, why);
    }
}

/// Whether a name is a valid name of a kernel parameter.
fn is_sysctl(name: &str) -> bool {
    let is_part = |part: &str| syntax::label(&part.replace('_', "-")).is_none();
    let has_edge = |part: &str| part.starts_with('_') || part.ends_with('_');
    name.len() <= 253
        && name
            .split(['.', '/'])
            .all(|part| is_part(part) && !has_edge(part))
}
