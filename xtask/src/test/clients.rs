//! The programs that some tests run against a server: builds or installs them.

use std::{path::PathBuf, thread};

use super::{Outcome, step::Step};
use crate::{
    Result,
    go_clients::{CONTROLLERS, GoClient, HELM, KUBECTL, LIBRARIES, OLDER_KUBECTL},
    kube_apiserver::Minor,
    repository::Repository,
    script_clients::{JAVA, NODE, PYTHON},
};

/// The paths of the programs.
pub(super) struct Clients {
    paths: Vec<(&'static str, Option<PathBuf>)>,
    has_go: bool,
}

/// The build of the controllers of Kubernetes, on a thread: no test of the first steps runs them.
pub(super) struct Controllers(thread::JoinHandle<std::result::Result<Found, String>>);

/// The path of a program, or why it is not there.
type Found = std::result::Result<PathBuf, String>;

/// The Go programs that are clients.
const GO: [GoClient; 4] = [LIBRARIES, KUBECTL, HELM, OLDER_KUBECTL];

// === impl Clients ===

impl Clients {
    /// Builds or installs all programs but [`Controllers`].
    pub(super) fn find(
        repository: &Repository,
        outcome: &mut Outcome,
        not_run: &mut Vec<String>,
    ) -> Self {
        let mut clients = Self {
            paths: Vec::new(),
            has_go: true,
        };
        for it in GO {
            let found = it.find(repository);
            clients.has_go &= clients.add(it.name, it.variable, found, outcome, not_run);
        }
        for it in [PYTHON, NODE, JAVA] {
            let found = it.find(repository);
            clients.add(it.name, it.variable, found, outcome, not_run);
        }
        clients
    }

    /// Whether the Go programs are there.
    pub(super) const fn has_go(&self) -> bool {
        self.has_go
    }

    /// Passes the paths to the tests of `step`.
    pub(super) fn tell(&self, step: &mut Step) {
        for (variable, path) in &self.paths {
            match path {
                Some(path) => step.command.env(variable, path),
                None => step.command.env_remove(variable),
            };
        }
    }

    /// Adds the path of a program; notes why it is not there. Returns whether it is.
    fn add(
        &mut self,
        name: &str,
        variable: &'static str,
        found: Result<Found>,
        outcome: &mut Outcome,
        not_run: &mut Vec<String>,
    ) -> bool {
        let what = format!("tests with {name}");
        let path = match found {
            Ok(Ok(program)) => Some(program),
            Ok(Err(reason)) => {
                not_run.push(format!("{what}: {reason}"));
                None
            }
            Err(error) => {
                println!("FAIL {what}\n{error}");
                outcome.fail(what, true);
                None
            }
        };
        let is_there = path.is_some();
        self.paths.push((variable, path));
        is_there
    }
}

// === impl Controllers ===

impl Controllers {
    /// Starts the build, unless the kube-apiserver is of an older minor version, which controllers
    /// of a later one do not support.
    pub(super) fn start(repository: &Repository, minor: Minor) -> Self {
        let repository = repository.clone();
        Self(thread::spawn(move || {
            if minor != Minor::default() {
                let (theirs, ours) = (Minor::default().number(), minor.number());
                return Ok(Err(format!(
                    "they are of Kubernetes {theirs}, not of {ours}"
                )));
            }
            let found = CONTROLLERS.find(&repository);
            found.map_err(|error| error.to_string())
        }))
    }

    /// Waits for the build, and adds the path to `clients`.
    pub(super) fn add_to(
        self,
        clients: &mut Clients,
        outcome: &mut Outcome,
        not_run: &mut Vec<String>,
    ) {
        let built = self.0.join();
        let built = built.unwrap_or_else(|_| Err("the build panicked".to_owned()));
        let (name, variable) = (CONTROLLERS.name, CONTROLLERS.variable);
        clients.add(name, variable, built.map_err(Into::into), outcome, not_run);
    }
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeSet, fs};

    use super::{CONTROLLERS, GO};
    use crate::{kube_apiserver, repository::Repository};

    #[test]
    fn the_test_command_builds_each_go_program_of_the_tests() {
        let folders = fs::read_dir(Repository::here().join("tests")).expect("a folder");
        let folders = folders.map(|entry| entry.expect("a folder").path());
        let programs = folders.filter(|folder| folder.join("go.mod").is_file());
        let names = programs.filter_map(|folder| folder.file_name().map(ToOwned::to_owned));
        let programs: BTreeSet<_> = names
            .map(|name| format!("tests/{}", name.to_string_lossy()))
            .collect();
        let built = GO.iter().chain([&CONTROLLERS]).map(|it| it.folder);
        let built = built.chain([kube_apiserver::FOLDER]).map(str::to_owned);
        assert_eq!(built.collect::<BTreeSet<_>>(), programs);
    }
}
