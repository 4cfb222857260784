//! The rule that each row of docs/apiserver.md has a test on both servers.
//!
//! A test in tests/behaviour claims rows in its doc comment: `docs/apiserver.md: row 5.`, `rows 5, 7.`
//! or `rows 5 to 7.`. A row whose last cell begins with "no" needs no test.

use std::collections::{BTreeMap, BTreeSet};

use super::nothing;
use crate::repository::Repository;

const PAGE: &str = "docs/apiserver.md";
const TESTS: &str = "tests/behaviour/";
const CLAIM: &str = "docs/apiserver.md: ";

/// Rows without a test on both servers, and why.
const EXCEPTIONS: [(u32, &str); 2] = [
    (
        72,
        "crates/apiserver/tests/websocket.rs tests it, because the embedded server rejects origins \
         that the real one accepts",
    ),
    (
        119,
        "it is about clients that read only plain discovery, which the tests of row 117 read",
    ),
];

#[test]
fn each_row_of_the_page_is_claimed_by_a_test() {
    let repository = Repository::here();
    let page = repository.read(PAGE).expect("there is a page");
    let sources = repository.sources("rs").expect("the tests can be read");
    let tests = sources.iter().filter(|it| it.path.starts_with(TESTS));
    let claims: BTreeSet<_> = tests.flat_map(|it| claims(&it.text)).collect();
    nothing(&findings(&rows(&page), &claims, &EXCEPTIONS));
}

#[test]
fn a_row_without_a_claim_and_a_claim_without_a_row_are_findings() {
    let rows = rows(
        "| # | behaviour | here |\n|--|--|--|\n| 1, 2 | a | yes |\n| | b | yes |\n| 3 to 4 | c | yes |\n\
         | 5 | d | no: 404 |\n| 6 | e | yes |\n\n| seed | result |\n|--|--|\n| 7 | 8 |\n",
    );
    let claims = "/// docs/apiserver.md: row 1.\n/// docs/apiserver.md: \"kinds\", rows 3 to 4, 9.\n\
                  // docs/apiserver.md has 2 rows\n";
    let claims = self::claims(claims).into_iter().collect();
    let findings = findings(&rows, &claims, &[(6, "why"), (3, "why"), (10, "why")]);
    assert_eq!(
        findings,
        [
            "docs/apiserver.md: no test in tests/behaviour/ claims row 2. Add one on both servers",
            "tests/behaviour/: a test claims row 9, which docs/apiserver.md does not have",
            "row 3 is an exception, but a test claims it or it does not exist. Remove the exception",
            "row 10 is an exception, but a test claims it or it does not exist. Remove the exception",
        ]
    );
}

/// The findings, one sentence each.
fn findings(
    rows: &BTreeMap<u32, bool>,
    claims: &BTreeSet<u32>,
    exceptions: &[(u32, &str)],
) -> Vec<String> {
    let is_exception = |row: &u32| exceptions.iter().any(|(exception, _)| exception == row);
    let untested = rows
        .iter()
        .filter(|(row, needs_test)| **needs_test && !claims.contains(row) && !is_exception(row));
    let untested = untested.map(|(row, _)| {
        format!("{PAGE}: no test in {TESTS} claims row {row}. Add one on both servers")
    });
    let unknown = claims.iter().filter(|row| !rows.contains_key(row));
    let unknown =
        unknown.map(|row| format!("{TESTS}: a test claims row {row}, which {PAGE} does not have"));
    let unnecessary = exceptions
        .iter()
        .filter(|(row, _)| claims.contains(row) || !rows.contains_key(row));
    let unnecessary = unnecessary.map(|(row, _)| {
        format!(
            "row {row} is an exception, but a test claims it or it does not exist. Remove the \
             exception"
        )
    });
    untested.chain(unknown).chain(unnecessary).collect()
}

/// The numbers of the rows in the tables whose first heading is `#`, and whether a row needs a test.
fn rows(page: &str) -> BTreeMap<u32, bool> {
    let mut rows = BTreeMap::new();
    let mut is_numbered = false;
    for line in page.lines() {
        let Some(cells) = line.strip_prefix("| ") else {
            is_numbered &= line.starts_with('|');
            continue;
        };
        let mut cells = cells.trim_end_matches(" |").split(" | ");
        let first = cells.next().unwrap_or_default();
        if first == "#" {
            is_numbered = true;
        } else if is_numbered {
            let last = cells.last().unwrap_or_default();
            let is_absent = last == "no" || last.starts_with("no.") || last.starts_with("no:");
            rows.extend(numbers(first).into_iter().map(|row| (row, !is_absent)));
        }
    }
    rows
}

/// The rows that the doc comments of a file claim.
fn claims(text: &str) -> Vec<u32> {
    let claims = text.lines().filter_map(|line| line.split_once(CLAIM));
    let lists = claims.filter_map(|(_, claim)| claim.split_once("row"));
    let lists = lists.map(|(_, list)| list.trim_start_matches('s'));
    lists.flat_map(numbers).collect()
}

/// The numbers at the beginning of a list such as `1, 3 to 5`.
fn numbers(list: &str) -> Vec<u32> {
    let mut numbers = Vec::<u32>::new();
    let mut is_range = false;
    for word in list.split([',', ' ', '.']).filter(|word| !word.is_empty()) {
        match (word, word.parse(), numbers.last()) {
            ("to", ..) => is_range = true,
            (_, Ok(end), Some(&begin)) if is_range => {
                numbers.extend(begin + 1..=end);
                is_range = false;
            }
            (_, Ok(number), _) => numbers.push(number),
            _ => break,
        }
    }
    numbers
}
