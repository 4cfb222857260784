//! The rule that dependencies point in one direction, and come from a registry.

use super::nothing;
use crate::repository::Repository;

/// The crates on which each crate may depend.
const MAY_KNOW: [(&str, &[&str]); 11] = [
    ("windlass-listmap", &[]),
    ("windlass-informer", &[]),
    ("windlass-controller", &["windlass-informer"]),
    (
        "windlass-operator",
        &["windlass-informer", "windlass-controller"],
    ),
    (
        "windlass-composite",
        &["windlass-informer", "windlass-controller"],
    ),
    (
        "windlass-runtime",
        &["windlass-informer", "windlass-controller"],
    ),
    (
        "windlass",
        &[
            "windlass-listmap",
            "windlass-informer",
            "windlass-controller",
            "windlass-composite",
            "windlass-operator",
            "windlass-runtime",
            "windlass-simulate",
        ],
    ),
    ("windlass-model", &[]),
    ("windlass-protobuf", &[]),
    ("windlass-apiserver", &["windlass-protobuf"]),
    (
        "windlass-simulate",
        &[
            "windlass-informer",
            "windlass-controller",
            "windlass-composite",
            "windlass-apiserver",
        ],
    ),
];

/// Crates that may depend on all others: the benchmark and the commands.
const KNOWS_ALL: [&str; 2] = ["windlass-bench", "xtask"];

#[test]
fn dependencies_point_in_one_direction() {
    let metadata = Repository::here()
        .metadata()
        .expect("cargo knows its packages");
    let mut findings = Vec::new();
    for package in metadata["packages"].as_array().into_iter().flatten() {
        let name = package["name"].as_str().unwrap_or_default();
        let Some((_, may_know)) = MAY_KNOW.iter().find(|(it, _)| *it == name) else {
            continue;
        };
        for dependency in package["dependencies"].as_array().into_iter().flatten() {
            let knows = dependency["name"].as_str().unwrap_or_default();
            // Tests and examples may depend on all crates.
            let for_tests = dependency["kind"].as_str() == Some("dev");
            let ours = knows == "windlass" || knows.starts_with("windlass-");
            if ours && !for_tests && !may_know.contains(&knows) {
                findings.push(format!("{name} must not depend on {knows}"));
            }
        }
    }
    nothing(&findings);
}

#[test]
fn every_crate_has_allowed_dependencies() {
    let metadata = Repository::here()
        .metadata()
        .expect("cargo knows its packages");
    let packages = metadata["packages"].as_array().into_iter().flatten();
    let names = packages.filter_map(|package| package["name"].as_str());
    let unknown = names
        .filter(|name| !KNOWS_ALL.contains(name) && !MAY_KNOW.iter().any(|(it, _)| it == name));
    let findings = unknown.map(|name| {
        format!("{name}: add its allowed dependencies to xtask/src/tidy/directions.rs")
    });
    nothing(&findings.collect::<Vec<_>>());
}

#[test]
fn no_dependency_comes_from_git() {
    let lock = Repository::here()
        .read("Cargo.lock")
        .expect("Cargo.lock is committed");
    let from_git = lock
        .lines()
        .filter(|line| line.starts_with("source = \"git+"));
    let findings = from_git.map(|line| format!("Cargo.lock: {line}: use a published version"));
    nothing(&findings.collect::<Vec<_>>());
}
