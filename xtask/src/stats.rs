//! `cargo xtask stats`: lists files by size and public items by crate. Never fails.

use std::{collections::BTreeMap, process::ExitCode};

use clap::Args;

use crate::{
    Result,
    repository::{Repository, Source},
};

/// Lists files by size and public items by crate.
#[derive(Args, Debug)]
pub(crate) struct Stats {
    /// The number of files to list.
    #[arg(long, default_value_t = 25)]
    files: usize,
}

/// The number of lines at which `docs/style.md` recommends to split a file.
const LARGE: usize = 400;

// === impl Stats ===

impl Stats {
    pub(crate) fn run(&self) -> Result {
        let sources = Repository::here().sources("rs")?;
        self.print_files(&sources);
        println!();
        print_crates(&sources);
        Ok(ExitCode::SUCCESS)
    }

    fn print_files(&self, sources: &[Source]) {
        let mut sizes = sources
            .iter()
            .map(|it| (it.text.lines().count(), &it.path))
            .collect::<Vec<_>>();
        sizes.sort_unstable_by(|one, other| other.cmp(one));
        let large = sizes.iter().filter(|(lines, _)| *lines >= LARGE).count();
        let median = sizes.get(sizes.len() / 2).map_or(0, |(lines, _)| *lines);
        println!("lines  file");
        for (lines, path) in sizes.iter().take(self.files) {
            println!("{lines:>5}  {path}");
        }
        println!(
            "{} files, median {median} lines, {large} of {LARGE} lines or more",
            sizes.len()
        );
    }
}

fn print_crates(sources: &[Source]) {
    let mut crates = BTreeMap::<&str, (usize, usize, usize)>::new();
    for source in sources {
        let counts = crates.entry(package(&source.path)).or_default();
        counts.0 += 1;
        counts.1 += source.text.lines().count();
        counts.2 += source
            .text
            .lines()
            .filter(|line| is_public_item(line))
            .count();
    }
    println!(
        "{:20} {:>5} {:>7} {:>12}",
        "crate", "files", "lines", "public items"
    );
    for (name, (files, lines, items)) in crates {
        println!("{name:20} {files:>5} {lines:>7} {items:>12}");
    }
}

/// The folder of a file: a crate, or a folder such as `tests`.
fn package(path: &str) -> &str {
    let ends = path.match_indices('/').map(|(at, _)| at);
    let depth = usize::from(path.starts_with("crates/"));
    ends.skip(depth)
        .map(|at| &path[..at])
        .next()
        .unwrap_or(path)
}

fn is_public_item(line: &str) -> bool {
    const ITEMS: [&str; 11] = [
        "fn ", "async ", "const ", "struct ", "enum ", "trait ", "type ", "mod ", "static ",
        "macro ", "union ",
    ];
    let item = line.trim_start().strip_prefix("pub ");
    item.is_some_and(|item| ITEMS.iter().any(|kind| item.starts_with(kind)))
}

#[cfg(test)]
mod tests {
    use super::{is_public_item, package};

    #[test]
    fn a_file_belongs_to_its_crate() {
        assert_eq!(
            package("crates/informer/src/store/index.rs"),
            "crates/informer"
        );
        assert_eq!(package("src/lib.rs"), "src");
        assert_eq!(package("tests/behaviour/main.rs"), "tests");
    }

    #[test]
    fn an_item_is_public_if_a_user_can_name_it() {
        assert!(is_public_item("    pub fn push(&self) {"));
        assert!(!is_public_item("pub(crate) fn push(&self) {"));
        assert!(!is_public_item("pub use self::list::Items;"));
    }
}
