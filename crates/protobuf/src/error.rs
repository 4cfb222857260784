//! Errors of encoding and decoding, with the path of the value in the object.

use std::fmt;

/// The error of bytes that cannot be decoded as an object.
///
/// `Display` shows the kind and the path of JSON members of the invalid value, and what is wrong
/// with it. It quotes no values of the object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DecodeError {
    path: Path,
    problem: DecodeProblem,
}

/// The error of an object that cannot be encoded as protobuf.
///
/// `Display` shows the kind and the path of JSON members of the invalid value, and what is wrong
/// with it. It quotes no values of the object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EncodeError {
    path: Path,
    problem: EncodeProblem,
}

/// The kinds of decoding errors.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum DecodeProblem {
    #[error("does not begin with the four bytes `k8s\\0`")]
    Magic,
    #[error("{api_version:?} has no kind {kind:?} with a protobuf form")]
    UnknownKind { api_version: String, kind: String },
    #[error("the bytes end within a field")]
    Truncated,
    #[error("a number has more than 64 bits")]
    Varint,
    #[error("a field number is 0 or too large")]
    FieldNumber,
    #[error("a group ends without a start")]
    EndOfGroup,
    #[error("unknown wire type {0}")]
    WireType(u8),
    #[error("the wire type is not that of {0}")]
    Mismatch(&'static str),
    #[error("messages are nested more than {} deep", crate::MAX_DEPTH)]
    TooDeep,
    #[error("the object has too many values for its size")]
    TooMany,
    #[error("is not JSON: {0}")]
    Json(String),
    #[error("is a time outside of the years 1 to 9999")]
    Time,
    #[error("is neither an integer nor a string: its type is {0}")]
    IntOrString(u64),
    #[error("a frame of {length} bytes is longer than the limit of {limit} bytes")]
    Frame { length: usize, limit: usize },
}

/// The kinds of encoding errors.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum EncodeProblem {
    #[error("{api_version:?} has no kind {kind:?} with a protobuf form")]
    UnknownKind { api_version: String, kind: String },
    #[error("must be {0}")]
    Type(&'static str),
    #[error("a frame of a watch must be shorter than 4 GiB")]
    TooLong,
    #[error("objects are nested more than {} deep", crate::MAX_DEPTH)]
    TooDeep,
}

/// The path of a value in an object, the innermost member first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Path(Vec<Step>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Step {
    Member(&'static str),
    Key,
    Index(usize),
}

// === impl DecodeError ===

impl DecodeError {
    /// Whether the error is that the kind in the bytes has no protobuf form.
    #[must_use]
    pub fn is_unknown_kind(&self) -> bool {
        matches!(self.problem, DecodeProblem::UnknownKind { .. })
    }

    pub(crate) fn within(mut self, member: &'static str) -> Self {
        self.path.0.push(Step::Member(member));
        self
    }

    pub(crate) fn at_index(mut self, index: usize) -> Self {
        self.path.0.push(Step::Index(index));
        self
    }

    pub(crate) fn at_key(mut self) -> Self {
        self.path.0.push(Step::Key);
        self
    }
}

impl From<DecodeProblem> for DecodeError {
    fn from(problem: DecodeProblem) -> Self {
        Self {
            path: Path::default(),
            problem,
        }
    }
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot decode protobuf: {}{}", self.path, self.problem)
    }
}

impl std::error::Error for DecodeError {}

// === impl EncodeError ===

impl EncodeError {
    /// Whether the error is that the kind of the object has no protobuf form.
    #[must_use]
    pub fn is_unknown_kind(&self) -> bool {
        matches!(self.problem, EncodeProblem::UnknownKind { .. })
    }

    pub(crate) fn within(mut self, member: &'static str) -> Self {
        self.path.0.push(Step::Member(member));
        self
    }

    pub(crate) fn at_index(mut self, index: usize) -> Self {
        self.path.0.push(Step::Index(index));
        self
    }

    pub(crate) fn at_key(mut self) -> Self {
        self.path.0.push(Step::Key);
        self
    }
}

impl From<EncodeProblem> for EncodeError {
    fn from(problem: EncodeProblem) -> Self {
        Self {
            path: Path::default(),
            problem,
        }
    }
}

impl fmt::Display for EncodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot encode protobuf: {}{}", self.path, self.problem)
    }
}

impl std::error::Error for EncodeError {}

// === impl Path ===

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, step) in self.0.iter().rev().enumerate() {
            match step {
                Step::Member(name) if at == 0 => f.write_str(name)?,
                Step::Member(name) => write!(f, ".{name}")?,
                Step::Index(index) => write!(f, "[{index}]")?,
                // The keys of secrets can be confidential.
                Step::Key => f.write_str("[*]")?,
            }
        }
        if self.0.is_empty() {
            return Ok(());
        }
        f.write_str(": ")
    }
}
