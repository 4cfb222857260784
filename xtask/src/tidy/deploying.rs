//! The rules that docs/deploying.md quotes log lines that exist, and that the workflows are pinned.

use std::fs;

use super::nothing;
use crate::repository::Repository;

const PAGE: &str = "docs/deploying.md";

const WORKFLOWS: &str = ".github/workflows";

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

#[test]
fn each_action_of_a_workflow_is_pinned_and_each_workflow_limits_its_token() {
    let folder = Repository::here().join(WORKFLOWS);
    let mut findings = Vec::new();
    for entry in fs::read_dir(folder).expect("the workflows") {
        let path = entry.expect("a file").path();
        let text = fs::read_to_string(&path).expect("a workflow");
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        findings
            .extend(unpinned(&text).map(|it| format!("{name}: {it} is not pinned to a commit")));
        if !text.contains("\npermissions:") {
            findings.push(format!("{name}: has no `permissions`"));
        }
    }
    nothing(&findings);
}

#[test]
fn an_action_of_a_branch_or_a_version_is_found() {
    let text = "- uses: a/b@v4\n- uses: a/c@11bd71901bbe5b1630ceea73d27597364c9af683 # v4.2.2\n";
    assert_eq!(unpinned(text).collect::<Vec<_>>(), ["a/b@v4"]);
}

/// The actions that a workflow does not name by a commit.
fn unpinned(workflow: &str) -> impl Iterator<Item = &str> {
    let uses = workflow
        .lines()
        .filter_map(|line| line.split_once("uses: "));
    let actions = uses.filter_map(|(_, action)| action.split_whitespace().next());
    actions.filter(|action| {
        let commit = action.split_once('@').map_or("", |(_, commit)| commit);
        commit.len() != 40 || !commit.bytes().all(|it| it.is_ascii_hexdigit())
    })
}
