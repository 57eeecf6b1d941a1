//! Managed engines.
