//! The steps of a full run.

use std::{fs, path::Path, process::Command};

use serde_json::Value;

use super::ON_BOTH_SERVERS;
use super::step::Step;
use crate::{
    Result,
    features::is_published,
    fuzz,
    kube_apiserver::{self, Found},
    repository::Repository,
};

/// The version of the Kubernetes types for the documentation, as in the dev-dependencies.
const K8S_VERSION: &str = "1.36";

/// Checks that the generated tables match the modules in tests/kube-apiserver/go.mod.
pub(super) fn tables() -> Step {
    let arguments = [
        "run",
        "--quiet",
        "--package",
        "xtask",
        "--",
        "protobuf-tables",
        "--check",
    ];
    Step::new("protobuf tables", arguments)
}

pub(super) fn checks() -> [Step; 3] {
    let lints = [
        "clippy",
        "--workspace",
        "--all-targets",
        "--",
        "-D",
        "warnings",
    ];
    let mut documentation = Step::new("documentation", ["doc", "--workspace", "--no-deps"]);
    documentation
        .command
        .env("RUSTDOCFLAGS", "-D warnings")
        // The user's binary normally selects the version; the documentation has none.
        .env("K8S_OPENAPI_ENABLED_VERSION", K8S_VERSION);
    [
        Step::new("format", ["fmt", "--all", "--check"]),
        Step::new("lints", lints),
        documentation,
    ]
}

/// Packages each published crate.
pub(super) fn packages(metadata: &Value) -> Step {
    let mut step = Step::new(
        "packages",
        ["package", "--no-verify", "--allow-dirty", "--offline"],
    );
    let packages = metadata["packages"].as_array().into_iter().flatten();
    for package in packages.filter(|package| is_published(package)) {
        let name = package["name"].as_str().unwrap_or_default();
        step.command.args(["--package", name]);
    }
    step
}

pub(super) fn licences(deny: &Path) -> Step {
    let mut command = Command::new(deny);
    // Not `--offline`: cargo downloads the crates of other platforms, which the build does not need.
    // No check here uses the database of advisories; `cargo deny check advisories` is a job of CI.
    command.args(["--locked", "check", "licenses", "bans", "sources"]);
    Step {
        name: "licences".to_owned(),
        command,
        on_servers: false,
    }
}

/// Builds the examples together: the tests that run them build one by one.
pub(super) fn built_examples() -> Step {
    Step::new(
        "build of the examples",
        ["build", "--workspace", "--examples"],
    )
}

/// Runs all tests except doc tests and the tests on both servers, which are counted separately.
pub(super) fn unit(metadata: &Value) -> Step {
    let mut step = Step::new(
        "unit and model tests",
        ["test", "--workspace", "--no-fail-fast"],
    );
    step.command.args(["--lib", "--bins"]);
    for test in targets(metadata, "test").filter(|name| !ON_BOTH_SERVERS.contains(name)) {
        step.command.args(["--test", test]);
    }
    // Only for the examples that have tests.
    for example in targets(metadata, "example") {
        step.command.args(["--example", example]);
    }
    // A fixed seed, so that the next run finds the same.
    step.command.env(fuzz::SEED, "1");
    step
}

/// The command of the API server, which needs a feature.
pub(super) fn command() -> Step {
    Step::new(
        "command windlass-apiserver",
        [
            "test",
            "--workspace",
            "--features",
            "windlass-apiserver/cli",
            "--test",
            "command",
        ],
    )
}

pub(super) fn docs() -> Step {
    Step::new(
        "documentation's tests",
        ["test", "--workspace", "--no-fail-fast", "--doc"],
    )
}

pub(super) fn on_both_servers(test: &str, found: &Found) -> Step {
    let arguments = ["test", "--workspace", "--no-fail-fast", "--test", test];
    let mut step = Step::new(test, arguments);
    step.on_servers = true;
    match found {
        Found::Server(server) => step.command.env(kube_apiserver::BUILT, &server.program),
        Found::Nothing(_) => step.command.env_remove(kube_apiserver::BUILT),
    };
    step
}

/// The examples that run until they are stopped, on a cluster. Their tests are in `tests/examples`, or
/// in the example.
const ON_A_CLUSTER: [&str; 2] = ["production", "cronjob"];

/// Runs each other example to its end.
pub(super) fn examples(repository: &Repository) -> Result<Vec<Step>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(repository.join("examples"))? {
        let path = entry?.path();
        let main = path.join("main.rs");
        if path.extension().is_some_and(|it| it == "rs") || main.is_file() {
            names.extend(
                path.file_stem()
                    .map(|stem| stem.to_string_lossy().into_owned()),
            );
        }
    }
    names.retain(|name| !ON_A_CLUSTER.contains(&name.as_str()));
    names.sort_unstable();
    Ok(names
        .iter()
        .map(|name| {
            Step::new(
                format!("example {name}"),
                ["run", "--quiet", "--example", name.as_str()],
            )
        })
        .collect())
}

/// The names of all test binaries of the workspace that need no feature.
fn targets<'a>(metadata: &'a Value, kind: &'a str) -> impl Iterator<Item = &'a str> {
    let packages = metadata["packages"].as_array().into_iter().flatten();
    let targets = packages.flat_map(|package| package["targets"].as_array().into_iter().flatten());
    targets
        .filter(|target| target["test"] == true && target["required-features"].is_null())
        .filter(move |target| {
            let kinds = target["kind"].as_array();
            kinds.is_some_and(|kinds| kinds.iter().any(|it| it == kind))
        })
        .filter_map(|target| target["name"].as_str())
}
