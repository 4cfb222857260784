//! The gates of kinds: a kind is closed until its informers have synced. *(pure)*

use crate::route::KindId;

/// The closed kinds. A lane of a closed kind queues events, but no worker takes it.
#[derive(Debug, Default)]
pub(super) struct Gates {
    /// Whether all kinds are closed.
    all_closed: bool,

    /// The kinds that are closed individually: few, and usually none.
    closed: Vec<KindId>,
}

// === impl Gates ===

impl Gates {
    /// Whether no kind is closed, which is usual after the start.
    pub(super) const fn all_open(&self) -> bool {
        !self.all_closed && self.closed.is_empty()
    }

    pub(super) fn is_open(&self, kind: KindId) -> bool {
        !self.all_closed && !self.closed.contains(&kind)
    }

    /// Opens or closes `kind`, or all kinds together. Returns whether that changed something.
    pub(super) fn set(&mut self, kind: Option<KindId>, open: bool) -> bool {
        let Some(kind) = kind else {
            return std::mem::replace(&mut self.all_closed, !open) == open;
        };
        let known = self.closed.iter().position(|it| *it == kind);
        match (known, open) {
            (Some(at), true) => _ = self.closed.swap_remove(at),
            (None, false) => self.closed.push(kind),
            _ => return false,
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_is_open_unless_it_or_all_are_closed() {
        let (pods, nodes) = (KindId(1), KindId(2));
        let mut gates = Gates::default();
        assert!(gates.all_open() && gates.is_open(pods));

        assert!(gates.set(None, false));
        assert!(!gates.set(None, false), "it was closed already");
        assert!(!gates.is_open(pods));

        assert!(gates.set(Some(pods), false));
        assert!(gates.set(None, true));
        assert!(!gates.all_open());
        assert!(!gates.is_open(pods) && gates.is_open(nodes));

        assert!(gates.set(Some(pods), true));
        assert!(!gates.set(Some(pods), true), "it was open already");
        assert!(gates.all_open());
    }
}
