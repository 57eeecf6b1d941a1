//! Implements the host's `Runtime`.
