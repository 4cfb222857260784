//! A plain implementation of JSON patch and JSON merge patch, to compare the server with.
//!
//! It follows RFC 6902 and RFC 7386 by the letter, except that Kubernetes lets `replace` name a
//! member that is missing. It shares no code with the server.

use serde_json::{Map, Value};

/// Applies a JSON patch (RFC 6902). `None` if an operation does not fit.
pub(crate) fn json_patch(mut object: Value, operations: &[Value]) -> Option<Value> {
    for operation in operations {
        let path = tokens(operation["path"].as_str()?);
        let from = || tokens(operation["from"].as_str().unwrap_or_default());
        match operation["op"].as_str()? {
            "add" => add(&mut object, &path, operation["value"].clone())?,
            "remove" => _ = remove(&mut object, &path)?,
            "replace" => replace(&mut object, &path, operation["value"].clone())?,
            "move" => {
                let value = remove(&mut object, &from())?;
                add(&mut object, &path, value)?;
            }
            "copy" => {
                let value = find(&mut object, &from())?.clone();
                add(&mut object, &path, value)?;
            }
            "test" if *find(&mut object, &path)? == operation["value"] => {}
            _ => return None,
        }
    }
    Some(object)
}

/// Applies a JSON merge patch: the pseudocode of RFC 7386.
pub(crate) fn merge_patch(target: Value, patch: &Value) -> Value {
    let Value::Object(patch) = patch else {
        return patch.clone();
    };
    let mut members = match target {
        Value::Object(members) => members,
        _ => Map::new(),
    };
    for (name, value) in patch {
        if value.is_null() {
            members.remove(name);
        } else {
            let old = members.remove(name).unwrap_or_default();
            members.insert(name.clone(), merge_patch(old, value));
        }
    }
    Value::Object(members)
}

fn tokens(pointer: &str) -> Vec<String> {
    let parts = pointer.split('/').skip(1);
    parts
        .map(|part| part.replace("~1", "/").replace("~0", "~"))
        .collect()
}

fn find<'a>(value: &'a mut Value, path: &[String]) -> Option<&'a mut Value> {
    path.iter().try_fold(value, |value, token| match value {
        Value::Object(members) => members.get_mut(token),
        Value::Array(items) => items.get_mut(token.parse::<usize>().ok()?),
        _ => None,
    })
}

fn add(object: &mut Value, path: &[String], value: Value) -> Option<()> {
    let Some((last, parents)) = path.split_last() else {
        *object = value;
        return Some(());
    };
    match find(object, parents)? {
        Value::Object(members) => _ = members.insert(last.clone(), value),
        Value::Array(items) if last == "-" => items.push(value),
        Value::Array(items) => {
            let index = last.parse().ok().filter(|index| *index <= items.len())?;
            items.insert(index, value);
        }
        _ => return None,
    }
    Some(())
}

fn remove(object: &mut Value, path: &[String]) -> Option<Value> {
    let (last, parents) = path.split_last()?;
    match find(object, parents)? {
        Value::Object(members) => members.remove(last),
        Value::Array(items) => {
            let index = last.parse().ok().filter(|index| *index < items.len())?;
            Some(items.remove(index))
        }
        _ => None,
    }
}

fn replace(object: &mut Value, path: &[String], value: Value) -> Option<()> {
    let (last, parents) = path.split_last()?;
    match find(object, parents)? {
        // Kubernetes: the member may be missing.
        Value::Object(members) => _ = members.insert(last.clone(), value),
        parent => *find(parent, std::slice::from_ref(last))? = value,
    }
    Some(())
}

#[test]
fn the_reference_gives_the_examples_of_rfc_6902() {
    let read = |text: &str| serde_json::from_str::<Value>(text).expect(text);
    // Appendix A; an empty result is an error. The names are shortened.
    for (object, operations, result) in [
        (
            r#"{"f":"b"}"#,
            r#"[{"op":"add","path":"/z","value":"q"}]"#,
            r#"{"z":"q","f":"b"}"#,
        ),
        (
            r#"{"f":["b","z"]}"#,
            r#"[{"op":"add","path":"/f/1","value":"q"}]"#,
            r#"{"f":["b","q","z"]}"#,
        ),
        (
            r#"{"z":"q","f":"b"}"#,
            r#"[{"op":"remove","path":"/z"}]"#,
            r#"{"f":"b"}"#,
        ),
        (
            r#"{"f":["b","q","z"]}"#,
            r#"[{"op":"remove","path":"/f/1"}]"#,
            r#"{"f":["b","z"]}"#,
        ),
        (
            r#"{"z":"q","f":"b"}"#,
            r#"[{"op":"replace","path":"/z","value":"o"}]"#,
            r#"{"z":"o","f":"b"}"#,
        ),
        (
            r#"{"f":{"b":1,"w":2},"q":{"c":3}}"#,
            r#"[{"op":"move","from":"/f/w","path":"/q/t"}]"#,
            r#"{"f":{"b":1},"q":{"c":3,"t":2}}"#,
        ),
        (
            r#"{"f":["a","g","c","e"]}"#,
            r#"[{"op":"move","from":"/f/1","path":"/f/3"}]"#,
            r#"{"f":["a","c","e","g"]}"#,
        ),
        (
            r#"{"z":"q","f":["a",2,"c"]}"#,
            r#"[{"op":"test","path":"/z","value":"q"},{"op":"test","path":"/f/1","value":2}]"#,
            r#"{"z":"q","f":["a",2,"c"]}"#,
        ),
        (
            r#"{"z":"q"}"#,
            r#"[{"op":"test","path":"/z","value":"b"}]"#,
            "",
        ),
        (
            r#"{"f":"b"}"#,
            r#"[{"op":"add","path":"/c","value":{"g":{}}}]"#,
            r#"{"f":"b","c":{"g":{}}}"#,
        ),
        (
            r#"{"f":"b"}"#,
            r#"[{"op":"add","path":"/z/b","value":"q"}]"#,
            "",
        ),
        (
            r#"{"/":9,"~1":10}"#,
            r#"[{"op":"test","path":"/~01","value":10}]"#,
            r#"{"/":9,"~1":10}"#,
        ),
        (
            r#"{"/":9,"~1":10}"#,
            r#"[{"op":"test","path":"/~01","value":"10"}]"#,
            "",
        ),
        (
            r#"{"f":["b"]}"#,
            r#"[{"op":"add","path":"/f/-","value":["a"]}]"#,
            r#"{"f":["b",["a"]]}"#,
        ),
    ] {
        let operations = read(operations);
        let patched = json_patch(read(object), operations.as_array().expect("a list"));
        let expected = (!result.is_empty()).then(|| read(result));
        assert_eq!(patched, expected, "{object} {operations}");
    }
}

#[test]
fn the_reference_gives_the_examples_of_rfc_7386() {
    let read = |text: &str| serde_json::from_str::<Value>(text).expect(text);
    // Appendix A.
    for (object, patch, result) in [
        (r#"{"a":"b"}"#, r#"{"a":"c"}"#, r#"{"a":"c"}"#),
        (r#"{"a":"b"}"#, r#"{"b":"c"}"#, r#"{"a":"b","b":"c"}"#),
        (r#"{"a":"b"}"#, r#"{"a":null}"#, "{}"),
        (r#"{"a":"b","b":"c"}"#, r#"{"a":null}"#, r#"{"b":"c"}"#),
        (r#"{"a":["b"]}"#, r#"{"a":"c"}"#, r#"{"a":"c"}"#),
        (r#"{"a":"c"}"#, r#"{"a":["b"]}"#, r#"{"a":["b"]}"#),
        (
            r#"{"a":{"b":"c"}}"#,
            r#"{"a":{"b":"d","c":null}}"#,
            r#"{"a":{"b":"d"}}"#,
        ),
        (r#"{"a":[{"b":"c"}]}"#, r#"{"a":[1]}"#, r#"{"a":[1]}"#),
        (r#"["a","b"]"#, r#"["c","d"]"#, r#"["c","d"]"#),
        (r#"{"a":"b"}"#, r#"["c"]"#, r#"["c"]"#),
        (r#"{"a":"foo"}"#, "null", "null"),
        (r#"{"a":"foo"}"#, r#""bar""#, r#""bar""#),
        (r#"{"e":null}"#, r#"{"a":1}"#, r#"{"e":null,"a":1}"#),
        ("[1,2]", r#"{"a":"b","c":null}"#, r#"{"a":"b"}"#),
        ("{}", r#"{"a":{"bb":{"ccc":null}}}"#, r#"{"a":{"bb":{}}}"#),
    ] {
        assert_eq!(
            merge_patch(read(object), &read(patch)),
            read(result),
            "{object} {patch}"
        );
    }
}
