//! The table of built-in resources.

use std::sync::{Arc, LazyLock};

use super::resource::Derived;
use super::{
    DefaultPropagation, Generation, Resource, ResourceInfo, Rules, ScalePaths, Subresource, View,
};
use crate::metadata::{Finalizers, NameRule};
use crate::selector::SelectableField;
use crate::table::{Column, Columns};

mod rows;

/// The verbs of most resources, in the order of discovery documents.
const VERBS: &[&str] = &[
    "create",
    "delete",
    "deletecollection",
    "get",
    "list",
    "patch",
    "update",
    "watch",
];

/// One row of the table.
struct Builtin {
    group: &'static str,
    version: &'static str,
    kind: &'static str,
    plural: &'static str,
    short_names: &'static [&'static str],
    /// The scope of the kind, and its special rules.
    traits: &'static [Trait],
    /// The fields that field selectors support in addition to name and namespace, with the value of
    /// an absent field.
    fields: &'static [(&'static str, &'static str)],
    columns: &'static [Column],
}

/// A property in which a kind differs from most kinds.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Trait {
    /// Objects are cluster-scoped.
    Cluster,
    /// The kind has the subresource `status`.
    Status,
    /// The kind has the subresource `scale`.
    Scale,
    /// The kind is a review, which the server executes and does not store.
    Review,
    /// A change of the spec increases the generation.
    Generation,
    /// A change of any field outside of the metadata increases the generation.
    ContentGeneration,
    /// The kind has the category `api-extensions`.
    Extension,
    /// An update requires a resourceVersion.
    Conditional,
    /// An update of a missing object creates it.
    CreateOnUpdate,
    /// A write to the status cannot change the metadata.
    StatusAlone,
    /// A deletion orphans the dependents by default.
    Orphans,
    /// The response to a deletion is the object.
    ReturnsDeleted,
    /// The kind has the category `all`.
    All,
    /// The name of an object is a DNS label.
    NamedAsLabel,
    /// The name of an object is a valid segment of a URL path.
    NamedAsSegment,
    /// The name of an object is an IP address.
    NamedAsAddress,
}

/// The built-in resources.
pub(super) fn resources() -> impl Iterator<Item = Resource> {
    rows::BUILTINS.iter().map(Builtin::resource)
}

/// Returns the resource of scales, which have only subresource URLs.
pub(crate) fn scale() -> &'static Resource {
    static SCALE: LazyLock<Resource> = LazyLock::new(|| rows::SCALE.resource());
    &SCALE
}

/// Returns the resource of the objects that clients send to `subresource`.
pub(crate) fn posted(subresource: &str) -> Option<&'static Resource> {
    static POSTED: LazyLock<Vec<(&str, Resource)>> = LazyLock::new(|| {
        let rows = rows::POSTED.iter();
        rows.map(|(name, row)| (*name, row.resource())).collect()
    });
    let mut posted = POSTED.iter();
    posted.find_map(|(name, resource)| (*name == subresource).then_some(resource))
}

/// The subresources of pods that store no fields, with the kind of their objects and their verbs.
const POD_PARTS: [(&str, &str, &[&str]); 4] = [
    ("attach", "PodAttachOptions", &["create", "get"]),
    ("exec", "PodExecOptions", &["create", "get"]),
    ("log", "Pod", &["get"]),
    ("portforward", "PodPortForwardOptions", &["create", "get"]),
];

// === impl Builtin ===

impl Builtin {
    fn is(&self, wanted: Trait) -> bool {
        self.traits.contains(&wanted)
    }

    /// Returns whether this is the version of autoscalers that is stored as another version.
    fn is_old_autoscaler(&self) -> bool {
        (self.group, self.version) == rows::OLD_AUTOSCALING && self.kind != rows::SCALE.kind
    }

    fn resource(&self) -> Resource {
        let events = self.group == rows::EVENTS.0;
        let table = match self.group {
            "" => self.plural.to_owned(),
            // Both groups of events share one storage.
            _ if events => self.plural.to_owned(),
            group => format!("{}.{group}", self.plural),
        };
        Resource {
            info: self.info(),
            table: Arc::from(table),
            rules: self.rules(),
            view: if events {
                View::Events
            } else if self.is_old_autoscaler() {
                View::Autoscaler
            } else {
                View::Same
            },
            schema: None,
            stored_schema: None,
            stored_schema_number: 0,
            field_types: None,
            columns: Columns::builtin(self.columns),
            is_closing: false,
            derived: Derived::default(),
        }
    }

    fn info(&self) -> ResourceInfo {
        let owned = |list: &[&str]| list.iter().map(ToString::to_string).collect::<Vec<_>>();
        let mut verbs = owned(VERBS);
        if self.kind == "Namespace" {
            verbs.retain(|verb| verb != "deletecollection");
        }
        if self.is(Trait::Review) {
            verbs = owned(&["create"]);
        }
        ResourceInfo {
            group: self.group.to_owned(),
            version: self.version.to_owned(),
            kind: self.kind.to_owned(),
            list_kind: format!("{}List", self.kind),
            plural: self.plural.to_owned(),
            singular: self.kind.to_lowercase(),
            short_names: owned(self.short_names),
            categories: if self.is(Trait::All) {
                owned(&["all"])
            } else if self.is(Trait::Extension) {
                owned(&["api-extensions"])
            } else {
                Vec::new()
            },
            namespaced: !self.is(Trait::Cluster),
            verbs,
            subresources: self.subresources(),
            storage: self.group != rows::EVENTS.0 && !self.is_old_autoscaler(),
            custom: false,
            deprecation: (self.kind == "Endpoints").then(|| {
                "v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice"
                    .to_owned()
            }),
            open_api_schema: None,
        }
    }

    fn subresources(&self) -> Vec<Subresource> {
        const CHANGED: &[&str] = &["get", "patch", "update"];
        let part = |name: &str, (group, version), kind: &str, verbs: &[&str]| Subresource {
            name: name.to_owned(),
            group: str::to_owned(group),
            version: str::to_owned(version),
            kind: kind.to_owned(),
            verbs: verbs.iter().map(ToString::to_string).collect(),
        };
        let own = (self.group, self.version);
        let mut parts = Vec::new();
        if self.is(Trait::Scale) {
            parts.push(part("scale", ("autoscaling", "v1"), "Scale", CHANGED));
        }
        if self.is(Trait::Status) {
            parts.push(part("status", own, self.kind, CHANGED));
        }
        let posted = |name: &'static str| {
            let kinds = posted(name).map(|posted| &posted.info);
            kinds.map(|info| part(name, (&info.group, &info.version), &info.kind, &["create"]))
        };
        match self.kind {
            "Namespace" => parts.push(part("finalize", own, self.kind, &["update"])),
            "Pod" => {
                for name in ["ephemeralcontainers", "resize"] {
                    parts.push(part(name, own, self.kind, CHANGED));
                }
                parts.extend(["binding", "eviction"].into_iter().filter_map(posted));
                parts.extend(POD_PARTS.map(|(name, kind, verbs)| part(name, own, kind, verbs)));
            }
            "CertificateSigningRequest" => {
                parts.push(part("approval", own, self.kind, CHANGED));
                parts.sort_by(|a, b| a.name.cmp(&b.name));
            }
            "ServiceAccount" => parts.extend(posted("token")),
            _ => {}
        }
        parts
    }

    fn rules(&self) -> Rules {
        let names = if self.is(Trait::NamedAsLabel) {
            NameRule::Label
        } else if self.is(Trait::NamedAsSegment) {
            NameRule::PathSegment
        } else if self.is(Trait::NamedAsAddress) {
            NameRule::Address
        } else {
            NameRule::Subdomain
        };
        // Kinds without specific fields support both, even if they are cluster-scoped.
        let mut fields = metadata_fields(!self.is(Trait::Cluster) || self.fields.is_empty());
        fields.extend(
            self.fields
                .iter()
                .map(|(label, default)| SelectableField::at_its_path(label, default)),
        );
        match self.kind {
            // The deprecated name of the same field.
            "Pod" => fields.push(SelectableField::at("spec.host", "/spec/nodeName", "")),
            // The name in selectors is older than that of the field.
            "Job" => fields.push(SelectableField::at(
                "status.successful",
                "/status/succeeded",
                "0",
            )),
            "Event" if self.group == rows::EVENTS.0 => fields.extend(new_event_fields()),
            "Event" => fields.push(SelectableField {
                fallback: Some("/reportingComponent"),
                ..SelectableField::at("source", "/source/component", "")
            }),
            _ => {}
        }
        Rules {
            names,
            // The validation of these kinds has no list of standard finalizers.
            finalizers: match (self.group, self.kind) {
                ("", "Event") | (_, "Lease" | "PodDisruptionBudget" | "RuntimeClass") => {
                    Finalizers::Any
                }
                (group, _) if group == rows::ADMISSION.0 => Finalizers::Any,
                _ => Finalizers::Qualified,
            },
            generation: if self.is(Trait::Generation) {
                Generation::Spec
            } else if self.is(Trait::ContentGeneration) {
                Generation::Content
            } else {
                Generation::None
            },
            counted_metadata: match self.kind {
                // The annotations store the revision of a rollout.
                "Deployment" => Some("annotations"),
                "EndpointSlice" => Some("labels"),
                _ => None,
            },
            unconditional_update: !self.is(Trait::Conditional),
            creates_on_update: self.is(Trait::CreateOnUpdate),
            status_alone: self.is(Trait::StatusAlone),
            returns_deleted: self.is(Trait::ReturnsDeleted),
            default_propagation: match self.kind {
                "Event" => DefaultPropagation::Unsupported,
                _ if self.is(Trait::Orphans) => DefaultPropagation::Orphan,
                _ => DefaultPropagation::Background,
            },
            deletion_warning: (self.kind == "Job").then_some(
                "child pods are preserved by default when jobs are deleted; set \
                 propagationPolicy=Background to remove them or set propagationPolicy=Orphan to \
                 suppress this warning",
            ),
            scale: self.is(Trait::Scale).then(ScalePaths::builtin),
            fields,
        }
    }
}

/// Returns the fields of an event with their names in `events.k8s.io/v1`.
fn new_event_fields() -> impl Iterator<Item = SelectableField> {
    const OBJECT: [&str; 7] = [
        "kind",
        "namespace",
        "name",
        "uid",
        "apiVersion",
        "resourceVersion",
        "fieldPath",
    ];
    let object = OBJECT.into_iter().map(|field| {
        let (label, pointer) = (
            format!("regarding.{field}"),
            format!("/involvedObject/{field}"),
        );
        SelectableField::at(&label, &pointer, "")
    });
    let reporting = SelectableField::at("reportingController", "/reportingComponent", "");
    object.chain([reporting])
}

/// Returns the fields that the field selectors of all kinds support.
pub(super) fn metadata_fields(namespaced: bool) -> Vec<SelectableField> {
    let mut fields = vec![SelectableField::at_its_path("metadata.name", "")];
    if namespaced {
        fields.push(SelectableField::at_its_path("metadata.namespace", ""));
    }
    fields
}
