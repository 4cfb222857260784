//! Applies manifests to a server before it is ready.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use http::{Method, Request, StatusCode};
use http_body_util::{BodyExt as _, Full};
use serde_json::Value;
use tower::ServiceExt as _;
use windlass_apiserver::{ApiServer, ManifestError, read_manifest};

/// The field manager of loaded objects.
const MANAGER: &str = "windlass-apiserver";

/// The reason why manifests were not loaded.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LoadError {
    #[error("cannot read {}", path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("cannot parse {}", path.display())]
    Parse {
        path: PathBuf,
        source: ManifestError,
    },
    #[error("cannot apply {what} of {}: {why}", path.display())]
    Apply {
        path: PathBuf,
        what: String,
        why: String,
    },
}

/// An object, and the file of its manifest.
struct Manifest {
    path: PathBuf,
    object: Value,
}

/// Applies all manifests in `paths`, which are files and directories: first definitions, then
/// namespaces, then the others in their order.
pub(crate) async fn load(server: &ApiServer, paths: &[PathBuf]) -> Result<(), LoadError> {
    let mut manifests = Vec::new();
    for path in paths {
        read(path, &mut manifests)?;
    }
    manifests.sort_by_key(|manifest| match manifest.object["kind"].as_str() {
        Some("CustomResourceDefinition") => 0,
        Some("Namespace") => 1,
        _ => 2,
    });
    for manifest in manifests {
        let applied = apply(server, &manifest.object).await;
        applied.map_err(|why| LoadError::Apply {
            what: named(&manifest.object),
            path: manifest.path,
            why,
        })?;
    }
    Ok(())
}

/// Returns the name of an object in errors.
fn named(object: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap_or("(none)").to_owned();
    format!(
        "{} {}",
        text(&object["kind"]),
        text(&object["metadata"]["name"])
    )
}

/// Reads the manifests of a file, or of all YAML and JSON files of a directory in alphabetical order.
fn read(path: &Path, manifests: &mut Vec<Manifest>) -> Result<(), LoadError> {
    let unreadable = |source| LoadError::Read {
        path: path.to_owned(),
        source,
    };
    if path.is_dir() {
        let entries = fs::read_dir(path).map_err(unreadable)?;
        let files: Result<Vec<_>, _> = entries.map(|it| it.map(|it| it.path())).collect();
        let mut files = files.map_err(unreadable)?;
        files.sort();
        let extension = |file: &PathBuf| file.extension()?.to_str().map(str::to_owned);
        files.retain(|file| {
            let extension = extension(file);
            matches!(extension.as_deref(), Some("yaml" | "yml" | "json"))
        });
        return files.iter().try_for_each(|file| read(file, manifests));
    }
    let text = fs::read_to_string(path).map_err(unreadable)?;
    let objects = read_manifest(&text).map_err(|source| LoadError::Parse {
        path: path.to_owned(),
        source,
    })?;
    for object in objects {
        let items = match object {
            Value::Object(mut list) if list.get("kind") == Some(&Value::from("List")) => {
                let items = list.get_mut("items").and_then(Value::as_array_mut);
                items.map(std::mem::take).unwrap_or_default()
            }
            object => vec![object],
        };
        manifests.extend(items.into_iter().map(|object| Manifest {
            path: path.to_owned(),
            object,
        }));
    }
    Ok(())
}

/// Applies one object with server-side apply.
async fn apply(server: &ApiServer, object: &Value) -> Result<(), String> {
    let text = |value: &Value, what: &str| match value.as_str() {
        Some(text) if !text.is_empty() => Ok(text.to_owned()),
        _ => Err(format!("it has no {what}")),
    };
    let version = text(&object["apiVersion"], "apiVersion")?;
    let kind = text(&object["kind"], "kind")?;
    let name = text(&object["metadata"]["name"], "name")?;
    let root = if version.contains('/') {
        format!("/apis/{version}")
    } else {
        format!("/api/{version}")
    };
    let (code, resources) = ask(server, Method::GET, &root, "").await?;
    let resources = resources["resources"].as_array().cloned();
    let resource = resources.unwrap_or_default().into_iter().find(|resource| {
        let name = resource["name"].as_str().unwrap_or_default();
        resource["kind"] == kind.as_str() && !name.contains('/')
    });
    let Some(resource) = resource else {
        return Err(format!(
            "the server has no kind {kind} in {version} ({code})"
        ));
    };
    let plural = text(&resource["name"], "resource")?;
    let path = if resource["namespaced"] == true {
        let namespace = object["metadata"]["namespace"].as_str();
        let namespace = namespace.unwrap_or("default");
        format!("{root}/namespaces/{namespace}/{plural}/{name}")
    } else {
        format!("{root}/{plural}/{name}")
    };
    let path = format!("{path}?fieldManager={MANAGER}&force=true&fieldValidation=Strict");
    let (code, answer) = ask(server, Method::PATCH, &path, &object.to_string()).await?;
    if code.is_success() {
        return Ok(());
    }
    Err(answer["message"]
        .as_str()
        .unwrap_or(code.as_str())
        .to_owned())
}

async fn ask(
    server: &ApiServer,
    method: Method,
    path: &str,
    body: &str,
) -> Result<(StatusCode, Value), String> {
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header("content-type", "application/apply-patch+yaml")
        .body(Full::new(Bytes::from(body.to_owned())))
        .map_err(|error| format!("it cannot be part of a URL: {error}"))?;
    // The service never fails.
    let Ok(response) = server.service().oneshot(request).await;
    let code = response.status();
    let Ok(body) = response.into_body().collect().await;
    Ok((
        code,
        serde_json::from_slice(&body.to_bytes()).unwrap_or_default(),
    ))
}
