//! The quick run of the test command: only what a change touches, and only the embedded server.

use super::{
    ON_BOTH_SERVERS,
    changes::{Packages, Touched, changed_files},
    step::Step,
};
use crate::{Result, fuzz, repository::Repository};

/// The package with the examples and with the tests on both servers.
const FACADE: &str = "windlass";

/// The package with the tidy tests, which check all files and documents.
const TIDY: &str = "xtask";

/// The packages that the behaviour tests run.
const BEHAVIOUR: [&str; 8] = [
    FACADE,
    "windlass-informer",
    "windlass-controller",
    "windlass-composite",
    "windlass-operator",
    "windlass-runtime",
    "windlass-protobuf",
    SERVER,
];

/// The embedded server.
const SERVER: &str = "windlass-apiserver";

/// The binaries of the behaviour suite, and whether only a change of the embedded server can break them.
const SUITE: [(&str, bool); 3] = [("behaviour", false), ("kube_rs", false), ("server", true)];

/// The test binaries that take minutes, or run the programs of a whole test run.
const LONG: [&str; 3] = ["examples", "fuzz", "promtool"];

/// The variables with the number of random runs, and the number of a quick run: a quarter of the
/// default.
const RUNS: [(&str, &str); 2] = [
    ("WINDLASS_HISTORIES", "500"),
    ("WINDLASS_SERVER_HISTORIES", "50"),
];

/// The steps for the changes in the work tree and since main.
pub(super) fn steps(repository: &Repository) -> Result<Vec<Step>> {
    let (since, files) = changed_files(repository)?;
    let metadata = repository.metadata()?;
    let touched = Packages::of(&metadata).touched(files.iter().map(String::as_str));
    println!(
        "{} files differ from {since}; packages: {}",
        files.len(),
        match touched.packages.len() {
            0 => "none".to_owned(),
            _ => touched
                .packages
                .iter()
                .cloned()
                .collect::<Vec<_>>()
                .join(", "),
        }
    );
    let mut steps = vec![Step::new("format", ["fmt", "--all", "--check"])];
    steps.extend(lints(&touched));
    steps.push(unit(&touched));
    steps.extend(behaviour(&touched));
    steps.push(quickstart(&touched));
    for step in &mut steps {
        step.command.envs(RUNS).env(fuzz::SEED, "1");
    }
    Ok(steps)
}

/// Selects the same packages in each step: the features of dependencies follow from the
/// selection, and with other features all of them are built again.
fn select<'a>(command: &[&'a str], touched: &'a Touched) -> Vec<&'a str> {
    let mut arguments = command.to_vec();
    let always = [FACADE, TIDY];
    let others = touched.packages.iter().map(String::as_str);
    for package in always
        .into_iter()
        .chain(others.filter(|it| !always.contains(it)))
    {
        arguments.extend(["--package", package]);
    }
    arguments
}

fn lints(touched: &Touched) -> Option<Step> {
    if touched.packages.is_empty() {
        return None;
    }
    let mut arguments = vec!["clippy", "--all-targets"];
    for package in &touched.packages {
        arguments.extend(["--package", package]);
    }
    arguments.extend(["--", "-D", "warnings"]);
    Some(Step::new("lints", arguments))
}

/// The unit tests of all touched packages, the test binaries of the changed ones, and tidy.
fn unit(touched: &Touched) -> Step {
    let mut arguments = select(&["test", "--no-fail-fast", "--lib", "--bins"], touched);
    let tests = touched.tests.iter().map(String::as_str);
    let left_out = |test: &&str| ON_BOTH_SERVERS.contains(test) || LONG.contains(test);
    for test in tests.filter(|it| !left_out(it)) {
        arguments.extend(["--test", test]);
    }
    Step::new("unit tests, tidy", arguments)
}

/// The behaviour tests on the embedded server, if something that they run has changed.
fn behaviour(touched: &Touched) -> Option<Step> {
    let runs_changed = BEHAVIOUR.iter().any(|it| touched.sources.contains(*it));
    let server_changed = [SERVER, "windlass-protobuf"]
        .iter()
        .any(|it| touched.sources.contains(*it));
    let tests: Vec<_> = SUITE
        .iter()
        .filter(|(test, of_server)| {
            let changed = if *of_server {
                server_changed
            } else {
                runs_changed
            };
            changed || touched.tests.contains(*test)
        })
        .flat_map(|(test, _)| ["--test", *test])
        .collect();
    if tests.is_empty() {
        return None;
    }
    let mut arguments = select(&["test", "--no-fail-fast"], touched);
    arguments.extend(tests);
    arguments.extend(["--", "embedded::"]);
    let mut step = Step::new("behaviour, embedded", arguments);
    step.on_servers = true;
    Some(step)
}

/// The simulation of the quickstart: `cargo run` cannot select several packages.
fn quickstart(touched: &Touched) -> Step {
    Step::new(
        "example quickstart",
        select(&["test", "--example", "quickstart"], touched),
    )
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::{Touched, behaviour, lints, quickstart, unit};
    use crate::test::step::Step;

    #[test]
    fn a_change_of_the_engine_runs_its_tests_and_the_behaviour_without_requests_to_the_server() {
        let touched = Touched {
            packages: set(&["windlass-controller", "windlass"]),
            sources: set(&["windlass-controller"]),
            tests: set(&["opinionated", "freeze"]),
        };
        let unit = words(&unit(&touched));
        assert!(unit.contains("--lib --bins --package windlass --package xtask"));
        assert!(
            unit.ends_with("--package windlass-controller --test opinionated"),
            "{unit}"
        );
        let behaviour = words(&behaviour(&touched).expect("it has changed"));
        assert!(
            behaviour.ends_with("--test behaviour --test kube_rs -- embedded::"),
            "{behaviour}"
        );
        let lints = words(&lints(&touched).expect("there are packages"));
        assert!(
            lints.contains("--package windlass --package windlass-controller --"),
            "{lints}"
        );
    }

    #[test]
    fn a_change_of_the_embedded_server_runs_all_behaviour_tests() {
        let touched = Touched {
            packages: set(&["windlass-apiserver"]),
            sources: set(&["windlass-apiserver"]),
            tests: set(&[]),
        };
        let behaviour = words(&behaviour(&touched).expect("it has changed"));
        assert!(
            behaviour.ends_with("--test behaviour --test kube_rs --test server -- embedded::"),
            "{behaviour}"
        );
    }

    #[test]
    fn a_change_of_documents_runs_tidy_and_the_quickstart() {
        let touched = Touched::default();
        assert!(lints(&touched).is_none());
        assert!(behaviour(&touched).is_none());
        assert!(words(&unit(&touched)).ends_with("--bins --package windlass --package xtask"));
        assert!(words(&quickstart(&touched)).contains("--example quickstart"));
    }

    fn words(step: &Step) -> String {
        let words: Vec<_> = step
            .command
            .get_args()
            .map(|it| it.to_string_lossy())
            .collect();
        words.join(" ")
    }

    fn set(names: &[&str]) -> BTreeSet<String> {
        names.iter().map(|it| (*it).to_owned()).collect()
    }
}
