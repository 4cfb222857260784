//! The table of types. Each type is parsed when it is first used.

use std::collections::{BTreeMap, HashMap};
use std::sync::{LazyLock, OnceLock};

/// The table. Its head describes the format of its lines.
const TABLE: &str = include_str!("table.txt");

/// The index of types and kinds.
static INDEX: LazyLock<Index> = LazyLock::new(Index::read);

/// The line of each type, and the type of each kind.
struct Index {
    types: HashMap<&'static str, Entry>,
    kinds: HashMap<(&'static str, &'static str), &'static str>,
}

/// A type, parsed when it is first used.
struct Entry {
    line: &'static str,
    read: OnceLock<Struct>,
}

/// A struct in Go.
#[derive(Debug)]
pub(crate) struct Struct {
    /// Its package and name, such as `apps.v1.DeploymentSpec`.
    pub(crate) name: &'static str,
    /// Whether server-side apply treats it as atomic.
    pub(crate) is_atomic: bool,
    /// Its fields, by their JSON names.
    pub(crate) fields: BTreeMap<&'static str, Field>,
}

/// A field of a struct.
#[derive(Debug)]
pub(crate) struct Field {
    pub(crate) shape: FieldType,
    /// The value that Go writes for an empty field.
    pub(crate) empty: Empty,
    pub(crate) is_pointer: bool,
    /// The inline Go struct that contains the field, followed by a dot, for errors.
    pub(crate) inline: &'static str,
    /// Whether the field is required in the `OpenAPI` document.
    pub(crate) is_required: bool,
    /// The default of the field in the `OpenAPI` document, as JSON.
    pub(crate) default: Option<&'static str>,
    /// The valid values of an enum, sorted; empty for other fields.
    pub(crate) values: Vec<&'static str>,
    /// The key of the items of a list.
    pub(crate) list: ListKind,
    /// Overrides how server-side apply treats a map or a struct: in parts (`granular`) although its
    /// type is atomic, or as a whole (`atomic`).
    pub(crate) map: Option<&'static str>,
    /// The patch strategies of a strategic merge patch: `merge`, `replace`, `retainKeys`, separated
    /// by commas.
    pub(crate) strategy: &'static str,
    /// The patch merge key of a list in a strategic merge patch.
    pub(crate) merge_key: &'static str,
}

/// The way in which Go writes an empty field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Empty {
    /// It keeps its zero value, as sent: `""`, `0`, `false`, an empty object or `null`.
    Kept,
    /// It is omitted, unless it is a struct (`omitempty`).
    Omitted,
    /// It is omitted, even if it is a struct (`omitzero`).
    Zero,
}

/// The key of the items of a list, for server-side apply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ListKind {
    /// The list is atomic.
    Atomic,
    /// The value of the item: the list is a set.
    Set,
    /// The values of these members.
    Map(Vec<&'static str>),
}

/// The type of a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum FieldType {
    /// A string, with Go's name of its type.
    Text(&'static str),
    /// A 32-bit integer, with Go's name of its type.
    Int32(&'static str),
    /// A 64-bit integer, with Go's name of its type.
    Int64(&'static str),
    Double,
    Bool,
    /// Bytes, as base64.
    Bytes,
    Time,
    MicroTime,
    Duration,
    Quantity,
    IntOrString,
    /// Any JSON.
    Json,
    /// A schema in a custom resource definition, or an alternative to one.
    SchemaOr,
    /// A struct, by its name in this table.
    Struct(&'static str),
    /// A list, with Go's name of its type if that does not follow from the type of its items.
    List(Option<&'static str>, Box<FieldType>),
    /// A map with string keys, with Go's name of its type if that does not follow from the type of
    /// its values.
    Map(Option<&'static str>, Box<FieldType>),
}

/// The type called `name`, such as `apps.v1.DeploymentSpec`.
pub(crate) fn named(name: &str) -> Option<&'static Struct> {
    let (name, entry) = INDEX.types.get_key_value(name)?;
    Some(entry.read.get_or_init(|| Struct::read(name, entry.line)))
}

/// The type of a kind in a version.
pub(crate) fn kind(api_version: &str, kind: &str) -> Option<&'static Struct> {
    named(INDEX.kinds.get(&(api_version, kind))?)
}

/// All kinds by their `apiVersion` and name, in no particular order.
pub(crate) fn kinds() -> impl Iterator<Item = (&'static str, &'static str)> {
    INDEX.kinds.keys().copied()
}

// === impl Index ===

impl Index {
    fn read() -> Self {
        let mut index = Self {
            types: HashMap::new(),
            kinds: HashMap::new(),
        };
        for line in TABLE.lines() {
            if let Some(line) = line.strip_prefix("type ") {
                let end = line.find([' ', '\t']).unwrap_or(line.len());
                let (name, line) = line.split_at(end);
                let entry = Entry {
                    line,
                    read: OnceLock::new(),
                };
                index.types.insert(name, entry);
            } else if let Some(line) = line.strip_prefix("kind ") {
                let mut words = line.split(' ');
                if let (Some(version), Some(kind), Some(name)) =
                    (words.next(), words.next(), words.next())
                {
                    index.kinds.insert((version, kind), name);
                }
            }
        }
        index
    }
}

// === impl Struct ===

impl Struct {
    fn read(name: &'static str, line: &'static str) -> Self {
        let mut words = line.split('\t');
        let is_atomic = words.next().is_some_and(|head| head.trim() == "{}");
        Self {
            name,
            is_atomic,
            fields: words.filter_map(Field::read).collect(),
        }
    }

    /// Its name without the package, for errors.
    pub(crate) fn go_name(&self) -> &'static str {
        self.name.rsplit('.').next().unwrap_or_default()
    }
}

// === impl Field ===

impl Field {
    fn read(text: &'static str) -> Option<(&'static str, Self)> {
        let mut words = text.split(' ');
        let (name, shape) = words.next()?.split_once(':')?;
        let (name, empty) = match (name.strip_suffix('?'), name.strip_suffix('!')) {
            (Some(name), _) => (name, Empty::Omitted),
            (_, Some(name)) => (name, Empty::Zero),
            (None, None) => (name, Empty::Kept),
        };
        let plain = shape.strip_prefix('*');
        let mut field = Self {
            shape: FieldType::read(plain.unwrap_or(shape)),
            empty,
            is_pointer: plain.is_some(),
            inline: "",
            is_required: false,
            default: None,
            values: Vec::new(),
            list: ListKind::Atomic,
            map: None,
            strategy: "",
            merge_key: "",
        };
        let mut list = "";
        let mut keys = Vec::new();
        for word in words {
            let Some((mark, value)) = word.split_at_checked(1) else {
                continue;
            };
            match mark {
                "r" => field.is_required = true,
                "I" => field.inline = value,
                "D" => field.default = Some(value),
                "E" => field.values = value.split('|').collect(),
                "L" => list = value,
                "K" => keys = value.split(',').collect(),
                "M" => field.map = Some(value),
                "S" => field.strategy = value,
                "P" => field.merge_key = value,
                _ => {}
            }
        }
        // Server-side apply treats a list that has only a patch strategy as a map or a set too.
        let merged = field.strategy.split(',').any(|word| word == "merge");
        field.list = match list {
            "set" => ListKind::Set,
            "map" => ListKind::Map(keys),
            "" if merged && !field.merge_key.is_empty() => ListKind::Map(vec![field.merge_key]),
            "" if merged => ListKind::Set,
            _ => ListKind::Atomic,
        };
        Some((name, field))
    }
}

// === impl FieldType ===

impl FieldType {
    fn read(text: &'static str) -> Self {
        if let Some(rest) = text.strip_prefix("[]") {
            let (name, items) = named_and_rest(rest);
            return Self::List(name, Box::new(Self::read(items)));
        }
        if let Some(rest) = text.strip_prefix("{}") {
            let (name, values) = named_and_rest(rest);
            return Self::Map(name, Box::new(Self::read(values)));
        }
        if let Some(name) = text.strip_prefix('@') {
            return Self::Struct(name);
        }
        let (mark, rest) = text.split_at_checked(1).unwrap_or(("j", ""));
        let name = rest
            .strip_prefix('<')
            .and_then(|rest| rest.strip_suffix('>'));
        match mark {
            "s" => Self::Text(name.unwrap_or("string")),
            "i" => Self::Int32(name.unwrap_or("int32")),
            "l" => Self::Int64(name.unwrap_or("int64")),
            "d" => Self::Double,
            "b" => Self::Bool,
            "y" => Self::Bytes,
            "t" => Self::Time,
            "u" => Self::MicroTime,
            "e" => Self::Duration,
            "q" => Self::Quantity,
            "n" => Self::IntOrString,
            "x" => Self::SchemaOr,
            _ => Self::Json,
        }
    }

    /// Go's name of the type.
    pub(crate) fn go_name(&self) -> String {
        match self {
            Self::Text(name)
            | Self::Int32(name)
            | Self::Int64(name)
            | Self::List(Some(name), _)
            | Self::Map(Some(name), _) => (*name).to_owned(),
            Self::Double => "float64".to_owned(),
            Self::Bool => "bool".to_owned(),
            Self::Bytes => "[]uint8".to_owned(),
            Self::Time => "v1.Time".to_owned(),
            Self::MicroTime => "v1.MicroTime".to_owned(),
            Self::Duration => "v1.Duration".to_owned(),
            Self::Quantity => "resource.Quantity".to_owned(),
            Self::IntOrString => "intstr.IntOrString".to_owned(),
            Self::Json | Self::SchemaOr => "interface {}".to_owned(),
            Self::Struct(name) => {
                let mut parts = name.rsplitn(3, '.');
                let (last, version) = (parts.next(), parts.next());
                format!(
                    "{}.{}",
                    version.unwrap_or_default(),
                    last.unwrap_or_default()
                )
            }
            Self::List(None, items) => format!("[]{}", items.go_name()),
            Self::Map(None, values) => format!("map[string]{}", values.go_name()),
        }
    }
}

/// Splits `<name>rest` or `rest`.
fn named_and_rest(text: &'static str) -> (Option<&'static str>, &'static str) {
    match text.strip_prefix('<').and_then(|text| text.split_once('>')) {
        Some((name, rest)) => (Some(name), rest),
        None => (None, text),
    }
}

#[cfg(test)]
mod tests {
    use super::{Empty, FieldType, INDEX, ListKind, kind, kinds, named};

    #[test]
    fn every_type_of_the_table_can_be_read_and_refers_to_others_in_it() {
        fn check(shape: &FieldType, at: &str) {
            match shape {
                FieldType::Struct(name) => assert!(named(name).is_some(), "{name} of {at}"),
                FieldType::List(_, inner) | FieldType::Map(_, inner) => check(inner, at),
                _ => {}
            }
        }
        for name in INDEX.types.keys() {
            let found = named(name).expect("it is in the table");
            for (field, about) in &found.fields {
                check(&about.shape, &format!("{name}.{field}"));
            }
        }
        for (version, name) in kinds() {
            let found = kind(version, name).expect("its type is in the table");
            assert!(
                found.fields.contains_key("metadata") || name == "Status",
                "{version} {name}"
            );
        }
    }

    #[test]
    fn a_field_has_the_properties_of_the_table() {
        let container = named("core.v1.Container").expect("it is there");
        let ports = &container.fields["ports"];
        assert_eq!(ports.list, ListKind::Map(vec!["containerPort", "protocol"]));
        assert_eq!(ports.merge_key, "containerPort");
        assert_eq!(ports.shape.go_name(), "[]v1.ContainerPort");
        let policy = &container.fields["imagePullPolicy"];
        assert_eq!(policy.values, ["Always", "IfNotPresent", "Never"]);
        assert_eq!(policy.shape.go_name(), "v1.PullPolicy");
        assert_eq!((policy.empty, policy.is_pointer), (Empty::Omitted, false));
        let limits = &named("core.v1.ResourceRequirements")
            .expect("it is there")
            .fields["limits"];
        assert_eq!(limits.shape.go_name(), "v1.ResourceList");
    }
}
