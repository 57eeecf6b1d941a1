//! Check `ownership`: who owns a target (C3).

use crate::contract::outcome::Outcome;
use crate::contract::unit::Unit;
use crate::core::runs::act::{No, One};
use crate::core::state::Durable;

/// Returns the number of the target's owner.
pub(super) fn of(durable: &Durable, one: &One) -> Option<u32> {
    match one {
        One::Workflow(workflow) => durable
            .owners
            .get(&Unit::Workflow(workflow.clone()))
            .copied(),
        One::Run(run) => durable.run_owner(durable.run(*run)?),
        One::Node(run, node) => durable.node_owner(durable.run(*run)?, node),
    }
}

/// Checks that the supervisor with this number owns the target.
pub(super) fn check(durable: &Durable, one: &One, number: Option<u32>) -> Result<(), No> {
    if of(durable, one) == number {
        Ok(())
    } else {
        Err(No::Outcome(Outcome::NotOwned, None))
    }
}
