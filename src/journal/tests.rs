//! What every journal promises, and what the one on disk promises beyond that.

mod contract;
mod disk;
mod made;
