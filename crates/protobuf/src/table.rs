//! The types of the tables: messages, fields and kinds.

/// A message: an object of the API, or a part of one.
#[derive(Debug)]
pub(crate) struct Message {
    /// The name in the `.proto` file, for errors.
    pub(crate) name: &'static str,

    /// The fields, by ascending number.
    pub(crate) fields: &'static [Field],
}

/// A field of a message, and the corresponding member of the JSON object.
#[derive(Debug)]
pub(crate) struct Field {
    pub(crate) number: u32,

    /// The name of the JSON member. Empty for [`Shape::Inline`].
    pub(crate) name: &'static str,
    pub(crate) shape: Shape,
    pub(crate) absent: Absent,
    pub(crate) value: Type,
}

/// The number of values of a field, and whether it can be nil in Go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    /// One value that is always present, at least as its zero value.
    One,

    /// One value or none.
    Pointer,

    /// A message whose members are members of the JSON object that contains it.
    Inline,
    List,

    /// A map with string keys.
    Map,
}

/// The JSON of an empty field.
///
/// As in Go, a struct that is not a pointer is never empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Absent {
    /// The zero value; `null` for a list, a map or a pointer.
    Kept,

    /// The member is omitted (`omitempty`).
    Omitted,

    /// The member is omitted, also for a zero time (`omitzero`).
    Zero,

    /// An empty list, as for the items of a list of objects.
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

    /// `resource.Quantity`: a string in a message, and a string or a number in JSON.
    Quantity,

    /// `intstr.IntOrString`.
    IntOrString,

    /// `meta.v1.Time`: whole seconds; RFC 3339 in JSON.
    Time,

    /// `meta.v1.MicroTime`: like `Time`, with six digits of fractions.
    MicroTime,

    /// `meta.v1.Duration`: nanoseconds; a text such as `1m30s` in JSON.
    Duration,

    /// JSON as bytes in a message: `RawExtension`, and `JSON` of apiextensions.
    RawJson,

    /// A JSON object as bytes in a message: `FieldsV1`. It can also be encoded from a string with
    /// its JSON text.
    RawObject,

    /// A list of strings that is its own message: `Verbs`, `ExtraValue`.
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
    /// Returns the field with this number.
    pub(crate) fn field(&self, number: u32) -> Option<&'static Field> {
        // Most field numbers begin at 1 and have no gaps.
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
