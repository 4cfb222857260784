//! The rule that the top-level modules of a crate do not depend on each other in a circle.

use std::collections::{BTreeMap, BTreeSet};

use syn::{
    Item, UseTree,
    visit::{self, Visit},
};

use super::nothing;
use crate::repository::{Repository, Source};

/// The circles that exist, with the reason of each.
const ALLOWED: [(&str, &[&str]); 2] = [
    // Traits of users whose provided methods name each other's types, such as `Reconciler::filter`.
    (
        "crates/controller/src/",
        &[
            "error",
            "finalizer",
            "handler",
            "mapper",
            "metrics",
            "predicate",
            "reconciler",
            "report",
            "retry",
            "route",
            "running",
            "schedule",
            "watcher",
            "work",
        ],
    ),
    // A simulation describes its operators, runs and oracles, and each of them reads the others.
    (
        "crates/simulate/src/",
        &[
            "connection",
            "direct",
            "explore",
            "external",
            "handler",
            "oracle",
            "process",
            "report",
            "run",
            "simulation",
            "step",
            "trace",
            "world",
        ],
    ),
];

/// The modules that each module names.
type Graph = BTreeMap<String, BTreeSet<String>>;

/// The names after `crate::` in a file, and the names after `super::`.
#[derive(Default)]
struct Names {
    of_crate: BTreeSet<String>,
    of_parent: BTreeSet<String>,
}

#[test]
fn modules_do_not_depend_on_each_other_in_a_circle() {
    let sources = Repository::here()
        .sources("rs")
        .expect("the repository can be read");
    let libraries = sources
        .iter()
        .filter_map(|source| source.path.strip_suffix("lib.rs"));
    let mut findings = Vec::new();
    for library in libraries.filter(|path| path.ends_with("src/")) {
        let graph = graph(library, &sources);
        let mut circles = circles(&graph);
        let allowed = ALLOWED.iter().filter(|(of, _)| *of == library);
        for (_, allowed) in allowed {
            let before = circles.len();
            circles.retain(|circle| circle != allowed);
            if circles.len() == before {
                findings.push(format!(
                    "{library}: the circle {} has changed: write it as it is now, if it became smaller",
                    allowed.join(", ")
                ));
            }
        }
        findings.extend(circles.iter().map(|circle| {
            let circle = circle.join(", ");
            format!("{library}: the modules {circle} depend on each other: move what one takes from another")
        }));
    }
    nothing(&findings);
}

#[test]
fn circles_are_found_through_other_modules_and_exports() {
    let check = |files: &[(&str, &str)], expected: &str| {
        let sources = files.iter().map(|(path, text)| Source {
            path: format!("src/{path}"),
            text: (*text).to_owned(),
        });
        let sources: Vec<_> = sources.collect();
        let graph = graph("src/", &sources);
        let found = circles(&graph);
        let found: Vec<_> = found.iter().map(|circle| circle.join(" ")).collect();
        assert_eq!(found.join("; "), expected, "{files:?}");
    };
    let library = (
        "lib.rs",
        "mod a; mod b; mod c; pub use crate::{a::A, c::{C, D}};",
    );
    let b = ("b.rs", "fn f() { crate::c::g(); }");
    let c = ("c/d.rs", "use crate::{A, x::Y};");
    check(&[library, ("a.rs", "use crate::b::B;"), b, c], "a b c");
    check(
        &[library, ("a.rs", "use super::{b::B, other};"), b, c],
        "a b c",
    );
    check(&[library, ("a.rs", "use crate::a::Own;"), b, c], "");
    check(
        &[
            library,
            ("a.rs", "#[cfg(test)] mod tests { use crate::b::B; }"),
            b,
            c,
        ],
        "",
    );
    check(&[library, ("a.rs", "use crate::C;"), b, c], "a c");
}

/// The graph of the modules of a library, whose folder is `library`.
fn graph(library: &str, sources: &[Source]) -> Graph {
    let in_library = |source: &&Source| {
        let rest = source.path.strip_prefix(library);
        rest.is_some_and(|rest| !rest.contains("tests"))
    };
    let files: Vec<_> = sources.iter().filter(in_library).collect();
    let mut graph = Graph::new();
    let mut exports = BTreeMap::new();
    let root = files
        .iter()
        .find(|file| file.path == format!("{library}lib.rs"));
    for item in root.map(|root| parsed(root).items).into_iter().flatten() {
        match item {
            Item::Mod(module) => _ = graph.insert(module.ident.to_string(), BTreeSet::new()),
            Item::Use(item) => exported(&item.tree, &mut Vec::new(), &mut exports),
            _ => {}
        }
    }
    for file in files {
        let path = &file.path[library.len()..];
        let module = path.split('/').next().unwrap_or_default();
        let module = module.strip_suffix(".rs").unwrap_or(module);
        let mut names = Names::default();
        names.visit_file(&parsed(file));
        let mut used = names.of_crate;
        if !path.contains('/') {
            used.extend(names.of_parent);
        }
        let used = used.into_iter().filter_map(|name| {
            let exporting = || exports.get(&name).cloned();
            graph
                .contains_key(&name)
                .then(|| name.clone())
                .or_else(exporting)
        });
        let used: Vec<_> = used
            .filter(|name| name != module && graph.contains_key(name))
            .collect();
        if let Some(known) = graph.get_mut(module) {
            known.extend(used);
        }
    }
    graph
}

fn parsed(source: &Source) -> syn::File {
    syn::parse_file(&source.text).unwrap_or_else(|error| panic!("{}: {error}", source.path))
}

/// Adds the names that the root exports, with the module of each.
fn exported(tree: &UseTree, path: &mut Vec<String>, exports: &mut BTreeMap<String, String>) {
    match tree {
        UseTree::Path(next) => {
            path.push(next.ident.to_string());
            exported(&next.tree, path, exports);
            path.pop();
        }
        UseTree::Group(group) => group
            .items
            .iter()
            .for_each(|it| exported(it, path, exports)),
        UseTree::Name(name) if path.first().is_some_and(|it| it == "crate" || it == "self") => {
            if let Some(module) = path.get(1) {
                exports.insert(name.ident.to_string(), module.clone());
            }
        }
        _ => {}
    }
}

/// The modules that reach each other, in groups of at least two.
fn circles(graph: &Graph) -> Vec<Vec<&str>> {
    let reached = |from: &str| {
        let (mut reached, mut next) = (BTreeSet::new(), vec![from.to_owned()]);
        while let Some(module) = next.pop() {
            for used in graph.get(&module).into_iter().flatten() {
                if reached.insert(used.clone()) {
                    next.push(used.clone());
                }
            }
        }
        reached
    };
    let reached: BTreeMap<_, _> = graph.keys().map(|it| (it.as_str(), reached(it))).collect();
    let mut circles: BTreeSet<Vec<&str>> = BTreeSet::new();
    for (module, used) in &reached {
        let both = |other: &&str| used.contains(*other) && reached[other].contains(*module);
        let circle: Vec<_> = reached.keys().copied().filter(both).collect();
        if circle.len() > 1 {
            circles.insert(circle);
        }
    }
    circles.into_iter().collect()
}

// === impl Names ===

impl Names {
    fn add(&mut self, first: &str, second: Option<String>) {
        let names = match first {
            "crate" => &mut self.of_crate,
            "super" => &mut self.of_parent,
            _ => return,
        };
        names.extend(second);
    }

    fn add_tree(&mut self, first: &str, tree: &UseTree) {
        match tree {
            UseTree::Path(path) => self.add(first, Some(path.ident.to_string())),
            UseTree::Name(name) => self.add(first, Some(name.ident.to_string())),
            UseTree::Rename(name) => self.add(first, Some(name.ident.to_string())),
            UseTree::Group(group) => {
                group
                    .items
                    .iter()
                    .for_each(|tree| self.add_tree(first, tree));
            }
            UseTree::Glob(_) => {}
        }
    }
}

impl<'ast> Visit<'ast> for Names {
    fn visit_item_mod(&mut self, module: &'ast syn::ItemMod) {
        if module.ident != "tests" {
            visit::visit_item_mod(self, module);
        }
    }

    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        if let UseTree::Path(path) = &item.tree {
            self.add_tree(&path.ident.to_string(), &path.tree);
        }
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let mut segments = path
            .segments
            .iter()
            .map(|segment| segment.ident.to_string());
        if let Some(first) = segments.next() {
            self.add(&first, segments.next());
        }
        visit::visit_path(self, path);
    }
}
