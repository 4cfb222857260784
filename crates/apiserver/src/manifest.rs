//! Objects in manifests, as kubectl reads them. *(pure)*

use serde_json::Value;

use crate::wire::yaml::{self, YamlError};

/// The line that separates documents, perhaps with a comment after it.
const SEPARATOR: &str = "---";

/// Why a manifest was not read.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct ManifestError(#[from] Cause);

#[derive(Debug, thiserror::Error)]
enum Cause {
    #[error("document {number} is not JSON: {error}")]
    Json {
        number: usize,
        error: serde_json::Error,
    },
    #[error("document {number} is not YAML: {error}")]
    Yaml { number: usize, error: YamlError },
    #[error(
        "line {line} starts with `---` and has further text; remove it, or move it to the next line"
    )]
    Separator { line: usize },
}

/// Reads the documents of a manifest in YAML or JSON as kubectl does, without those that are empty.
///
/// YAML has the types of version 1.1: `yes` is a boolean, and `014` is 12.
///
/// # Errors
///
/// The manifest is neither JSON nor YAML, or a document nests deeper than 128 levels or is many times
/// larger than its text because of its aliases.
pub fn read_manifest(text: &str) -> Result<Vec<Value>, ManifestError> {
    let mut documents = Vec::new();
    let rest = if text.trim_start().starts_with('{') {
        read_json(text, &mut documents)?
    } else {
        text
    };
    read_yaml(rest, &mut documents)?;
    documents.retain(|document| !document.is_null());
    Ok(documents)
}

/// Reads JSON, and returns the text that may be YAML: what follows the first document, or all.
fn read_json<'a>(text: &'a str, documents: &mut Vec<Value>) -> Result<&'a str, Cause> {
    let mut stream = serde_json::Deserializer::from_str(text).into_iter();
    loop {
        let offset = stream.byte_offset();
        match stream.next() {
            None => return Ok(""),
            Some(Ok(document)) => documents.push(document),
            Some(Err(_)) if documents.len() < 2 => {
                return Ok(text.get(offset..).unwrap_or_default().trim_start());
            }
            Some(Err(error)) => {
                let number = documents.len() + 1;
                return Err(Cause::Json { number, error });
            }
        }
    }
}

fn read_yaml(text: &str, documents: &mut Vec<Value>) -> Result<(), Cause> {
    let mut start = 0;
    let mut end = 0;
    for (number, line) in text.split_inclusive('\n').enumerate() {
        if let Some(after) = line.strip_prefix(SEPARATOR) {
            let after = after.trim();
            if !after.is_empty() && !after.starts_with('#') {
                return Err(Cause::Separator { line: number + 1 });
            }
            read_document(&text[start..end], documents)?;
            start = end + line.len();
        }
        end += line.len();
    }
    read_document(&text[start..], documents)
}

fn read_document(text: &str, documents: &mut Vec<Value>) -> Result<(), Cause> {
    let document = yaml::read(text.as_bytes()).map_err(|error| Cause::Yaml {
        number: documents.len() + 1,
        error,
    })?;
    documents.push(document.value);
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::read_manifest;

    #[test]
    fn documents_are_separated_and_empty_ones_are_dropped() {
        let text = "# none\n---\na: yes\n--- # next\n---\nb: |\n  ---\n  c\n---\n";
        let documents = read_manifest(text).expect("a manifest");
        assert_eq!(
            documents,
            [json!({ "a": true }), json!({ "b": "---\nc\n" })]
        );
        assert_eq!(
            read_manifest("").expect("a manifest"),
            Vec::<serde_json::Value>::new()
        );
        let error = read_manifest("a: 1\n--- b: 2\n").expect_err("a separator with text");
        assert!(error.to_string().starts_with("line 2 "), "{error}");
        let error = read_manifest("a: 1\n---\nb: [\n").expect_err("no YAML");
        assert!(
            error.to_string().starts_with("document 2 is not YAML: "),
            "{error}"
        );
    }

    #[test]
    fn json_escapes_that_yaml_lacks_are_accepted() {
        let text = " {\"a\": \"\\ud83d\\ude00\\/\"}\n{\"b\": 1e3}\n";
        let documents = read_manifest(text).expect("a manifest");
        assert_eq!(documents, [json!({ "a": "😀/" }), json!({ "b": 1e3 })]);
        let documents = read_manifest("{\"a\": \"\\/\"}\n---\n{b: yes}\n").expect("a manifest");
        assert_eq!(documents, [json!({ "a": "/" }), json!({ "b": true })]);
        assert_eq!(
            read_manifest("{a: 014}").expect("a manifest"),
            [json!({ "a": 12 })]
        );
        let error = read_manifest("{}{}{").expect_err("no JSON");
        assert!(
            error.to_string().starts_with("document 3 is not JSON: "),
            "{error}"
        );
    }
}
