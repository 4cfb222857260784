//! The rule that docs/deploying.md quotes log lines that exist.

use super::nothing;
use crate::repository::Repository;

const PAGE: &str = "docs/deploying.md";

#[test]
fn each_log_line_of_the_page_is_in_the_code() {
    let repository = Repository::here();
    let page = repository.read(PAGE).expect("the page");
    let sources = repository
        .sources("rs")
        .expect("the repository can be read");
    let code: Vec<_> = sources
        .iter()
        .filter(|it| it.path.starts_with("crates/") && it.path.contains("/src/"))
        // A text can be continued on the next line of the code.
        .map(|it| it.text.replace("\\\n", "").replace("  ", ""))
        .collect();
    let quoted = quoted(&page);
    assert!(quoted.len() >= 10, "{quoted:?}");
    let missing = quoted.into_iter().filter(|line| {
        let mut parts = line.split("...").map(|part| part.trim_matches([' ', ';']));
        !parts.all(|part| code.iter().any(|text| text.contains(part)))
    });
    let findings = missing.map(|line| format!("{PAGE}: no crate logs `{line}`"));
    nothing(&findings.collect::<Vec<_>>());
}

#[test]
fn the_lines_of_a_troubleshooting_table_are_in_its_first_column() {
    let page =
        "| log line or other | cause |\n|--|--|\n| `a ... b` | `c` |\n\n| x |\n|--|\n| `d` |\n";
    assert_eq!(quoted(page), ["a ... b"]);
}

/// The texts in the first column of the table of log lines.
fn quoted(page: &str) -> Vec<&str> {
    let rows = page
        .lines()
        .skip_while(|line| !line.starts_with("| log line"));
    let rows = rows.skip(2).take_while(|line| line.starts_with('|'));
    rows.filter_map(|row| row.split('`').nth(1)).collect()
}
