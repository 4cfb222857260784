//! `cargo xtask coverage`: which rows of `docs/features.md` have a test.

use std::{collections::BTreeMap, process::ExitCode};

use clap::Args;

use crate::{Result, repository::Repository};

mod claims;
mod features;

use self::{
    claims::Claims,
    features::{Features, RowId},
};

const FEATURES: &str = "docs/features.md";

/// Prints which rows of docs/features.md have a test.
///
/// A test claims rows in a line of its doc comment that begins with `Rows:` and lists them,
/// separated by commas. A claim of a row that does not exist is an error.
#[derive(Args, Debug)]
pub(crate) struct Coverage {
    /// Lists every row with its tests.
    #[arg(long)]
    all: bool,
}

// === impl Coverage ===

impl Coverage {
    pub(crate) fn run(&self) -> Result {
        let repository = Repository::here();
        let features = Features::parse(&repository.read(FEATURES)?)?;
        let claims = Claims::collect(&repository.sources("rs")?);

        if self.all {
            print_rows(&features, &claims);
        }
        print_groups(&features, &claims);

        let unknown = claims.errors(&features);
        for error in &unknown {
            eprintln!("error: {error}");
        }
        Ok(if unknown.is_empty() {
            ExitCode::SUCCESS
        } else {
            ExitCode::FAILURE
        })
    }
}

/// The errors in the claims, one sentence each.
#[cfg(test)]
pub(crate) fn errors(repository: &Repository) -> Result<Vec<String>> {
    let features = Features::parse(&repository.read(FEATURES)?)?;
    Ok(Claims::collect(&repository.sources("rs")?).errors(&features))
}

fn print_rows(features: &Features, claims: &Claims) {
    for (id, statement) in features.rows() {
        println!("{id}  {statement}");
        for test in claims.of(id) {
            println!("        {test}");
        }
    }
    println!();
}

fn print_groups(features: &Features, claims: &Claims) {
    println!(
        "{:46} {:>5} {:>7}   without a test",
        "group", "rows", "tested"
    );
    let (mut all, mut all_tested) = (0, 0);
    for group in features.groups() {
        let missing = group
            .rows
            .keys()
            .filter(|id| claims.of(id).is_empty())
            .collect::<Vec<_>>();
        let (rows, tested) = (group.rows.len(), group.rows.len() - missing.len());
        let title = group.title.chars().take(46).collect::<String>();
        println!("{title:46} {rows:>5} {tested:>7}   {}", ranges(&missing));
        all += rows;
        all_tested += tested;
    }
    println!("{:46} {all:>5} {all_tested:>7}", "total");
}

/// `GA-49…GA-51, GA-60`.
fn ranges(ids: &[&RowId]) -> String {
    let mut groups = BTreeMap::<&str, Vec<(u32, u32)>>::new();
    for id in ids {
        let runs = groups.entry(id.group()).or_default();
        match runs.last_mut() {
            Some((_, last)) if *last + 1 == id.number() => *last += 1,
            _ => runs.push((id.number(), id.number())),
        }
    }
    let words = groups.iter().flat_map(|(group, runs)| {
        runs.iter().map(move |(first, last)| match last - first {
            0 => format!("{group}-{first:02}"),
            1 => format!("{group}-{first:02}, {group}-{last:02}"),
            _ => format!("{group}-{first:02}…{last:02}"),
        })
    });
    words.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::{Features, RowId, ranges};
    use crate::repository::Repository;

    #[test]
    fn consecutive_rows_are_printed_as_a_range() {
        let ids = [1, 2, 3, 5, 7, 8].map(|number| RowId::new("GA", number));
        let ids = ids.iter().collect::<Vec<_>>();
        assert_eq!(ranges(&ids), "GA-01…03, GA-05, GA-07, GA-08");
    }

    /// Adding or removing a row changes the scope of Windlass, so this number must change too.
    #[test]
    fn there_are_333_rows() {
        let text = Repository::here()
            .read(super::FEATURES)
            .expect("docs/features.md exists");
        let features = Features::parse(&text).expect("the rows can be read");
        assert_eq!(features.rows().count(), 333);
    }
}
