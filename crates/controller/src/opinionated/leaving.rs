//! Objects that leave the selector of an informer.

/// What is done about an object that carries our finalizer, and that the informer sees no more
/// because its labels or fields changed.
///
/// An informer tells of it as of a deletion. The wrappers ask the API server whether the object
/// is still there. If it is, and is marked for deletion, it is cleaned up after and let go,
/// whatever this says.
///
/// Where a kind has several informers, an object can leave one for another. Then
/// [`Release`](Self::Release) costs a second add, and [`Report`](Self::Report) is what one
/// wants.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Leaving {
    /// The finalizer goes, so that the object can be deleted without us, and the log is told at
    /// `WARN`. Nothing is cleaned up. The default: whoever took the label away keeps what was
    /// made for the object, and never has an object that cannot be deleted.
    #[default]
    Release,
    /// It is cleaned up after, as if it were deleted; then the finalizer goes.
    CleanUp,
    /// The finalizer stays, and the log is told at `ERROR`: the object cannot be deleted before
    /// it comes back into sight, or somebody removes the finalizer.
    Report,
}
