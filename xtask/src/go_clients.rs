//! The Go program with which tests try Go clients on a server.

use std::path::PathBuf;

use crate::{Result, go::Program, repository::Repository};

/// The folder of its sources.
const FOLDER: &str = "tests/go-clients";

/// Its name in errors and progress lines.
const NAME: &str = "client-go and controller-runtime";

/// The environment variable with its path, for the tests.
pub(crate) const VARIABLE: &str = "WINDLASS_GO_CLIENTS";

/// Builds the program if necessary. Returns its path, or why it cannot be built.
pub(crate) fn find(repository: &Repository) -> Result<std::result::Result<PathBuf, String>> {
    let program = Program::read(repository, FOLDER, "go-clients/go-clients")?;
    match program.missing(NAME) {
        Some(reason) => Ok(Err(reason)),
        None => program.build(NAME, "-s -w").map(Ok),
    }
}
