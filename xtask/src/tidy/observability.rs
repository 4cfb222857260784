//! The rule that docs/observability.md lists each metric and each span exactly once.
//!
//! The page has tables whose first column has the heading `metric` or `span`. The names are in
//! backticks, a metric with or without its labels in braces.

use std::collections::BTreeSet;

use super::nothing;
use crate::repository::Repository;

const PAGE: &str = "docs/observability.md";

#[test]
fn every_metric_is_documented_once() {
    compare("metric", "metrics.rs", metrics);
}

#[test]
fn every_span_is_documented_once() {
    compare("span", "trace.rs", spans);
}

#[test]
fn a_metric_is_a_name_with_a_help_text() {
    let code = "opts(\"informer_events_total\", \"Events that came.\"), &[\"event_type\", \"kind\"]\n\
                gauge(\n    \"workqueue_depth\",\n    \"Objects that wait.\",\n)\n\
                // opts(\"old_name\", \"Not any more.\")\n";
    assert_eq!(metrics(code), ["informer_events_total", "workqueue_depth"]);
}

#[test]
fn a_span_name_is_the_first_text_of_a_span_macro() {
    let code = "info_span!(\"watcher\", handler = %id)\ntracing::span!(\n    Level::INFO,\n    \"retry\",\n)\ninfo!(\"no span\")\n";
    assert_eq!(spans(code), ["watcher", "retry"]);
}

#[test]
fn the_names_of_a_table_are_in_its_first_column() {
    let page = "| Metric | is |\n|--|--|\n| `a_b{kind}` | `c_d` |\n\n| label | is |\n|--|--|\n| `kind` | x |\n";
    assert_eq!(named("metric", page), ["a_b"]);
}

/// Fails unless the names that `find` returns for the files called `file` equal those in the tables
/// of `kind`.
#[track_caller]
fn compare(kind: &str, file: &str, find: fn(&str) -> Vec<String>) {
    let repository = Repository::here();
    let page = repository
        .read(PAGE)
        .unwrap_or_else(|_| panic!("{PAGE} does not exist; document each metric and span there"));
    let sources = repository
        .sources("rs")
        .expect("the repository can be read");
    let files = sources.iter().filter(|source| {
        source.path.contains("/src/") && source.path.rsplit('/').next() == Some(file)
    });
    let in_code = files
        .flat_map(|source| find(&source.text))
        .collect::<BTreeSet<_>>();
    let in_page = named(kind, &page);

    let mut findings = Vec::new();
    for name in &in_code {
        match in_page.iter().filter(|it| *it == name).count() {
            0 => findings.push(format!("{PAGE}: add the {kind} `{name}`")),
            1 => {}
            _ => findings.push(format!("{PAGE}: the {kind} `{name}` occurs more than once")),
        }
    }
    for name in in_page.iter().filter(|it| !in_code.contains(*it)) {
        findings.push(format!("{PAGE}: no {file} contains the {kind} `{name}`"));
    }
    nothing(&findings);
}

/// The names in the first column of the tables with the heading `kind`.
fn named(kind: &str, page: &str) -> Vec<String> {
    let mut names = Vec::new();
    let mut in_table = false;
    let mut before = "";
    for line in page.lines() {
        let first = line
            .strip_prefix('|')
            .and_then(|row| row.split('|').next())
            .map(str::trim);
        if let Some(cell) = first {
            if !before.starts_with('|') {
                in_table = cell.eq_ignore_ascii_case(kind);
            } else if let Some(name) = cell.split('`').nth(1).filter(|_| in_table) {
                names.push(name.split('{').next().unwrap_or(name).to_owned());
            }
        }
        before = line;
    }
    names
}

/// The texts in `code` that look like the name of a metric and are followed by a help text.
fn metrics(code: &str) -> Vec<String> {
    let code = without_comments(code);
    let texts = texts(&code);
    let pairs = texts.windows(2).filter(|pair| {
        let (name, help) = (&pair[0], &pair[1]);
        let between = &code[name.end + 1..help.start - 1];
        between.trim() == "," && is_metric(name.words) && help.words.contains(' ')
    });
    pairs.map(|pair| pair[0].words.to_owned()).collect()
}

/// The names of the spans in `code`.
fn spans(code: &str) -> Vec<String> {
    let code = without_comments(code);
    let texts = texts(&code);
    let made = code.match_indices("span!(").map(|(at, _)| at);
    made.filter_map(|at| texts.iter().find(|text| text.start > at))
        .map(|text| text.words.to_owned())
        .collect()
}

fn is_metric(text: &str) -> bool {
    text.contains('_')
        && text
            .chars()
            .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
}

fn without_comments(code: &str) -> String {
    let lines = code
        .lines()
        .filter(|line| !line.trim_start().starts_with("//"));
    lines.collect::<Vec<_>>().join("\n")
}

/// A string literal, with the start and the end of the text between its quotes.
struct Text<'a> {
    words: &'a str,
    start: usize,
    end: usize,
}

/// The string literals of `code`. Names contain no escapes, so escapes are only skipped.
fn texts(code: &str) -> Vec<Text<'_>> {
    let mut texts = Vec::new();
    let mut start = None;
    let mut escaped = false;
    for (at, character) in code.char_indices() {
        match (character, start) {
            _ if escaped => escaped = false,
            ('\\', Some(_)) => escaped = true,
            ('"', None) => start = Some(at + 1),
            ('"', Some(begin)) => {
                texts.push(Text {
                    words: &code[begin..at],
                    start: begin,
                    end: at,
                });
                start = None;
            }
            _ => {}
        }
    }
    texts
}
