//! Finalizer names, validated by the rules of Kubernetes.

use std::{convert::Infallible, fmt, sync::Arc};

/// The name of a finalizer: `name`, or `domain/name`.
///
/// The name has up to 63 letters, digits, `-`, `_` and `.`, and begins and ends with a letter or
/// digit. The domain has up to 253 lower case letters, digits, `-` and `.`. Built-in kinds require
/// the domain. Kinds of a `CustomResourceDefinition` only warn if it is missing.
///
/// The name identifies an operator: two operators on one kind must have different names.
///
/// Source: `IsQualifiedName` and `ValidateFinalizerName` of apimachinery.
///
/// # Example
///
/// ```
/// use windlass_controller::FinalizerName;
///
/// let name = FinalizerName::new("websites.example.io/clean-up")?;
/// assert_eq!(name.as_str(), "websites.example.io/clean-up");
///
/// let refused = FinalizerName::new("Example.io/clean-up").unwrap_err();
/// assert_eq!(
///     refused.to_string(),
///     "\"Example.io/clean-up\" cannot be a finalizer: the part before the slash is not a domain; \
///      use lower case letters, digits, - and ., as in example.io/clean-up"
/// );
/// # Ok::<(), windlass_controller::InvalidFinalizer>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FinalizerName(Arc<str>);

/// Why a finalizer name is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidFinalizer {
    /// The name is empty.
    #[error(
        "a finalizer must not be empty; name it after your operator, as in example.io/clean-up"
    )]
    Empty,

    /// The name has more than one slash.
    #[error(
        "{finalizer:?} cannot be a finalizer: it has more than one slash; \
         use one, between a domain and a name"
    )]
    Slashes {
        /// The given name.
        finalizer: String,
    },

    /// The part before the slash is not a domain.
    #[error(
        "{finalizer:?} cannot be a finalizer: the part before the slash is not a domain; \
         use lower case letters, digits, - and ., as in example.io/clean-up"
    )]
    Domain {
        /// The given name.
        finalizer: String,
    },

    /// The part before the slash is too long.
    #[error(
        "{finalizer:?} cannot be a finalizer: its domain has {length} characters, and {limit} are \
         allowed; use a shorter one",
        limit = FinalizerName::MAX_DOMAIN
    )]
    DomainTooLong {
        /// The given name.
        finalizer: String,
        /// The length of its domain.
        length: usize,
    },

    /// The name has an invalid character, or a valid one at an invalid position.
    #[error(
        "{finalizer:?} cannot be a finalizer: use letters, digits, -, _ and . in its name, \
         with a letter or a digit at both ends"
    )]
    Name {
        /// The given name.
        finalizer: String,
    },

    /// The name is too long.
    #[error(
        "{finalizer:?} cannot be a finalizer: its name has {length} characters, and {limit} are \
         allowed; give your operator a shorter name of its own, as in example.io/clean-up",
        limit = FinalizerName::MAX_NAME
    )]
    NameTooLong {
        /// The given name.
        finalizer: String,
        /// The length of its name.
        length: usize,
    },

    /// A built-in kind requires a domain.
    #[error(
        "{finalizer:?} cannot be a finalizer of {kind}, which is built into Kubernetes and requires a \
         domain before it; give your operator a name of its own, as in example.io/clean-up"
    )]
    NotQualified {
        /// The given name.
        finalizer: String,
        /// The name of the kind.
        kind: String,
    },
}

// === impl FinalizerName ===

impl FinalizerName {
    /// The maximum length of the part after the slash.
    pub(crate) const MAX_NAME: usize = 63;

    /// The maximum length of the part before the slash.
    pub(crate) const MAX_DOMAIN: usize = 253;

    /// The maximum length of a field manager. An API server refuses longer ones.
    const MAX_FIELD_MANAGER: usize = 128;

    /// Validates `name`.
    ///
    /// # Errors
    ///
    /// [`InvalidFinalizer`] if Kubernetes would reject the name.
    pub fn new(name: impl AsRef<str>) -> Result<Self, InvalidFinalizer> {
        let all = name.as_ref();
        let finalizer = || all.to_owned();
        if all.is_empty() {
            return Err(InvalidFinalizer::Empty);
        }
        let name = match all.split_once('/') {
            None => all,
            Some((_, name)) if name.contains('/') => {
                return Err(InvalidFinalizer::Slashes {
                    finalizer: finalizer(),
                });
            }
            Some((domain, _)) if domain.len() > Self::MAX_DOMAIN => {
                return Err(InvalidFinalizer::DomainTooLong {
                    finalizer: finalizer(),
                    length: domain.len(),
                });
            }
            Some((domain, _)) if !domain.split('.').all(is_label) => {
                return Err(InvalidFinalizer::Domain {
                    finalizer: finalizer(),
                });
            }
            Some((_, name)) => name,
        };
        if !is_name(name) {
            return Err(InvalidFinalizer::Name {
                finalizer: finalizer(),
            });
        }
        if name.len() > Self::MAX_NAME {
            return Err(InvalidFinalizer::NameTooLong {
                finalizer: finalizer(),
                length: name.len(),
            });
        }
        Ok(Self(Arc::from(all)))
    }

    /// The name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether the name has a domain.
    #[must_use]
    pub(crate) fn is_qualified(&self) -> bool {
        self.0.contains('/')
    }

    /// The manager of the fields that the finalizer is written as: its domain or, if it has none, its
    /// name.
    pub(crate) fn field_manager(&self) -> &str {
        let domain = self
            .0
            .split_once('/')
            .map_or(&*self.0, |(domain, _)| domain);
        // Names are ASCII, so that they can be cut anywhere.
        domain.get(..Self::MAX_FIELD_MANAGER).unwrap_or(domain)
    }

    /// The in-progress finalizer, which an object has until its add has succeeded: the same name
    /// with the suffix `.in-progress`. If that is too long, the name is cut and gets a hash.
    #[doc(hidden)]
    #[must_use]
    pub fn in_progress(&self) -> Self {
        const MARK: &str = ".in-progress";
        let at = self.0.find('/').map_or(0, |slash| slash + 1);
        let (domain, name) = self.0.split_at(at);
        if name.len() + MARK.len() <= Self::MAX_NAME {
            return Self(Arc::from(format!("{domain}{name}{MARK}")));
        }
        // Names are ASCII, so that they can be cut anywhere. `x`, because the cut may be after a
        // dot.
        let number = format!("x{:08x}", fnv(name));
        let kept = &name[..Self::MAX_NAME - MARK.len() - number.len()];
        Self(Arc::from(format!("{domain}{kept}{number}{MARK}")))
    }
}

/// FNV-1a with 32 bits. It must be the same in all versions of the operator.
fn fnv(text: &str) -> u32 {
    (text.bytes()).fold(0x811c_9dc5, |hash, byte| {
        (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193)
    })
}

/// Whether `label` is a DNS label.
fn is_label(label: &str) -> bool {
    let inside = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    let end = |byte: u8| inside(byte) && byte != b'-';
    is_made_of(label, inside, end)
}

/// Whether `name` is valid after the slash.
fn is_name(name: &str) -> bool {
    let end = |byte: u8| byte.is_ascii_alphanumeric();
    let inside = |byte: u8| end(byte) || matches!(byte, b'-' | b'_' | b'.');
    is_made_of(name, inside, end)
}

fn is_made_of(text: &str, inside: impl Fn(u8) -> bool, end: impl Fn(u8) -> bool) -> bool {
    let bytes = text.as_bytes();
    let (Some(&first), Some(&last)) = (bytes.first(), bytes.last()) else {
        return false;
    };
    end(first) && end(last) && bytes.iter().all(|&byte| inside(byte))
}

impl AsRef<str> for FinalizerName {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for FinalizerName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl TryFrom<String> for FinalizerName {
    type Error = InvalidFinalizer;

    fn try_from(name: String) -> Result<Self, InvalidFinalizer> {
        Self::new(name)
    }
}

impl TryFrom<&str> for FinalizerName {
    type Error = InvalidFinalizer;

    fn try_from(name: &str) -> Result<Self, InvalidFinalizer> {
        Self::new(name)
    }
}

// === impl InvalidFinalizer ===

#[cfg(test)]
impl InvalidFinalizer {
    /// The short name of the error in the tables of tests.
    pub(super) const fn reason(&self) -> &'static str {
        match self {
            Self::Empty => "empty",
            Self::Slashes { .. } => "slashes",
            Self::Domain { .. } => "domain",
            Self::DomainTooLong { .. } => "domain_too_long",
            Self::Name { .. } => "name",
            Self::NameTooLong { .. } => "name_too_long",
            Self::NotQualified { .. } => "not_qualified",
        }
    }
}

impl From<Infallible> for InvalidFinalizer {
    fn from(never: Infallible) -> Self {
        match never {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_kubernetes_accepts_are_accepted() {
        for name in [
            "a",
            "operator.v1.Website.example.io",
            "example.io/clean-up",
            "a.b-c.d0/A_b.C-d",
            "localhost/x",
        ] {
            assert_eq!(FinalizerName::new(name).expect(name).as_str(), name);
        }
        let longest = format!("{}/{}", domain(253), "n".repeat(63));
        assert!(FinalizerName::new(longest).is_ok());
    }

    #[test]
    fn names_that_kubernetes_rejects_are_rejected_with_advice() {
        for (name, reason) in [
            ("", "empty"),
            ("a/b/c", "slashes"),
            ("Example.com/a", "domain"),
            ("/a", "domain"),
            ("-a.io/b", "domain"),
            ("a..io/b", "domain"),
            ("a_b/c", "domain"),
            ("example.com/", "name"),
            ("not a name", "name"),
            ("-a", "name"),
            ("a.", "name"),
            ("ä", "name"),
            (&"n".repeat(64), "name_too_long"),
            (&format!("{}/a", domain(254)), "domain_too_long"),
        ] {
            let refused = FinalizerName::new(name).expect_err(name);
            assert_eq!(refused.reason(), reason, "{name}");
            let message = refused.to_string();
            assert!(message.contains(name), "{message}");
            assert!(
                message.contains("use ")
                    || message.contains("name it")
                    || message.contains("give ")
            );
        }
    }

    #[test]
    fn the_name_in_progress_is_always_a_name() {
        for length in 1..=63 {
            let name = FinalizerName::new(format!("a.io/{}", "n".repeat(length))).expect("a name");
            let progress = name.in_progress();
            assert_ne!(name, progress);
            assert_eq!(
                FinalizerName::new(progress.as_str()).as_ref(),
                Ok(&progress)
            );
        }
    }

    /// It is stored in objects: another version of an operator has to find it again.
    #[test]
    fn the_name_in_progress_never_changes() {
        let long = "n".repeat(63);
        let cut = format!("{}x8213b529.in-progress", "n".repeat(42));
        for domain in ["", "example.io/"] {
            for (name, expected) in [("clean-up", "clean-up.in-progress"), (&*long, &*cut)] {
                let name = FinalizerName::new(format!("{domain}{name}")).expect("a name");
                assert_eq!(name.in_progress().as_str(), format!("{domain}{expected}"));
            }
        }
        // The longest one that is not cut.
        let name = FinalizerName::new(format!("example.io/{}", "n".repeat(51))).expect("a name");
        assert_eq!(name.in_progress().as_str(), format!("{name}.in-progress"));
    }

    #[test]
    fn long_names_with_a_common_prefix_stay_distinct() {
        let long = |end| FinalizerName::new(format!("{}{end}", "n".repeat(62))).expect("a name");
        assert_ne!(long("a").in_progress(), long("b").in_progress());
        assert_eq!(long("a").in_progress(), long("a").in_progress());
    }

    /// A domain of this length.
    fn domain(length: usize) -> String {
        format!("a.{}", "d".repeat(length - 2))
    }

    #[test]
    fn the_field_manager_is_the_domain_and_not_too_long() {
        let long = format!("{}.io", "a".repeat(200));
        for (name, manager) in [
            ("example.io/clean-up", "example.io"),
            ("clean_up", "clean_up"),
            (&format!("{long}/clean-up"), &long[..128]),
        ] {
            let name = FinalizerName::new(name).expect("a name");
            assert_eq!(name.field_manager(), manager);
        }
    }
}
