//! The files of a change, and the packages and tests that it touches.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
    process::Command,
};

use serde_json::Value;

use crate::{Result, repository::Repository};

/// The packages of the workspace, with what the choice of tests needs to know.
#[derive(Debug)]
pub(super) struct Packages(BTreeMap<String, Package>);

#[derive(Debug, Default)]
struct Package {
    /// Its folder from the root of the repository: empty for the package at the root.
    folder: String,

    /// The packages of the workspace that it depends on, also only in its tests.
    dependencies: BTreeSet<String>,

    /// Its test binaries that need no feature.
    tests: BTreeMap<String, TestBinary>,
}

/// The files of a test binary.
#[derive(Debug, Default)]
struct TestBinary {
    /// The path of its first file within the package.
    path: String,

    /// The modules that its first file declares.
    modules: BTreeSet<String>,
}

/// What a set of changed files touches.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Touched {
    /// The packages with a changed file, and all that depend on them.
    pub(super) packages: BTreeSet<String>,

    /// The packages with a changed file of their library or program.
    pub(super) sources: BTreeSet<String>,

    /// The test binaries of a changed package; only the changed ones if only tests changed.
    pub(super) tests: BTreeSet<String>,
}

/// The branch that changes are compared with, in order of preference.
const MAIN: [&str; 2] = ["main", "origin/main"];

/// The files that have changed since the branch left main, on main since the last commit, and
/// those that are not committed; and what they were compared with.
pub(super) fn changed_files(repository: &Repository) -> Result<(String, Vec<String>)> {
    let head = git(repository, &["rev-parse", "HEAD"])?;
    let parted = MAIN
        .iter()
        .find_map(|main| git(repository, &["merge-base", "HEAD", main]).ok());
    let branch = git(repository, &["symbolic-ref", "--short", "HEAD"]);
    let (what, since) = match parted {
        Some(parted) if parted != head => ("main", parted),
        // A branch without commits.
        Some(_) if branch.is_ok_and(|it| it != MAIN[0]) => ("main", head),
        // On main itself, or in a checkout without it.
        _ => ("the commit before the last", "HEAD~1".to_owned()),
    };
    let mut files = git(repository, &["diff", "--name-only", "--no-renames", &since])?;
    files.push('\n');
    files += &git(repository, &["ls-files", "--others", "--exclude-standard"])?;
    let files = files.lines().filter(|line| !line.is_empty());
    Ok((what.to_owned(), files.map(str::to_owned).collect()))
}

fn git(repository: &Repository, arguments: &[&str]) -> Result<String> {
    let output = Command::new("git")
        .args(arguments)
        .current_dir(repository.root())
        .output()?;
    if !output.status.success() {
        let reason = String::from_utf8_lossy(&output.stderr);
        return Err(format!("git {}: {}", arguments.join(" "), reason.trim()).into());
    }
    Ok(String::from_utf8(output.stdout)?.trim().to_owned())
}

// === impl Packages ===

impl Packages {
    /// Reads the output of `cargo metadata`.
    pub(super) fn of(metadata: &Value) -> Self {
        let root = metadata["workspace_root"].as_str().unwrap_or_default();
        let packages = metadata["packages"].as_array().into_iter().flatten();
        let packages = packages.filter_map(|it| {
            let manifest = Path::new(it["manifest_path"].as_str()?);
            let folder = manifest.parent()?.strip_prefix(root).ok()?;
            let dependencies = it["dependencies"].as_array().into_iter().flatten();
            let targets = it["targets"].as_array().into_iter().flatten();
            let tests = targets
                .filter(|it| it["kind"][0] == "test" && it["required-features"].is_null())
                .filter_map(|it| {
                    let path = Path::new(it["src_path"].as_str()?);
                    let name = it["name"].as_str()?.to_owned();
                    Some((name, TestBinary::read(manifest.parent()?, path)?))
                });
            let package = Package {
                folder: folder.to_str()?.to_owned(),
                dependencies: dependencies
                    .filter(|it| !it["path"].is_null())
                    .filter_map(|it| it["name"].as_str().map(str::to_owned))
                    .collect(),
                tests: tests.collect(),
            };
            Some((it["name"].as_str()?.to_owned(), package))
        });
        Self(packages.collect())
    }

    /// What the changed `files` touch. Documents touch no package.
    pub(super) fn touched<'a>(&self, files: impl IntoIterator<Item = &'a str>) -> Touched {
        let mut touched = Touched::default();
        for file in files {
            let Some((name, package, path)) = self.package_of(file) else {
                continue;
            };
            touched.packages.insert(name.to_owned());
            touched.tests.extend(package.tests_of(path));
            if !path.starts_with("tests/") && !path.starts_with("examples/") {
                touched.sources.insert(name.to_owned());
                touched.tests.extend(package.tests.keys().cloned());
            }
        }
        self.add_dependents(&mut touched);
        touched
    }

    /// Adds the packages that depend on a changed library.
    fn add_dependents(&self, touched: &mut Touched) {
        let mut found = touched.sources.clone();
        loop {
            let before = found.len();
            for (name, package) in &self.0 {
                if !package.dependencies.is_disjoint(&found) {
                    found.insert(name.clone());
                }
            }
            if found.len() == before {
                break;
            }
        }
        touched.packages.append(&mut found);
    }

    /// The package of a file that cargo compiles, with the path within the package.
    fn package_of<'a>(&self, file: &'a str) -> Option<(&str, &Package, &'a str)> {
        if Path::new(file).extension().is_some_and(|it| it == "md") {
            return None;
        }
        let packages = self.0.iter().filter_map(|(name, package)| {
            let rest = match package.folder.as_str() {
                "" => file,
                folder => file.strip_prefix(folder)?.strip_prefix('/')?,
            };
            Some((name.as_str(), package, rest))
        });
        let (name, package, path) = packages.max_by_key(|(_, package, _)| package.folder.len())?;
        let folders = ["src/", "tests/", "examples/", "benches/"];
        let is_compiled = path == "Cargo.toml" || folders.iter().any(|it| path.starts_with(it));
        is_compiled.then_some((name, package, path))
    }
}

// === impl Package ===

impl Package {
    /// The test binaries of a file in the folder `tests`.
    fn tests_of(&self, path: &str) -> impl Iterator<Item = String> {
        let tests = self.tests.iter();
        let found = tests.filter(move |(_, binary)| binary.has(path));
        found.map(|(name, _)| name.clone())
    }
}

// === impl TestBinary ===

impl TestBinary {
    /// Reads the first file of a test binary, in a package at `root`.
    fn read(root: &Path, path: &Path) -> Option<Self> {
        let text = fs::read_to_string(path).unwrap_or_default();
        let modules = text.lines().filter_map(|line| {
            let name = line.strip_prefix("mod ")?.strip_suffix(';')?;
            Some(name.to_owned())
        });
        Some(Self {
            path: path.strip_prefix(root).ok()?.to_str()?.to_owned(),
            modules: modules.collect(),
        })
    }

    /// Whether the file is its first one, in a module of it, or another file in a folder of its own.
    fn has(&self, path: &str) -> bool {
        if path == self.path {
            return true;
        }
        let folder = match self.path.rsplit_once('/') {
            // The modules of `tests/model.rs` are in `tests/model`.
            Some(("tests", _)) => self.path.trim_end_matches(".rs"),
            Some((folder, _)) => folder,
            None => return false,
        };
        let rest = path
            .strip_prefix(folder)
            .and_then(|it| it.strip_prefix('/'));
        let Some(rest) = rest else {
            return false;
        };
        let name = rest.split(['/', '.']).next().unwrap_or_default();
        let is_module = Path::new(rest).extension().is_some_and(|it| it == "rs");
        !is_module || self.modules.contains(name)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::{Packages, Touched};
    use crate::repository::Repository;

    #[test]
    fn a_library_touches_its_tests_and_all_that_depend_on_it() {
        let touched = touched(&["crates/operator/src/operator.rs"]);
        let packages = ["windlass", "windlass-operator", "windlass-simulate"];
        assert_eq!(touched.packages, names(&packages));
        assert_eq!(touched.sources, names(&["windlass-operator"]));
        assert!(touched.tests.contains("election"), "{touched:?}");
        assert!(!touched.tests.contains("behaviour"), "{touched:?}");
    }

    #[test]
    fn a_test_touches_only_itself() {
        let expected = Touched {
            packages: names(&["windlass-operator"]),
            sources: names(&[]),
            tests: names(&["admin", "election"]),
        };
        let files = [
            "crates/operator/tests/election/canary.rs",
            "crates/operator/tests/admin.rs",
            "crates/operator/tests/data/pods.json",
        ];
        assert_eq!(touched(&files), expected);
    }

    #[test]
    fn a_module_touches_the_binaries_that_declare_it() {
        let tests = |file| touched(&[file]).tests;
        assert_eq!(tests("tests/behaviour/keyed.rs"), names(&["behaviour"]));
        assert_eq!(tests("tests/behaviour/api/kinds.rs"), names(&["server"]));
        assert_eq!(tests("tests/behaviour/server.rs"), names(&["server"]));
        let listmap = "crates/listmap/tests/model/table.rs";
        assert_eq!(tests(listmap), names(&["model"]));
        assert_eq!(tests("tests/examples/readme.rs"), names(&["examples"]));
        assert_eq!(
            tests("tests/behaviour/cluster.rs"),
            names(&["behaviour", "kube_rs", "server"])
        );
    }

    #[test]
    fn documents_and_other_files_touch_no_package() {
        let files = [
            "README.md",
            "docs/names.md",
            ".ci/run",
            "crates/simulate/README.md",
        ];
        assert_eq!(touched(&files), Touched::default());
    }

    #[test]
    fn a_manifest_is_a_source_and_the_root_is_a_package() {
        assert!(
            touched(&["bench/Cargo.toml"])
                .sources
                .contains("windlass-bench")
        );
        let facade = touched(&["src/lib.rs", "Cargo.toml"]);
        assert_eq!(facade.packages, names(&["windlass"]));
        assert!(facade.tests.contains("behaviour"));
        let example = touched(&["examples/tour/main.rs"]);
        assert_eq!(example.packages, names(&["windlass"]));
        assert_eq!(example.tests, names(&[]));
    }

    fn touched(files: &[&str]) -> Touched {
        let metadata = Repository::here().metadata().expect("cargo metadata");
        Packages::of(&metadata).touched(files.iter().copied())
    }

    fn names(names: &[&str]) -> BTreeSet<String> {
        names.iter().map(|it| (*it).to_owned()).collect()
    }
}
