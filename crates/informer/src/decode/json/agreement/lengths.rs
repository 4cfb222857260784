//! The length that a list gets in advance, and that it takes no more memory.

use std::collections::BTreeMap;

use proptest::prelude::*;
use serde::de::IgnoredAny;
use serde_json::Value;

use crate::decode::json::Reader;

#[test]
fn every_list_is_told_how_many_elements_come() {
    let lists = |json: &str| -> Vec<Vec<Vec<u8>>> { Reader::read(json).expect("lists") };
    for json in [
        "[[[1,2,3],[],[4]],[],[[5]]]",
        "[ [ [ 1 ] , [ ] ] ]",
        &format!("[{}[[1,2,3,4,5]]]", "[[1],[]],".repeat(100)),
    ] {
        assert_exact(&lists(json));
    }
    // What is not wanted is stepped over.
    let json =
        r#"{"x":[[1],[[2],[3]]],"newtype":[true,false,true],"y":[[]],"list":[1,2,null,4,5]}"#;
    let read: BTreeMap<String, Value> = Reader::read(json).expect("an object");
    assert_eq!(read.len(), 4);
    let read: (IgnoredAny, Vec<Vec<u8>>) =
        Reader::read("[[[[1],[2]]],[[1,2,3],[],[],[],[]]]").expect("a pair");
    assert_eq!(read.1.capacity(), 5);
    assert_eq!(read.1[0].capacity(), 3);
}

proptest! {
    #[test]
    fn any_lists_are_told_their_lengths(lists in prop::collection::vec(prop::collection::vec(prop::collection::vec(any::<u8>(), 0..4), 0..6), 0..20)) {
        let json = serde_json::to_string(&lists).expect("lists");
        let read: Vec<Vec<Vec<u8>>> = Reader::read(&json).expect("lists");
        assert_exact(&read);
        prop_assert_eq!(read, lists);
    }
}

#[track_caller]
fn assert_exact(lists: &Vec<Vec<Vec<u8>>>) {
    assert_eq!(lists.capacity(), lists.len());
    for list in lists {
        assert_eq!(list.capacity(), list.len());
        for list in list {
            assert_eq!(list.capacity(), list.len());
        }
    }
}
