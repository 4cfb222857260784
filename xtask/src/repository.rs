//! Paths, sources and metadata of this repository.

use std::{
    env, fs, io,
    path::{Path, PathBuf},
    process::Command,
};

use serde_json::Value;

use crate::Result;

/// This checkout.
#[derive(Clone, Debug)]
pub(crate) struct Repository {
    root: PathBuf,
}

/// A text file, with its path from the root, with slashes.
#[derive(Clone, Debug)]
pub(crate) struct Source {
    pub(crate) path: String,
    pub(crate) text: String,
}

// === impl Repository ===

impl Repository {
    pub(crate) fn here() -> Self {
        // Cargo sets the variable for what it runs. Without cargo, it is the folder of the build.
        let built = env!("CARGO_MANIFEST_DIR");
        let xtask = env::var_os("CARGO_MANIFEST_DIR").unwrap_or_else(|| built.into());
        let xtask = Path::new(&xtask);
        Self {
            root: xtask
                .parent()
                .expect("xtask is a folder of the repository")
                .to_owned(),
        }
    }

    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    pub(crate) fn join(&self, path: impl AsRef<Path>) -> PathBuf {
        self.root.join(path)
    }

    /// The text of a file, which must exist.
    pub(crate) fn read(&self, path: &str) -> Result<String> {
        fs::read_to_string(self.join(path)).map_err(|error| format!("{path}: {error}").into())
    }

    /// Every file whose name ends in `extension`, in the order of their paths.
    pub(crate) fn sources(&self, extension: &str) -> io::Result<Vec<Source>> {
        let mut sources = Vec::new();
        let mut folders = vec![self.root.clone()];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder)? {
                let path = entry?.path();
                let name = path.file_name().unwrap_or_default().to_string_lossy();
                if path.is_dir() {
                    // Build output, and private folders of tools.
                    if name != "target" && !name.starts_with('.') {
                        folders.push(path);
                    }
                } else if path.extension().is_some_and(|it| it == extension) {
                    let text = fs::read_to_string(&path)?;
                    sources.push(Source {
                        path: self.relative(&path),
                        text,
                    });
                }
            }
        }
        sources.sort_by(|one, other| one.path.cmp(&other.path));
        Ok(sources)
    }

    /// `path` from the root, with slashes, as in the documents.
    pub(crate) fn relative(&self, path: &Path) -> String {
        let path = path.strip_prefix(&self.root).unwrap_or(path);
        path.components()
            .map(|part| part.as_os_str().to_string_lossy())
            .collect::<Vec<_>>()
            .join("/")
    }

    /// The output of `cargo metadata` for this workspace, without network access.
    pub(crate) fn metadata(&self) -> Result<Value> {
        self.metadata_with(&["--no-deps"])
    }

    /// Like [`metadata`](Self::metadata), with the dependencies for `platform`. Those for other
    /// platforms may not be downloaded.
    #[cfg(test)]
    pub(crate) fn metadata_for(&self, platform: &str) -> Result<Value> {
        self.metadata_with(&["--filter-platform", platform])
    }

    fn metadata_with(&self, more: &[&str]) -> Result<Value> {
        let arguments = ["metadata", "--format-version", "1", "--offline"];
        let arguments = arguments.iter().chain(more);
        let output = cargo().args(arguments).current_dir(&self.root).output()?;
        if !output.status.success() {
            return Err(String::from_utf8_lossy(&output.stderr).into_owned().into());
        }
        Ok(serde_json::from_slice(&output.stdout)?)
    }

    /// The target directory of cargo, which xtask also uses.
    pub(crate) fn target(&self) -> Result<PathBuf> {
        let metadata = self.metadata()?;
        let target = metadata["target_directory"].as_str();
        Ok(target
            .ok_or("cargo metadata names no target directory")?
            .into())
    }
}

/// The cargo that runs this process, without the variables of our own package: the build script
/// of `ring` runs again where they differ, and all that depends on it is built again.
pub(crate) fn cargo() -> Command {
    let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    for (name, _) in env::vars_os() {
        let of_package = ["CARGO_PKG_", "CARGO_MANIFEST_"];
        if of_package
            .iter()
            .any(|prefix| name.to_string_lossy().starts_with(prefix))
        {
            command.env_remove(name);
        }
    }
    command
}
