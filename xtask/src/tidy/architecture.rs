//! The rule that documents name only existing items and files, and that ARCHITECTURE.md names every module.

use std::collections::HashSet;

use super::nothing;
use crate::repository::{Repository, Source};

const ARCHITECTURE: &str = "ARCHITECTURE.md";

/// The endings by which a word in backticks is a path.
const EXTENSIONS: [&str; 6] = [".rs", ".md", ".toml", ".go", ".json", ".yaml"];

#[test]
fn every_file_that_it_names_exists() {
    let repository = Repository::here();
    let text = read(&repository);
    let missing = in_backticks(&text)
        .filter(|word| EXTENSIONS.iter().any(|it| word.ends_with(it)) && !word.contains([' ', '*']))
        .filter(|word| !paths(word).any(|path| repository.join(path).is_file()));
    let findings = missing.map(|word| format!("{ARCHITECTURE}: `{word}` does not exist"));
    nothing(&findings.collect::<Vec<_>>());
}

/// Documents that name only items of Windlass. docs/features.md and docs/names.md also name items
/// of other projects.
const OURS: [&str; 7] = [
    ARCHITECTURE,
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "README.md",
    "docs/compared.md",
    "docs/observability.md",
    "docs/reliability.md",
];

/// Further documents in which all named files must exist.
const OTHERS: [&str; 3] = ["docs/features.md", "docs/names.md", "docs/style.md"];

#[test]
fn every_type_and_function_that_a_document_names_exists() {
    let repository = Repository::here();
    let mut known = HashSet::new();
    for extension in ["rs", "toml", "go"] {
        let sources = repository.sources(extension);
        for source in sources.expect("the repository can be read") {
            // The name of a module.
            known.extend(words(&source.path).map(str::to_owned));
            known.extend(words(&source.text).map(str::to_owned));
        }
    }
    let mut findings = Vec::new();
    for page in OURS {
        let text = repository.read(page).expect("the page can be read");
        for span in in_backticks(&without_fences(&text)) {
            for word in words(span).filter(|word| is_name(word) && !known.contains(*word)) {
                findings.push(format!(
                    "{page}: `{span}` names {word}, which does not exist"
                ));
            }
        }
    }
    nothing(&findings);
}

#[test]
fn every_file_that_a_document_names_or_links_to_exists() {
    let repository = Repository::here();
    let sources = repository
        .sources("rs")
        .expect("the repository can be read");
    let mut findings = Vec::new();
    for page in OURS.into_iter().chain(OTHERS) {
        let text = repository.read(page).expect("the page can be read");
        let text = without_fences(&text);
        let folder = page.rsplit_once('/').map_or("", |(folder, _)| folder);
        let links = text
            .split("](")
            .skip(1)
            .filter_map(|rest| rest.split(')').next());
        let links = links.map(|link| link.split('#').next().unwrap_or_default());
        for link in links.filter(|link| !link.is_empty() && !link.contains("://")) {
            if !repository.join(folder).join(link).exists() {
                findings.push(format!("{page}: the link target {link} does not exist"));
            }
        }
        let named = in_backticks(&text).filter(|word| word.contains('/') && !word.contains(' '));
        for word in named.filter(|word| EXTENSIONS.iter().any(|it| word.ends_with(it))) {
            // The end of a path is enough, such as `wire/lists.rs`, if the page names the crate.
            let end = format!("/{word}");
            let is_end = sources.iter().any(|source| source.path.ends_with(&end));
            if !is_end && !paths(word).any(|path| repository.join(path).is_file()) {
                findings.push(format!("{page}: `{word}` does not exist"));
            }
        }
    }
    nothing(&findings);
}

#[test]
fn a_name_is_a_type_or_has_an_underscore() {
    assert!(
        ["ListWatch", "add_mapper", "Store"]
            .into_iter()
            .all(is_name)
    );
    assert!(!["kubectl", "UID", "5s", "json"].into_iter().any(is_name));
    assert_eq!(without_fences("a\n```\nb\n```\nc"), "a\nc\n");
}

/// Whether a word is the name of a type, or of a function with an underscore.
fn is_name(word: &str) -> bool {
    let mut letters = word.chars();
    let begins = letters.next().is_some_and(char::is_uppercase);
    let continues = letters.next().is_some_and(char::is_lowercase);
    (begins && continues) || word.trim_matches('_').contains('_')
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|letter: char| !(letter.is_alphanumeric() || letter == '_'))
        .filter(|word| !word.is_empty())
}

/// The text without its code blocks, which other tests check.
fn without_fences(text: &str) -> String {
    let mut inside = false;
    let mut rest = String::new();
    for line in text.lines() {
        let is_fence = line.trim_start().starts_with("```");
        inside ^= is_fence;
        if !inside && !is_fence {
            rest.push_str(line);
            rest.push('\n');
        }
    }
    rest
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
fn a_module_is_named_by_its_file_or_its_folder() {
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

/// The texts between two backticks, including lines of fenced blocks.
pub(super) fn in_backticks(text: &str) -> impl Iterator<Item = &str> {
    text.lines()
        .flat_map(|line| line.split('`').skip(1).step_by(2))
        .map(str::trim)
}

/// The paths that `word` can mean: from the root, or `crate/file.rs` for a file in the sources of a
/// crate.
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

/// Whether `text` contains `name` as a whole word or as the beginning of a path.
fn is_named(name: &str, text: &str) -> bool {
    let mut places = text
        .match_indices(name)
        .map(|(at, _)| &text[at + name.len()..]);
    places.any(|rest| !rest.starts_with(|c: char| c.is_alphanumeric() || c == '_'))
}

fn read(repository: &Repository) -> String {
    let text = repository.read(ARCHITECTURE);
    text.unwrap_or_else(|_| {
        panic!("{ARCHITECTURE} does not exist; describe the path of an event there")
    })
}
