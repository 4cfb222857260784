//! The rule that tests claim only rows that exist.

use super::nothing;
use crate::{coverage, repository::Repository};

#[test]
fn every_claimed_row_exists() {
    nothing(&coverage::errors(&Repository::here()).expect("rows and tests can be read"));
}
