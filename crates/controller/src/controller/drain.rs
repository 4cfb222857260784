//! `OnStop`: whether queued events are dispatched after a stop.

/// What happens to queued events when a controller is stopped.
///
/// In both cases active calls end normally, and no pending call (a retry or requeue) is made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum OnStop {
    /// No other call begins. The objects are dispatched again after a restart of the process, as
    /// `Created`. The default.
    #[default]
    Abandon,

    /// The informers stop, and then the events in the queue are dispatched. A call that fails
    /// meanwhile is reported and not repeated. Events of a kind whose informers have not synced are
    /// not dispatched, and if the controller has a [`Fence`](crate::Fence) that is closed, no event
    /// is. Nothing limits the time; an operator limits it by its drain timeout.
    Drain,
}
