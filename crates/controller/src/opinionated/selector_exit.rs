//! Objects that leave the selector of an informer.

/// What a wrapper does for an object that carries its finalizer and has left the selector of the
/// informer, because its labels or fields changed.
///
/// An informer reports such an object as deleted. The wrappers ask the API server whether it
/// still exists. If it does and is marked for deletion, it is cleaned up and released, whatever
/// this setting says.
///
/// A kind with several informers has the object until it has left all of them.
///
/// An object that leaves the selector while the operator does not run keeps its finalizer, and
/// no informer shows it: [`Finalizers::orphans`](crate::Finalizers::orphans) finds such objects.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum OnSelectorExit {
    /// Removes the finalizer, so that the object can be deleted, and logs it at `WARN`. The inner
    /// handler is not called: what it made for the object stays. The default, since it never
    /// leaves an object that cannot be deleted.
    #[default]
    Release,
    /// Cleans up as if the object were deleted, and then removes the finalizer.
    CleanUp,
    /// Keeps the finalizer, and logs it at `ERROR`: the object cannot be deleted until it matches
    /// the selector again or the finalizer is removed by hand.
    Report,
}
