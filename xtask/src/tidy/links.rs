//! The rule that each guarantee in the README links to an existing rule or test.

use super::nothing;
use crate::repository::Repository;

/// The section of the README with the guarantees.
const SECTION: &str = "## What it guarantees\n";

#[test]
fn each_guarantee_in_the_readme_links_to_a_test_that_exists() {
    let repository = Repository::here();
    let readme = repository.read("README.md").expect("there is a README");
    let (_, section) = readme.split_once(SECTION).expect("it has the section");
    let section = section.split("\n## ").next().unwrap_or_default();
    let guarantees = (section.split("\n\n")).filter(|block| block.starts_with("**"));
    assert!(guarantees.clone().count() > 1, "no guarantees were found");
    let mut findings = Vec::new();
    for guarantee in guarantees {
        let title = guarantee.lines().next().unwrap_or(guarantee);
        let links = links(guarantee);
        if !links.iter().any(|(_, path)| path.contains("tests/")) {
            findings.push(format!(
                "README.md: {title}: add a link to a test that fails without this guarantee"
            ));
        }
        for (name, path) in links {
            let Ok(text) = repository.read(path) else {
                findings.push(format!("README.md: {title}: {path} does not exist"));
                continue;
            };
            // The name of a rule of the model is a string, the name of a test is a function.
            let is_there = match name.strip_prefix('`').and_then(|it| it.strip_suffix('`')) {
                Some(name) => [format!("fn {name}("), format!("\"{name}\"")]
                    .iter()
                    .any(|it| text.contains(it)),
                None => true,
            };
            if !is_there {
                findings.push(format!(
                    "README.md: {title}: {path} does not contain {name}"
                ));
            }
        }
    }
    nothing(&findings);
}

/// The texts and the targets of the links in a text.
fn links(text: &str) -> Vec<(&str, &str)> {
    let mut links = Vec::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("](") {
        let name = before.rsplit('[').next().unwrap_or_default();
        let Some((target, behind)) = after.split_once(')') else {
            break;
        };
        links.push((name, target));
        rest = behind;
    }
    links
}
