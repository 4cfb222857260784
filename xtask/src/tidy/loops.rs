//! The rule that a test does not wait in a loop without a limit.

use super::nothing;
use crate::repository::{Repository, Source};

/// The harness ends each of these tests after some minutes.
const LIMITED: &str = "tests/behaviour/";

/// What limits a loop, in its line or in the line above: a timeout around it, a task that the test
/// does not wait for, or a condition that becomes false without another task.
const LIMITS: [&str; 4] = ["timeout(", "tokio::spawn(", "// Ends:", "try_"];

#[test]
fn no_test_waits_in_a_loop_without_a_limit() {
    let sources = Repository::here()
        .sources("rs")
        .expect("the repository can be read");
    let tests = sources.iter().filter(|source| {
        format!("/{}", source.path).contains("/tests/") && !source.path.starts_with(LIMITED)
    });
    nothing(&tests.flat_map(findings).collect::<Vec<_>>());
}

#[test]
fn each_form_of_an_endless_loop_is_found() {
    let endless =
        "a.rs:2: this loop waits without a limit; use a timeout or a counter with a message";
    check("\n    while next().await != \"Synced\" {}", endless);
    check("\nwhile !done() {\n    yield_now();\n}", endless);
    check(
        "\nwhile !done() {\n    tokio::task::yield_now().await;\n}",
        endless,
    );
    check("\nwhile !done() {\n    count();\n    yield_now();\n}", "");
    check("\"{} while {}\"", "");
    check("while tasks.try_join_next().is_some() {}", "");
    check("// Ends: the list is finite.\nwhile step() {}", "");
    check("let ended = timeout(MINUTE, async {\nwhile step() {}", "");
    check(
        "tokio::spawn(async move { while next().await.is_some() {} });",
        "",
    );
}

#[track_caller]
fn check(text: &str, finding: &str) {
    let source = Source {
        path: "a.rs".to_owned(),
        text: text.to_owned(),
    };
    assert_eq!(findings(&source).join("; "), finding, "{text}");
}

/// Loops with an empty body, and loops that only let others run.
fn findings(source: &Source) -> Vec<String> {
    let lines: Vec<_> = source.text.lines().map(str::trim).collect();
    let line = |index: usize| lines.get(index).copied().unwrap_or_default();
    let is_found = |index: &usize| {
        let (this, above) = (line(*index), line(index.wrapping_sub(1)));
        let waits = (this.starts_with("while ") || this.contains("{ while "))
            && this.contains(" {}")
            || this.starts_with("while ")
                && line(index + 1).contains("yield_now()")
                && line(index + 2) == "}";
        let limited = |it: &&str| this.contains(*it) || above.contains(*it);
        waits && !this.starts_with("//") && !LIMITS.iter().any(limited)
    };
    (0..lines.len())
        .filter(is_found)
        .map(|index| {
            format!(
                "{}:{}: this loop waits without a limit; use a timeout or a counter with a message",
                source.path,
                index + 1
            )
        })
        .collect()
}
