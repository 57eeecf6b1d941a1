//! Checks and repairs a journal that is not in use.
