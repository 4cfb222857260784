//! A list of few: one pointer where there is none, and one allocation for each.

/// Some things, in the order in which they came: mostly none, and rarely more than one.
#[derive(Debug)]
pub(super) struct Few<T>(Option<Box<Node<T>>>);

#[derive(Debug)]
struct Node<T> {
    thing: T,
    next: Few<T>,
}

// === impl Few ===

impl<T> Few<T> {
    pub(super) const fn new() -> Self {
        Self(None)
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// Puts `thing` behind the others.
    pub(super) fn push(&mut self, thing: T) {
        if let Some(node) = &mut self.0 {
            return node.next.push(thing);
        }
        let next = Self::new();
        self.0 = Some(Box::new(Node { thing, next }));
    }

    /// Takes the first that is `wanted`.
    pub(super) fn take(&mut self, wanted: impl Fn(&T) -> bool) -> Option<T> {
        let mut at = self;
        while at.0.as_ref().is_some_and(|node| !wanted(&node.thing)) {
            at = &mut at.0.as_mut()?.next;
        }
        let node = at.0.take()?;
        *at = node.next;
        Some(node.thing)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &T> {
        let mut at = self;
        std::iter::from_fn(move || {
            let node = at.0.as_ref()?;
            at = &node.next;
            Some(&node.thing)
        })
    }

    /// The first that is `wanted`, to be changed.
    pub(super) fn find_mut(&mut self, wanted: impl Fn(&T) -> bool) -> Option<&mut T> {
        let mut at = self;
        while at.0.as_ref().is_some_and(|node| !wanted(&node.thing)) {
            at = &mut at.0.as_mut()?.next;
        }
        at.0.as_mut().map(|node| &mut node.thing)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn things_stay_in_the_order_in_which_they_came() {
        check("", "1 2 3");
        check("1", "2 3");
        check("2", "1 3");
        check("3 1", "2");
        check("2 1 3", "");
    }

    #[test]
    fn none_costs_a_pointer() {
        assert_eq!(size_of::<Few<[u8; 100]>>(), size_of::<usize>());
    }

    /// Takes `taken` out of 1, 2 and 3.
    #[track_caller]
    fn check(taken: &str, left: &str) {
        let mut few = Few::new();
        for it in ["1", "2", "3"] {
            few.push(it);
        }
        for it in taken.split_whitespace() {
            assert_eq!(few.take(|other| *other == it), Some(it));
        }
        assert_eq!(few.take(|it| *it == "4"), None);
        assert_eq!(few.iter().copied().collect::<Vec<_>>().join(" "), left);
        assert_eq!(few.is_empty(), left.is_empty());
    }
}
