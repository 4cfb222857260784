//! The rule that docs/names.md names only existing items, and that the facade has every public name.

use std::collections::{BTreeMap, BTreeSet};

use super::{architecture::in_backticks, nothing};
use crate::repository::{Repository, Source};

const PAGE: &str = "docs/names.md";
const FACADE: &str = "src/lib.rs";

/// Items that are public for other crates of the workspace, not for users.
const INTERNAL: [&str; 23] = [
    "CallObserver",
    "observe_calls",
    "Decoder",
    "ErasedRunnable",
    "FinalizerIdentity",
    "host_name",
    "is_host_simulated",
    "StoredForm",
    "IGNORED_METADATA",
    "IncomingObject",
    "InformerId",
    "is_older",
    "is_unseen",
    "log as log_problem",
    "resource_name",
    "ResyncHandle",
    "is_time_simulated",
    "panic_message",
    "one_line",
    "sent_once",
    "Fenced",
    "Priority",
    "SimulatedHost",
];

#[test]
fn every_windlass_name_in_the_page_exists() {
    let repository = Repository::here();
    let modules = modules(&repository.read(FACADE).expect("there is a facade"));
    let sources = repository.sources("rs").expect("it can be read");
    let sources = sources.iter().filter(|it| it.path.starts_with("crates/"));
    let sources = sources.collect::<Vec<_>>();
    let page = repository.read(PAGE).expect("there is a page");
    let missing = ours(&page)
        .filter(|(_, name)| !exists(name, &modules, &sources))
        .map(|(line, name)| format!("{PAGE}:{line}: `{name}` does not exist"));
    nothing(&missing.collect::<Vec<_>>());
}

#[test]
fn every_public_name_of_the_engine_is_in_the_facade() {
    let repository = Repository::here();
    let facade = modules(&repository.read(FACADE).expect("there is a facade"));
    let known = facade.values().flatten().collect::<BTreeSet<_>>();
    let mut findings = Vec::new();
    for name in ["informer", "controller", "operator"] {
        let path = format!("crates/{name}/src/lib.rs");
        let root = repository.read(&path).expect("the crate has a root");
        for name in exports(&root) {
            if !known.contains(&name) && !INTERNAL.contains(&name.as_str()) {
                findings.push(format!(
                    "{path}: export `{name}` in a module of {FACADE} too, or list it as internal"
                ));
            }
        }
    }
    nothing(&findings);
}

#[test]
fn a_name_is_a_type_in_its_module_or_an_item_of_a_type() {
    let facade = "pub mod store {\n    pub use a::{Index, Store};\n}\npub mod one {\n    pub use a::One;\n}\n";
    let modules = modules(facade);
    let source = Source {
        path: "crates/a/src/store.rs".to_owned(),
        text: "impl Store {\n    pub fn by<V>(&self) {}\n}\n".to_owned(),
    };
    let exists = |name| exists(name, &modules, &[&source]);
    assert!(exists("store::Store") && exists("Store::by") && exists("one::One"));
    assert!(!exists("store::One") && !exists("Store::b") && !exists("Shop::by"));
    let page = "| there | here |\n|--|--|\n| `x` | `store::Store`, `Store::by` | `y` |\n| `z` | – | `z` |\n";
    assert_eq!(
        ours(page).collect::<Vec<_>>(),
        [(1, "here"), (3, "store::Store"), (3, "Store::by")]
            .into_iter()
            .filter(|(line, _)| *line > 1)
            .collect::<Vec<_>>()
    );
}

/// The names in the second column of each table, with their lines.
fn ours(page: &str) -> impl Iterator<Item = (usize, &str)> {
    page.lines().enumerate().flat_map(|(index, line)| {
        let cell = line.split('|').nth(2).unwrap_or_default();
        in_backticks(cell).map(move |name| (index + 1, name))
    })
}

/// Whether `name` is `module::Type` of the facade, or `Type::item` where a file of the engine contains
/// both the type and the item.
fn exists(name: &str, modules: &BTreeMap<String, BTreeSet<String>>, sources: &[&Source]) -> bool {
    let Some((first, second)) = name.split_once("::") else {
        return false;
    };
    if let Some(names) = modules.get(first) {
        return names.contains(second);
    }
    // ListMap is re-exported as a crate.
    let is_type = modules.values().any(|names| names.contains(first));
    if first == "listmap" {
        return sources
            .iter()
            .any(|it| it.text.contains(&format!("pub struct {second}")));
    }
    let patterns = [
        format!("fn {second}("),
        format!("fn {second}<"),
        format!("const {second}:"),
        format!("    {second} {{"),
        format!("    {second}("),
        format!("    {second},"),
    ];
    let declares = |text: &str| {
        ["struct ", "enum ", "trait ", "impl ", "> "]
            .iter()
            .any(|word| {
                [" ", "<", "\n", "(", ":", ";"]
                    .iter()
                    .any(|end| text.contains(&format!("{word}{first}{end}")))
            })
    };
    is_type
        && sources.iter().any(|source| {
            // Most sources contain neither: this decides faster than the patterns.
            source.text.contains(first)
                && patterns.iter().any(|it| source.text.contains(it))
                && declares(&source.text)
        })
}

/// The names that each module of the facade exports.
fn modules(facade: &str) -> BTreeMap<String, BTreeSet<String>> {
    let mut modules = BTreeMap::<String, BTreeSet<String>>::new();
    for part in facade.split("\npub mod ") {
        let part = part.strip_prefix("pub mod ").unwrap_or(part);
        let Some((name, body)) = part.split_once(" {") else {
            continue;
        };
        let body = body.split_once("\n}").map_or(body, |(body, _)| body);
        modules.insert(name.trim().to_owned(), exports(body));
    }
    modules
}

/// The last segments of all paths in `pub use`.
fn exports(text: &str) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for tree in text.split("pub use ").skip(1) {
        let tree = tree.split(';').next().unwrap_or_default();
        for path in tree.split(['{', '}', ',']) {
            let name = path.trim().rsplit("::").next().unwrap_or_default();
            if !name.is_empty() && !path.trim_end().ends_with("::") {
                names.insert(name.to_owned());
            }
        }
    }
    names
}
