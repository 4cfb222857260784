//! Checks that `docs/compared.md` names each weakness once, and only tests that exist.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

/// One row of the page: its number, and the tests in its last column.
struct Row {
    number: u32,
    tests: Vec<String>,
    tests_cell: String,
}

#[test]
fn the_page_lists_each_weakness_once() {
    let mut numbers: Vec<_> = rows().iter().map(|row| row.number).collect();
    numbers.sort_unstable();
    assert_eq!(numbers, (1..=43).collect::<Vec<_>>());
}

#[test]
fn each_row_names_tests_that_exist_or_says_why_there_is_none() {
    let tests = tests();
    for Row {
        number,
        tests: named,
        tests_cell,
    } in rows()
    {
        for name in &named {
            assert!(tests.contains(name), "W{number}: there is no test {name}");
        }
        let says_why = ["not built yet", "by design"].iter();
        let says_why = says_why.copied().any(|words| tests_cell.starts_with(words));
        assert!(named.is_empty() == says_why, "W{number}: {tests_cell}");
    }
}

#[test]
fn each_test_with_a_weakness_number_is_named_in_its_row() {
    let rows = rows();
    for test in tests() {
        let Some(number) = number(&test) else {
            continue;
        };
        let row = rows.iter().find(|row| row.number == number);
        let named = row.is_some_and(|row| row.tests.contains(&test));
        assert!(named, "W{number} does not name {test}");
    }
}

/// The number in `w07_...`.
fn number(test: &str) -> Option<u32> {
    let (number, _) = test.strip_prefix('w')?.split_once('_')?;
    number.parse().ok()
}

fn rows() -> Vec<Row> {
    let page = root().join("docs/compared.md");
    let page = fs::read_to_string(page).expect("the page exists");
    let rows = page.lines().filter_map(|line| {
        let cells: Vec<_> = line.split('|').map(str::trim).collect();
        let number = cells.get(1)?.strip_prefix('W')?.parse().ok()?;
        let tests_cell = cells[cells.len() - 2].to_owned();
        // Every second part is between backticks.
        let tests = tests_cell.split('`').skip(1).step_by(2);
        Some(Row {
            number,
            tests: tests.map(str::to_owned).collect(),
            tests_cell,
        })
    });
    rows.collect()
}

/// The names of all test functions of all crates, including those that run on both servers.
fn tests() -> BTreeSet<String> {
    let mut files = Vec::new();
    collect(&root().join("tests"), &mut files);
    for crate_ in fs::read_dir(root().join("crates")).expect("there are crates") {
        collect(&crate_.expect("readable").path().join("tests"), &mut files);
    }
    let mut names = BTreeSet::new();
    for file in files {
        let source = fs::read_to_string(file).expect("readable");
        let mut is_test = source.contains("on_both_servers!");
        for line in source.lines().map(str::trim) {
            is_test |= line.starts_with("#[test]") || line.starts_with("#[tokio::test");
            let line = line.strip_prefix("async ").unwrap_or(line);
            if let Some((name, _)) = line.strip_prefix("fn ").and_then(|it| it.split_once('(')) {
                if is_test {
                    names.insert(name.to_owned());
                }
                is_test = source.contains("on_both_servers!");
            }
        }
    }
    names
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) {
    let Ok(entries) = fs::read_dir(folder) else {
        return;
    };
    for entry in entries {
        let path = entry.expect("readable").path();
        if path.is_dir() {
            collect(&path, files);
        } else if path.extension().is_some_and(|it| it == "rs") {
            files.push(path);
        }
    }
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}
