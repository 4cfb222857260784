//! Loads manifests into an API server.

use std::{
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
};

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{
    Api, Client,
    api::{
        ApiResource, DeleteParams, DynamicObject, GroupVersionKind, Patch, PatchParams, PostParams,
    },
    discovery::{Discovery, Scope},
    runtime::wait::{self, await_condition, conditions},
};
use tokio::time::timeout;
use windlass::ObjectKey;

use crate::{
    TIMEOUT,
    guides::{Manifest, NotManifests, Origin},
};

/// Loads manifests into an API server.
pub(crate) struct Loader {
    client: Client,
    discovery: Discovery,
}

/// The results of loading manifests.
#[derive(Debug, Default)]
pub(crate) struct Inventory {
    /// The number of objects from upstream files, by kind.
    pub(crate) upstream: BTreeMap<String, usize>,
    /// The number of generated objects, by kind.
    pub(crate) assumed: BTreeMap<String, usize>,
    /// The manifests that replaced another one with the same name.
    pub(crate) replaced: Vec<String>,
    /// The manifests that the API server rejected, with the errors.
    pub(crate) refused: Vec<(String, LoadError)>,
}

/// Why a manifest could not be loaded.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LoadError {
    #[error("cannot read {}", path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error(transparent)]
    NotManifests(#[from] NotManifests),
    #[error("the API server has no kind {0}")]
    UnknownKind(String),
    #[error("the API server rejected {object}: {why}")]
    Refused { object: String, why: String },
    #[error("timed out waiting for the CRD {0} to be established")]
    NotEstablished(String),
    #[error("cannot watch a CRD until it is established")]
    NotWatched(#[from] wait::Error),
    #[error("cannot discover the kinds of the API server")]
    Discovery { source: Box<kube::Error> },
}

/// All manifests below `folder`, by the order of their files.
pub(crate) fn read(folder: &Path) -> Result<Vec<Manifest>, LoadError> {
    let mut files = Vec::new();
    list(folder, &mut files).map_err(|source| LoadError::Read {
        path: folder.to_owned(),
        source,
    })?;
    files.sort();
    let mut manifests = Vec::new();
    for path in files {
        let text = fs::read_to_string(&path).map_err(|source| LoadError::Read {
            path: path.clone(),
            source,
        })?;
        let file = path.strip_prefix(folder).unwrap_or(&path).to_string_lossy();
        manifests.extend(Manifest::read(&file.replace('\\', "/"), &text)?);
    }
    Ok(manifests)
}

fn list(folder: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            list(&path, files)?;
        } else if path
            .extension()
            .is_some_and(|extension| extension == "yaml")
        {
            files.push(path);
        }
    }
    Ok(())
}

// === impl Loader ===

impl Loader {
    /// Installs the CRDs among `manifests` that do not exist, and waits until they are served.
    /// Returns the loader, and the other manifests.
    pub(crate) async fn install(
        client: Client,
        manifests: Vec<Manifest>,
    ) -> Result<(Self, Vec<Manifest>), LoadError> {
        let is_crd = |manifest: &Manifest| manifest.kind() == "CustomResourceDefinition";
        let (crds, others): (Vec<_>, Vec<_>) = manifests.into_iter().partition(is_crd);
        let resource = ApiResource::erase::<CustomResourceDefinition>(&());
        let created: Api<DynamicObject> = Api::all_with(client.clone(), &resource);
        for crd in &crds {
            match created.create(&PostParams::default(), &crd.object).await {
                // An existing one may be newer and in use.
                Err(kube::Error::Api(status)) if status.is_already_exists() => {}
                result => _ = result.map_err(refused(crd))?,
            }
        }
        let installed: Api<CustomResourceDefinition> = Api::all(client.clone());
        for crd in &crds {
            let established = conditions::is_crd_established();
            let waited = await_condition(installed.clone(), crd.name(), established);
            let not_established = |_| LoadError::NotEstablished(crd.name().to_owned());
            timeout(TIMEOUT, waited).await.map_err(not_established)??;
        }
        let discovery = Discovery::new(client.clone()).run().await;
        let discovery = discovery.map_err(|source| LoadError::Discovery {
            source: Box::new(source),
        })?;
        Ok((Self { client, discovery }, others))
    }

    /// Loads `manifests`. If the API server rejects one, the others are still loaded.
    pub(crate) async fn load(&self, manifests: &[Manifest]) -> Inventory {
        let mut inventory = Inventory::default();
        let mut seen = BTreeMap::new();
        // Namespaces first, because other objects are in them.
        let is_namespace = |manifest: &&Manifest| manifest.kind() == "Namespace";
        let (namespaces, others): (Vec<_>, Vec<_>) = manifests.iter().partition(is_namespace);
        for manifest in namespaces.into_iter().chain(others) {
            let id = (manifest.kind(), ObjectKey::of(&manifest.object));
            let before = seen.insert(id, &manifest.object);
            if before == Some(&manifest.object) {
                continue;
            }
            if let Err(error) = self.apply(manifest).await {
                inventory.refused.push((manifest.to_string(), error));
            } else if before.is_some() {
                inventory.replaced.push(manifest.to_string());
            } else {
                let counts = match manifest.origin {
                    Origin::File(_) => &mut inventory.upstream,
                    Origin::Assumed => &mut inventory.assumed,
                };
                *counts.entry(manifest.kind().to_owned()).or_default() += 1;
            }
        }
        inventory
    }

    /// Applies the object of `manifest` by server-side apply: creates it, or sets its fields and
    /// removes those of an earlier manifest.
    pub(crate) async fn apply(&self, manifest: &Manifest) -> Result<(), LoadError> {
        let params = PatchParams::apply("gateway-example").force();
        let config = Patch::Apply(&manifest.object);
        let applied = self
            .api(manifest)?
            .patch(manifest.name(), &params, &config)
            .await;
        applied.map(|_| ()).map_err(refused(manifest))
    }

    /// Deletes the object of `manifest`.
    pub(crate) async fn delete(&self, manifest: &Manifest) -> Result<(), LoadError> {
        let deleted = self
            .api(manifest)?
            .delete(manifest.name(), &DeleteParams::default())
            .await;
        deleted.map(|_| ()).map_err(refused(manifest))
    }

    fn api(&self, manifest: &Manifest) -> Result<Api<DynamicObject>, LoadError> {
        let types = manifest.object.types.clone().unwrap_or_default();
        let unknown = || LoadError::UnknownKind(format!("{} of {}", types.kind, types.api_version));
        let gvk = GroupVersionKind::try_from(&types).map_err(|_| unknown())?;
        let (resource, capabilities) = self.discovery.resolve_gvk(&gvk).ok_or_else(unknown)?;
        let client = self.client.clone();
        Ok(match (capabilities.scope, manifest.namespace()) {
            (Scope::Namespaced, Some(namespace)) => {
                Api::namespaced_with(client, namespace, &resource)
            }
            _ => Api::all_with(client, &resource),
        })
    }
}

fn refused(manifest: &Manifest) -> impl FnOnce(kube::Error) -> LoadError {
    let object = manifest.to_string();
    move |error| LoadError::Refused {
        object,
        // The message is enough; kube would print the complete response.
        why: match error {
            kube::Error::Api(status) => status.message,
            error => chain(&error),
        },
    }
}

/// The message of an error and of its sources.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let reasons = std::iter::successors(error.source(), |reason| reason.source());
    reasons.fold(error.to_string(), |text, reason| {
        let reason = reason.to_string();
        if text.contains(&reason) {
            text
        } else {
            format!("{text}: {reason}")
        }
    })
}
