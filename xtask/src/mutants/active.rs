//! The active mutant of this process.
//!
//! `cargo xtask mutants` compiles this file as a crate that only its copy of the checkout has. Each
//! switch in the mutated packages calls it.

use std::{
    env,
    fs::{File, OpenOptions},
    io::Write as _,
    sync::{
        OnceLock,
        atomic::{AtomicBool, Ordering},
    },
};

/// More than the mutants of all packages together.
const LIMIT: usize = 32_768;

/// What the environment of this process asks for.
struct Process {
    /// `WINDLASS_MUTANT`: the number of the mutant that is active.
    active: Option<usize>,

    /// `WINDLASS_MUTANTS_REACHED`: the file to which the numbers of reached mutants are appended.
    reached: Option<File>,
}

/// Whether mutant `id` is active. Its switch has just been reached.
#[must_use]
pub fn active(id: usize) -> bool {
    static PROCESS: OnceLock<Process> = OnceLock::new();
    static REACHED: [AtomicBool; LIMIT] = [const { AtomicBool::new(false) }; LIMIT];

    let process = PROCESS.get_or_init(|| Process {
        active: env::var("WINDLASS_MUTANT")
            .ok()
            .and_then(|id| id.parse().ok()),
        reached: env::var_os("WINDLASS_MUTANTS_REACHED")
            .and_then(|path| OpenOptions::new().append(true).open(path).ok()),
    });
    if let Some(mut file) = process.reached.as_ref()
        && !REACHED[id].swap(true, Ordering::Relaxed)
    {
        // In one call, so that lines of several threads and processes do not mix.
        _ = file.write_all(format!("{id}\n").as_bytes());
    }
    process.active == Some(id)
}

#[cfg(test)]
mod tests {
    use super::active;

    #[test]
    fn no_mutant_is_active_by_default() {
        assert!(!active(0));
    }
}
