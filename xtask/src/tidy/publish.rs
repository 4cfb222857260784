//! The rules that each crate can be published, and that the stated minimum Rust version is correct.

use std::process::Command;

use serde_json::Value;

use super::nothing;
use crate::{
    features::is_published,
    repository::{Repository, cargo},
};

/// The most keywords that a registry allows.
const KEYWORDS: usize = 5;

#[test]
fn every_published_crate_has_registry_metadata() {
    let repository = Repository::here();
    let metadata = repository.metadata().expect("cargo knows its packages");
    let packages = metadata["packages"].as_array().into_iter().flatten();
    let mut findings = Vec::new();
    for package in packages.filter(|package| is_published(package)) {
        let name = package["name"].as_str().unwrap_or_default();
        let count = |field: &str| package[field].as_array().map_or(0, Vec::len);
        if !(1..=KEYWORDS).contains(&count("keywords")) {
            findings.push(format!("{name}: add 1 to {KEYWORDS} keywords"));
        }
        if count("categories") == 0 {
            findings.push(format!("{name}: add a category"));
        }
        let manifest = package["manifest_path"].as_str().unwrap_or_default();
        let readme = package["readme"].as_str().unwrap_or_default();
        let folder = std::path::Path::new(manifest).parent();
        if readme.is_empty() || !folder.is_some_and(|folder| folder.join(readme).is_file()) {
            findings.push(format!("{name}: add a README.md"));
        }
        // kube requires a version of the Kubernetes types, and docs.rs does not select one.
        let knows = package["dependencies"].as_array().into_iter().flatten();
        let knows_kube = knows
            .filter(|it| it["kind"].is_null())
            .any(|it| it["name"] == "kube" || it["name"] == "windlass-informer");
        if knows_kube && package["metadata"]["docs"]["rs"]["features"].is_null() {
            findings.push(format!(
                "{name}: select a version of the Kubernetes types in package.metadata.docs.rs"
            ));
        }
    }
    nothing(&findings);
}

#[test]
fn the_stated_minimum_rust_version_suffices_for_every_dependency() {
    let repository = Repository::here();
    let arguments = ["metadata", "--format-version", "1", "--offline", "--locked"];
    let output = cargo()
        .args(arguments)
        // Dependencies for other platforms may not be downloaded.
        .args(["--filter-platform", &host()])
        .current_dir(repository.root())
        .output()
        .expect("cargo runs");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let metadata: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let packages = metadata["packages"].as_array().expect("packages");
    let ours = packages.iter().find(|it| it["name"] == "windlass");
    let ours = ours.and_then(|it| it["rust_version"].as_str());
    let ours = ours.expect("windlass states its minimum Rust version");
    let findings = packages.iter().filter_map(|package| {
        let asked = package["rust_version"].as_str()?;
        (numbers(asked) > numbers(ours)).then(|| {
            format!(
                "{} requires Rust {asked}: raise rust-version = {ours:?}, or use an older version of it",
                package["name"]
            )
        })
    });
    let mut findings = findings.collect::<Vec<_>>();
    for page in ["README.md", "CHANGELOG.md", ".github/workflows/ci.yml"] {
        let text = repository.read(page).expect("it can be read");
        if !text.contains(ours) {
            findings.push(format!("{page}: state the minimum Rust version {ours}"));
        }
    }
    nothing(&findings);
}

/// The platform that tests run on, such as `x86_64-unknown-linux-gnu`.
pub(super) fn host() -> String {
    let output = Command::new("rustc")
        .arg("-vV")
        .output()
        .expect("rustc runs");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let host = text.lines().find_map(|line| line.strip_prefix("host: "));
    host.expect("rustc names its host").to_owned()
}

fn numbers(version: &str) -> [u32; 3] {
    let mut parts = version.split('.').map(|it| it.parse().unwrap_or(0));
    std::array::from_fn(|_| parts.next().unwrap_or(0))
}
