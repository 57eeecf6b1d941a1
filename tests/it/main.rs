//! The promises of the project as tests: one binary, a module per promise.

mod tidy;
