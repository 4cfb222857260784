//! The rule that every file is compiled.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

use super::nothing;
use crate::{Result, repository::Repository};

#[test]
fn every_file_is_compiled_by_a_target() {
    let repository = Repository::here();
    let mut compiled = BTreeSet::new();
    for root in roots(&repository).expect("cargo knows its targets") {
        follow(&root, &parent(&root), &mut compiled);
    }
    let compiled = compiled
        .iter()
        .map(|path| repository.relative(path))
        .collect::<BTreeSet<_>>();

    let sources = repository
        .sources("rs")
        .expect("the repository can be read");
    let orphans = sources
        .iter()
        .filter(|source| !compiled.contains(&source.path));
    let findings = orphans.map(|source| {
        format!(
            "{}: no `mod` line refers to this file; add one, or remove the file",
            source.path
        )
    });
    nothing(&findings.collect::<Vec<_>>());
}

/// The first file of each target.
fn roots(repository: &Repository) -> Result<Vec<PathBuf>> {
    let metadata = repository.metadata()?;
    let packages = metadata["packages"].as_array().into_iter().flatten();
    let targets = packages.flat_map(|package| package["targets"].as_array().into_iter().flatten());
    let mut roots = targets
        .filter_map(|target| target["src_path"].as_str())
        .map(PathBuf::from)
        .collect::<Vec<_>>();
    // Fuzz targets can be a separate workspace.
    for source in repository.sources("rs")? {
        if source.path.starts_with("fuzz/fuzz_targets/") {
            roots.push(repository.join(&source.path));
        }
    }
    Ok(roots)
}

/// Records `file` and all files that its `mod` lines refer to. Modules without a path attribute are
/// in `folder`.
fn follow(file: &Path, folder: &Path, compiled: &mut BTreeSet<PathBuf>) {
    let Ok(text) = fs::read_to_string(file) else {
        return;
    };
    if !compiled.insert(file.to_owned()) {
        return;
    }
    let mut path = None;
    for line in text.lines().map(str::trim) {
        if let Some(named) = attribute(line) {
            path = Some(parent(file).join(named));
        } else if let Some(name) = module(line) {
            if let Some(path) = path.take() {
                let path = fs::canonicalize(&path).unwrap_or(path);
                follow(&path, &parent(&path).join(stem(&path)), compiled);
            } else {
                follow(
                    &folder.join(format!("{name}.rs")),
                    &folder.join(name),
                    compiled,
                );
                follow(
                    &folder.join(name).join("mod.rs"),
                    &folder.join(name),
                    compiled,
                );
            }
        }
    }
}

/// The file in `#[path = "file.rs"]`.
fn attribute(line: &str) -> Option<&str> {
    line.strip_prefix("#[path = \"")?.strip_suffix("\"]")
}

/// The name in `mod name;`, after attributes and visibility.
fn module(line: &str) -> Option<&str> {
    let line = line.split("//").next()?.trim_end().strip_suffix(';')?;
    let (before, name) = line.rsplit_once("mod ")?;
    let visible = before.is_empty() || before.starts_with("pub") && before.ends_with(' ');
    (visible && name.chars().all(|c| c.is_alphanumeric() || c == '_')).then_some(name)
}

fn parent(file: &Path) -> PathBuf {
    file.parent().map(Path::to_owned).unwrap_or_default()
}

fn stem(file: &Path) -> PathBuf {
    file.file_stem().map(PathBuf::from).unwrap_or_default()
}

#[test]
fn a_mod_line_is_found_after_attributes_and_visibility() {
    assert_eq!(module("mod store;"), Some("store"));
    assert_eq!(module("pub(super) mod store; // why"), Some("store"));
    assert_eq!(module("pub mod store;"), Some("store"));
    assert_eq!(module("mod tests {"), None);
    assert_eq!(module("// mod store;"), None);
    assert_eq!(module("let x = \"mod store\";"), None);
}
