//! Patches of this repository's code, and a copy of the checkout to which they are applied.

use std::{
    ffi::OsStr,
    fs, io,
    path::{Path, PathBuf},
    process::Command,
};

use crate::{Result, repository::Repository};

/// A patch file: a line that says what it changes, then fields such as `tests: …`, then the diff.
pub(crate) struct Patch {
    /// The file's name without its extension.
    pub(crate) name: String,

    /// The first line.
    pub(crate) title: String,

    file: PathBuf,
    text: String,
}

/// A copy of the checkout with a target directory of its own.
///
/// Cargo tells crates of one name apart by their path in the workspace, and would take those of
/// the copy for those of the checkout if both were built into one directory.
pub(crate) struct Tree {
    root: PathBuf,
    target: PathBuf,
}

// === impl Patch ===

impl Patch {
    /// The patches in `folder`, in the order of their names.
    pub(crate) fn all(repository: &Repository, folder: &str) -> io::Result<Vec<Self>> {
        let mut patches = Vec::new();
        for entry in fs::read_dir(repository.join(folder))? {
            let file = entry?.path();
            if file.extension() != Some(OsStr::new("patch")) {
                continue;
            }
            let text = fs::read_to_string(&file)?;
            let name = file.file_stem().unwrap_or_default();
            patches.push(Self {
                name: name.to_string_lossy().into_owned(),
                title: text.lines().next().unwrap_or_default().to_owned(),
                file,
                text,
            });
        }
        patches.sort_by(|one, other| one.name.cmp(&other.name));
        Ok(patches)
    }

    /// What the line `name: …` says.
    ///
    /// # Errors
    ///
    /// There is no such line.
    pub(crate) fn field(&self, name: &str) -> Result<&str> {
        let mut lines = self.text.lines();
        let found = lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
        let missing = || format!("{}: there is no line `{name}: …`", self.file.display());
        Ok(found.ok_or_else(missing)?.trim())
    }

    /// Whether this patch applies to the files below `root`.
    ///
    /// # Errors
    ///
    /// Which hunk does not apply.
    #[cfg(test)]
    pub(crate) fn check(&self, root: &Path) -> Result<()> {
        self.git_apply(root, &["--check"])
    }

    fn git_apply(&self, root: &Path, options: &[&str]) -> Result<()> {
        let output = Command::new("git")
            .arg("apply")
            .args(options)
            .arg(&self.file)
            .current_dir(root)
            // A copy is within the repository, and git would look for the paths from its root.
            .env("GIT_CEILING_DIRECTORIES", root.parent().unwrap_or(root))
            .output()?;
        if output.status.success() {
            return Ok(());
        }
        let said = String::from_utf8_lossy(&output.stderr);
        let file = self.file.display();
        Err(format!("{file} does not apply, write it anew for the code as it is: {said}").into())
    }
}

// === impl Tree ===

impl Tree {
    /// The copy called `name`. It is kept, so that a second run compiles little.
    pub(crate) fn new(repository: &Repository, name: &str) -> Result<Self> {
        let folder = repository.target()?.join(name);
        let (root, target) = (folder.join("tree"), folder.join("target"));
        fs::create_dir_all(&root)?;
        Ok(Self { root, target })
    }

    /// Makes the copy equal to what git tracks of the checkout, but for `patch`.
    ///
    /// # Errors
    ///
    /// A file cannot be copied, or the patch does not apply.
    pub(crate) fn patched(&self, repository: &Repository, patch: &Patch) -> Result<()> {
        self.refresh(repository)?;
        patch.git_apply(&self.root, &[])
    }

    /// Files that are equal keep their times, so that cargo compiles only what differs.
    fn refresh(&self, repository: &Repository) -> Result<()> {
        let output = Command::new("git")
            .args(["ls-files", "-z"])
            .current_dir(repository.root())
            .output()?;
        let names = String::from_utf8(output.stdout)?;
        for name in names.split('\0').filter(|name| !name.is_empty()) {
            let (from, to) = (repository.join(name), self.root.join(name));
            // A file that was deleted, and not committed yet.
            let Ok(bytes) = fs::read(from) else { continue };
            if fs::read(&to).is_ok_and(|there| there == bytes) {
                continue;
            }
            fs::create_dir_all(to.parent().unwrap_or(&self.root))?;
            fs::write(to, bytes)?;
        }
        Ok(())
    }

    /// Has `command` run in the copy, and build into its target directory.
    pub(crate) fn enter(&self, command: &mut Command) {
        command
            .current_dir(&self.root)
            .env("CARGO_TARGET_DIR", &self.target);
    }
}
