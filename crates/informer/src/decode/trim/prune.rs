//! Fields cut out of JSON that is kept as it came. *(pure)*

use std::{collections::BTreeMap, ops::Range};

use super::Node;
use crate::decode::{DecodeError, fields::Fields, identity::Head};

/// `json`, which must be one whole object, without what `root` drops, and who it is.
pub(super) fn prune<'a>(json: &'a str, root: &Node) -> Result<(Head<'a>, Box<str>), DecodeError> {
    let mut walk = Walk {
        fields: Fields::of(json.as_bytes()),
        head: Head::default(),
        cuts: Vec::new(),
    };
    if !walk.fields.enter() {
        return Err(walk.fields.malformed());
    }
    walk.through(Place::Root, below(Some(root)))?;
    if !walk.fields.is_over() {
        return Err(walk.fields.malformed());
    }
    let cut: usize = walk.cuts.iter().map(Range::len).sum();
    let mut pruned = String::with_capacity(json.len() - cut);
    let mut at = 0;
    for cut in walk.cuts {
        pruned.push_str(&json[at..cut.start]);
        at = cut.end;
    }
    pruned.push_str(&json[at..]);
    Ok((walk.head, pruned.into_boxed_str()))
}

struct Walk<'a> {
    fields: Fields<'a>,
    head: Head<'a>,
    cuts: Vec<Range<usize>>,
}

/// In which object a field stands.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Root,
    Metadata,
    Deeper,
}

// === impl Walk ===

impl Walk<'_> {
    /// Walks to the end of the object that it is in, and notes what is to be cut.
    fn through(
        &mut self,
        place: Place,
        below: Option<&BTreeMap<String, Node>>,
    ) -> Result<(), DecodeError> {
        let mut is_first = true;
        loop {
            let start = self.fields.at();
            let Some(name) = self.fields.next()? else {
                return Ok(());
            };
            // There are few, and most objects have many fields.
            let mut named = below.into_iter().flatten();
            let node = named.find_map(|(it, node)| (it.as_bytes() == &*name).then_some(node));
            if matches!(node, Some(Node::Dropped)) {
                self.fields.value()?;
                if is_first {
                    // The comma before it goes with it; where there is none, the one behind.
                    self.fields.comma();
                }
                self.cuts.push(start..self.fields.at());
                continue;
            }
            is_first = false;
            let is_metadata = place == Place::Root && &*name == b"metadata";
            if is_metadata && self.fields.enter() {
                self.head.enter_metadata();
                self.through(Place::Metadata, self::below(node))?;
            } else if node.is_some() && self.fields.enter() {
                self.through(Place::Deeper, self::below(node))?;
            } else {
                let value = self.fields.value()?;
                match place {
                    Place::Root => self.head.field(&name, value)?,
                    Place::Metadata => self.head.metadata_field(&name, value)?,
                    Place::Deeper => {}
                }
            }
        }
    }
}

fn below(node: Option<&Node>) -> Option<&BTreeMap<String, Node>> {
    match node {
        Some(Node::Kept(below)) => Some(below),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use crate::Trim;

    #[test]
    fn what_is_dropped_takes_one_comma_with_it() {
        check(r#"{"a":1,"x":[{}],"b":2}"#, r#"{"a":1,"b":2}"#);
        check(r#"{"x":1,"a":1}"#, r#"{"a":1}"#);
        check(r#"{"a":1,"x":{"x":1}}"#, r#"{"a":1}"#);
        check(r#"{"x":1}"#, "{}");
        check(r#"{"x":1,"x":2,"a":1,"x":3}"#, r#"{"a":1}"#);
        check(
            r#"{ "a" : 1 , "x" : "," , "b" : 2 }"#,
            r#"{ "a" : 1 , "b" : 2 }"#,
        );
    }

    #[test]
    fn only_the_named_place_is_cut() {
        check(r#"{"m":{"y":1,"a":2},"y":3}"#, r#"{"m":{"a":2},"y":3}"#);
        check(
            r#"{"m":[{"y":1}],"l":{"x":1}}"#,
            r#"{"m":[{"y":1}],"l":{"x":1}}"#,
        );
    }

    #[test]
    fn what_is_no_object_is_an_error() {
        for json in ["", "7", "{", r#"{"a":1"#, r#"{"a":1}}"#, r#"{"a":{}"#] {
            assert!(Trim::nothing().prune(json).is_err(), "{json}");
        }
    }

    #[track_caller]
    fn check(json: &str, expected: &str) {
        let trim = Trim::nothing().field(["x"]).field(["m", "y"]);
        let (_, pruned) = trim.prune(json).expect(json);
        assert_eq!(&*pruned, expected, "{json}");
    }
}
