//! The rows of `docs/features.md`.

use std::{collections::BTreeMap, fmt, str::FromStr};

use crate::Result;

/// All rows, in groups, in the order of the document.
#[derive(Debug)]
pub(super) struct Features {
    groups: Vec<Group>,
}

/// The rows under one heading.
#[derive(Debug)]
pub(super) struct Group {
    pub(super) title: String,
    pub(super) rows: BTreeMap<RowId, String>,
}

/// The name of a row, such as `GA-49`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct RowId {
    group: String,
    number: u32,
}

/// The error of a text that is not the name of a row.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct NotARow;

// === impl Features ===

impl Features {
    /// Parses every table row whose first cell is the name of a row.
    pub(super) fn parse(text: &str) -> Result<Self> {
        let mut groups = Vec::<Group>::new();
        for (index, line) in text.lines().enumerate() {
            if let Some(title) = line.strip_prefix("## ") {
                let title = title.replace('`', "");
                groups.push(Group {
                    title,
                    rows: BTreeMap::new(),
                });
                continue;
            }
            let mut cells = line.split('|').map(str::trim).skip(1);
            let (Some(Ok(id)), Some(statement)) =
                (cells.next().map(str::parse::<RowId>), cells.next())
            else {
                continue;
            };
            let group = groups
                .last_mut()
                .ok_or("a row is above the first heading")?;
            if group
                .rows
                .insert(id.clone(), statement.to_owned())
                .is_some()
            {
                return Err(format!("line {}: {id} occurs twice", index + 1).into());
            }
        }
        groups.retain(|group| !group.rows.is_empty());
        Ok(Self { groups })
    }

    pub(super) fn groups(&self) -> &[Group] {
        &self.groups
    }

    pub(super) fn rows(&self) -> impl Iterator<Item = (&RowId, &str)> {
        self.groups
            .iter()
            .flat_map(|group| &group.rows)
            .map(|(id, text)| (id, text.as_str()))
    }

    pub(super) fn contains(&self, id: &RowId) -> bool {
        self.groups.iter().any(|group| group.rows.contains_key(id))
    }
}

// === impl RowId ===

impl RowId {
    #[cfg(test)]
    pub(super) fn new(group: &str, number: u32) -> Self {
        Self {
            group: group.to_owned(),
            number,
        }
    }

    pub(super) fn group(&self) -> &str {
        &self.group
    }

    pub(super) fn number(&self) -> u32 {
        self.number
    }
}

impl FromStr for RowId {
    type Err = NotARow;

    fn from_str(text: &str) -> std::result::Result<Self, NotARow> {
        let (group, number) = text.split_once('-').ok_or(NotARow)?;
        let letters = group.len() == 2 && group.chars().all(|c| c.is_ascii_uppercase());
        let digits = number.len() >= 2 && number.chars().all(|c| c.is_ascii_digit());
        if !letters || !digits {
            return Err(NotARow);
        }
        Ok(Self {
            group: group.to_owned(),
            number: number.parse().map_err(|_| NotARow)?,
        })
    }
}

impl fmt::Display for RowId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{:02}", self.group, self.number)
    }
}

#[cfg(test)]
mod tests {
    use super::{Features, RowId};

    #[test]
    fn rows_are_read_under_their_heading() {
        let text = "## Decisions\n| # | Point |\n| D1 | x |\n## GA — `operator`\n| ID | Row |\n|--|--|\n| GA-01 | one | G |\n| GA-104 | more | G |\n";
        let features = Features::parse(text).expect("it can be read");
        let [group] = features.groups() else {
            panic!("one group has rows")
        };
        assert_eq!(group.title, "GA — operator");
        let ids = group
            .rows
            .keys()
            .map(ToString::to_string)
            .collect::<Vec<_>>();
        assert_eq!(ids, ["GA-01", "GA-104"]);
    }

    #[test]
    fn a_duplicate_row_is_an_error() {
        let error = Features::parse("## G\n| GA-01 | a |\n| GA-01 | b |\n").expect_err("twice");
        assert_eq!(error.to_string(), "line 3: GA-01 occurs twice");
    }

    #[test]
    fn a_malformed_row_is_rejected() {
        for text in ["", "GA", "GA-1", "ga-01", "GA-01x", "GAB-01", "GA-+1", "D1"] {
            assert!(text.parse::<RowId>().is_err(), "{text}");
        }
    }
}
