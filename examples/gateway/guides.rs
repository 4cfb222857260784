//! The example manifests as guides: which goes into which namespace. *(pure)*
//!
//! Upstream's examples belong to guides, a folder or a file each, and each guide means to be
//! alone in its namespace: four of them call their gateway `example-gateway`. So each guide
//! gets a namespace of its own, as `kubectl apply --namespace` would give it; what a manifest
//! says of its namespace itself stays. Some guides show several variants of one route, under
//! one name: each further variant gets a further namespace, with a copy of the guide's
//! gateways.

use std::{collections::BTreeMap, fmt};

use kube::api::DynamicObject;
use serde::Deserialize as _;

/// A manifest, and where it is from.
#[derive(Clone, Debug)]
pub(crate) struct Manifest {
    pub(crate) origin: Origin,
    /// Has a namespace, unless its kind has none.
    pub(crate) object: DynamicObject,
}

/// Where a manifest is from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// Upstream's file of this name, within the folder that was read.
    File(String),
    /// Made up here.
    Assumed,
}

/// A file that is not made of manifests.
#[derive(Debug, thiserror::Error)]
#[error("{file} is not made of manifests")]
pub(crate) struct NotManifests {
    file: String,
    source: serde_yaml_ng::Error,
}

/// Those kinds among the manifests that have no namespaces.
const CLUSTER_WIDE: [&str; 2] = ["Namespace", "GatewayClass"];

// === impl Manifest ===

impl Manifest {
    /// The manifests of `file`, which holds `text`.
    pub(crate) fn read(file: &str, text: &str) -> Result<Vec<Self>, NotManifests> {
        let documents = serde_yaml_ng::Deserializer::from_str(text);
        let objects = documents.map(Option::<DynamicObject>::deserialize);
        let manifests = objects.filter_map(|object| {
            let manifest = |object| Self {
                origin: Origin::File(file.to_owned()),
                object,
            };
            // Between two separators there may be nothing.
            object.map(|object| object.map(manifest)).transpose()
        });
        manifests
            .collect::<Result<_, _>>()
            .map_err(|source| NotManifests {
                file: file.to_owned(),
                source,
            })
    }

    pub(crate) fn kind(&self) -> &str {
        self.object.types.as_ref().map_or("", |types| &types.kind)
    }

    pub(crate) fn name(&self) -> &str {
        self.object.metadata.name.as_deref().unwrap_or_default()
    }

    pub(crate) fn namespace(&self) -> Option<&str> {
        self.object.metadata.namespace.as_deref()
    }

    /// What it is called among all objects.
    pub(crate) fn id(&self) -> (String, Option<String>, String) {
        let namespace = self.namespace().map(str::to_owned);
        (self.kind().to_owned(), namespace, self.name().to_owned())
    }

    fn is_route(&self) -> bool {
        self.kind().ends_with("Route")
    }

    /// The folder, or the file without its extension.
    fn guide(&self) -> &str {
        let Origin::File(file) = &self.origin else {
            return "assumed";
        };
        let first = file.split('/').next().unwrap_or(file);
        first.strip_suffix(".yaml").unwrap_or(first)
    }

    fn within(&self, namespace: &str) -> Self {
        let mut placed = self.clone();
        placed.object.metadata.namespace = Some(namespace.to_owned());
        placed
    }
}

impl fmt::Display for Manifest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kind(), self.name())?;
        match &self.origin {
            Origin::File(file) => write!(f, " of {file}"),
            Origin::Assumed => Ok(()),
        }
    }
}

/// Gives a namespace to each manifest that needs one and has none.
pub(crate) fn place(manifests: Vec<Manifest>) -> Vec<Manifest> {
    let mut placed = Vec::new();
    let mut guides: BTreeMap<String, Vec<Manifest>> = BTreeMap::new();
    for manifest in manifests {
        if manifest.namespace().is_some() || CLUSTER_WIDE.contains(&manifest.kind()) {
            placed.push(manifest);
        } else {
            guides
                .entry(manifest.guide().to_owned())
                .or_default()
                .push(manifest);
        }
    }
    for (guide, manifests) in guides {
        placed.extend(place_guide(&guide, &manifests));
    }
    placed
}

fn place_guide(guide: &str, manifests: &[Manifest]) -> Vec<Manifest> {
    let mut variants: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    let mut placed = Vec::new();
    for manifest in manifests {
        let variant = variants
            .entry((manifest.kind(), manifest.name()))
            .or_default();
        *variant += 1;
        placed.push(manifest.within(&namespace(guide, *variant)));
    }
    let most = variants.into_values().max().unwrap_or_default();
    for variant in 2..=most {
        let rest = manifests.iter().filter(|manifest| !manifest.is_route());
        placed.extend(rest.map(|manifest| manifest.within(&namespace(guide, variant))));
    }
    placed
}

fn namespace(guide: &str, variant: usize) -> String {
    match variant {
        1 => guide.to_owned(),
        _ => format!("{guide}-{variant}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_guide_is_a_folder_or_a_file_and_has_a_namespace() {
        check(
            "a/web.yaml Gateway web, a/routes.yaml HTTPRoute r, b.yaml Gateway web",
            &["a Gateway/web", "a HTTPRoute/r", "b Gateway/web"],
        );
    }

    #[test]
    fn an_explicit_namespace_is_kept_and_some_kinds_need_none() {
        check(
            "a/web.yaml Gateway web infra, a/web.yaml GatewayClass c, a/ns.yaml Namespace n",
            &["infra Gateway/web", "- GatewayClass/c", "- Namespace/n"],
        );
    }

    #[test]
    fn a_further_variant_has_a_further_namespace_with_the_gateways_of_the_guide() {
        check(
            "a/w.yaml Gateway web, a/1.yaml HTTPRoute r, a/2.yaml HTTPRoute r, a/2.yaml HTTPRoute s",
            &[
                "a Gateway/web",
                "a HTTPRoute/r",
                "a-2 HTTPRoute/r",
                "a HTTPRoute/s",
                "a-2 Gateway/web",
            ],
        );
    }

    #[test]
    fn a_file_without_manifests_is_named_in_the_error() {
        let error = Manifest::read("a.yaml", "[1, 2]").expect_err("a list is no manifest");
        assert_eq!(error.to_string(), "a.yaml is not made of manifests");
        assert!(
            Manifest::read("b.yaml", "# nothing\n---\n")
                .expect("nothing")
                .is_empty()
        );
    }

    /// Where `manifests` go, each given as `file kind name` and perhaps a namespace.
    #[track_caller]
    fn check(manifests: &str, expected: &[&str]) {
        let manifests = manifests.split(", ").flat_map(|manifest| {
            let mut words = manifest.split(' ');
            let mut word = || words.next().unwrap_or_default();
            let (file, kind, name, namespace) = (word(), word(), word(), word());
            let namespace = Some(namespace).filter(|namespace| !namespace.is_empty());
            let namespace = namespace.map_or(String::new(), |name| format!(", namespace: {name}"));
            let text =
                format!("{{kind: {kind}, apiVersion: v1, metadata: {{name: {name}{namespace}}}}}");
            Manifest::read(file, &text).expect("a manifest")
        });
        let placed = place(manifests.collect());
        let mut placed: Vec<_> = (placed.iter())
            .map(|it| {
                format!(
                    "{} {}/{}",
                    it.namespace().unwrap_or("-"),
                    it.kind(),
                    it.name()
                )
            })
            .collect();
        let mut expected = expected.to_vec();
        placed.sort();
        expected.sort_unstable();
        assert_eq!(placed, expected);
    }
}
