//! The Go program whose clients the tests try on a server.

use std::path::PathBuf;

use crate::{Result, go::Program, repository::Repository};

/// Where its sources are.
const FOLDER: &str = "tests/go-clients";

/// How errors and progress name it.
const NAME: &str = "client-go and controller-runtime";

/// Where the tests learn where it is.
pub(crate) const VARIABLE: &str = "WINDLASS_GO_CLIENTS";

/// Builds the program if that has not been done: its path, or why it cannot be built here.
pub(crate) fn find(repository: &Repository) -> Result<std::result::Result<PathBuf, String>> {
    let program = Program::read(repository, FOLDER, "go-clients/go-clients")?;
    match program.missing(NAME) {
        Some(reason) => Ok(Err(reason)),
        None => program.build(NAME, "-s -w").map(Ok),
    }
}
