//! Check `ifStatus`: the run or node acted on has the status that the sender expects.

use crate::contract::outcome::Outcome;
use crate::core::runs::act::{No, One};
use crate::core::state::Durable;

pub(super) fn check(durable: &Durable, one: &One, wanted: Option<&str>) -> Result<(), No> {
    let Some(wanted) = wanted else { return Ok(()) };
    let actual = match one {
        One::Workflow(_) => None,
        One::Run(run) => durable.run(*run).map(|r| r.status.as_str()),
        One::Node(run, node) => durable
            .run(*run)
            .and_then(|r| r.node(node))
            .map(|n| n.status.as_str()),
    };
    match actual {
        Some(actual) if actual != wanted => Err(No::Outcome(
            Outcome::PreconditionFailed,
            Some(format!("ifStatus {actual}")),
        )),
        _ => Ok(()),
    }
}
