//! `OnSelectorExit`: what happens when an object leaves the selector of an informer.

/// What a wrapper does when an object with its finalizer leaves the selector of the informer,
/// because its labels or fields change.
///
/// An informer reports such an object as deleted. The wrappers then read it from the API server. If
/// it exists and is marked for deletion, it is cleaned up and released with any setting.
///
/// If a kind has several informers, this happens when the object has left all of them.
///
/// An object that leaves the selector while the operator does not run keeps its finalizer, and no
/// informer shows it. [`Finalizers::unwatched`](crate::Finalizers::unwatched) finds such objects.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum OnSelectorExit {
    /// Removes the finalizer, so that the object can be deleted, and logs it at `WARN`. The inner
    /// handler is not called, so its results stay. The default, because it never leaves an object
    /// that cannot be deleted.
    #[default]
    Release,
    /// Cleans up as if the object were deleted, and then removes the finalizer.
    CleanUp,
    /// Keeps the finalizer, and logs it at `ERROR`: the object cannot be deleted until it matches
    /// the selector again or the finalizer is removed manually.
    Report,
}
