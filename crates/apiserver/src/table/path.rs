//! The `jsonPath` of a printer column.
//!
//! A cell has one value, so a path returns the first value that it finds.
//!
//! | supported | |
//! |--|--|
//! | `.spec.size`, `$.spec.size` | a field |
//! | `.metadata.annotations.ex\.io/owner` | a field with a dot in its name |
//! | `.spec['a.b']`, `.spec["a.b"]` | the same |
//! | `.items[0]`, `.items[-1]` | an element, counted from the end if negative |
//! | `.items[*]`, `.spec.*` | all elements, of which the first is returned |
//! | `.conditions[?(@.type=="Ready")]` | the elements for which it holds: `==`, `!=`, `<`, `<=`, `>`, `>=`, or that it exists |
//!
//! Not supported: `..`, slices, unions, `range`, and functions.

use serde_json::Value;

/// A compiled path.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Path {
    steps: Vec<JsonPathStep>,
}

#[derive(Clone, Debug, PartialEq)]
enum JsonPathStep {
    Field(String),
    Index(i64),
    All,
    Where(Condition),
}

/// The condition of a filter: `@.path`, or `@.path == value`.
#[derive(Clone, Debug, PartialEq)]
struct Condition {
    path: Path,
    compared: Option<(Order, Value)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

// === impl Path ===

impl Path {
    /// Compiles `text`; `None` if the path is malformed or not supported.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let mut steps = Vec::new();
        let mut rest = text.trim();
        rest = rest
            .strip_prefix('{')
            .and_then(|rest| rest.strip_suffix('}'))
            .unwrap_or(rest);
        rest = rest.strip_prefix(['$', '@']).unwrap_or(rest);
        while !rest.is_empty() {
            let (step, after) = match rest.strip_prefix('[') {
                Some(inside) => bracket(inside)?,
                None => field(rest.strip_prefix('.').unwrap_or(rest))?,
            };
            steps.extend(step);
            rest = after;
        }
        Some(Self { steps })
    }

    /// Returns the first value at the path.
    pub(super) fn find<'a>(&self, value: &'a Value) -> Option<&'a Value> {
        follow(&self.steps, value)
    }
}

fn follow<'a>(steps: &[JsonPathStep], value: &'a Value) -> Option<&'a Value> {
    let Some((step, rest)) = steps.split_first() else {
        return Some(value);
    };
    match step {
        JsonPathStep::Field(name) => follow(rest, value.get(name)?),
        JsonPathStep::Index(index) => {
            let elements = value.as_array()?;
            let at = if *index < 0 {
                elements
                    .len()
                    .checked_sub(usize::try_from(index.unsigned_abs()).ok()?)?
            } else {
                usize::try_from(*index).ok()?
            };
            follow(rest, elements.get(at)?)
        }
        JsonPathStep::All => match value {
            Value::Array(elements) => elements.iter().find_map(|value| follow(rest, value)),
            Value::Object(fields) => fields.values().find_map(|value| follow(rest, value)),
            _ => None,
        },
        JsonPathStep::Where(condition) => {
            let elements = value.as_array()?;
            elements
                .iter()
                .filter(|element| condition.holds(element))
                .find_map(|element| follow(rest, element))
        }
    }
}

/// Splits a field name from the rest. A single dot has an empty name, which is the value itself.
fn field(text: &str) -> Option<(Option<JsonPathStep>, &str)> {
    let mut name = String::new();
    let mut chars = text.char_indices();
    let mut end = text.len();
    while let Some((at, c)) = chars.next() {
        match c {
            '\\' => name.push(chars.next()?.1),
            '.' | '[' => {
                end = at;
                break;
            }
            ' ' | ']' | '(' | ')' | '{' | '}' | '\'' | '"' => return None,
            c => name.push(c),
        }
    }
    let rest = &text[end..];
    if name.is_empty() {
        // `.` is the whole object; `..`, a recursive search, is not supported.
        return (rest.is_empty() || rest.starts_with('[')).then_some((None, rest));
    }
    let step = if name == "*" {
        JsonPathStep::All
    } else {
        JsonPathStep::Field(name)
    };
    Some((Some(step), rest))
}

/// Splits the text between `[` and `]` from the rest.
fn bracket(text: &str) -> Option<(Option<JsonPathStep>, &str)> {
    if let Some(filter) = text.strip_prefix("?(") {
        let end = unquoted(filter, ")]")?;
        let condition = Condition::parse(&filter[..end])?;
        return Some((Some(JsonPathStep::Where(condition)), &filter[end + 2..]));
    }
    let end = unquoted(text, "]")?;
    let (inside, rest) = (text[..end].trim(), &text[end + 1..]);
    let step = match inside {
        "*" => JsonPathStep::All,
        _ => match literal(inside)? {
            Value::String(name) => JsonPathStep::Field(name),
            Value::Number(index) => JsonPathStep::Index(index.as_i64()?),
            _ => return None,
        },
    };
    Some((Some(step), rest))
}

/// Returns the first position of `wanted` outside of quotes.
fn unquoted(text: &str, wanted: &str) -> Option<usize> {
    let mut quote = None;
    for (at, c) in text.char_indices() {
        match (quote, c) {
            (Some(open), c) if open == c => quote = None,
            (None, '\'' | '"') => quote = Some(c),
            (None, _) if text[at..].starts_with(wanted) => return Some(at),
            _ => {}
        }
    }
    None
}

/// Parses a quoted string, a number, or a boolean.
fn literal(text: &str) -> Option<Value> {
    for quote in ['\'', '"'] {
        if let Some(rest) = text.strip_prefix(quote) {
            return rest
                .strip_suffix(quote)
                .map(|name| name.replace('\\', "").into());
        }
    }
    serde_json::from_str(text)
        .ok()
        .filter(|value: &Value| value.is_number() || value.is_boolean())
}

// === impl Condition ===

impl Condition {
    fn parse(text: &str) -> Option<Self> {
        /// The operators, the longer ones first, because `<=` begins with `<`.
        const ORDERS: [(&str, Order); 6] = [
            ("==", Order::Equal),
            ("!=", Order::NotEqual),
            ("<=", Order::LessOrEqual),
            (">=", Order::GreaterOrEqual),
            ("<", Order::Less),
            (">", Order::Greater),
        ];
        let text = text.trim();
        for (sign, order) in ORDERS {
            if let Some(at) = unquoted(text, sign) {
                let path = Path::parse(text[..at].trim())?;
                let value = literal(text[at + sign.len()..].trim())?;
                return Some(Self {
                    path,
                    compared: Some((order, value)),
                });
            }
        }
        Some(Self {
            path: Path::parse(text)?,
            compared: None,
        })
    }

    fn holds(&self, value: &Value) -> bool {
        let Some(found) = self.path.find(value) else {
            return false;
        };
        let Some((order, wanted)) = &self.compared else {
            return true;
        };
        let compared = match (found, wanted) {
            (Value::Number(a), Value::Number(b)) => a.as_f64().partial_cmp(&b.as_f64()),
            (Value::String(a), Value::String(b)) => Some(a.cmp(b)),
            (Value::Bool(a), Value::Bool(b)) => Some(a.cmp(b)),
            _ => None,
        };
        compared.map_or(*order == Order::NotEqual, |compared| match order {
            Order::Equal => compared.is_eq(),
            Order::NotEqual => compared.is_ne(),
            Order::Less => compared.is_lt(),
            Order::LessOrEqual => compared.is_le(),
            Order::Greater => compared.is_gt(),
            Order::GreaterOrEqual => compared.is_ge(),
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::Path;

    #[test]
    fn a_path_leads_to_its_first_value() {
        let object = json!({
            "metadata": {"annotations": {"ex.io/owner": "me"}},
            "spec": {"size": 3, "ports": [{"port": 80}, {"port": 443, "name": "tls"}]},
            "status": {"conditions": [
                {"type": "Synced", "status": "False", "count": 1},
                {"type": "Ready", "status": "True", "count": 7},
            ]},
        });
        for (path, found) in [
            (".spec.size", json!(3)),
            ("$.spec.size", json!(3)),
            ("{.spec.size}", json!(3)),
            ("spec.size", json!(3)),
            (r".metadata.annotations.ex\.io/owner", json!("me")),
            (".metadata.annotations['ex.io/owner']", json!("me")),
            (r#".metadata.annotations["ex\.io/owner"]"#, json!("me")),
            (".spec.ports[0].port", json!(80)),
            (".spec.ports[-1].port", json!(443)),
            (".spec.ports[*].name", json!("tls")),
            (
                r#".status.conditions[?(@.type=="Ready")].status"#,
                json!("True"),
            ),
            (
                ".status.conditions[?(@.type == 'Ready')].status",
                json!("True"),
            ),
            (
                ".status.conditions[?(@.type!='Ready')].type",
                json!("Synced"),
            ),
            (".status.conditions[?(@.count > 5)].type", json!("Ready")),
            (".spec.ports[?(@.name)].port", json!(443)),
        ] {
            check(path, &object, Some(&found));
        }
        for path in [
            ".spec.color",
            ".spec.ports[7].port",
            ".spec.size.deep",
            ".spec[0]",
        ] {
            check(path, &object, None);
        }
    }

    #[test]
    fn unsupported_paths_are_rejected() {
        for path in ["..size", ".a[", ".a[?(@.b]", ".a[0:2]", ".a['b", ".a b"] {
            assert_eq!(Path::parse(path), None, "{path}");
        }
    }

    proptest! {
        #[test]
        fn no_text_makes_the_parser_panic(text in r#"[.\[\]?(@)='"\\a0*<é-]{0,24}"#) {
            if let Some(path) = Path::parse(&text) {
                path.find(&json!({"a": [{"a": 0}]}));
            }
        }
    }

    #[track_caller]
    fn check(path: &str, object: &Value, found: Option<&Value>) {
        let compiled = Path::parse(path).unwrap_or_else(|| panic!("{path} is a path"));
        assert_eq!(compiled.find(object), found, "{path}");
    }
}
