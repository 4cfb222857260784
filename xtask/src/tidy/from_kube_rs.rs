//! The rule that docs/from-kube-rs.md lists each public item of kube-runtime, and that
//! windlass-runtime has each one that the page offers.
//!
//! The items are read from the sources of kube-runtime in the registry: those that are reachable
//! from its `lib.rs`, and the public methods of its types that windlass-runtime implements itself.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
};

use syn::{ImplItem, Item, UseTree, Visibility};

use super::{nothing, publish::host};
use crate::repository::Repository;

const PAGE: &str = "docs/from-kube-rs.md";
const PATHS: &str = "crates/runtime/tests/paths.rs";

/// The types whose methods are listed, because they are implemented in windlass-runtime.
const OURS: [(&str, &str); 6] = [
    ("Controller", "controller::Controller"),
    ("Config", "controller::Config"),
    ("Action", "controller::Action"),
    ("Store", "reflector::store::Store"),
    ("Writer", "reflector::store::Writer"),
    ("ReflectHandle", "reflector::ReflectHandle"),
];

/// The files of kube-runtime that implement them.
const FILES: [&str; 3] = [
    "controller/mod.rs",
    "reflector/store.rs",
    "reflector/dispatcher.rs",
];

#[test]
fn each_item_of_kube_runtime_is_on_the_page() {
    let repository = Repository::here();
    let sources = kube_runtime(&repository);
    let items = items(&sources);
    assert!(items.len() > 70, "{items:?}");
    let page = page(&repository);
    let listed: BTreeSet<_> = page.keys().cloned().collect();
    let missing = items.difference(&listed);
    let missing = missing.map(|path| format!("{PAGE}: add `{path}`, an item of kube-runtime"));
    let unknown = listed.difference(&items);
    let unknown = unknown.map(|path| format!("{PAGE}: kube-runtime has no item `{path}`"));
    nothing(&missing.chain(unknown).collect::<Vec<_>>());
}

#[test]
fn each_item_that_the_page_offers_is_imported_or_implemented() {
    let repository = Repository::here();
    let imports = repository.read(PATHS).expect("the list of imports");
    let own = repository.root().join("crates/runtime/src");
    let own: BTreeSet<_> = rust_files(&own)
        .iter()
        .flat_map(|file| methods(file))
        .collect();
    let mut findings = Vec::new();
    for (path, status) in page(&repository) {
        if !["ours", "re-exported", "not offered"].contains(&&*status) {
            findings.push(format!("{PAGE}: {path} is `{status}`"));
        } else if status == "not offered" {
        } else if is_method(&path) {
            if !own.contains(&path) {
                findings.push(format!("{PAGE}: windlass-runtime has no method `{path}`"));
            }
        } else if !imports.contains(&format!("use windlass_runtime::{path} as _;")) {
            findings.push(format!("{PATHS}: import `{path}`"));
        }
    }
    nothing(&findings);
}

/// The paths of the page, with what the page says of each.
fn page(repository: &Repository) -> BTreeMap<String, String> {
    let page = repository.read(PAGE).expect("the page");
    let (_, table) = page.split_once("\n## Each item").expect("the table");
    let mut paths = BTreeMap::new();
    for row in table.lines().filter(|line| line.starts_with("| `")) {
        let cells: Vec<_> = row.split('|').map(str::trim).collect();
        for path in cells[1].split('`').skip(1).step_by(2) {
            paths.insert(path.to_owned(), cells[2].to_owned());
        }
    }
    paths
}

/// Whether `path` is the path of a method: its parent is a type.
fn is_method(path: &str) -> bool {
    let parent = path.rsplit("::").nth(1);
    parent.is_some_and(|parent| parent.starts_with(char::is_uppercase))
}

/// The folder with the sources of kube-runtime.
fn kube_runtime(repository: &Repository) -> PathBuf {
    let metadata = repository
        .metadata_for(&host())
        .expect("cargo knows its packages");
    let packages = metadata["packages"].as_array().into_iter().flatten();
    let manifest = packages
        .filter(|package| package["name"] == "kube-runtime")
        .find_map(|package| package["manifest_path"].as_str());
    let manifest = manifest.expect("kube-runtime is a dependency");
    Path::new(manifest).with_file_name("src")
}

/// The public items of kube-runtime.
fn items(sources: &Path) -> BTreeSet<String> {
    let mut items = BTreeSet::new();
    for item in parsed(&sources.join("lib.rs")) {
        match item {
            Item::Mod(module) if is_public(&module.vis) => {
                let name = module.ident.to_string();
                items.insert(name.clone());
                let file = [format!("{name}.rs"), format!("{name}/mod.rs")];
                let file = file.iter().map(|file| sources.join(file));
                let file = file.into_iter().find(|file| file.is_file());
                let file = file.unwrap_or_else(|| panic!("{name} has a file"));
                let below = file.with_file_name("");
                for item in parsed(&file) {
                    for inner in names(&item) {
                        items.insert(format!("{name}::{inner}"));
                    }
                    if let Item::Mod(inner) = &item
                        && is_public(&inner.vis)
                        && inner.content.is_none()
                    {
                        let file = below.join(format!("{}.rs", inner.ident));
                        let inner = format!("{name}::{}", inner.ident);
                        let parsed = parsed(&file);
                        let paths = parsed.iter().flat_map(names);
                        items.extend(paths.map(|path| format!("{inner}::{path}")));
                    }
                }
            }
            item => items.extend(names(&item)),
        }
    }
    items.extend(FILES.iter().flat_map(|file| methods(&sources.join(file))));
    items
}

/// The names of a public item of a module, or those that a `pub use` has.
fn names(item: &Item) -> Vec<String> {
    let named = |vis: &Visibility, ident: &syn::Ident| {
        if is_public(vis) {
            vec![ident.to_string()]
        } else {
            Vec::new()
        }
    };
    match item {
        Item::Fn(it) => named(&it.vis, &it.sig.ident),
        Item::Struct(it) => named(&it.vis, &it.ident),
        Item::Enum(it) => named(&it.vis, &it.ident),
        Item::Trait(it) => named(&it.vis, &it.ident),
        Item::Type(it) => named(&it.vis, &it.ident),
        Item::Const(it) => named(&it.vis, &it.ident),
        Item::Mod(it) => named(&it.vis, &it.ident),
        Item::Use(it) if is_public(&it.vis) => {
            let mut exported = Vec::new();
            used(&it.tree, &mut exported);
            exported
        }
        _ => Vec::new(),
    }
}

fn used(tree: &UseTree, names: &mut Vec<String>) {
    match tree {
        UseTree::Path(path) => used(&path.tree, names),
        UseTree::Name(name) => names.push(name.ident.to_string()),
        UseTree::Rename(rename) => names.push(rename.rename.to_string()),
        UseTree::Group(group) => group.items.iter().for_each(|it| used(it, names)),
        UseTree::Glob(_) => panic!("kube-runtime exports a glob: read the module"),
    }
}

/// The public methods of our types that a file has.
fn methods(file: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for item in parsed(file) {
        let Item::Impl(block) = item else { continue };
        let syn::Type::Path(of) = &*block.self_ty else {
            continue;
        };
        let Some(name) = of.path.segments.last().filter(|_| block.trait_.is_none()) else {
            continue;
        };
        let Some((_, path)) = OURS.iter().find(|(it, _)| name.ident == it) else {
            continue;
        };
        for item in &block.items {
            if let ImplItem::Fn(method) = item
                && is_public(&method.vis)
            {
                found.push(format!("{path}::{}", method.sig.ident));
            }
        }
    }
    found
}

fn is_public(vis: &Visibility) -> bool {
    matches!(vis, Visibility::Public(_))
}

fn parsed(file: &Path) -> Vec<Item> {
    let text = std::fs::read_to_string(file);
    let text = text.unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    let parsed = syn::parse_file(&text);
    let parsed = parsed.unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    parsed.items
}

/// The Rust files in `folder`.
fn rust_files(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).expect("a folder").flatten() {
        let path = entry.path();
        if path.is_dir() {
            files.extend(rust_files(&path));
        } else if path.extension().is_some_and(|it| it == "rs") {
            files.push(path);
        }
    }
    files
}
