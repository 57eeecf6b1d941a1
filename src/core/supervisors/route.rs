//! Which supervisors' streams a record belongs to (C3, C14, C18).

use crate::core::fault::{self, Fault};
use crate::core::record::{By, Channel, Record};
use crate::core::state::{Durable, run::Run};

/// Returns the numbers of those who see the record, in order. Whether their definitions take the kind
/// is asked later.
pub(in crate::core) fn readers(durable: &Durable, record: &Record) -> Vec<u32> {
    match record {
        Record::RunCreated {
            workflow, revision, ..
        } => durable
            .audiences
            .get(&(workflow.clone(), *revision))
            .map(|a| a.run_readers.clone())
            .unwrap_or_default(),
        Record::RunStatus { run, .. } => {
            let Some(audience) = durable.run(*run).and_then(|r| durable.audience(r)) else {
                return Vec::new();
            };
            if fault::on(Fault::ContextStatusHidden) {
                return audience.run_owner.into_iter().collect();
            }
            audience.run_readers.clone()
        }
        Record::NodeStatus { run, node, .. } => {
            let Some(run) = durable.run(*run) else {
                return Vec::new();
            };
            let Some(audience) = durable.audience(run) else {
                return Vec::new();
            };
            let owner = run
                .index(node)
                .and_then(|i| audience.node_owners.get(i).copied().flatten());
            let mut readers: Vec<u32> = owner.into_iter().chain(audience.run_owner).collect();
            readers.sort_unstable();
            readers.dedup();
            readers
        }
        Record::ControlOutcome { run, node, by, .. } => {
            let Some(run) = durable.run(*run) else {
                return Vec::new();
            };
            let owner = match node {
                Some(node) => durable.node_owner(run, node),
                None => owner_of_run(durable, run),
            };
            owner
                .into_iter()
                .filter(|owner| !is_own(durable, *owner, by))
                .collect()
        }
        _ => Vec::new(),
    }
}

fn owner_of_run(durable: &Durable, run: &Run) -> Option<u32> {
    durable.audience(run)?.run_owner
}

/// Says whether the command came from the supervisor's own engine: it hears of it in the result.
fn is_own(durable: &Durable, owner: u32, by: &By) -> bool {
    by.channel == Channel::Engine
        && !fault::on(Fault::OwnOutcomeShown)
        && durable
            .supervisors
            .get(&owner)
            .is_some_and(|s| by.actor.strip_prefix("supervisor:") == Some(s.def.id.as_str()))
}
