//! The rule that a file under `src` has at most 400 lines.
//!
//! The length of functions is a lint: `too_many_lines`, with the threshold in clippy.toml.

use super::nothing;
use crate::repository::{Repository, Source};

/// The largest number of lines of a file. Above it, a file has more than one subject.
const MOST: usize = 400;

/// The files that are longer because they are one table.
const TABLES: [&str; 3] = [
    // Generated: a line for each kind, and the fields of each type of `core/v1`.
    "crates/protobuf/src/tables.rs",
    "crates/protobuf/src/tables/core_v1.rs",
    // A row for each built-in resource.
    "crates/apiserver/src/registry/builtin/rows.rs",
];

#[test]
fn a_file_has_at_most_400_lines() {
    let sources = Repository::here()
        .sources("rs")
        .expect("the repository can be read");
    nothing(&findings(&sources, &TABLES));
}

#[test]
fn a_long_file_is_found_and_so_is_a_table_that_is_short() {
    let source = |path: &str, lines: usize| Source {
        path: path.to_owned(),
        text: "x\n".repeat(lines),
    };
    let sources = [
        source("crates/a/src/at_the_limit.rs", MOST),
        source("crates/a/src/long.rs", MOST + 1),
        source("src/long/tests.rs", MOST + 1),
        source("tests/long.rs", MOST + 1),
        source("examples/src.rs", MOST + 1),
        source("crates/a/src/table.rs", MOST + 1),
        source("crates/a/src/short_table.rs", MOST),
    ];
    let tables = [
        "crates/a/src/table.rs",
        "crates/a/src/short_table.rs",
        "crates/a/src/removed.rs",
    ];
    let found = findings(&sources, &tables);
    let found: Vec<_> = found.iter().filter_map(|it| it.split_once(": ")).collect();
    assert_eq!(
        found,
        [
            (
                "crates/a/src/long.rs",
                "401 lines: move one of its subjects to a file of its own, at most 400 lines each"
            ),
            (
                "src/long/tests.rs",
                "401 lines: move one of its subjects to a file of its own, at most 400 lines each"
            ),
            (
                "crates/a/src/short_table.rs",
                "has at most 400 lines, or does not exist: remove it from the list of tables"
            ),
            (
                "crates/a/src/removed.rs",
                "has at most 400 lines, or does not exist: remove it from the list of tables"
            ),
        ]
    );
}

fn findings(sources: &[Source], tables: &[&str]) -> Vec<String> {
    let is_source = |path: &str| path.starts_with("src/") || path.contains("/src/");
    let long: Vec<_> = sources
        .iter()
        .filter(|source| is_source(&source.path))
        .map(|source| (source.path.as_str(), source.text.lines().count()))
        .filter(|(_, lines)| *lines > MOST)
        .collect();
    let mut findings: Vec<_> = (long.iter())
        .filter(|(path, _)| !tables.contains(path))
        .map(|(path, lines)| {
            format!(
                "{path}: {lines} lines: move one of its subjects to a file of its own, at most \
                 {MOST} lines each"
            )
        })
        .collect();
    let unneeded = tables
        .iter()
        .filter(|table| !long.iter().any(|(path, _)| path == *table));
    findings.extend(unneeded.map(|path| {
        format!(
            "{path}: has at most {MOST} lines, or does not exist: remove it from the list of tables"
        )
    }));
    findings
}
