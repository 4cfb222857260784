//! The Go programs of this repository: builds them when their sources change.

use std::{
    fs, io,
    path::{Path, PathBuf},
    process::Command,
    time::SystemTime,
};

use crate::{Result, progress, repository::Repository};

/// A Go program of this repository.
#[derive(Debug)]
pub(crate) struct Program {
    /// The path from the root of the repository, with slashes.
    name: &'static str,
    folder: PathBuf,
    /// The path of its `go.mod`, which may have another name.
    mod_file: PathBuf,
    go_mod: String,
    binary: PathBuf,

    /// The minimum Go version, such as `1.26.0`.
    go: String,
}

// === impl Program ===

impl Program {
    /// Reads the `go.mod` of the program in `folder`. `binary` is its path in the target directory
    /// of cargo.
    pub(crate) fn read(
        repository: &Repository,
        folder: &'static str,
        binary: &str,
    ) -> Result<Self> {
        Self::with_modules(repository, folder, "go.mod", binary)
    }

    /// Reads the program in `folder` with the modules that `mod_file` in the same folder names.
    pub(crate) fn with_modules(
        repository: &Repository,
        folder: &'static str,
        mod_file: &str,
        binary: &str,
    ) -> Result<Self> {
        let folder_path = repository.join(folder);
        let mut program = Self {
            name: folder,
            mod_file: folder_path.join(mod_file),
            folder: folder_path,
            go_mod: repository.read(&format!("{folder}/{mod_file}"))?,
            binary: repository.target()?.join(binary),
            go: String::new(),
        };
        program.go = program.value("go ")?;
        Ok(program)
    }

    /// The value after `name` in its `go.mod`, such as the version of a module.
    pub(crate) fn value(&self, name: &str) -> Result<String> {
        let mut lines = self.go_mod.lines();
        let value = lines.find_map(|line| line.trim().strip_prefix(name));
        let value = value.map(|it| it.trim().to_owned());
        Ok(value.ok_or(format!("{} has no {name:?}", self.mod_file.display()))?)
    }

    /// Why the program cannot be built. None if it can be built, or is built already.
    pub(crate) fn missing(&self, what: &str) -> Option<String> {
        if self.is_fresh() {
            return None;
        }
        let Ok(output) = Command::new("go").args(["env", "GOVERSION"]).output() else {
            return Some(format!(
                "Go is not installed, and {what} requires Go {}",
                self.go
            ));
        };
        let words = String::from_utf8_lossy(&output.stdout);
        let here = words.trim().trim_start_matches("go");
        (numbers(here) < numbers(&self.go))
            .then(|| format!("Go {here} is too old, {what} requires Go {}", self.go))
    }

    /// Builds the program if its sources have changed, and returns its path.
    pub(crate) fn build(self, what: &str, linker_flags: &str) -> Result<PathBuf> {
        if self.is_fresh() {
            return Ok(self.binary);
        }
        let title = format!("building {what} (a first build takes minutes)");
        let part = self.binary.with_extension("part");
        let mut packages = 0;
        let ran = progress::run(&title, &mut self.command(linker_flags, &part), |line| {
            if line.starts_with("go: downloading") {
                return Some(line.trim_start_matches("go: ").to_owned());
            }
            packages += 1;
            Some(format!("{packages} packages"))
        })?;
        if !ran.status.success() {
            return Err(format!("cannot build {}:\n{}", self.name, ran.output).into());
        }
        // Replace the file, so that a process that runs the old one keeps it.
        fs::rename(part, &self.binary)?;
        eprintln!("built {what} in {}", ran.elapsed);
        Ok(self.binary)
    }

    fn command(&self, linker_flags: &str, output: &Path) -> Command {
        let mut command = Command::new("go");
        // Without -trimpath, because with it the programs do not share the compiled packages of
        // modules that one of them replaces by another version.
        command
            .args(["build", "-v", "-ldflags", linker_flags, "-o"])
            .arg(output)
            .arg("-modfile")
            .arg(&self.mod_file)
            .arg(".")
            .current_dir(&self.folder);
        command
    }

    fn is_fresh(&self) -> bool {
        let Ok(built) = modified(&self.binary) else {
            return false;
        };
        let beside = folders(&self.go_mod).map(|it| self.folder.join(it));
        let mut all = std::iter::once(self.folder.clone()).chain(beside);
        all.all(|it| newest_source(&it).is_ok_and(|newest| newest <= built))
    }
}

/// The folders of this repository from which a `go.mod` uses modules.
fn folders(go_mod: &str) -> impl Iterator<Item = &str> {
    let modules = go_mod.lines().filter_map(|line| line.split_once("=> "));
    let modules = modules.map(|(_, module)| module.trim());
    modules.filter(|module| module.starts_with('.'))
}

fn newest_source(folder: &Path) -> io::Result<SystemTime> {
    let mut newest = SystemTime::UNIX_EPOCH;
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path
            .extension()
            .is_some_and(|it| it == "go" || it == "mod" || it == "sum")
        {
            newest = newest.max(modified(&path)?);
        }
    }
    Ok(newest)
}

fn modified(path: &Path) -> io::Result<SystemTime> {
    fs::metadata(path)?.modified()
}

/// The numbers of a version such as `1.26.0` or `1.26rc1`, for comparison.
fn numbers(version: &str) -> Vec<u32> {
    let parts = version.split(|c: char| !c.is_ascii_digit()).take(3);
    parts.map(|part| part.parse().unwrap_or_default()).collect()
}

#[cfg(test)]
mod tests {
    use super::{folders, numbers};

    #[test]
    fn versions_of_go_compare_as_numbers() {
        assert!(numbers("1.9.7") < numbers("1.26.0"));
        assert!(numbers("1.26.8") >= numbers("1.26.0"));
        assert!(numbers("1.27") >= numbers("1.26.0"));
        assert!(numbers("") < numbers("1.26.0"));
    }

    #[test]
    fn a_local_module_is_a_source_and_a_downloaded_one_is_not() {
        let go_mod = "go 1.26.0\nreplace a/child => ../child\n\tb => k8s.io/b v1.2.3\n";
        assert_eq!(folders(go_mod).collect::<Vec<_>>(), ["../child"]);
    }
}
