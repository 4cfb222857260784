//! What tests claim to assert is there to be asserted.

use super::nothing;
use crate::{repository::Repository, rows};

#[test]
fn every_claim_is_to_a_row_that_exists() {
    nothing(&rows::errors(&Repository::here()).expect("rows and tests can be read"));
}
