//! The default classes of ingresses and of persistent volume claims. *(pure)*
//!
//! A new object without a class gets the class whose annotation marks it as the default: the newest
//! one, and of several that were created in the same second, the first by name.

use serde_json::Value;

use crate::cluster::Cluster;
use crate::metadata;

/// The kind of a class, and the fields and annotations that refer to it.
struct ClassDefault {
    /// The table of the classes.
    classes: &'static str,
    /// The annotations. One of them with the value `true` marks the default class.
    marks: &'static [&'static str],
    /// The field of the spec that names the class.
    field: &'static str,
    /// The annotation that can name the class instead of the field.
    annotation: &'static str,
}

const INGRESS: ClassDefault = ClassDefault {
    classes: "ingressclasses.networking.k8s.io",
    marks: &["ingressclass.kubernetes.io/is-default-class"],
    field: "ingressClassName",
    annotation: "kubernetes.io/ingress.class",
};

const CLAIM: ClassDefault = ClassDefault {
    classes: "storageclasses.storage.k8s.io",
    marks: &[
        "storageclass.kubernetes.io/is-default-class",
        "storageclass.beta.kubernetes.io/is-default-class",
    ],
    field: "storageClassName",
    annotation: "volume.beta.kubernetes.io/storage-class",
};

// === impl Cluster ===

impl Cluster {
    /// Sets the default class of a new ingress without a class.
    pub(in crate::cluster) fn default_ingress_class(&self, ingress: &mut Value) {
        self.default_class(&INGRESS, ingress);
    }

    /// Sets the default class of a new claim without a class.
    pub(in crate::cluster) fn default_storage_class(&self, claim: &mut Value) {
        self.default_class(&CLAIM, claim);
    }

    fn default_class(&self, default: &ClassDefault, object: &mut Value) {
        let annotations = &object["metadata"]["annotations"];
        let has_class = !object["spec"][default.field].is_null()
            || annotations.get(default.annotation).is_some();
        if has_class {
            return;
        }
        let classes = self.store.objects(default.classes);
        let marked = classes.filter(|(_, class)| {
            let annotations = class.metadata("annotations");
            let is_true = |mark: &&str| {
                annotations
                    .and_then(|it| it.get(mark))
                    .and_then(Value::as_str)
                    == Some("true")
            };
            default.marks.iter().any(is_true)
        });
        let newest = marked.max_by(|(one, first), (other, second)| {
            let created = |class: &Value| metadata::text(class, "creationTimestamp").to_owned();
            let times = created(first.value()).cmp(&created(second.value()));
            times.then_with(|| other.name.cmp(&one.name))
        });
        let newest = newest.map(|(key, _)| key.name.clone());
        let spec = object.get_mut("spec").and_then(Value::as_object_mut);
        if let Some((spec, newest)) = spec.zip(newest) {
            spec.insert(default.field.to_owned(), (*newest).into());
        }
    }
}
