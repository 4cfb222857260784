//! The `Rows:` lines in the doc comments of tests.

use std::collections::BTreeMap;

use super::features::{Features, RowId};
use crate::repository::Source;

/// The claims of all tests.
#[derive(Debug, Default)]
pub(super) struct Claims {
    tests: BTreeMap<RowId, Vec<String>>,

    /// Words in claims that are not names of rows, with their locations.
    unreadable: Vec<(String, String)>,
}

// === impl Claims ===

impl Claims {
    pub(super) fn collect(sources: &[Source]) -> Self {
        let mut claims = Self::default();
        for source in sources {
            claims.read(source);
        }
        claims
    }

    /// The tests that claim `id`, as path and name.
    pub(super) fn of(&self, id: &RowId) -> &[String] {
        self.tests.get(id).map_or(&[], Vec::as_slice)
    }

    /// The errors in these claims, one sentence each.
    pub(super) fn errors(&self, features: &Features) -> Vec<String> {
        let unreadable = self
            .unreadable
            .iter()
            .map(|(word, place)| format!("{place}: {word:?} is not the name of a row"));
        let unknown = self.tests.iter().filter(|(id, _)| !features.contains(id));
        unreadable
            .chain(
                unknown.map(|(id, tests)| {
                    format!("{}: the row {id} does not exist", tests.join(", "))
                }),
            )
            .collect()
    }

    fn read(&mut self, source: &Source) {
        let lines = source.text.lines().map(str::trim_start).collect::<Vec<_>>();
        let mut index = 0;
        while index < lines.len() {
            let Some(mut claim) = comment(lines[index]).and_then(|it| it.strip_prefix("Rows:"))
            else {
                index += 1;
                continue;
            };
            let place = format!("{}:{}", source.path, index + 1);
            let mut words = Vec::new();
            loop {
                index += 1;
                words.extend(
                    claim
                        .split(',')
                        .map(str::trim)
                        .filter(|word| !word.is_empty()),
                );
                // A list that ends with a comma continues in the next line.
                match lines.get(index).and_then(|line| comment(line)) {
                    Some(more) if claim.trim_end().ends_with(',') => claim = more,
                    _ => break,
                }
            }
            let test = format!("{}  {}", source.path, name_after(&lines[index..]));
            for word in words {
                match word.trim_end_matches('.').parse() {
                    Ok(id) => self.tests.entry(id).or_default().push(test.clone()),
                    Err(_) => self.unreadable.push((word.to_owned(), place.clone())),
                }
            }
        }
    }
}

/// The text of a doc comment.
fn comment(line: &str) -> Option<&str> {
    line.strip_prefix("///")
        .or_else(|| line.strip_prefix("//!"))
        .map(str::trim_start)
}

/// The name of the item below a doc comment.
fn name_after<'a>(lines: &[&'a str]) -> &'a str {
    const ITEMS: [&str; 6] = ["fn ", "struct ", "enum ", "trait ", "mod ", "const "];
    let mut code = lines
        .iter()
        .filter(|line| !line.starts_with("//") && !line.starts_with('#'));
    code.find_map(|line| {
        let (_, name) = ITEMS.iter().find_map(|item| line.split_once(item))?;
        name.split(|c: char| !c.is_alphanumeric() && c != '_')
            .next()
    })
    .unwrap_or("(the whole file)")
}

#[cfg(test)]
mod tests {
    use super::{super::features::Features, Claims};
    use crate::repository::Source;

    #[test]
    fn a_claim_belongs_to_the_test_below_it() {
        let claims = claims(
            "/// Text.\n///\n/// Rows: GA-01, GA-02,\n/// GA-03\n#[test]\nfn it_holds() {}\n",
        );
        for number in 1..=3 {
            let id = format!("GA-0{number}").parse().expect("a row");
            assert_eq!(claims.of(&id), ["a.rs  it_holds"]);
        }
        assert!(claims.of(&"GA-04".parse().expect("a row")).is_empty());
    }

    #[test]
    fn a_claim_of_an_unknown_row_is_an_error_with_its_location() {
        let features = Features::parse("## G\n| GA-01 | a |\n").expect("it can be read");
        let claims = claims("/// Rows: GA-01, GA-77, all\nasync fn it_holds() {}\n");
        assert_eq!(
            claims.errors(&features),
            [
                "a.rs:1: \"all\" is not the name of a row",
                "a.rs  it_holds: the row GA-77 does not exist"
            ]
        );
    }

    #[test]
    fn a_row_name_in_a_sentence_is_not_a_claim() {
        let claims = claims("/// See Rows: GA-01\nfn f() {}\nlet rows = \"Rows: GA-02\";\n");
        assert!(claims.tests.is_empty());
    }

    fn claims(text: &str) -> Claims {
        Claims::collect(&[Source {
            path: "a.rs".to_owned(),
            text: text.to_owned(),
        }])
    }
}
