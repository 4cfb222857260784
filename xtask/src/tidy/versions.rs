//! The rule that docs/deploying.md names the versions of Kubernetes that CI tests.

use clap::ValueEnum as _;

use super::nothing;
use crate::{kube_apiserver::Minor, repository::Repository};

const PAGE: &str = "docs/deploying.md";
const WORKFLOW: &str = ".github/workflows/ci.yml";
const RUN: &str = ".ci/run";

#[test]
fn the_supported_versions_are_those_that_ci_tests() {
    let repository = Repository::here();
    let read = |path: &str| repository.read(path).expect("a file");
    let [page, workflow, run] = [PAGE, WORKFLOW, RUN].map(read);
    let documented = table(&page);
    let tested = real(&format!("{workflow}\n{run}"));
    let mut findings = Vec::new();
    let of = |server: &str| -> Vec<&str> {
        let rows = documented.iter().filter(|(_, on)| on.contains(&server));
        rows.map(|(version, _)| *version).collect()
    };
    if of("kube-apiserver") != tested {
        let documented = of("kube-apiserver");
        findings.push(format!(
            "{PAGE} has {documented:?} on the kube-apiserver, and CI tests {tested:?}"
        ));
    }
    let profiles = profiles(&read("crates/apiserver/src/profile.rs"));
    if of("embedded") != profiles {
        let documented = of("embedded");
        findings.push(format!(
            "{PAGE} has {documented:?} on the embedded server, which has {profiles:?}"
        ));
    }
    nothing(&findings);
}

#[test]
fn a_run_without_a_version_tests_the_default_one() {
    assert_eq!(
        real("- run: .ci/run\n- run: cargo xtask test --minor 1.34"),
        ["1.34"]
    );
    assert_eq!(real("cargo xtask test\n"), ["1.36"]);
    assert_eq!(
        real("cargo xtask test --quick\n# cargo xtask test\n"),
        [""; 0]
    );
}

#[test]
fn a_version_is_in_the_first_column_and_its_servers_in_the_second() {
    let page = "| Kubernetes | tests |\n|--|--|\n| 1.36 | kube-apiserver, embedded |\n\n| 1.1 |\n";
    assert_eq!(table(page), [("1.36", vec!["kube-apiserver", "embedded"])]);
}

/// The versions of the table of supported versions, and the servers on which each is tested.
fn table(page: &str) -> Vec<(&str, Vec<&str>)> {
    let rows = page
        .lines()
        .skip_while(|line| !line.starts_with("| Kubernetes |"));
    let rows = rows.skip(2).take_while(|line| line.starts_with('|'));
    let columns = rows.map(|row| row.split('|').map(str::trim).collect::<Vec<_>>());
    columns
        .filter(|columns| columns.len() > 2)
        .map(|columns| (columns[1], columns[2].split(", ").collect()))
        .collect()
}

/// The versions of the real server with which these commands run the tests, from the oldest one.
fn real(commands: &str) -> Vec<&'static str> {
    let all = Minor::value_variants().iter().copied();
    all.filter(|minor| {
        // Not comments.
        let mut lines = commands
            .lines()
            .filter(|line| !line.trim().starts_with('#'));
        lines.any(|line| {
            let Some((_, flags)) = line.split_once("cargo xtask test") else {
                return false;
            };
            match flags.split_once("--minor ") {
                Some((_, version)) => version.trim() == minor.number(),
                None => *minor == Minor::default() && !flags.contains("--quick"),
            }
        })
    })
    .map(Minor::number)
    .collect()
}

/// The versions whose profiles the embedded server has.
fn profiles(code: &str) -> Vec<String> {
    let variants = code
        .lines()
        .filter_map(|line| line.trim().strip_suffix(','));
    let variants = variants.filter_map(|variant| variant.strip_prefix("V"));
    let versions = variants.filter(|it| it.bytes().all(|it| it.is_ascii_digit() || it == b'_'));
    versions.map(|version| version.replace('_', ".")).collect()
}
