//! Fields cut out of JSON that is kept as it came. *(pure)*

use std::{collections::BTreeMap, ops::Range};

use super::Node;
use crate::decode::{DecodeError, fields::Fields};

/// `json`, which must be one whole object, without what `root` drops.
pub(super) fn prune(json: &str, root: &Node) -> Result<Box<str>, DecodeError> {
    let none = BTreeMap::new();
    let below = match root {
        Node::Kept(below) => below,
        // `Trim` cannot say that: a way to a field has a first step.
        Node::Dropped => &none,
    };
    let mut fields = Fields::of(json.as_bytes());
    let mut cuts = Vec::new();
    if !fields.enter() {
        return Err(fields.malformed());
    }
    walk(&mut fields, below, &mut cuts)?;
    if !fields.is_over() {
        return Err(fields.malformed());
    }
    let cut: usize = cuts.iter().map(Range::len).sum();
    let mut pruned = String::with_capacity(json.len() - cut);
    let mut at = 0;
    for cut in cuts {
        pruned.push_str(&json[at..cut.start]);
        at = cut.end;
    }
    pruned.push_str(&json[at..]);
    Ok(pruned.into_boxed_str())
}

/// Walks to the end of the object that `fields` is in, and notes what is to be cut.
fn walk(
    fields: &mut Fields<'_>,
    below: &BTreeMap<String, Node>,
    cuts: &mut Vec<Range<usize>>,
) -> Result<(), DecodeError> {
    let mut is_first = true;
    loop {
        let start = fields.at();
        let Some(name) = fields.next()? else {
            return Ok(());
        };
        match below.get(&*name) {
            Some(Node::Dropped) => {
                fields.value()?;
                if is_first {
                    // The comma before it goes with it; where there is none, the one behind.
                    fields.comma();
                }
                cuts.push(start..fields.at());
                continue;
            }
            Some(Node::Kept(below)) if fields.enter() => walk(fields, below, cuts)?,
            _ => _ = fields.value()?,
        }
        is_first = false;
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
        let pruned = trim.prune(json).expect(json);
        assert_eq!(&*pruned, expected, "{json}");
    }
}
