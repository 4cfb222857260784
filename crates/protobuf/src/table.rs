//! The types of the tables: messages, fields and kinds.

/// A message: an object of the API, or a part of one.
#[derive(Debug)]
pub(crate) struct Message {
    /// The name in the `.proto` file, for errors.
    pub(crate) name: &'static str,

    /// By ascending number.
    pub(crate) fields: &'static [Field],
}

/// A field of a message, and the member of the JSON object that it is.
#[derive(Debug)]
pub(crate) struct Field {
    pub(crate) number: u32,

    /// The member of the JSON object; empty for [`Shape::Inline`].
    pub(crate) name: &'static str,
    pub(crate) shape: Shape,
    pub(crate) absent: Absent,
    pub(crate) value: Type,
}

/// How many values a field has, and whether Go can tell that there is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    /// One value that is always there: at least as its zero value.
    One,

    /// One value or none.
    Pointer,

    /// A message whose members are members of the object itself.
    Inline,
    List,

    /// By strings.
    Map,
}

/// What the JSON of an empty field is.
///
/// As in Go, a struct that is not behind a pointer is never empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Absent {
    /// The zero value; `null` for a list, a map or a pointer.
    Kept,

    /// Nothing (`omitempty`).
    Omitted,

    /// Nothing, for a time too (`omitzero`).
    Zero,

    /// An empty list: the items of a list of objects.
    EmptyList,
}

/// The type of a value.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Type {
    Bool,
    Int32,
    Int64,
    Double,
    String,

    /// Base64 in JSON.
    Bytes,
    Message(&'static Message),

    /// `resource.Quantity`: a string in a message; JSON may have a number too.
    Quantity,

    /// `intstr.IntOrString`.
    IntOrString,

    /// `meta.v1.Time`: whole seconds, as RFC 3339.
    Time,

    /// `meta.v1.MicroTime`: the same with six digits of fractions.
    MicroTime,

    /// `meta.v1.Duration`: nanoseconds, in JSON such as `1m30s`.
    Duration,

    /// JSON as bytes in a message: `RawExtension` and `JSON` of apiextensions.
    RawJson,

    /// A JSON object as bytes in a message: `FieldsV1`. Its text can be encoded too.
    RawObject,

    /// A list of strings that is a message of its own: `Verbs`, `ExtraValue`.
    StringList,

    /// `JSONSchemaPropsOrBool`.
    SchemaOrBool(&'static Message),

    /// `JSONSchemaPropsOrArray`.
    SchemaOrArray(&'static Message),

    /// `JSONSchemaPropsOrStringArray`.
    SchemaOrStrings(&'static Message),
}

// === impl Field ===

impl Field {
    pub(crate) const fn one(number: u32, name: &'static str, absent: Absent, value: Type) -> Self {
        Self {
            number,
            name,
            shape: Shape::One,
            absent,
            value,
        }
    }

    pub(crate) const fn pointer(
        number: u32,
        name: &'static str,
        absent: Absent,
        value: Type,
    ) -> Self {
        Self {
            shape: Shape::Pointer,
            ..Self::one(number, name, absent, value)
        }
    }

    pub(crate) const fn inline(number: u32, value: Type) -> Self {
        Self {
            shape: Shape::Inline,
            ..Self::one(number, "", Absent::Kept, value)
        }
    }

    pub(crate) const fn list(number: u32, name: &'static str, absent: Absent, value: Type) -> Self {
        Self {
            shape: Shape::List,
            ..Self::one(number, name, absent, value)
        }
    }

    pub(crate) const fn map(number: u32, name: &'static str, absent: Absent, value: Type) -> Self {
        Self {
            shape: Shape::Map,
            ..Self::one(number, name, absent, value)
        }
    }
}

// === impl Message ===

impl Message {
    /// The field with this number.
    pub(crate) fn field(&self, number: u32) -> Option<&'static Field> {
        // Numbers mostly begin at 1 without gaps.
        let guess = usize::try_from(number).ok()?.checked_sub(1)?;
        match self.fields.get(guess) {
            Some(field) if field.number == number => Some(field),
            _ => {
                let at = self.fields.binary_search_by_key(&number, |it| it.number);
                self.fields.get(at.ok()?)
            }
        }
    }
}
