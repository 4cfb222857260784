//! The Go modules that the tables are generated from.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use serde_json::Value;

use super::{Package, go_types::GoPackage, proto};
use crate::{Result, repository::Repository};

/// The program whose `go.mod` pins the versions.
const PINNED_BY: &str = "tests/kube-apiserver";

/// The modules, and the folders in them whose packages are read.
const MODULES: [(&str, &[&str]); 5] = [
    ("k8s.io/api", &[""]),
    (
        "k8s.io/apimachinery",
        &["pkg/apis/meta/v1", "pkg/apis/meta/v1beta1"],
    ),
    (
        "k8s.io/apiextensions-apiserver",
        &["pkg/apis/apiextensions"],
    ),
    ("k8s.io/kube-aggregator", &["pkg/apis/apiregistration"]),
    ("k8s.io/metrics", &["pkg/apis/metrics"]),
];

/// The file that makes a folder a package for us.
const PROTO: &str = "generated.proto";

/// Downloads the modules and reads their packages, in the order of their paths.
pub(crate) fn packages(repository: &Repository) -> Result<Vec<Package>> {
    let mut packages = Vec::new();
    for (name, folders) in MODULES {
        let (version, root) = download(repository, name)?;
        for folder in folders {
            let mut found = Vec::new();
            find(&root.join(folder), &mut found)?;
            for path in found {
                packages.push(read(name, &version, &root, &path)?);
            }
        }
    }
    packages.sort_by(|one, other| one.path.cmp(&other.path));
    Ok(packages)
}

/// Downloads a module, and says which version it is and where.
fn download(repository: &Repository, name: &str) -> Result<(String, PathBuf)> {
    let output = Command::new("go")
        .args(["mod", "download", "-json", name])
        .current_dir(repository.join(PINNED_BY))
        .output()
        .map_err(|error| format!("cannot run go, which downloads {name}: {error}"))?;
    if !output.status.success() {
        let stderr = String::from_utf8_lossy(&output.stderr);
        return Err(format!("cannot download {name}: {stderr}").into());
    }
    let module: Value = serde_json::from_slice(&output.stdout)?;
    let field = |field: &str| module[field].as_str().map(str::to_owned);
    let found = field("Version").zip(field("Dir"));
    let (version, dir) = found.ok_or_else(|| format!("go does not say where {name} is"))?;
    Ok((version, dir.into()))
}

/// Finds the folders below `folder` that have a `generated.proto`.
fn find(folder: &Path, found: &mut Vec<PathBuf>) -> Result<()> {
    if folder.join(PROTO).is_file() {
        found.push(folder.to_owned());
    }
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            find(&path, found)?;
        }
    }
    Ok(())
}

fn read(module: &str, version: &str, root: &Path, path: &Path) -> Result<Package> {
    let text = fs::read_to_string(path.join(PROTO))?;
    let (proto_name, messages) = proto::parse(&text)?;
    let mut go = GoPackage::default();
    for entry in fs::read_dir(path)? {
        let file = entry?.path();
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        let written_by_hand =
            !name.starts_with("zz_") && !name.ends_with(".pb.go") && !name.ends_with("_test.go");
        if name.ends_with(".go") && written_by_hand {
            go.read(&fs::read_to_string(&file)?)?;
        }
    }
    let inside = path.strip_prefix(root).unwrap_or(path).to_string_lossy();
    Ok(Package {
        proto_name,
        path: format!("{module}/{inside}"),
        module: format!("{module} {version}"),
        group: go.group.clone(),
        messages,
        go,
    })
}
