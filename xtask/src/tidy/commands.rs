//! The rule that each documented command of this repository exists and accepts its flags.

use clap::Parser as _;

use super::nothing;
use crate::{Cli, repository::Repository};

const XTASK: &str = "cargo xtask ";
const EXAMPLE: &str = "cargo run --example ";

/// The files that name commands, beside the documents.
const FILES: [&str; 4] = [
    ".ci/run",
    ".github/workflows/ci.yml",
    ".github/workflows/nightly.yml",
    ".github/workflows/release.yml",
];

#[test]
fn each_documented_command_exists_and_accepts_its_flags() {
    let repository = Repository::here();
    let documents = repository.sources("md").expect("the documents");
    let files = FILES.map(|path| (path.to_owned(), repository.read(path).expect("a file")));
    let sources = documents.into_iter().map(|it| (it.path, it.text));
    let mut findings = Vec::new();
    let mut count = 0;
    for (path, text) in sources.chain(files) {
        for (line, text) in (1..).zip(text.lines()) {
            for words in commands(text, XTASK) {
                count += 1;
                if let Err(reason) = parse(&words) {
                    findings.push(format!("{path}:{line}: {reason}"));
                }
            }
            for words in commands(text, EXAMPLE) {
                count += 1;
                let example = format!("examples/{}/main.rs", words[0]);
                if !repository.join(&example).exists() {
                    findings.push(format!("{path}:{line}: {example} does not exist"));
                }
            }
        }
    }
    assert!(count > 50, "the documents have commands");
    nothing(&findings);
}

#[test]
fn a_command_ends_with_its_code_and_its_placeholders_are_numbers() {
    let line = "Run `cargo xtask sim --minutes N` or `cargo xtask sim --operator a --plan '7: x'`";
    let found: Vec<_> = commands(line, XTASK).collect();
    assert_eq!(found[0], ["sim", "--minutes", "1"]);
    assert_eq!(found[1], ["sim", "--operator", "a", "--plan", "7: x"]);
    let line = "cargo xtask test --minor 1.34   # the same (see above)";
    let found: Vec<_> = commands(line, XTASK).collect();
    assert_eq!(found, [["test", "--minor", "1.34"]]);
    assert!(parse(&["sim".to_owned(), "--unknown".to_owned()]).is_err());
}

/// The words of each command of a line that begins with `program`.
fn commands<'a>(line: &'a str, program: &'a str) -> impl Iterator<Item = Vec<String>> + 'a {
    let texts = line.split(program).skip(1);
    let commands = texts.map(|text| {
        words(
            text.split(['`', '#', ')', '|', '>'])
                .next()
                .unwrap_or_default(),
        )
    });
    commands.filter(|words| !words.is_empty())
}

/// The words of a command, as a shell splits it. A placeholder such as `N` becomes a number.
fn words(command: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut rest = command.trim();
    while let Some(first) = rest.chars().next() {
        let (word, after) = match first {
            '\'' | '"' => rest[1..].split_once(first).unwrap_or((&rest[1..], "")),
            _ => rest.split_once(' ').unwrap_or((rest, "")),
        };
        let is_placeholder = word.len() == 1 && word.chars().all(char::is_uppercase);
        words.push(if is_placeholder { "1" } else { word }.to_owned());
        rest = after.trim_start();
    }
    words
}

/// Checks that the program of this repository accepts a command.
fn parse(words: &[String]) -> Result<(), String> {
    let parsed = Cli::try_parse_from(["xtask".to_owned()].iter().chain(words));
    parsed.map(drop).map_err(|error| {
        let reason = error.to_string();
        let reason = reason.lines().next().unwrap_or_default();
        format!("`{XTASK}{}` is refused: {reason}", words.join(" "))
    })
}
