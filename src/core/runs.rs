//! Runs and nodes: what a command may do in every state, what it does, and what follows.
//!
//! [`act::judge`] says what a command would come to and changes nothing; the functions that change take
//! a permit of the interlocking. After each change of a run [`settle::run`] draws the consequences, and
//! [`slots::fill`] hands out run and node slots at the end of the turn.

pub(super) mod act;
pub(super) mod again;
pub(super) mod attempt;
pub(super) mod hold;
pub(super) mod settle;
pub(super) mod slots;
pub(super) mod start;
pub(super) mod stop;
