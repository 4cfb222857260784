//! Interned namespace names of object keys.

use std::{collections::HashSet, sync::Arc};

use parking_lot::Mutex;

/// Interned namespace names: all keys of one namespace share one string.
///
/// Names that no key uses are removed when the set grows beyond its limit.
#[derive(Default)]
pub(crate) struct Namespaces {
    names: Mutex<Names>,
}

#[derive(Default)]
struct Names {
    known: HashSet<Arc<str>>,
    /// At this size the names that no key uses are removed. Then the limit becomes twice the
    /// remaining number.
    limit: usize,
}

// === impl Namespaces ===

impl Namespaces {
    /// Below this number of names nothing is removed.
    const MIN_LIMIT: usize = 64;

    /// Returns the shared string for `name`.
    pub(super) fn share(&self, name: &str) -> Arc<str> {
        let mut names = self.names.lock();
        if let Some(known) = names.known.get(name) {
            return Arc::clone(known);
        }
        if names.known.len() >= names.limit.max(Self::MIN_LIMIT) {
            names.known.retain(|known| Arc::strong_count(known) > 1);
            names.limit = names.known.len() * 2;
        }
        let name: Arc<str> = Arc::from(name);
        names.known.insert(Arc::clone(&name));
        name
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::Namespaces;

    #[test]
    fn a_namespace_is_stored_once_while_it_is_used() {
        let namespaces = Namespaces::default();
        let shop = namespaces.share("shop");
        assert!(Arc::ptr_eq(&shop, &namespaces.share("shop")));
        for other in 0..Namespaces::MIN_LIMIT * 3 {
            namespaces.share(&other.to_string());
        }
        assert!(namespaces.names.lock().known.len() <= Namespaces::MIN_LIMIT);
        assert!(Arc::ptr_eq(&shop, &namespaces.share("shop")));
    }

    /// Removing unused names reads all names. It happens only after as many names were added as are
    /// in use, so that a new name costs constant time on average.
    #[test]
    fn unused_names_are_removed_when_the_number_of_names_has_doubled() {
        let namespaces = Namespaces::default();
        let count = 2 * Namespaces::MIN_LIMIT;
        let in_use: Vec<_> = (0..count)
            .map(|name| namespaces.share(&name.to_string()))
            .collect();
        for unused in count..10 * count {
            namespaces.share(&unused.to_string());
            assert!(namespaces.names.lock().known.len() <= 2 * count);
        }
        assert_eq!(namespaces.names.lock().limit, 2 * count);
        let known = namespaces.names.lock().known.len();
        assert!(known >= in_use.len());
    }
}
