//! Predicates made of others: and, or, not.

use std::{fmt, marker::PhantomData};

use windlass_informer::Event;

use super::Predicate;

/// Passes events that pass both predicates. Made by [`Predicate::and`].
pub struct And<K, A, B>(A, B, PhantomData<fn(K)>);

/// Passes events that pass at least one predicate. Made by [`Predicate::or`].
pub struct Or<K, A, B>(A, B, PhantomData<fn(K)>);

/// Passes events that do not pass a predicate. Made by [`Predicate::not`].
pub struct Not<K, A>(A, PhantomData<fn(K)>);

// === impl And ===

impl<K, A, B> And<K, A, B> {
    pub(super) const fn new(one: A, other: B) -> Self {
        Self(one, other, PhantomData)
    }
}

impl<K: 'static, A: Predicate<K>, B: Predicate<K>> Predicate<K> for And<K, A, B> {
    fn passes(&self, event: &Event<K>) -> bool {
        self.0.passes(event) && self.1.passes(event)
    }
}

impl<K, A: fmt::Debug, B: fmt::Debug> fmt::Debug for And<K, A, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("And").field(&self.0).field(&self.1).finish()
    }
}

// === impl Or ===

impl<K, A, B> Or<K, A, B> {
    pub(super) const fn new(one: A, other: B) -> Self {
        Self(one, other, PhantomData)
    }
}

impl<K: 'static, A: Predicate<K>, B: Predicate<K>> Predicate<K> for Or<K, A, B> {
    fn passes(&self, event: &Event<K>) -> bool {
        self.0.passes(event) || self.1.passes(event)
    }
}

impl<K, A: fmt::Debug, B: fmt::Debug> fmt::Debug for Or<K, A, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Or").field(&self.0).field(&self.1).finish()
    }
}

// === impl Not ===

impl<K, A> Not<K, A> {
    pub(super) const fn new(it: A) -> Self {
        Self(it, PhantomData)
    }
}

impl<K: 'static, A: Predicate<K>> Predicate<K> for Not<K, A> {
    fn passes(&self, event: &Event<K>) -> bool {
        !self.0.passes(event)
    }
}

impl<K, A: fmt::Debug> fmt::Debug for Not<K, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Not").field(&self.0).finish()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn predicates_are_combined_as_words_are() {
        let yes = |_: &Event<u8>| true;
        let no = |_: &Event<u8>| false;
        for (said, passes) in [
            (ask(&yes.and(yes)), true),
            (ask(&yes.and(no)), false),
            (ask(&no.and(yes)), false),
            (ask(&no.or(yes)), true),
            (ask(&yes.or(no)), true),
            (ask(&no.or(no)), false),
            (ask(&yes.not()), false),
            (ask(&no.not()), true),
            (ask(&no.or(yes).and(yes.not()).not()), true),
        ] {
            assert_eq!(said, passes);
        }
    }

    fn ask(predicate: &impl Predicate<u8>) -> bool {
        predicate.passes(&Event::Added(Arc::new(7)))
    }
}
