//! `GuardedSpan`: a span that never panics, whatever the subscriber does.

use std::{
    fmt,
    future::{Future, poll_fn},
    mem,
    pin::Pin,
};

use tracing::{Span, field, level_filters::LevelFilter, span::Entered};

use crate::panics::catch;

/// A `tracing` span that never panics, whatever the subscriber does.
///
/// A subscriber can panic when a span begins, is entered, left or recorded, or ends. An example is
/// `tracing_subscriber::fmt` with span events, if neither its writer nor stderr can be written.
///
/// # Contract
///
/// *Guaranteed.* A panic of the subscriber ends only what the subscriber was doing. A span whose
/// beginning panics is [`none`](Self::none). A span is left as often as it is entered.
///
/// *Not guaranteed.* A subscriber that panics after it has stored a new span keeps that span.
pub struct GuardedSpan(Span);

/// Leaves a span when it is dropped. Empty if the span could not be entered.
struct Inside<'s>(Option<Entered<'s>>);

// === impl GuardedSpan ===

impl GuardedSpan {
    /// Creates the span that `create` returns.
    pub fn new(create: impl FnOnce() -> Span) -> Self {
        Self(catch(create).unwrap_or_else(|_| Span::none()))
    }

    /// Creates a span that no subscriber sees.
    #[must_use]
    pub const fn none() -> Self {
        Self(Span::none())
    }

    /// The span in which this is called.
    #[must_use]
    pub fn current() -> Self {
        if LevelFilter::current() == LevelFilter::OFF {
            return Self::none();
        }
        Self::new(Span::current)
    }

    /// Whether no subscriber sees the span.
    #[must_use]
    pub fn is_none(&self) -> bool {
        self.0.is_none()
    }

    /// The span of `tracing`, whose methods panic if the subscriber panics.
    #[must_use]
    pub const fn as_span(&self) -> &Span {
        &self.0
    }

    /// Calls `code` with the span of `tracing`. Returns `None` if it panics.
    pub fn with<T>(&self, code: impl FnOnce(&Span) -> T) -> Option<T> {
        catch(|| code(&self.0)).ok()
    }

    /// Records the value of a field.
    pub fn record(&self, field: &str, value: impl field::Value) {
        if !self.is_none() {
            self.with(|span| _ = span.record(field, value));
        }
    }

    /// Calls `code` in the span.
    pub fn in_scope<T>(&self, code: impl FnOnce() -> T) -> T {
        if self.is_none() {
            return code();
        }
        let _inside = self.enter();
        code()
    }

    /// Runs `future` in the span. If the span is [`none`](Self::none), the future runs directly,
    /// because entering and leaving a span at each poll costs time.
    ///
    /// # Cancel safety
    ///
    /// The future can be dropped whenever `future` can.
    pub async fn within<F: Future>(&self, mut future: Pin<&mut F>) -> F::Output {
        if self.is_none() {
            future.await
        } else {
            poll_fn(|cx| self.in_scope(|| future.as_mut().poll(cx))).await
        }
    }

    fn enter(&self) -> Inside<'_> {
        let entered = catch(|| self.0.enter()).ok();
        if entered.is_none() {
            // The registry of `tracing_subscriber` enters a span before its layers, which panicked.
            let leave = |span: &Span| {
                _ = span.with_subscriber(|(id, subscriber)| subscriber.exit(id));
            };
            self.with(leave);
        }
        Inside(entered)
    }
}

impl Clone for GuardedSpan {
    fn clone(&self) -> Self {
        if self.is_none() {
            return Self::none();
        }
        Self::new(|| self.0.clone())
    }
}

impl Drop for GuardedSpan {
    fn drop(&mut self) {
        if !self.is_none() {
            let span = mem::replace(&mut self.0, Span::none());
            _ = catch(|| drop(span));
        }
    }
}

impl fmt::Debug for GuardedSpan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

// === impl Inside ===

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        if let Some(entered) = self.0.take() {
            _ = catch(|| drop(entered));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{
        collections::BTreeMap,
        panic::{AssertUnwindSafe, catch_unwind},
        pin::pin,
        sync::{Arc, Mutex},
    };

    use futures::FutureExt as _;
    use tokio::task::yield_now;
    use tracing::{
        Event, Metadata, Subscriber, field::Empty, info_span, span, subscriber::with_default,
    };

    use super::GuardedSpan;

    /// A subscriber that counts its calls, and panics in those with the name `fails`.
    #[derive(Clone, Default)]
    struct Fails {
        fails: &'static str,
        calls: Arc<Mutex<BTreeMap<&'static str, usize>>>,
    }

    // === impl Fails ===

    impl Fails {
        fn in_all() -> impl Iterator<Item = Self> {
            let all = ["", "new", "record", "enter", "exit", "clone", "close"];
            all.into_iter().map(|fails| Self {
                fails,
                ..Self::default()
            })
        }

        fn call(&self, name: &'static str) {
            *self
                .calls
                .lock()
                .expect("no panic")
                .entry(name)
                .or_default() += 1;
            assert!(self.fails != name, "the disk is full");
        }

        fn count(&self, name: &str) -> usize {
            let calls = self.calls.lock().expect("no panic");
            calls.get(name).copied().unwrap_or_default()
        }
    }

    impl Subscriber for Fails {
        fn enabled(&self, _: &Metadata<'_>) -> bool {
            true
        }

        fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
            self.call("new");
            span::Id::from_u64(1)
        }

        fn record(&self, _: &span::Id, _: &span::Record<'_>) {
            self.call("record");
        }

        fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}

        fn event(&self, _: &Event<'_>) {}

        fn enter(&self, _: &span::Id) {
            self.call("enter");
        }

        fn exit(&self, _: &span::Id) {
            self.call("exit");
        }

        fn clone_span(&self, id: &span::Id) -> span::Id {
            self.call("clone");
            id.clone()
        }

        fn try_close(&self, _: span::Id) -> bool {
            self.call("close");
            true
        }
    }

    #[test]
    fn a_span_whose_subscriber_panics_does_not_panic() {
        for subscriber in Fails::in_all() {
            with_default(subscriber.clone(), || {
                let span = GuardedSpan::new(|| info_span!("a", outcome = Empty));
                assert_eq!(span.in_scope(|| 7), 7);
                let future = pin!(async {
                    yield_now().await;
                    8
                });
                let within = GuardedSpan::clone(&span);
                let within = within.within(future).now_or_never();
                assert_eq!(within, None, "it yields once");
                span.record("outcome", "done");
                drop(GuardedSpan::current());
            });
            let fails = subscriber.fails;
            assert!(fails.is_empty() || subscriber.count(fails) > 0, "{fails}");
            let (entered, left) = (subscriber.count("enter"), subscriber.count("exit"));
            assert_eq!(entered, left, "{fails}");
        }
    }

    #[test]
    fn a_panic_of_the_code_passes_a_subscriber_that_panics() {
        for subscriber in Fails::in_all() {
            with_default(subscriber.clone(), || {
                let span = GuardedSpan::new(|| info_span!("a"));
                let moved = GuardedSpan::clone(&span);
                let code = || {
                    let _moved = moved;
                    panic!("of the code");
                };
                let panic = catch_unwind(AssertUnwindSafe(|| span.in_scope(code)));
                let panic = panic.expect_err("it panics");
                assert_eq!(panic.downcast_ref(), Some(&"of the code"));
            });
        }
    }
}
