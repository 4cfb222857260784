//! The environment variables of containers, and field references of variables and files.

use super::{At, Faults};
use crate::metadata::syntax;
use crate::status::FieldError;
use crate::typed::Quantity;

/// The fields of a pod that variables can refer to, sorted.
const VARIABLES: [&str; 9] = [
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
];

/// The fields of a pod that files can refer to, sorted.
pub(super) const FILES: [&str; 5] = [
    "metadata.annotations",
    "metadata.labels",
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
];

/// Known fields that no reference can name.
const OTHERS: [&str; 3] = ["spec.restartPolicy", "spec.schedulerName", "status.phase"];

/// The resources of a container that a reference can name, sorted.
const RESOURCES: [&str; 6] = [
    "limits.cpu",
    "limits.ephemeral-storage",
    "limits.memory",
    "requests.cpu",
    "requests.ephemeral-storage",
    "requests.memory",
];

/// The valid divisors for memory and storage.
const BYTES: [&str; 13] = [
    "1", "1k", "1M", "1G", "1T", "1P", "1E", "1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei",
];

pub(super) fn variables(at: At<'_>, faults: &mut Faults) {
    at.each("env", |at| variable(at, faults));
    let path = at.path("envFrom");
    at.each("envFrom", |at| {
        faults.follows(at, "prefix", syntax::variable);
        let mut sources = 0;
        for source in ["configMapRef", "secretRef"] {
            at.inner(source, |at| {
                sources += 1;
                faults.needs_valid(at, "name", syntax::subdomain);
            });
        }
        // Like on the real server, the error path has no item index.
        let why = match sources {
            0 => "must specify one of: `configMapRef` or `secretRef`",
            1 => return,
            _ => "may not have more than one field specified at a time",
        };
        faults.invalid(path.as_str(), &"".into(), why);
    });
}

fn variable(at: At<'_>, faults: &mut Faults) {
    faults.needs_valid(at, "name", syntax::variable);
    at.inner("valueFrom", |from| {
        const SOURCES: [&str; 5] = [
            "fieldRef",
            "resourceFieldRef",
            "configMapKeyRef",
            "secretKeyRef",
            "fileKeyRef",
        ];
        let sources = SOURCES.iter().filter(|it| from.get(it).is_some()).count();
        from.inner("fieldRef", |at| field(at, &VARIABLES, faults));
        from.inner("resourceFieldRef", |at| resource(at, false, faults));
        for reference in ["configMapKeyRef", "secretKeyRef"] {
            from.inner(reference, |at| {
                faults.must_follow(at, "name", syntax::subdomain);
                faults.needs_valid(at, "key", syntax::config_key);
            });
        }
        from.inner("fileKeyRef", |at| {
            for (field, rule) in [
                ("key", syntax::variable as fn(&str) -> Vec<String>),
                ("volumeName", |it| syntax::label(it).into_iter().collect()),
                ("path", |it| syntax::no_steps_back(it).into_iter().collect()),
            ] {
                faults.needs_valid(at, field, rule);
            }
        });
        let why = if sources == 0 {
            "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, \
             `secretKeyRef` or `fileKeyRef`"
        } else if !at.text("value").is_empty() {
            "may not be specified when `value` is not empty"
        } else if sources > 1 {
            "may not have more than one field specified at a time"
        } else {
            return;
        };
        faults.invalid(from.path, &"".into(), why);
    });
}

/// The names of the volumes from whose files containers can read variables.
pub(super) fn file_volumes(pod: At<'_>, faults: &mut Faults) {
    let mut check = |at: At<'_>| {
        let name = at.text("volumeName");
        let volumes = pod.list("volumes");
        match volumes.iter().find(|volume| volume["name"] == name) {
            None => faults.add(FieldError::not_found(at.path("volumeName"), &name.into())),
            Some(volume) if volume.get("emptyDir").is_none() => {
                let why = "referenced volume must be of type emptyDir";
                faults.invalid(at.path("volumeName"), &name.into(), why);
            }
            Some(_) => {}
        }
    };
    for list in ["initContainers", "containers", "ephemeralContainers"] {
        pod.each(list, |at| {
            at.each("env", |at| {
                at.inner("valueFrom", |at| at.inner("fileKeyRef", &mut check));
            });
        });
    }
}

/// A reference to a field of the pod, which must be in `shown`.
pub(super) fn field(at: At<'_>, shown: &[&str], faults: &mut Faults) {
    if !faults.needs(at, "apiVersion") || !faults.needs(at, "fieldPath") {
        return;
    }
    let path = at.text("fieldPath");
    let value = path.into();
    let unknown = |why: &str| format!("error converting fieldPath: {why}");
    let version = at.text("apiVersion");
    if version != "v1" {
        let why = unknown(&format!("unsupported pod version: {version}"));
        faults.invalid(at.path("fieldPath"), &value, why);
        return;
    }
    let key = path
        .strip_suffix("']")
        .and_then(|path| path.split_once("['"));
    match key {
        Some(("metadata.annotations", key)) => {
            let key = key.to_lowercase();
            faults.qualified(at.path.to_owned(), &key);
        }
        Some(("metadata.labels", key)) => faults.qualified(at.path.to_owned(), key),
        Some(_) => {
            let why = unknown(&format!("field label does not support subscript: {path}"));
            faults.invalid(at.path("fieldPath"), &value, why);
        }
        None if shown.contains(&path)
            || path == "spec.host" && shown.contains(&"spec.nodeName") => {}
        None => {
            let known = [&VARIABLES[..], &FILES, &OTHERS, &["spec.host"]];
            if known.iter().any(|known| known.contains(&path)) {
                let place = at.path("fieldPath");
                faults.add(FieldError::not_supported(place, &value, shown));
            } else {
                let why = unknown(&format!("field label not supported: {path}"));
                faults.invalid(at.path("fieldPath"), &value, why);
            }
        }
    }
}

/// A reference to a resource of a container. A file must name the container.
pub(super) fn resource(at: At<'_>, is_file: bool, faults: &mut Faults) {
    let name = at.text("resource");
    let is_huge = ["requests.hugepages-", "limits.hugepages-"]
        .iter()
        .any(|prefix| name.starts_with(prefix));
    if is_file && at.text("containerName").is_empty() {
        faults.required(at.path("containerName"), "");
    } else if faults.needs(at, "resource") && !is_huge && !RESOURCES.contains(&name) {
        let path = at.path("resource");
        faults.add(FieldError::not_supported(path, &name.into(), RESOURCES));
    }
    let divisor = at.text("divisor");
    let is_set = Quantity::parse(divisor).is_ok_and(|it| it.is_positive() || it.is_negative());
    let (units, what) = match name.split_once('.') {
        Some((_, "cpu")) => (&["1m", "1"][..], "1m and 1 are supported with the cpu"),
        Some((_, "memory")) => (&BYTES[..], "memory"),
        Some((_, "ephemeral-storage")) => (&BYTES[..], "local ephemeral storage"),
        _ if is_huge => (&BYTES[..], "hugepages"),
        _ => return,
    };
    if is_set && !units.contains(&divisor) {
        let bytes = units.join(", ");
        let what = if units.len() > 2 {
            format!("{bytes} are supported with the {what}")
        } else {
            what.to_owned()
        };
        let why = format!("only divisor's values {what} resource");
        faults.invalid(at.path("divisor"), &name.into(), why);
    }
}
