//! Loading: manifests become objects of an API server.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs, io,
    path::{Path, PathBuf},
    time::Duration,
};

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{
    Api, Client, ResourceExt as _,
    api::{DynamicObject, GroupVersionKind, PostParams},
    discovery::{Discovery, Scope},
};
use serde_json::json;

use crate::guides::{Manifest, NotManifests, namespaces};

/// Puts manifests into an API server.
pub(crate) struct Loader {
    client: Client,
    discovery: Discovery,
}

/// What became of some manifests.
#[derive(Debug, Default)]
pub(crate) struct Loaded {
    /// How many objects of each kind there are now.
    pub(crate) objects: BTreeMap<String, usize>,
    /// The manifests that took the place of an earlier one of the same name.
    pub(crate) replaced: Vec<String>,
    /// The manifests that the API server did not take, and why.
    pub(crate) refused: Vec<(String, String)>,
    names: BTreeSet<(String, Option<String>, String)>,
}

/// What became of one manifest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Applied {
    Created,
    Replaced,
    /// It was there, and is as the manifest says.
    Unchanged,
}

/// Why something could not be loaded.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LoadError {
    #[error("cannot read {}", path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error(transparent)]
    NotManifests(#[from] NotManifests),
    #[error("the API server has no kind {0}")]
    UnknownKind(String),
    #[error("the API server did not accept {object}")]
    Refused {
        object: String,
        source: Box<kube::Error>,
    },
    #[error("the CRD {0} was not established in time")]
    NotEstablished(String),
    #[error("the API server does not say what it has")]
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
    /// Installs the CRDs among `manifests`, unless they are there, and waits until they are
    /// served. Returns the loader, and the manifests that are no CRDs.
    pub(crate) async fn install(
        client: Client,
        manifests: Vec<Manifest>,
    ) -> Result<(Self, Vec<Manifest>), LoadError> {
        let is_crd = |manifest: &Manifest| manifest.kind() == "CustomResourceDefinition";
        let (crds, others): (Vec<_>, Vec<_>) = manifests.into_iter().partition(is_crd);
        let api: Api<CustomResourceDefinition> = Api::all(client.clone());
        for crd in &crds {
            create_or_skip(&api, crd).await?;
        }
        for crd in &crds {
            established(&api, crd.name()).await?;
        }
        let discovery = Discovery::new(client.clone()).run().await;
        let discovery = discovery.map_err(|source| LoadError::Discovery {
            source: Box::new(source),
        })?;
        Ok((Self { client, discovery }, others))
    }

    /// Loads `manifests`, and the namespaces that they need. A manifest that the API server
    /// does not take is noted, and the others are loaded.
    pub(crate) async fn load(&self, manifests: &[Manifest], loaded: &mut Loaded) {
        for namespace in namespaces(manifests) {
            self.note(&self::namespace(&namespace), loaded).await;
        }
        // Classes and namespaces first, since the others need them.
        let (wide, placed): (Vec<_>, Vec<_>) = manifests
            .iter()
            .partition(|manifest| manifest.namespace().is_none());
        for manifest in wide.into_iter().chain(placed) {
            self.note(manifest, loaded).await;
        }
    }

    async fn note(&self, manifest: &Manifest, loaded: &mut Loaded) {
        let shown = || {
            format!(
                "{} {} ({})",
                manifest.kind(),
                manifest.name(),
                manifest.file
            )
        };
        match self.apply(manifest).await {
            Ok(applied) => {
                let namespace = manifest.namespace().map(str::to_owned);
                let name = (
                    manifest.kind().to_owned(),
                    namespace,
                    manifest.name().to_owned(),
                );
                if loaded.names.insert(name) {
                    *loaded
                        .objects
                        .entry(manifest.kind().to_owned())
                        .or_default() += 1;
                } else if applied == Applied::Replaced {
                    loaded.replaced.push(shown());
                }
            }
            Err(error) => loaded.refused.push((shown(), chain(&error))),
        }
    }

    /// Creates the object of `manifest`, or puts it in the place of the one that is there.
    pub(crate) async fn apply(&self, manifest: &Manifest) -> Result<Applied, LoadError> {
        let api = self.api(manifest)?;
        let there = api
            .get_opt(manifest.name())
            .await
            .map_err(refused(manifest))?;
        let params = PostParams::default();
        let Some(there) = there else {
            let created = api.create(&params, &manifest.object).await;
            return created.map(|_| Applied::Created).map_err(refused(manifest));
        };
        let mut object = manifest.object.clone();
        object.metadata.resource_version = there.resource_version();
        let replaced = api.replace(manifest.name(), &params, &object).await;
        let replaced = replaced.map_err(refused(manifest))?;
        Ok(if replaced.resource_version() == there.resource_version() {
            Applied::Unchanged
        } else {
            Applied::Replaced
        })
    }

    /// Deletes the object of `manifest`.
    pub(crate) async fn delete(&self, manifest: &Manifest) -> Result<(), LoadError> {
        let deleted = self
            .api(manifest)?
            .delete(manifest.name(), &Default::default())
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

async fn create_or_skip(
    api: &Api<CustomResourceDefinition>,
    manifest: &Manifest,
) -> Result<(), LoadError> {
    let crd = serde_json::to_value(&manifest.object).and_then(serde_json::from_value);
    let crd = crd
        .map_err(|source| kube::Error::SerdeError(source))
        .map_err(refused(manifest))?;
    match api.create(&PostParams::default(), &crd).await {
        Err(kube::Error::Api(status)) if status.is_already_exists() => Ok(()),
        created => created.map(|_| ()).map_err(refused(manifest)),
    }
}

/// Waits until the API server serves the kind of the CRD `name`.
async fn established(api: &Api<CustomResourceDefinition>, name: &str) -> Result<(), LoadError> {
    const PAUSE: Duration = Duration::from_millis(100);
    const PAUSES: usize = 300;
    for _ in 0..PAUSES {
        let crd = api.get(name).await.map_err(|source| LoadError::Refused {
            object: name.to_owned(),
            source: Box::new(source),
        })?;
        let mut conditions = crd
            .status
            .iter()
            .flat_map(|status| status.conditions.iter().flatten());
        if conditions.any(|one| one.type_ == "Established" && one.status == "True") {
            return Ok(());
        }
        tokio::time::sleep(PAUSE).await;
    }
    Err(LoadError::NotEstablished(name.to_owned()))
}

/// A namespace of a guide; the label finds all of them again.
fn namespace(name: &str) -> Manifest {
    let namespace: DynamicObject = serde_json::from_value(json!({
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": { "name": name, "labels": { "windlass.rs/example": "gateway" } },
    }))
    .expect("a namespace");
    Manifest {
        file: "a guide's".to_owned(),
        object: namespace,
    }
}

fn refused(manifest: &Manifest) -> impl Fn(kube::Error) -> LoadError {
    let object = format!("{} {}", manifest.kind(), manifest.name());
    move |source| LoadError::Refused {
        object: object.clone(),
        source: Box::new(source),
    }
}

/// What an error says, with its reasons.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let reasons = std::iter::successors(error.source(), |reason| reason.source());
    reasons.fold(error.to_string(), |said, reason| {
        let reason = reason.to_string();
        if said.contains(&reason) {
            said
        } else {
            format!("{said}: {reason}")
        }
    })
}
