//! The page that lists all weaknesses, held against the tests.
