//! Supervisors and their engines' sessions: saving, ownership, who sees what, ticks.

pub(super) mod route;
pub(super) mod save;
pub(super) mod session;
pub(super) mod tick;
