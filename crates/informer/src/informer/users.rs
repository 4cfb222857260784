//! Registered users of an informer's events, shared or exclusive.
//!
//! An exclusive user may delay the watch. It is refused if the informer has other users, and other
//! users are refused while it is registered. Calls of `run`, subscriptions and readers of the store
//! do not register.

use std::{fmt, sync::Arc};

use parking_lot::Mutex;

/// The registered users.
#[derive(Debug, Default)]
pub(super) struct Users(Mutex<UserCounts>);

#[derive(Debug, Default)]
struct UserCounts {
    users: usize,
    exclusive: bool,
}

/// A registration from [`Informer::share`](super::Informer::share) or
/// [`Informer::claim`](super::Informer::claim). Dropping it ends the registration.
#[doc(hidden)]
#[must_use = "dropping this ends the registration"]
pub struct InformerUser(Arc<Users>);

/// A user was refused because the informer has another, exclusive user, or because the refused user
/// is exclusive.
#[doc(hidden)]
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the informer of {resource} is shared, and a user that may delay its watch must be its \
     only user: give that user an informer of its own"
)]
#[non_exhaustive]
pub struct SharedInformerError {
    /// The kind, as `plural.group`.
    pub resource: Arc<str>,
}

// === impl Users ===

impl Users {
    /// Registers a user. `None` if an exclusive user is registered, or if this user is exclusive
    /// and another one is registered.
    pub(super) fn register(self: &Arc<Self>, exclusive: bool) -> Option<InformerUser> {
        let mut state = self.0.lock();
        if state.exclusive || (exclusive && state.users > 0) {
            return None;
        }
        state.users += 1;
        state.exclusive = exclusive;
        Some(InformerUser(Arc::clone(self)))
    }
}

// === impl InformerUser ===

impl Drop for InformerUser {
    fn drop(&mut self) {
        let mut state = self.0.0.lock();
        state.users -= 1;
        // An exclusive user is the only user.
        state.exclusive = false;
    }
}

impl fmt::Debug for InformerUser {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InformerUser").finish_non_exhaustive()
    }
}
