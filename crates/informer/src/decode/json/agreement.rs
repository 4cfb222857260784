//! Compares the reader with `serde_json`: which texts are JSON, and their values.

use std::fmt::Debug;

use serde::de::DeserializeOwned;

use super::Reader;

// What is JSON, what it is read as, and both in one.
mod text;

mod shapes;

mod objects;

// What `serde_json` does not say.
mod lengths;

#[track_caller]
fn agree<T: DeserializeOwned + PartialEq + Debug>(json: &str) {
    let (ours, theirs) = (Reader::read::<T>(json), serde_json::from_str::<T>(json));
    match (ours, theirs) {
        (Ok(ours), Ok(theirs)) => assert_eq!(ours, theirs, "{json}"),
        (Err(_), Err(_)) => {}
        (ours, theirs) => panic!("{json:?}: {ours:?}, and serde_json says {theirs:?}"),
    }
}
