//! `cargo xtask stats`: lists files by size and public items by crate. Never fails.
//!
//! An item is hidden if it has `#[doc(hidden)]`, or its `impl` block or its file has it: other
//! crates of the workspace use it, and the documentation does not show it.

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

    /// A crate whose public items are listed, for example `crates/informer`. Without hidden items.
    #[arg(long)]
    items: Option<String>,
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
        if let Some(package) = &self.items {
            println!();
            print_items(&sources, package);
        }
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
    let mut crates = BTreeMap::<&str, (usize, usize, usize, usize)>::new();
    for source in sources {
        let counts = crates.entry(package(&source.path)).or_default();
        counts.0 += 1;
        counts.1 += source.text.lines().count();
        for item in public_items(&source.text) {
            counts.2 += usize::from(!item.is_hidden);
            counts.3 += usize::from(item.is_hidden);
        }
    }
    println!(
        "{:20} {:>5} {:>7} {:>12} {:>6}",
        "crate", "files", "lines", "public items", "hidden"
    );
    for (name, (files, lines, items, hidden)) in crates {
        println!("{name:20} {files:>5} {lines:>7} {items:>12} {hidden:>6}");
    }
}

fn print_items(sources: &[Source], of: &str) {
    for source in sources.iter().filter(|it| package(&it.path) == of) {
        for item in public_items(&source.text).filter(|it| !it.is_hidden) {
            println!("{}: {}", source.path, item.line);
        }
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

/// A line that declares an item with `pub`.
struct PublicItem<'a> {
    line: &'a str,
    is_hidden: bool,
}

fn public_items(text: &str) -> impl Iterator<Item = PublicItem<'_>> {
    let is_file_hidden = text.contains("#![doc(hidden)]");
    let (mut is_next_hidden, mut is_impl_hidden) = (false, false);
    text.lines().filter_map(move |whole| {
        let line = whole.trim_start();
        let is_declaration = ["pub", "impl", "fn "].iter().any(|it| line.starts_with(it));
        let is_hidden = is_declaration && std::mem::take(&mut is_next_hidden);
        match whole {
            "}" => is_impl_hidden = false,
            _ if whole.starts_with("impl") => is_impl_hidden = is_hidden,
            _ => is_next_hidden |= line == "#[doc(hidden)]",
        }
        is_public_item(line).then_some(PublicItem {
            line,
            is_hidden: is_hidden || is_impl_hidden || is_file_hidden,
        })
    })
}

fn is_public_item(line: &str) -> bool {
    const ITEMS: [&str; 11] = [
        "fn ", "async ", "const ", "struct ", "enum ", "trait ", "type ", "mod ", "static ",
        "macro ", "union ",
    ];
    let item = line.strip_prefix("pub ");
    item.is_some_and(|item| ITEMS.iter().any(|kind| item.starts_with(kind)))
}

#[cfg(test)]
mod tests {
    use super::{package, public_items};

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
    fn an_item_is_public_if_another_crate_can_name_it() {
        check("    pub fn push(&self) {", "pub fn push(&self) {");
        check("pub(crate) fn push(&self) {", "");
        check("pub use self::list::Items;", "");
    }

    #[test]
    fn an_item_is_hidden_with_its_impl_block_and_its_file() {
        check(
            "#[doc(hidden)]\n#[must_use]\npub fn a() {\n}\npub fn b() {",
            "pub fn b() {",
        );
        let block =
            "#[doc(hidden)]\nimpl A {\n    pub fn a() {\n    }\n    pub fn b() {\n    }\n}\n";
        check(
            &format!("{block}impl B {{\n    pub fn c() {{"),
            "pub fn c() {",
        );
        check("#![doc(hidden)]\npub fn a() {", "");
    }

    /// `shown` is the list of the public items of `text` that are not hidden.
    #[track_caller]
    fn check(text: &str, shown: &str) {
        let items = public_items(text).filter(|item| !item.is_hidden);
        let lines: Vec<_> = items.map(|item| item.line).collect();
        assert_eq!(lines.join("\n"), shown, "{text}");
    }
}
