//! The copy of the checkout that contains all mutants, and its tests.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    ops::Range,
    path::{Path, PathBuf},
};

use serde_json::Value;

use super::{
    mutant::Mutant,
    switches::{Switched, switch},
};
use crate::{
    Result,
    patch::Tree,
    progress,
    repository::{Repository, cargo},
};

/// Compiles all mutants at once, and finds those that do not compile.
pub(super) struct Build<'a> {
    repository: &'a Repository,
    mutants: &'a [Mutant],
    tree: Tree,

    /// The mutants that do not compile.
    pub(super) unviable: BTreeSet<usize>,

    /// The mutants that cannot be switched on at run time.
    pub(super) untried: BTreeSet<usize>,

    /// Functions that are called in constant expressions.
    keep_const: BTreeSet<String>,
    keep_const_file: PathBuf,

    /// The mutated files by path.
    switched: BTreeMap<String, Switched>,
}

/// A test binary.
#[derive(Debug)]
pub(super) struct Binary {
    /// The full name of its package.
    pub(super) package: String,

    /// The name of the file in `tests`, or of the library.
    pub(super) target: String,

    pub(super) path: PathBuf,

    /// The folder of the package, in which cargo runs tests.
    pub(super) folder: PathBuf,
}

/// Features that tests require, after the package and a slash.
const FEATURES: [&str; 1] = ["windlass-apiserver/cli"];

/// The name of the crate with the function that a switch calls, and its path in the copy.
const CRATE: &str = "windlass-mutants";
const FOLDER: &str = "crates/mutants";

// === impl Build ===

impl<'a> Build<'a> {
    /// Prepares the copy. `unviable` and `untried` are the known mutants of these kinds, and the file
    /// at `keep_const` has the functions that remain `const`: with them the copy does not change
    /// between two runs, and cargo compiles nothing again.
    pub(super) fn new(
        repository: &'a Repository,
        mutants: &'a [Mutant],
        [unviable, untried]: [BTreeSet<usize>; 2],
        keep_const: PathBuf,
    ) -> Result<Self> {
        let names = fs::read_to_string(&keep_const).unwrap_or_default();
        Ok(Self {
            repository,
            mutants,
            tree: Tree::new(repository, "mutants-copy")?,
            unviable,
            untried,
            keep_const: names.lines().map(Into::into).collect(),
            keep_const_file: keep_const,
            switched: BTreeMap::new(),
        })
    }

    /// Compiles the tests of `packages` and `root_tests` of the root package, without the mutants that
    /// do not compile.
    ///
    /// # Errors
    ///
    /// A compile error that no mutant causes.
    pub(super) fn tests(
        &mut self,
        packages: &[String],
        root_tests: &[&str],
    ) -> Result<Vec<Binary>> {
        let mutated: BTreeSet<&String> = self.mutants.iter().map(|it| &it.package).collect();
        let mut libraries = vec![
            "check".to_owned(),
            "--lib".to_owned(),
            "--keep-going".to_owned(),
        ];
        let mut tests: Vec<String> = ["test", "--no-run", "--tests"].map(Into::into).into();
        libraries.extend(mutated.iter().map(|name| format!("--package={name}")));
        tests.extend(packages.iter().map(|name| format!("--package={name}")));
        let features = FEATURES.iter();
        let features = features.filter(|it| packages.iter().any(|name| it.starts_with(name)));
        tests.extend(features.map(|it| format!("--features={it}")));
        // The libraries first: that takes a fraction of the time.
        self.compile("the libraries", &libraries)?;
        let mut messages = self.compile("the tests", &tests)?;
        for test in root_tests {
            let arguments = ["test", "--no-run", "--package=windlass", "--test", test];
            messages.extend(self.compile(test, &arguments.map(Into::into))?);
        }
        Ok(messages.iter().filter_map(Binary::read).collect())
    }

    /// Runs cargo until it succeeds, each time without the mutants that caused errors.
    fn compile(&mut self, what: &str, arguments: &[String]) -> Result<Vec<Value>> {
        loop {
            self.write()?;
            let mut command = cargo();
            command
                .args(arguments)
                // A file behind a feature has mutants too.
                .args(["--all-features", "--offline"])
                .args(["--message-format", "json"]);
            self.tree.enter(&mut command);
            let doing = format!(
                "compiling {what} without {} mutants that do not compile",
                self.unviable.len()
            );
            eprintln!("   ... {doing}");
            let ran = progress::run(what, &mut command, |_| None)?;
            let messages = ran.output.lines();
            let messages: Vec<Value> = messages
                .filter_map(|line| serde_json::from_str(line).ok())
                .collect();
            if ran.status.success() {
                return Ok(messages);
            }
            let before = self.removed();
            let errors = messages.iter().map(|message| &message["message"]);
            let errors: Vec<_> = errors.filter(|it| it["level"] == "error").collect();
            for error in &errors {
                self.remove_cause(error);
            }
            if before == self.removed() {
                let texts = errors.iter().filter_map(|error| error["rendered"].as_str());
                let texts: String = texts.collect();
                let texts = if texts.is_empty() { ran.output } else { texts };
                return Err(format!("{what} of the copy do not compile:\n{texts}").into());
            }
        }
    }

    fn removed(&self) -> (usize, usize, usize) {
        let Self {
            unviable,
            untried,
            keep_const,
            ..
        } = self;
        (unviable.len(), untried.len(), keep_const.len())
    }

    fn remove_cause(&mut self, error: &Value) {
        // "cannot call non-const method `Place::<T>::name` in constants"
        if error["code"]["code"] == "E0015"
            && let Some(path) = error["message"]
                .as_str()
                .and_then(|it| it.split('`').nth(1))
        {
            let name = path.rsplit("::").find(|part| !part.contains(['<', '>']));
            self.keep_const.extend(name.map(Into::into));
        }
        let mut places = Vec::new();
        for mut span in error["spans"].as_array().into_iter().flatten() {
            // From the inside of a macro to the place where it is used.
            while span.is_object() {
                places.extend(self.place(span));
                span = &span["expansion"]["span"];
            }
        }
        let inserting = places.iter().find_map(|(file, at)| file.inserting(at));
        let around = || places.iter().find_map(|(file, at)| file.around(at));
        let Some(cause) = inserting.or_else(around) else {
            return;
        };
        // Compiles without a switch, but not beside a value of another type.
        if self.mutants[cause].returns_impl() {
            self.untried.insert(cause);
        } else {
            self.unviable.insert(cause);
        }
    }

    /// The mutated file and the bytes in it that a span of the compiler names.
    fn place(&self, span: &Value) -> Option<(&Switched, Range<usize>)> {
        let file = self.switched.get(&normal(span["file_name"].as_str()?))?;
        let position = |key: &str| usize::try_from(span[key].as_u64()?).ok();
        Some((file, position("byte_start")?..position("byte_end")?))
    }

    /// Updates the copy, and writes the switches into its files.
    fn write(&mut self) -> Result<()> {
        let mut files = BTreeMap::<&str, Vec<(usize, &Mutant)>>::new();
        for (id, mutant) in self.mutants.iter().enumerate() {
            // Also without switches: `const` is removed from the functions of every file.
            let file = files.entry(&mutant.file).or_default();
            if !self.unviable.contains(&id) && !self.untried.contains(&id) {
                file.push((id, mutant));
            }
        }
        self.switched.clear();
        for (file, mutants) in files {
            let switched = switch(&self.repository.read(file)?, &mutants, &self.keep_const)
                .map_err(|error| format!("{file}: {error}"))?;
            self.unviable.extend(&switched.unviable);
            self.untried.extend(&switched.constant);
            self.switched.insert(file.to_owned(), switched);
        }
        let names: Vec<&str> = self.keep_const.iter().map(|it| &**it).collect();
        fs::write(&self.keep_const_file, names.join("\n"))?;
        let folders: BTreeSet<&str> = self
            .switched
            .keys()
            .filter_map(|file| Some(file.split_once("/src/")?.0))
            .collect();
        let write = |path: PathBuf, text: &str| -> Result<()> {
            if fs::read_to_string(&path).is_ok_and(|there| there == text) {
                return Ok(());
            }
            fs::create_dir_all(path.parent().unwrap_or(&path))?;
            Ok(fs::write(path, text)?)
        };
        self.tree.update(self.repository, |staging| {
            for (file, switched) in &self.switched {
                fs::write(staging.join(file), &switched.text)?;
            }
            for folder in folders {
                let path = staging.join(folder).join("Cargo.toml");
                let manifest = with_crate(&fs::read_to_string(&path)?);
                fs::write(path, manifest)?;
            }
            Ok(())
        })?;
        let folder = self.tree.root().join(FOLDER);
        let manifest = format!(
            "[package]\nname = \"{CRATE}\"\nedition.workspace = true\nversion.workspace = true\n"
        );
        write(folder.join("Cargo.toml"), &manifest)?;
        write(folder.join("src/lib.rs"), include_str!("active.rs"))
    }
}

// === impl Binary ===

impl Binary {
    /// The test binary that a message of cargo names.
    fn read(message: &Value) -> Option<Self> {
        if message["profile"]["test"] != true {
            return None;
        }
        let path = PathBuf::from(message["executable"].as_str()?);
        let manifest = Path::new(message["manifest_path"].as_str()?);
        let target = &message["target"];
        let text = fs::read_to_string(manifest).ok()?;
        let package = text.lines().find_map(|line| line.strip_prefix("name = "))?;
        Some(Self {
            package: package.trim_matches('"').to_owned(),
            target: target["name"].as_str()?.to_owned(),
            path,
            folder: manifest.parent()?.to_owned(),
        })
    }
}

/// The manifest with a dependency on the crate with the function that a switch calls.
fn with_crate(manifest: &str) -> String {
    let header = "\n[dependencies]\n";
    let dependency = format!("{header}{CRATE} = {{ path = \"../mutants\" }}\n");
    if manifest.contains(header) {
        manifest.replacen(header, &dependency, 1)
    } else {
        format!("{manifest}{dependency}")
    }
}

/// The path without `x/..`.
fn normal(path: &str) -> String {
    let mut parts = Vec::new();
    for part in path.split('/') {
        if part == ".." {
            parts.pop();
        } else {
            parts.push(part);
        }
    }
    parts.join("/")
}

#[cfg(test)]
mod tests {
    use super::with_crate;

    #[test]
    fn a_manifest_has_the_crate_among_its_dependencies_also_if_it_had_none() {
        let package = "[package]\nname = \"a\"\n";
        let own = "\n[dependencies]\nwindlass-mutants = { path = \"../mutants\" }\n";
        assert_eq!(with_crate(package), format!("{package}{own}"));
        let others = "b = \"1\"\n\n[dev-dependencies]\nc = \"1\"\n";
        assert_eq!(
            with_crate(&format!("{package}\n[dependencies]\n{others}")),
            format!("{package}{own}{others}")
        );
    }
}
