//! One step of the test command: a program, and the name that is printed.

use std::process::Command;

use crate::repository::cargo;

/// A program that checks something, and the name that is printed.
pub(super) struct Step {
    pub(super) name: String,
    pub(super) command: Command,

    /// Whether the paths of its tests contain the name of a server.
    pub(super) on_servers: bool,
}

// === impl Step ===

impl Step {
    /// Runs cargo with `arguments`.
    pub(super) fn new<'a>(
        name: impl Into<String>,
        arguments: impl IntoIterator<Item = &'a str>,
    ) -> Self {
        let mut command = cargo();
        command.args(arguments);
        Self {
            name: name.into(),
            command,
            on_servers: false,
        }
    }
}
