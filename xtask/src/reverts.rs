//! `cargo xtask reverts`: reverts each fix of a defect, and checks that the random histories of the
//! reference model find the defect.

use std::{
    ffi::OsStr,
    fs, io,
    path::{Path, PathBuf},
    process::{Command, ExitCode},
};

use clap::Args;

use crate::{
    Result, progress,
    repository::{Repository, cargo},
};

/// Reverts each fix of defects 1 to 8, one at a time, and checks that the random histories find the
/// defect.
///
/// Works on a copy of this checkout in `target/reverts`. The copy is kept, so that the next run
/// compiles less.
#[derive(Args, Debug)]
pub(crate) struct Reverts {
    /// Applies only the patches with these names, such as `4a`. Default: all patches.
    names: Vec<String>,

    /// The number of histories after which a defect counts as not found.
    #[arg(long, default_value_t = 10_000)]
    histories: u64,
}

/// The folder of the patches. Each patch reverts one fix.
pub(crate) const PATCHES: &str = "crates/model/tests/reverts";

/// The copied files: all that cargo needs to build the tests of the model.
const COPIED: [&str; 9] = [
    ".cargo",
    "Cargo.lock",
    "Cargo.toml",
    "bench",
    "crates",
    "examples",
    "src",
    "tests",
    "xtask",
];

/// A copy of the checkout, in which patches are applied.
struct Copy {
    root: PathBuf,
    target: PathBuf,
}

// === impl Reverts ===

impl Reverts {
    pub(crate) fn run(&self) -> Result {
        let repository = Repository::here();
        let patches = patches(&repository)?;
        let wanted = |name: &str| self.names.is_empty() || self.names.iter().any(|it| it == name);
        let copy = Copy::new(&repository)?;
        let mut rows = Vec::new();
        let mut missed = 0;
        for patch in patches {
            let name = patch.file_stem().unwrap_or_default().to_string_lossy();
            if !wanted(&name) {
                continue;
            }
            let text = fs::read_to_string(&patch)?;
            let title = text.lines().next().unwrap_or_default().to_owned();
            copy.refresh(&repository)?;
            apply(&copy.root, &patch, &[])?;
            let found = copy.histories(&name, self.histories)?;
            missed += usize::from(found.is_none());
            let found = found.unwrap_or_else(|| "NOT FOUND".to_owned());
            rows.push(format!("{name:<4} {found:<60} {title}"));
            println!("{}", rows.last().map_or("", String::as_str));
        }
        println!("\n{}", rows.join("\n"));
        println!("{} fixes reverted, {missed} defects not found", rows.len());
        Ok(if missed == 0 {
            ExitCode::SUCCESS
        } else {
            ExitCode::FAILURE
        })
    }
}

/// The patches, in the order of their names.
pub(crate) fn patches(repository: &Repository) -> io::Result<Vec<PathBuf>> {
    let entries = fs::read_dir(repository.join(PATCHES))?;
    let mut patches = Vec::new();
    for entry in entries {
        let path = entry?.path();
        if path.extension() == Some(OsStr::new("patch")) {
            patches.push(path);
        }
    }
    patches.sort();
    Ok(patches)
}

/// Applies `patch` to the files below `root`; with `--check` it only checks whether it applies.
///
/// # Errors
///
/// The hunk that does not apply.
pub(crate) fn apply(root: &Path, patch: &Path, options: &[&str]) -> Result<()> {
    let output = Command::new("git")
        .arg("apply")
        .args(options)
        .arg(patch)
        .current_dir(root)
        // The copy is inside the repository, so git would resolve paths from the wrong root.
        .env("GIT_CEILING_DIRECTORIES", root.parent().unwrap_or(root))
        .output()?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(format!("{} does not apply: {said}", patch.display()).into())
}

// === impl Copy ===

impl Copy {
    fn new(repository: &Repository) -> Result<Self> {
        // Not the target directory of the checkout: cargo identifies crates by their path in the
        // workspace, and would confuse both copies.
        let reverts = repository.target()?.join("reverts");
        let (root, target) = (reverts.join("tree"), reverts.join("target"));
        fs::create_dir_all(&root)?;
        Ok(Self { root, target })
    }

    /// Updates the copy. Unchanged files keep their times, so that cargo compiles only changed
    /// packages.
    fn refresh(&self, repository: &Repository) -> io::Result<()> {
        for name in COPIED {
            let from = repository.join(name);
            if from.exists() {
                copy(&from, &self.root.join(name))?;
            }
        }
        Ok(())
    }

    /// Runs random histories. Returns the history that failed, and the rule that it violated.
    fn histories(&self, name: &str, count: u64) -> Result<Option<String>> {
        let mut command = cargo();
        command
            .args([
                "test",
                "--offline",
                "--package",
                "windlass-model",
                "--test",
                "histories",
            ])
            .args(["random_histories", "--", "--nocapture"])
            .current_dir(&self.root)
            .env("CARGO_TARGET_DIR", &self.target)
            .env("WINDLASS_HISTORIES", count.to_string());
        let ran = progress::run(&format!("without the fix {name}"), &mut command, |_| None)?;
        if ran.status.success() {
            return Ok(None);
        }
        let spins = "this history spins";
        let found = |line: &&str| line.contains("history ") || line.contains(spins);
        let Some(line) = ran.output.lines().find(found) else {
            return Err(format!("the histories did not run:\n{}", ran.output).into());
        };
        // `history 72: the_rule (D21): how`
        let line = line.split_once(" (").map_or(line, |(line, _)| line);
        Ok(Some(line.trim().to_owned()))
    }
}

/// Copies a file or a folder if it differs. Build output is left out.
fn copy(from: &Path, to: &Path) -> io::Result<()> {
    if !from.is_dir() {
        let text = fs::read(from)?;
        if fs::read(to).is_ok_and(|known| known == text) {
            return Ok(());
        }
        return fs::write(to, text);
    }
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default();
        if name != "target" && name != "node_modules" {
            copy(&path, &to.join(name))?;
        }
    }
    Ok(())
}
