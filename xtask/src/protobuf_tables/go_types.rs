//! The Go types of an API package, as far as their JSON form goes. *(pure)*
//!
//! Reads Go sources line by line, as gofmt lays them out.

use std::collections::BTreeMap;

use crate::Result;

/// The Go types of one package.
#[derive(Debug, Default)]
pub(crate) struct GoPackage {
    /// The API group, from the constant `GroupName`.
    pub(super) group: Option<String>,

    structs: BTreeMap<String, GoStruct>,

    /// Types declared as another type: `ExtraValue` as `[]string`.
    others: BTreeMap<String, String>,
}

/// A struct.
#[derive(Debug, Default)]
pub(crate) struct GoStruct {
    /// Whether it embeds `TypeMeta`: its objects have an `apiVersion` and a `kind`.
    pub(super) is_kind: bool,

    /// The fields that protobuf has, by their number.
    pub(crate) fields: BTreeMap<u32, GoField>,
}

/// A field of a struct.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct GoField {
    /// The member of the JSON object; empty for an inline struct, whose members are those of
    /// the object itself.
    pub(crate) json_name: String,
    pub(super) is_pointer: bool,

    /// Its type as the source has it, such as `*metav1.LabelSelector`.
    pub(crate) go_type: String,

    /// Left out of the JSON object if it is empty, in the sense of Go's `encoding/json`.
    pub(crate) omit_empty: bool,

    /// Left out of the JSON object if it is the zero value.
    pub(crate) omit_zero: bool,
}

// === impl GoPackage ===

impl GoPackage {
    /// Adds the types of a source file.
    pub(super) fn read(&mut self, text: &str) -> Result<()> {
        let mut current: Option<(String, GoStruct)> = None;
        for line in text.lines() {
            if let Some((name, found)) = &mut current {
                if line == "}" {
                    self.structs.insert(name.clone(), std::mem::take(found));
                    current = None;
                } else if embeds_type_meta(line) {
                    found.is_kind = true;
                } else if let Some((number, field)) =
                    field(line).map_err(|error| format!("{name}: {error}: {}", line.trim()))?
                {
                    found.fields.insert(number, field);
                }
            } else if let Some(declared) = line.strip_prefix("type ") {
                let (name, what) = declared.split_once(' ').unwrap_or((declared, ""));
                if what == "struct {" {
                    current = Some((name.to_owned(), GoStruct::default()));
                } else if what.replace(' ', "") == "struct{}" {
                    self.structs.insert(name.to_owned(), GoStruct::default());
                } else {
                    let what = what.trim_start_matches("= ").to_owned();
                    self.others.insert(name.to_owned(), what);
                }
            } else if let Some(group) = group(line) {
                self.group = Some(group.to_owned());
            }
        }
        Ok(())
    }

    pub(crate) fn find(&self, name: &str) -> Option<&GoStruct> {
        self.structs.get(name)
    }

    /// What the type `name` is declared as, if that is another type.
    pub(super) fn declared_as(&self, name: &str) -> Option<&str> {
        self.others.get(name).map(String::as_str)
    }
}

/// Whether this line of a struct embeds `TypeMeta`, of whichever package.
fn embeds_type_meta(line: &str) -> bool {
    let embedded = line.split_whitespace().next().unwrap_or_default();
    embedded.rsplit('.').next() == Some("TypeMeta") && line.contains("inline")
}

/// The group in `const GroupName = "apps"`.
fn group(line: &str) -> Option<&str> {
    let (declared, value) = line.split_once('=')?;
    let declared = declared.trim().trim_start_matches("const ").trim();
    let value = value.trim();
    (declared == "GroupName").then_some(())?;
    value.strip_prefix('"')?.strip_suffix('"')
}

/// Reads the line of a field that has a protobuf tag, with its number.
fn field(line: &str) -> Result<Option<(u32, GoField)>> {
    let line = line.trim();
    if line.starts_with("//") {
        return Ok(None);
    }
    let Some((declaration, tags)) = line.split_once('`') else {
        return Ok(None);
    };
    let Some(protobuf) = tag(tags, "protobuf:\"").filter(|tag| *tag != "-") else {
        return Ok(None);
    };
    let number = protobuf.split(',').nth(1).and_then(|it| it.parse().ok());
    let number = number.ok_or("its protobuf tag has no number")?;
    // An embedded field has a type and no name.
    let go_type = declaration.split_whitespace().last().unwrap_or_default();
    let Some(json) = tag(tags, "json:\"") else {
        return Ok(None);
    };
    let mut options = json.split(',');
    let json_name = options.next().unwrap_or_default().to_owned();
    let options: Vec<_> = options.collect();
    // Types with fields that JSON does not have write their JSON by themselves.
    if json_name == "-" {
        return Ok(None);
    }
    if json_name.is_empty() && !options.contains(&"inline") {
        return Err("it has no JSON name".into());
    }
    let field = GoField {
        json_name,
        is_pointer: go_type.starts_with('*'),
        go_type: go_type.to_owned(),
        omit_empty: options.contains(&"omitempty"),
        omit_zero: options.contains(&"omitzero"),
    };
    Ok(Some((number, field)))
}

fn tag<'a>(tags: &'a str, start: &str) -> Option<&'a str> {
    let (_, rest) = tags.split_once(start)?;
    Some(rest.split_once('"')?.0)
}

#[cfg(test)]
mod tests {
    use super::{GoField, GoPackage};

    #[test]
    fn a_struct_is_parsed_from_its_tags() {
        let text = "const GroupName = \"apps\"\n\
            type Verbs []string\n\
            type Pod struct {\n\
            \tmetav1.TypeMeta `json:\",inline\"`\n\
            \t// Spec is commented `json:\"no\" protobuf:\"bytes,9,opt\"`.\n\
            \tSpec *PodSpec `json:\"spec,omitempty\" protobuf:\"bytes,2,opt,name=spec\"`\n\
            \tSource `json:\",inline\" protobuf:\"bytes,3,opt,name=source\"`\n\
            \tWords []string\n\
            }\n";
        let mut package = GoPackage::default();
        package.read(text).expect("a package");
        assert_eq!(package.group.as_deref(), Some("apps"));
        assert_eq!(package.declared_as("Verbs"), Some("[]string"));
        let pod = package.find("Pod").expect("a struct");
        assert!(pod.is_kind);
        let spec = GoField {
            json_name: "spec".to_owned(),
            is_pointer: true,
            go_type: "*PodSpec".to_owned(),
            omit_empty: true,
            omit_zero: false,
        };
        let inline = GoField {
            json_name: String::new(),
            is_pointer: false,
            go_type: "Source".to_owned(),
            omit_empty: false,
            omit_zero: false,
        };
        assert_eq!(pod.fields.get(&2), Some(&spec));
        assert_eq!(pod.fields.get(&3), Some(&inline));
        assert_eq!(pod.fields.len(), 2);
    }
}
