//! Windlass.
