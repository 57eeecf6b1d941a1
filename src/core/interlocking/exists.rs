//! Check `target exists`.

use crate::contract::outcome::Outcome;
use crate::core::runs::act::{No, One};
use crate::core::state::Durable;

pub(super) fn check(durable: &Durable, one: &One) -> Result<(), No> {
    let exists = match one {
        One::Workflow(workflow) => durable.workflows.contains_key(workflow),
        One::Run(run) => durable.runs.contains_key(run),
        One::Node(run, node) => durable.run(*run).is_some_and(|r| r.index(node).is_some()),
    };
    if exists {
        Ok(())
    } else {
        Err(No::Outcome(Outcome::NotFound, None))
    }
}
