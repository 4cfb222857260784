//! The rule that each exclusion in `.cargo/mutants.toml` names a file and a function that exist.

use super::nothing;
use crate::repository::{Repository, Source};

const CONFIG: &str = ".cargo/mutants.toml";

#[test]
fn each_excluded_mutant_is_in_a_function_that_exists() {
    let repository = Repository::here();
    let config = repository.read(CONFIG).expect("the configuration");
    let mut sources = repository
        .sources("rs")
        .expect("the repository can be read");
    sources.retain(|source| source.path.contains("/src/"));
    let patterns = config.lines().filter_map(|line| {
        let line = line.trim().strip_suffix(',').unwrap_or(line.trim());
        line.strip_prefix('\'')?.strip_suffix('\'')
    });
    let alternatives: Vec<String> = patterns.flat_map(expanded).collect();
    assert!(!alternatives.is_empty(), "{CONFIG} has patterns");
    let stale = alternatives.iter().filter(|it| !matches(it, &sources));
    let stale = stale.map(|it| format!("{CONFIG}: no function matches {it:?}; remove the pattern"));
    nothing(&stale.collect::<Vec<_>>());
}

#[test]
fn a_pattern_is_stale_if_its_file_its_type_or_its_function_does_not_exist() {
    let sources = [Source {
        path: "crates/a/src/b/c.rs".to_owned(),
        text: "impl<E> Lane<E> {\n    fn first() {}\n}\nimpl Item for Event {\n    fn owners() {}\n}\nfn spread() {}\n"
            .to_owned(),
    }];
    let is_current = |pattern: &str| expanded(pattern).iter().all(|it| matches(it, &sources));
    for current in [
        r"b/c\.rs",
        r"b/c\.rs.* replace \| with \^ in (Lane::first|spread)$",
        "replace (> with >=|< with <=) in Lane<E>::first$",
        "(Lane<.a>|<impl Item for Event>)::(first|owners) -> ",
        "replace spread -> ",
    ] {
        assert!(is_current(current), "{current}");
    }
    for stale in [
        r"b/d\.rs",
        "replace (Lane<E>::(first|last)) with ",
        " in Slab<E>::first$",
        "replace && with || in spread_all$",
    ] {
        assert!(!is_current(stale), "{stale}");
    }
}

/// The alternatives of a regular expression, without escapes.
fn expanded(pattern: &str) -> Vec<String> {
    let mut starts = Vec::new();
    let mut escaped = false;
    for (at, character) in pattern.char_indices() {
        match character {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '(' => starts.push((at, vec![at + 1])),
            '|' => {
                if let Some((_, parts)) = starts.last_mut() {
                    parts.push(at + 1);
                }
            }
            ')' => {
                let Some((start, parts)) = starts.pop() else {
                    continue;
                };
                let ends = parts.iter().skip(1).map(|next| next - 1).chain([at]);
                let (before, after) = (&pattern[..start], &pattern[at + 1..]);
                let chosen = parts.iter().zip(ends).map(|(from, to)| &pattern[*from..to]);
                return chosen
                    .flat_map(|part| expanded(&format!("{before}{part}{after}")))
                    .collect();
            }
            _ => {}
        }
    }
    vec![pattern.replace('\\', "")]
}

/// Whether the file, the type and the function that `alternative` names exist in one source.
fn matches(alternative: &str, sources: &[Source]) -> bool {
    let is_name = |c: char| c.is_alphanumeric() || c == '_';
    let last = |text: &str| {
        text.rsplit(|c| !is_name(c))
            .next()
            .unwrap_or_default()
            .to_owned()
    };
    let first = |text: &str| {
        text.split(|c| !is_name(c))
            .next()
            .unwrap_or_default()
            .to_owned()
    };
    let file = alternative
        .split_once(".rs")
        .map(|(path, _)| format!("/{path}.rs"));
    let (of, function) = if let Some((before, after)) = alternative.split_once("::") {
        // `Lane<E>`, or `<impl Item for Event>`.
        let generic = before.ends_with('>').then(|| before.rfind('<')).flatten();
        let of = generic.map_or_else(|| last(before), |at| last(&before[..at]));
        let inside = || last(before.trim_end_matches('>'));
        (if of.is_empty() { inside() } else { of }, first(after))
    } else if let Some((_, function)) = alternative.rsplit_once(" in ") {
        (String::new(), first(function))
    } else if let Some((_, function)) = alternative.split_once("replace ") {
        (String::new(), first(function))
    } else {
        (String::new(), String::new())
    };
    let has_type = |text: &str| {
        text.lines()
            .any(|line| line.contains("impl") && line.contains(&of))
    };
    let names = |text: &str| {
        ["(", "<"]
            .iter()
            .any(|end| text.contains(&format!("fn {function}{end}")))
    };
    sources.iter().any(|source| {
        file.as_ref()
            .is_none_or(|file| source.path.ends_with(file.as_str()))
            && (of.is_empty() || has_type(&source.text))
            && (function.is_empty() || names(&source.text))
    })
}
