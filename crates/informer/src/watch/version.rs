//! Checks and compares resource versions. *(pure)*

/// Whether `version` can be a resource version: 1 to 256 visible ASCII characters. The API server's
/// versions are numbers of at most 20 digits. Versions are sent back in URLs, and logged.
pub(crate) fn is_version(version: &str) -> bool {
    const LONGEST: usize = 256;

    (1..=LONGEST).contains(&version.len()) && version.bytes().all(|byte| byte.is_ascii_graphic())
}

/// Whether `version` is certainly older than `than`.
///
/// Versions can be compared as numbers: this is part of the API contract since Kubernetes 1.35, and
/// was true before. A proxy or another server may not follow it: a version that is not a number
/// never counts as older.
///
/// Source: KEP-5504, comparable resource versions.
#[doc(hidden)]
#[must_use]
pub fn is_older(version: &str, than: &str) -> bool {
    // Compared as text, because parsing costs more and this happens twice per event.
    let is_number = |version: &str| {
        (1..=19).contains(&version.len())
            && !version.starts_with('0')
            && version.bytes().all(|byte| byte.is_ascii_digit())
    };
    is_number(version) && is_number(than) && (version.len(), version) < (than.len(), than)
}

#[cfg(test)]
mod tests {
    use super::{is_older, is_version};

    #[test]
    fn a_version_is_short_and_visible() {
        assert!(is_version("7"));
        assert!(is_version("MTA6b3BhcXVl-_="));
        assert!(!is_version(""));
        assert!(!is_version("7\n"));
        assert!(!is_version("é"));
        assert!(!is_version(&"7".repeat(257)));
    }

    #[test]
    fn only_numeric_versions_are_comparable() {
        assert!(is_older("9", "10"));
        assert!(!is_older("10", "9"));
        assert!(!is_older("10", "10"));
        assert!(!is_older("a", "b"));
        assert!(!is_older("", "1"));
        assert!(!is_older("1", "99999999999999999999999"));
        assert!(is_older("1000000000", "1000000001"));
        assert!(!is_older("1a", "2"));
        assert!(!is_older("+1", "2"));
    }
}
