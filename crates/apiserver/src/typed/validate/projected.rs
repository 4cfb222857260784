//! Volumes of kind `downwardAPI` and `projected`.

use std::collections::BTreeSet;

use super::volume::{items, mode};
use super::{At, Faults, env};
use crate::metadata::syntax;

/// A file with a field or a resource of the pod. Like on the real server, the error path has no
/// item index.
pub(super) fn file(at: At<'_>, parent: &str, faults: &mut Faults) {
    let at = At { path: parent, ..at };
    faults.needs(at, "path");
    faults.follows(at, "path", syntax::file_path);
    at.inner("fieldRef", |at| env::field(at, &env::FILES, faults));
    match (at.get("fieldRef"), at.get("resourceFieldRef")) {
        (Some(_), Some(_)) => {
            let why = "fieldRef and resourceFieldRef can not be specified simultaneously";
            faults.invalid(at.path, &"resource".into(), why);
        }
        (Some(_), None) => {}
        (None, Some(_)) => {
            at.inner("resourceFieldRef", |at| env::resource(at, true, faults));
        }
        (None, None) => {
            faults.required(at.path, "one of fieldRef and resourceFieldRef is required");
        }
    }
    mode(at, "mode", faults);
}

/// Files from several sources. Their paths must be unique.
pub(super) fn sources(at: At<'_>, faults: &mut Faults) {
    let whole = at.path;
    let mut paths = BTreeSet::new();
    let mut check_unique = |path: &str, value: &str, faults: &mut Faults| {
        if !path.is_empty() && !paths.insert(path.to_owned()) {
            faults.invalid(whole, &value.into(), "conflicting duplicate paths");
        }
    };
    at.each("sources", |at| {
        for source in ["secret", "configMap"] {
            at.inner(source, |at| {
                faults.needs(at, "name");
                items(at, faults);
                at.each("items", |item| {
                    check_unique(item.text("path"), at.text("name"), faults);
                });
            });
        }
        at.inner("downwardAPI", |at| {
            let parent = at.path;
            at.each("items", |at| {
                file(at, parent, faults);
                check_unique(at.text("path"), at.text("path"), faults);
            });
        });
        at.inner("serviceAccountToken", |at| {
            let seconds = at.number("expirationSeconds").unwrap_or_default();
            let why = match seconds {
                ..600 => "may not specify a duration less than 10 minutes",
                600..=0x1_0000_0000 => "",
                _ => "may not specify a duration larger than 2^32 seconds",
            };
            if !why.is_empty() {
                faults.invalid(at.path("expirationSeconds"), &seconds.into(), why);
            }
            // Like above, the real server's error path has no item index.
            let path = At { path: whole, ..at };
            faults.needs_valid(path, "path", syntax::file_path);
        });
        let known = [
            "secret",
            "configMap",
            "downwardAPI",
            "serviceAccountToken",
            "clusterTrustBundle",
            "podCertificate",
        ];
        if known.iter().filter(|it| at.get(it).is_some()).count() > 1 {
            let why = "may not specify more than 1 volume type per source";
            faults.forbidden(at.path, why);
        }
    });
}
