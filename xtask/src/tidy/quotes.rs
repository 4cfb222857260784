//! The rule that code in other languages in docs/apiserver.md, and the Rust of
//! docs/from-grafana-app-sdk.md, is part of a file that tests run.

use super::nothing;
use crate::repository::Repository;

const PAGE: &str = "docs/apiserver.md";

/// The language of a code block, and the file that it quotes.
const QUOTED: [(&str, &str); 3] = [
    ("go", "tests/go-clients/start.go"),
    ("python", "tests/python-clients/test_start.py"),
    ("js", "tests/node-clients/start.test.js"),
];

#[test]
fn each_quoted_function_is_that_of_its_file() {
    let repository = Repository::here();
    let page = repository.read(PAGE).expect("the page exists");
    let mut findings = Vec::new();
    for (language, file) in QUOTED {
        let source = repository.read(file).expect("the file exists");
        let blocks: Vec<_> = blocks(&page, language).collect();
        assert_eq!(blocks.len(), 1, "{PAGE} has one block in {language}");
        if !source.contains(blocks[0]) {
            findings.push(format!(
                "{PAGE}: the block in {language} is not part of {file}; copy it from there"
            ));
        }
    }
    nothing(&findings);
}

#[test]
fn the_operator_of_grafana_app_sdk_is_that_of_its_example() {
    const PAGE: &str = "docs/from-grafana-app-sdk.md";

    let repository = Repository::here();
    let page = repository.read(PAGE).expect("the page exists");
    let files = ["api", "main", "operator", "tests"];
    let sources = files.map(|name| {
        let source = repository.read(&format!("examples/issues/{name}.rs"));
        unindented(&source.expect("the file exists"))
    });
    let is_quoted = |block: &&str| sources.iter().any(|it| it.contains(&unindented(block)));
    let blocks: Vec<_> = blocks(&page, "rust,ignore").collect();
    assert!(blocks.len() > 5, "{PAGE} has blocks in Rust");
    let other = blocks.iter().filter(|block| !is_quoted(block));
    let findings: Vec<_> = other
        .map(|block| format!("{PAGE}: not part of examples/issues; copy it from there:\n{block}"))
        .collect();
    nothing(&findings);
}

#[test]
fn a_block_is_the_text_between_its_fences() {
    let page = "a\n```go\nx\ny\n```\nb\n```js\nz\n```\n";
    assert_eq!(blocks(page, "go").collect::<Vec<_>>(), ["x\ny\n"]);
}

/// The code blocks of a page in one language.
fn blocks<'a>(page: &'a str, language: &str) -> impl Iterator<Item = &'a str> {
    let fence = format!("\n```{language}\n");
    let parts: Vec<_> = page.split(&fence).skip(1).collect();
    parts
        .into_iter()
        .filter_map(|part| part.split_once("```").map(|(block, _)| block))
}

/// The lines without their indentation.
fn unindented(code: &str) -> String {
    code.lines()
        .map(|line| line.trim_start().to_owned() + "\n")
        .collect()
}
