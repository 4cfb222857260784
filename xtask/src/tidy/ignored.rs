//! The rule that no test is ignored, and no lint is allowed without a reason.

use super::nothing;
use crate::repository::{Repository, Source};

#[test]
fn no_test_is_ignored_and_no_lint_is_allowed_without_a_reason() {
    let sources = Repository::here()
        .sources("rs")
        .expect("the repository can be read");
    nothing(&sources.iter().flat_map(findings).collect::<Vec<_>>());
}

/// The folders of test binaries with a harness of their own: their tests are ignored at run time, by
/// `trial::ignore`.
const OWN_HARNESS: [&str; 3] = ["tests/behaviour/", "tests/freeze/", "tests/soak/"];

#[test]
fn no_test_of_a_binary_with_its_own_harness_is_lost() {
    let sources = Repository::here()
        .sources("rs")
        .expect("the repository can be read");
    let own = |source: &&Source| OWN_HARNESS.iter().any(|it| source.path.starts_with(it));
    nothing(
        &sources
            .iter()
            .filter(own)
            .flat_map(lost)
            .collect::<Vec<_>>(),
    );
}

#[test]
fn each_form_of_losing_a_test_is_found() {
    let check = |text: &str, finding: &str| {
        let path = "a.rs".to_owned();
        let text = text.to_owned();
        assert_eq!(lost(&Source { path, text }).join("; "), finding);
    };
    let attribute = "a.rs:1: without libtest this test never runs; make it a `trial`";
    check("#[test]\nfn f() {}", attribute);
    check("    #[tokio::test]", attribute);
    check(
        "println!(\"not run: no kubectl\");",
        "a.rs:1: a test that returns early is reported as passed; use `trial::ignore`",
    );
    check("println!(\"SEED={seed}\");", "");
}

/// Tests that never run, or that pass without running.
fn lost(source: &Source) -> Vec<String> {
    let lines = source.text.lines().map(str::trim_start).enumerate();
    let found = lines.filter_map(|(index, line)| {
        let what = if line.starts_with("#[test]") || line.starts_with("#[tokio::test") {
            "without libtest this test never runs; make it a `trial`"
        } else if ["println!(\"not run", "println!(\"skipped"]
            .iter()
            .any(|it| line.contains(it))
        {
            "a test that returns early is reported as passed; use `trial::ignore`"
        } else {
            return None;
        };
        Some(format!("{}:{}: {what}", source.path, index + 1))
    });
    found.collect()
}

#[test]
fn each_form_of_ignoring_a_test_or_lint_is_found() {
    check(
        "#[ignore]\nfn f() {}",
        "a.rs:1: do not ignore a test; let it run, or remove it",
    );
    check(
        "#[ignore = \"slow\"]",
        "a.rs:1: do not ignore a test; let it run, or remove it",
    );
    check(
        "x\n    /// ```ignore",
        "a.rs:2: do not ignore an example; use `no_run`, or let it run",
    );
    check(
        "//! ```rust,ignore",
        "a.rs:1: do not ignore an example; use `no_run`, or let it run",
    );
    check(
        "#[allow(dead_code)]",
        "a.rs:1: give the reason with `reason = \"...\"`",
    );
    check(
        "#![allow(\n    dead_code,\n)]\nreason",
        "a.rs:1: give the reason with `reason = \"...\"`",
    );
    check(
        "#[expect(dead_code)]",
        "a.rs:1: give the reason with `reason = \"...\"`",
    );
    check("#[allow(dead_code, reason = \"x\")]", "");
    check("#[allow(\n    dead_code,\n    reason = \"x\",\n)]", "");
    check("/// ```no_run", "");
}

#[track_caller]
fn check(text: &str, finding: &str) {
    let source = Source {
        path: "a.rs".to_owned(),
        text: text.to_owned(),
    };
    assert_eq!(findings(&source).join("; "), finding, "{text}");
}

fn findings(source: &Source) -> Vec<String> {
    let lines = source.text.lines().map(str::trim_start).collect::<Vec<_>>();
    let found = lines.iter().enumerate().filter_map(|(index, line)| {
        let what = if line.starts_with("#[ignore") {
            "do not ignore a test; let it run, or remove it"
        } else if is_ignored_example(line) {
            "do not ignore an example; use `no_run`, or let it run"
        } else if is_silenced(&lines[index..]) {
            "give the reason with `reason = \"...\"`"
        } else {
            return None;
        };
        Some(format!("{}:{}: {what}", source.path, index + 1))
    });
    found.collect()
}

fn is_ignored_example(line: &str) -> bool {
    let comment = line
        .strip_prefix("///")
        .or_else(|| line.strip_prefix("//!"));
    let fence = comment.and_then(|comment| comment.trim_start().strip_prefix("```"));
    fence.is_some_and(|words| {
        words
            .split(',')
            .any(|word| word.trim().starts_with("ignore"))
    })
}

/// Whether an attribute that begins here allows a lint without a reason.
fn is_silenced(lines: &[&str]) -> bool {
    const SILENCERS: [&str; 4] = ["#[allow(", "#![allow(", "#[expect(", "#![expect("];
    if !SILENCERS
        .iter()
        .any(|silencer| lines[0].starts_with(silencer))
    {
        return false;
    }
    let end = lines
        .iter()
        .position(|line| line.ends_with(")]"))
        .unwrap_or(lines.len() - 1);
    !lines[..=end].iter().any(|line| line.contains("reason = "))
}
