//! The lines of a trace that a failure shows. *(pure)*

use std::{collections::BTreeSet, fmt::Write as _};

/// The number of lines around the first fault.
const CONTEXT: usize = 40;

/// The largest number of other lines about the objects of the violations: the last ones.
const ABOUT_OBJECTS: usize = 60;

/// Lines that are always shown.
const ALWAYS: [&str; 5] = [
    "<== ",
    "BROKEN ",
    " user: ",
    "no faults from here on",
    " process ",
];

/// The lines around the first fault, the steps of the users, and the last lines about the objects
/// that `violations` names, up to the end of the trace.
pub(super) fn excerpt(trace: &str, violations: &str) -> String {
    let lines: Vec<_> = trace.lines().collect();
    let objects = objects(violations);
    let mut shown = BTreeSet::new();
    if let Some(fault) = lines.iter().position(|it| it.contains("<== ")) {
        let from = fault.saturating_sub(CONTEXT / 4);
        shown.extend((from..lines.len()).take(CONTEXT));
    }
    let of_users = |line: &str| ALWAYS.iter().any(|it| line.contains(it));
    shown.extend((0..lines.len()).filter(|at| of_users(lines[*at])));
    let about = |line: &str| objects.iter().any(|object| mentions(line, object));
    let about = (0..lines.len()).rev().filter(|at| about(lines[*at]));
    shown.extend(about.take(ABOUT_OBJECTS));
    // A violation without an object, in a run without faults.
    if shown.is_empty() {
        shown.extend((0..lines.len()).take(CONTEXT));
    }
    let mut text = String::new();
    let mut next = 0;
    for at in shown {
        if at > next {
            _ = writeln!(text, "            ... {} lines", at - next);
        }
        _ = writeln!(text, "{}", lines[at]);
        next = at + 1;
    }
    if next < lines.len() {
        _ = writeln!(text, "            ... {} lines", lines.len() - next);
    }
    text
}

/// The objects that a violation names, as `namespace/name`, and the external resources.
fn objects(violations: &str) -> BTreeSet<String> {
    let words: Vec<_> = violations.split_whitespace().collect();
    let mut objects = BTreeSet::new();
    for (at, word) in words.iter().enumerate() {
        let word = word
            .split(['#', ':', ',', ';', ')'])
            .next()
            .unwrap_or_default();
        let is_object = word
            .split_once('/')
            .is_some_and(|(_, name)| !name.is_empty());
        if is_object && !word.contains('.') {
            objects.insert(word.trim_start_matches('(').to_owned());
        }
        if at > 0 && words[at - 1] == "external" {
            objects.insert(format!("external {word}"));
        }
    }
    objects
}

/// Whether a line contains the name, and not as the beginning of a longer one.
fn mentions(line: &str, name: &str) -> bool {
    line.match_indices(name).any(|(at, _)| {
        let next = line[at + name.len()..].chars().next();
        next.is_none_or(|it| !(it.is_ascii_alphanumeric() || it == '-'))
    })
}

#[cfg(test)]
mod tests {
    use super::excerpt;

    #[test]
    fn an_excerpt_reaches_the_last_write_to_a_named_object() {
        let mut trace = vec![
            "     user: create blog".to_owned(),
            "r0.1 #1 list  <== gap".to_owned(),
        ];
        trace.extend(
            (0..200).map(|number| format!("r0.1 #{number} get pages default/other-{number}")),
        );
        trace
            .push("r0.1    patch pages default/blog: 200 version 9: .data.page: a -> b".to_owned());
        trace.extend((0..10).map(|_| "r0.1 watch pages".to_owned()));
        trace.push("     no faults from here on".to_owned());
        let violation = "pages default/blog#1 .data .page: \"b\" instead of \"a\"";
        let shown = excerpt(&trace.join("\n"), violation);
        assert!(shown.contains(".data.page: a -> b"), "{shown}");
        assert!(shown.contains("no faults from here on"), "{shown}");
        assert!(shown.contains("... 10 lines"), "{shown}");
        assert!(shown.lines().count() < 60, "{shown}");
        assert!(!excerpt("r0.1 get pages default/blog-2", violation).contains("... "));
    }
}
