//! The mutants that cargo-mutants proposes.

use std::{path::Path, process::Command};

use serde_json::Value;

use crate::{Result, repository::Repository};

/// One change of the code in one place.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Mutant {
    /// The name that cargo-mutants prints: file, line, column and description.
    pub(super) name: String,

    /// The full name of its package.
    pub(super) package: String,

    /// The path of its file from the root of the repository.
    pub(super) file: String,

    pub(super) place: Place,

    /// The text that replaces the code; empty if the code is removed.
    pub(super) replacement: String,
}

/// Where the changed code begins, and which kind of code it is.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Place {
    /// The kind of change, as cargo-mutants calls it, such as `FnValue`.
    pub(super) genre: String,

    /// Counted from 1.
    pub(super) line: usize,

    /// Counted from 1, in characters.
    pub(super) column: usize,
}

// === impl Mutant ===

impl Mutant {
    /// The mutants that `program` lists with `options`, in the order of files and lines.
    ///
    /// # Errors
    ///
    /// If cargo-mutants fails, or writes something else than mutants.
    pub(super) fn list(
        repository: &Repository,
        program: &Path,
        options: &[String],
    ) -> Result<Vec<Self>> {
        let output = |format: &[&str]| -> Result<String> {
            let output = Command::new(program)
                .args(["mutants", "--list", "--colors", "never"])
                .args(format)
                .args(options)
                .current_dir(repository.root())
                .output()?;
            if !output.status.success() {
                let errors = String::from_utf8_lossy(&output.stderr);
                return Err(format!("cannot list the mutants:\n{errors}").into());
            }
            Ok(String::from_utf8(output.stdout)?)
        };
        // Only the plain list has the names. Both have the same order.
        let names = output(&[])?;
        let json = output(&["--json"])?;
        // Without mutants it writes no JSON.
        if json.trim().is_empty() {
            return Ok(Vec::new());
        }
        let json: Vec<Value> = serde_json::from_str(&json)?;
        if json.len() != names.lines().count() {
            return Err("the two lists of cargo-mutants differ in length".into());
        }
        let pairs = json.iter().zip(names.lines());
        let mutants = pairs.map(|(json, name)| Self::read(json, name));
        mutants.collect::<Option<_>>().ok_or_else(|| {
            "cargo-mutants lists its mutants in another form than this program reads".into()
        })
    }

    /// Whether it is the value of a function that returns `impl Trait`.
    pub(super) fn returns_impl(&self) -> bool {
        self.place.genre == "FnValue" && self.name.contains("-> impl ")
    }

    fn read(json: &Value, name: &str) -> Option<Self> {
        let text = |key: &str| Some(json[key].as_str()?.to_owned());
        let start = &json["span"]["start"];
        let number = |key: &str| usize::try_from(start[key].as_u64()?).ok();
        let mutant = Self {
            name: name.to_owned(),
            package: text("package")?,
            file: text("file")?,
            place: Place {
                genre: text("genre")?,
                line: number("line")?,
                column: number("column")?,
            },
            replacement: text("replacement")?,
        };
        let Place { line, column, .. } = mutant.place;
        let same = name.starts_with(&format!("{}:{line}:{column}: ", mutant.file));
        same.then_some(mutant)
    }
}
