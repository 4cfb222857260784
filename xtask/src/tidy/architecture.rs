//! The rule that ARCHITECTURE.md names every module, and no file that does not exist.

use super::nothing;
use crate::repository::{Repository, Source};

const ARCHITECTURE: &str = "ARCHITECTURE.md";

/// What makes a word in backticks the path of a file.
const EXTENSIONS: [&str; 6] = [".rs", ".md", ".toml", ".go", ".json", ".yaml"];

#[test]
fn every_file_that_it_names_exists() {
    let repository = Repository::here();
    let text = read(&repository);
    let missing = in_backticks(&text)
        .filter(|word| EXTENSIONS.iter().any(|it| word.ends_with(it)) && !word.contains([' ', '*']))
        .filter(|word| !paths(word).any(|path| repository.join(path).is_file()));
    let findings =
        missing.map(|word| format!("{ARCHITECTURE}: it names `{word}`, which does not exist"));
    nothing(&findings.collect::<Vec<_>>());
}

#[test]
fn every_top_level_module_is_named() {
    let repository = Repository::here();
    let text = read(&repository);
    let sources = repository
        .sources("rs")
        .expect("the repository can be read");
    let roots = sources
        .iter()
        .filter(|source| source.path.ends_with("src/lib.rs"));
    let findings = roots
        .flat_map(|root| unnamed(root, &text))
        .collect::<Vec<_>>();
    nothing(&findings);
}

#[test]
fn a_module_is_named_by_its_file_or_its_room() {
    let root = Source {
        path: "crates/informer/src/lib.rs".to_owned(),
        text: "mod watch;\npub mod store;\n#[cfg(test)]\nmod support;\nmod list;\n".to_owned(),
    };
    let text = "| `informer/watch` | `crates/informer/src/store.rs` | `informer/listing` |";
    assert_eq!(
        unnamed(&root, text),
        ["ARCHITECTURE.md: name the module `informer/list` (crates/informer/src/list.rs)"]
    );
}

/// What is written between two backticks, fenced blocks included line by line.
pub(super) fn in_backticks(text: &str) -> impl Iterator<Item = &str> {
    text.lines()
        .flat_map(|line| line.split('`').skip(1).step_by(2))
        .map(str::trim)
}

/// The paths that `word` may stand for: from the root, or `crate/file.rs` for a file in the
/// sources of a crate.
pub(super) fn paths(word: &str) -> impl Iterator<Item = String> {
    let in_crate = word
        .split_once('/')
        .map(|(name, rest)| format!("crates/{name}/src/{rest}"));
    std::iter::once(word.to_owned()).chain(in_crate)
}

fn unnamed(root: &Source, text: &str) -> Vec<String> {
    let folder = root.path.trim_end_matches("lib.rs");
    let name = folder
        .trim_start_matches("crates/")
        .trim_end_matches("src/")
        .trim_end_matches('/');
    let mut test_only = false;
    let modules = root.text.lines().map(str::trim).filter_map(|line| {
        if line.starts_with("#[") {
            test_only = line == "#[cfg(test)]";
            return None;
        }
        let module = line
            .trim_start_matches("pub ")
            .strip_prefix("mod ")?
            .strip_suffix(';')?;
        (!std::mem::take(&mut test_only)).then_some(module)
    });
    let unnamed = modules.filter(|module| {
        let names = [format!("{name}/{module}"), format!("{folder}{module}")];
        !names.iter().any(|it| is_named(it, text))
    });
    unnamed
        .map(|module| {
            format!("{ARCHITECTURE}: name the module `{name}/{module}` ({folder}{module}.rs)")
        })
        .collect()
}

/// Whether `name` stands in `text` as a whole word, with or without what follows in its path.
fn is_named(name: &str, text: &str) -> bool {
    let mut places = text
        .match_indices(name)
        .map(|(at, _)| &text[at + name.len()..]);
    places.any(|rest| !rest.starts_with(|c: char| c.is_alphanumeric() || c == '_'))
}

fn read(repository: &Repository) -> String {
    let text = repository.read(ARCHITECTURE);
    text.unwrap_or_else(|_| {
        panic!("{ARCHITECTURE} does not exist; write the way of an event there")
    })
}
