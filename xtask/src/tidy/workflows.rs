//! The rule that workflows name actions by commit and limit their token.

use std::fs;

use super::nothing;
use crate::repository::Repository;

const WORKFLOWS: &str = ".github/workflows";

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
