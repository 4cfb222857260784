//! The messages that go into the tables. *(pure)*

use std::collections::BTreeSet;

use super::{Package, go_types::GoStruct, proto::ProtoMessage};

/// Types whose JSON form is not that of a struct, by their full name, as the tables call them.
pub(super) const SPECIAL: [(&str, &str); 8] = [
    ("k8s.io.apimachinery.pkg.api.resource.Quantity", "Quantity"),
    (
        "k8s.io.apimachinery.pkg.util.intstr.IntOrString",
        "IntOrString",
    ),
    ("k8s.io.apimachinery.pkg.apis.meta.v1.Time", "Time"),
    (
        "k8s.io.apimachinery.pkg.apis.meta.v1.MicroTime",
        "MicroTime",
    ),
    ("k8s.io.apimachinery.pkg.apis.meta.v1.Duration", "Duration"),
    ("k8s.io.apimachinery.pkg.apis.meta.v1.FieldsV1", "RawObject"),
    ("k8s.io.apimachinery.pkg.runtime.RawExtension", "RawJson"),
    ("k8s.io.apimachinery.pkg.apis.meta.v1.Verbs", "StringList"),
];

/// Types of apiextensions that are a schema or something else, by their name.
pub(super) const SCHEMA_OR: [(&str, &str); 3] = [
    ("JSONSchemaPropsOrBool", "SchemaOrBool"),
    ("JSONSchemaPropsOrArray", "SchemaOrArray"),
    ("JSONSchemaPropsOrStringArray", "SchemaOrStrings"),
];

/// The JSON of apiextensions, whatever it is.
pub(super) const ANY_JSON: &str = "JSON";

/// The messages of a package that are structs in JSON too, and are not only for protobuf.
pub(super) fn messages(package: &Package) -> impl Iterator<Item = &ProtoMessage> {
    package.messages.iter().filter(|message| {
        let full = format!("{}.{}", package.proto_name, message.name);
        let is_special = SPECIAL.iter().any(|(name, _)| *name == full)
            || package.go.declared_as(&message.name) == Some("[]string");
        let of_schemas =
            message.name == ANY_JSON || SCHEMA_OR.iter().any(|(name, _)| *name == message.name);
        let is_unused = full.ends_with(".meta.v1.Timestamp") || full.ends_with(".meta.v1.TypeMeta");
        !is_special && !of_schemas && !is_unused
    })
}

/// The full names of all messages that a kind consists of.
pub(super) fn used(packages: &[Package]) -> BTreeSet<String> {
    let mut used = BTreeSet::new();
    let mut waiting: Vec<String> = packages
        .iter()
        .flat_map(|package| {
            let kinds = kinds(package, packages).into_iter();
            kinds.map(|kind| format!("{}.{kind}", package.proto_name))
        })
        .collect();
    while let Some(full) = waiting.pop() {
        let Some((name, message)) = full.rsplit_once('.') else {
            continue;
        };
        let package = packages.iter().find(|it| it.proto_name == name);
        let messages = package.into_iter().flat_map(|it| &it.messages);
        let fields = messages
            .filter(|it| it.name == message)
            .flat_map(|it| &it.fields);
        waiting.extend(
            fields
                .map(|field| field.value.clone())
                .filter(|value| !used.contains(value)),
        );
        used.insert(full);
    }
    used
}

/// The messages of a package whose objects have an `apiVersion` and a `kind`.
pub(super) fn kinds<'a>(package: &'a Package, all: &'a [Package]) -> Vec<&'a str> {
    if package.group.is_none() {
        return Vec::new();
    }
    let names = messages(package).map(|message| message.name.as_str());
    names
        .filter(|name| go_struct(package, all, name).is_some_and(|it| it.is_kind))
        .collect()
}

/// The struct of a message, or the one in another package that it is declared as.
pub(super) fn go_struct<'a>(
    package: &'a Package,
    all: &'a [Package],
    name: &str,
) -> Option<&'a GoStruct> {
    if let Some(found) = package.go.find(name) {
        return Some(found);
    }
    let (qualifier, name) = package.go.declared_as(name)?.split_once('.')?;
    let path = match qualifier {
        "metav1" | "v1" if package.path.contains("/meta/") || qualifier == "metav1" => {
            "k8s.io/apimachinery/pkg/apis/meta/v1".to_owned()
        }
        version => format!("{}/{version}", package.path.rsplit_once('/')?.0),
    };
    all.iter().find(|it| it.path == path)?.go.find(name)
}
