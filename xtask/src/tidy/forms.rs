//! The rule that the operators on the pages for users of other frameworks are those that tests run,
//! with the number of their lines, and that the moved operators use the whole `Controller`.

use super::nothing;
use crate::repository::Repository;

const KUBE_RS: &str = "docs/from-kube-rs.md";
const CONTROLLER_RUNTIME: &str = "docs/from-controller-runtime.md";

/// The files that a page quotes after their imports.
const QUOTED: [(&str, &str); 3] = [
    (KUBE_RS, "tests/behaviour/forms/kube_rs.rs"),
    (KUBE_RS, "tests/behaviour/forms/windlass.rs"),
    (CONTROLLER_RUNTIME, "tests/behaviour/forms/windlass.rs"),
];

/// The operators whose imports differ.
const MOVED: &str = "tests/behaviour/moved/operators/";

#[test]
fn each_operator_of_a_page_is_its_file_with_its_number_of_lines() {
    let repository = Repository::here();
    let mut findings = Vec::new();
    for (page, file) in QUOTED {
        let text = repository.read(page).expect("the page exists");
        let source = repository.read(file).expect("the file exists");
        let code = after_imports(&source);
        if !text.contains(&format!("\n```rust\n{code}```\n")) {
            findings.push(format!("{page}: quote {file} after its imports, as it is"));
        }
        let counted = format!("`{file}`, {} lines", lines(code));
        if !text.contains(&counted) {
            findings.push(format!("{page}: write \"{counted}\""));
        }
    }
    let text = repository
        .read(CONTROLLER_RUNTIME)
        .expect("the page exists");
    let code = text
        .split_once("\n```go\n")
        .and_then(|(_, rest)| rest.split_once("```"));
    let (code, _) = code.expect("the page has an operator in Go");
    let counted = format!("controller-runtime ({} lines)", lines(code));
    if !text.contains(&counted) {
        findings.push(format!("{CONTROLLER_RUNTIME}: write \"{counted}\""));
    }
    nothing(&findings);
}

/// Each operator is compiled with the imports of kube-rs and with those of Windlass, so that it may
/// name neither.
#[test]
fn the_moved_operators_use_each_method_of_the_controller_and_name_no_framework() {
    let repository = Repository::here();
    let sources = repository.sources("rs").expect("it can be read");
    let operators = sources.iter().filter(|it| it.path.starts_with(MOVED));
    let operators: Vec<_> = operators.collect();
    assert_eq!(operators.len(), 8);
    let page = repository.read(KUBE_RS).expect("the page exists");
    let methods = page.split("`controller::Controller::").skip(1);
    let methods: Vec<_> = methods.filter_map(|rest| rest.split('`').next()).collect();
    assert!(methods.len() > 25, "{methods:?}");
    let mut findings = Vec::new();
    for method in methods {
        let calls = [format!(".{method}("), format!("Controller::{method}(")];
        let is_used = |text: &str| calls.iter().any(|call| text.contains(call));
        if !operators.iter().any(|it| is_used(&it.text)) {
            findings.push(format!("{MOVED}: no operator uses `Controller::{method}`"));
        }
    }
    for operator in operators {
        for name in ["kube::runtime", "kube_runtime", "windlass::", "windlass_"] {
            if operator.text.contains(name) {
                findings.push(format!(
                    "{}: import `super::runtime`, not `{name}`",
                    operator.path
                ));
            }
        }
    }
    nothing(&findings);
}

#[test]
fn code_begins_after_the_last_import() {
    let source = "//! A file.\n\nuse a::{\n    b,\n};\n\nuse super::c;\n\nfn d() {}\n";
    assert_eq!(after_imports(source), "fn d() {}\n");
    assert_eq!(lines("a\n\n// b\nc\n"), 2);
}

/// The text of a file after its imports, which are its first items.
fn after_imports(source: &str) -> &str {
    let mut code = source;
    while let Some((before, rest)) = code.split_once(";\n\n") {
        let is_import = |line: &str| line.starts_with("use ");
        if !before.lines().any(is_import) {
            break;
        }
        code = rest;
    }
    code
}

/// The number of lines that are neither blank nor a comment.
fn lines(code: &str) -> usize {
    let lines = code.lines().map(str::trim);
    let counted = lines.filter(|line| !line.is_empty() && !line.starts_with("//"));
    counted.count()
}
