//! The rule that docs/reliability.md names only existing tests, and lists each fault and each security
//! check.

use std::collections::BTreeSet;

use super::nothing;
use crate::repository::Repository;

const PAGE: &str = "docs/reliability.md";

/// The number of security checks: SEC01 to SEC26.
const CHECKS: u32 = 26;

/// The catalogue of faults: each group, and the number of its faults.
const FAULTS: [(char, u32); 10] = [
    ('C', 10),
    ('S', 9),
    ('U', 8),
    ('W', 23),
    ('H', 19),
    ('N', 9),
    ('T', 5),
    ('L', 7),
    ('D', 10),
    ('X', 6),
];

#[test]
fn each_test_that_the_page_names_exists() {
    let repository = Repository::here();
    let page = repository.read(PAGE).expect("the page exists");
    let sources = repository
        .sources("rs")
        .expect("the repository can be read");
    let functions: BTreeSet<_> = sources.iter().flat_map(|it| functions(&it.text)).collect();
    let named: Vec<_> = rows(&page)
        .flat_map(|row| tests(row.last().copied()))
        .collect();
    assert!(named.len() > 100, "the rows are read: {}", named.len());
    let missing = named.iter().filter(|name| !functions.contains(*name));
    let findings = missing
        .map(|name| format!("{PAGE}: the test {name} does not exist; name the test of this row"));
    nothing(&findings.collect::<Vec<_>>());
}

#[test]
fn each_file_that_the_page_names_exists() {
    let repository = Repository::here();
    let page = repository.read(PAGE).expect("the page exists");
    let words = page.split('`').skip(1).step_by(2);
    let paths = words.filter(|it| {
        ["crates/", "tests/", "examples/", "xtask/"]
            .iter()
            .any(|folder| it.starts_with(folder))
    });
    let missing = paths.filter(|path| !repository.join(path).exists());
    let findings = missing.map(|path| format!("{PAGE}: the file {path} does not exist"));
    nothing(&findings.collect::<Vec<_>>());
}

#[test]
fn each_security_check_has_a_row_with_a_test_or_a_reason() {
    let repository = Repository::here();
    let page = repository.read(PAGE).expect("the page exists");
    let findings = (1..=CHECKS).filter_map(|number| {
        let check = format!("SEC{number:02}");
        let mut rows = rows(&page).filter(|row| row.first() == Some(&&*check));
        let held = rows.next().and_then(|row| row.last().copied());
        let is_held = held.is_some_and(|it| !it.is_empty()) && rows.next().is_none();
        (!is_held).then(|| format!("{PAGE}: {check} needs one row with a test or a reason"))
    });
    nothing(&findings.collect::<Vec<_>>());
}

#[test]
fn each_fault_has_a_row_with_a_test_or_a_reason() {
    let repository = Repository::here();
    let page = repository.read(PAGE).expect("the page exists");
    let listed: BTreeSet<_> = rows(&page).flat_map(|row| faults(&row)).collect();
    let numbers = |(group, count)| (1..=count).map(move |number| format!("{group}{number:02}"));
    let faults: Vec<_> = FAULTS.into_iter().flat_map(numbers).collect();
    assert_eq!(faults.len(), 106);
    let missing = faults.iter().filter(|fault| !listed.contains(&***fault));
    let findings =
        missing.map(|fault| format!("{PAGE}: {fault} needs a row with a test or a reason"));
    nothing(&findings.collect::<Vec<_>>());
}

#[test]
fn no_cell_of_a_column_of_figures_is_empty() {
    let repository = Repository::here();
    let page = repository.read(PAGE).expect("the page exists");
    let without = without_figure(&page);
    let findings = without.map(|row| format!("{PAGE}: the row {row:?} needs a figure"));
    nothing(&findings.collect::<Vec<_>>());
}

#[test]
fn a_row_without_a_figure_is_found_in_tables_with_figures_only() {
    let page = "| a | b |\n|--|--|\n| no figures here | |\n\n\
                | a | figure | b |\n|--|--|--|\n| x | 0 lost | |\n| y | | z |\n";
    assert_eq!(without_figure(page).collect::<Vec<_>>(), ["y"]);
}

#[test]
fn the_faults_of_a_row_are_in_its_first_two_cells() {
    assert_eq!(
        faults(&["W01, W21", "twice", "a_test"]),
        ["W01", "W21", "twice"]
    );
    let second = faults(&["`gap`", "U01, U02", "lists", "a_test"]);
    assert_eq!(second, ["`gap`", "U01", "U02"]);
    assert!(faults(&["W01", "twice", ""]).is_empty(), "nothing holds it");
    assert!(!faults(&["", "", "W01"]).contains(&"W01"));
}

#[test]
fn a_test_in_the_last_column_is_a_word_with_underscores() {
    let page =
        "| W01 | `max_retry_after` | `a.rs`: `it_holds_well`, `session` |\n\ntext | `not_a_row`\n";
    let named: Vec<_> = rows(page)
        .flat_map(|row| tests(row.last().copied()))
        .collect();
    assert_eq!(named, ["it_holds_well"]);
    assert_eq!(
        functions("async fn it_holds_well() {\n fn other("),
        ["it_holds_well", "other"]
    );
}

/// The cells of each row of each table.
fn rows(page: &str) -> impl Iterator<Item = Vec<&str>> {
    let lines = page
        .lines()
        .filter_map(|line| line.strip_prefix('|')?.strip_suffix('|'));
    lines.map(|line| line.split('|').map(str::trim).collect())
}

/// The first cells of the rows that have no figure although their table has a column `figure`.
fn without_figure(page: &str) -> impl Iterator<Item = &str> {
    page.split("\n\n").flat_map(|table| {
        let mut rows = rows(table);
        let header = rows.next().unwrap_or_default();
        let column = header.iter().position(|cell| *cell == "figure");
        let without = rows.filter(move |row| column.is_some_and(|it| row.get(it) == Some(&"")));
        without.map(|row| row.first().copied().unwrap_or_default())
    })
}

/// The parts of the first two cells of a row, if its last cell names a test or a reason.
fn faults<'a>(row: &[&'a str]) -> Vec<&'a str> {
    let is_held = row.len() > 2 && row.last().is_some_and(|it| !it.is_empty());
    let cells = row.iter().take(if is_held { 2 } else { 0 });
    cells.flat_map(|cell| cell.split(", ")).collect()
}

/// The names of tests in a cell: they have at least two underscores.
fn tests(cell: Option<&str>) -> Vec<String> {
    let words = cell.unwrap_or_default().split('`').skip(1).step_by(2);
    let names = words.filter(|it| {
        let is_name = it.chars().all(|it| it.is_ascii_alphanumeric() || it == '_');
        is_name && it.matches('_').count() >= 2
    });
    names.map(str::to_owned).collect()
}

/// The names of the functions in a source file.
fn functions(text: &str) -> Vec<String> {
    let after = text.split("fn ").skip(1);
    let names = after.filter_map(|it| it.split('(').next());
    names
        .filter(|it| it.chars().all(|it| it.is_ascii_alphanumeric() || it == '_'))
        .map(str::to_owned)
        .collect()
}
