//! What every journal promises, and what the one on disk promises beyond that.

mod contract;
mod crash;
mod damage;
mod disk;
mod golden;
mod made;
