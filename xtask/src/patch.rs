//! Patches of this repository's code, and a copy of the checkout to which they are applied.

use std::{
    ffi::OsStr,
    fs, io,
    path::{Path, PathBuf},
    process::Command,
};

use crate::{Result, repository::Repository};

/// A patch file: a title line, fields such as `tests: …`, and the diff.
pub(crate) struct Patch {
    /// The name of the file without its extension.
    pub(crate) name: String,

    /// The first line, which says what the patch changes.
    pub(crate) title: String,

    file: PathBuf,
    text: String,
}

/// A copy of the checkout with a separate target directory.
///
/// Cargo identifies crates by their path in the workspace. In a shared target directory it would
/// confuse the crates of the copy with those of the checkout.
pub(crate) struct Tree {
    root: PathBuf,
    target: PathBuf,
}

// === impl Patch ===

impl Patch {
    /// The patches in `folder`, ordered by name.
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

    /// The text of the line `name: …`.
    ///
    /// # Errors
    ///
    /// The patch has no such line.
    pub(crate) fn field(&self, name: &str) -> Result<&str> {
        let mut lines = self.text.lines();
        let found = lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
        let missing = || format!("{}: the line `{name}: …` is missing", self.file.display());
        Ok(found.ok_or_else(missing)?.trim())
    }

    /// Whether this patch applies to the files below `root`.
    ///
    /// # Errors
    ///
    /// The hunk that does not apply.
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
            // The copy is inside the repository, so git would resolve paths from the wrong root.
            .env("GIT_CEILING_DIRECTORIES", root.parent().unwrap_or(root))
            .output()?;
        if output.status.success() {
            return Ok(());
        }
        let stderr = String::from_utf8_lossy(&output.stderr);
        let file = self.file.display();
        Err(format!("{file} does not apply, write it again for the current code: {stderr}").into())
    }
}

// === impl Tree ===

impl Tree {
    /// The copy called `name`. It is kept, so that the next run compiles less.
    pub(crate) fn new(repository: &Repository, name: &str) -> Result<Self> {
        let folder = repository.target()?.join(name);
        let (root, target) = (folder.join("tree"), folder.join("target"));
        fs::create_dir_all(&root)?;
        Ok(Self { root, target })
    }

    /// Updates the copy with all files that git tracks, changed by `patches`.
    ///
    /// # Errors
    ///
    /// If a file cannot be copied or a patch does not apply.
    pub(crate) fn patched<'p>(
        &self,
        repository: &Repository,
        patches: impl IntoIterator<Item = &'p Patch>,
    ) -> Result<()> {
        self.update(repository, |staging| {
            let mut patches = patches.into_iter();
            patches.try_for_each(|patch| patch.git_apply(staging, &[]))
        })
    }

    /// Updates the copy with all files that git tracks, after `change` has changed them in the folder
    /// that it receives. Files that are equal to those of the last time keep their times, so that
    /// cargo compiles only changed packages.
    ///
    /// # Errors
    ///
    /// If a file cannot be copied, and the error of `change`.
    pub(crate) fn update(
        &self,
        repository: &Repository,
        change: impl FnOnce(&Path) -> Result<()>,
    ) -> Result<()> {
        let output = Command::new("git")
            .args(["ls-files", "-z"])
            .current_dir(repository.root())
            .output()?;
        let names = String::from_utf8(output.stdout)?;
        let names: Vec<_> = names.split('\0').filter(|name| !name.is_empty()).collect();
        let staging = self.root.with_extension("patched");
        copy(&names, repository.root(), &staging)?;
        change(&staging)?;
        copy(&names, &staging, &self.root)
    }

    /// The folder of the copy.
    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// Makes `command` run in the copy with its target directory.
    pub(crate) fn enter(&self, command: &mut Command) {
        command
            .current_dir(&self.root)
            .env("CARGO_TARGET_DIR", &self.target);
    }
}

/// Copies the files called `names` that differ.
fn copy(names: &[&str], from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to)?;
    for name in names {
        let target = to.join(name);
        // Deleted, but the deletion is not committed yet.
        let Ok(bytes) = fs::read(from.join(name)) else {
            continue;
        };
        if fs::read(&target).is_ok_and(|there| there == bytes) {
            continue;
        }
        fs::create_dir_all(target.parent().unwrap_or(to))?;
        fs::write(target, bytes)?;
    }
    Ok(())
}
