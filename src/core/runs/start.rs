//! `run.start`.

use std::collections::BTreeMap;

use crate::contract::code::Code;
use crate::contract::id::{ExecutionId, WorkflowId};
use crate::contract::outcome::Outcome;
use crate::core::effect::Refusal;
use crate::core::fault::{self, Fault};
use crate::core::record::{By, Record};
use crate::core::state::State;
use crate::core::state::run::Plan;
use crate::core::turn::Turn;

use super::act::No;

/// Says whether a run of the workflow could be started with these parameters.
pub(super) fn judge(
    state: &State,
    workflow: &WorkflowId,
    given: &BTreeMap<String, String>,
) -> Result<(), No> {
    let Some(found) = state.durable().workflows.get(workflow) else {
        return Err(No::Outcome(Outcome::NotFound, None));
    };
    let params = &found.plan.def.params;
    let refuse = |message: String| {
        Err(No::Refused(Refusal::new(
            Code::InvalidArgument,
            "params",
            message,
        )))
    };
    if let Some(unknown) = given.keys().find(|name| !params.contains_key(*name)) {
        let unknown: String = unknown.chars().take(80).collect();
        let known: Vec<&str> = params.keys().map(String::as_str).collect();
        let known = if known.is_empty() {
            "none".to_owned()
        } else {
            known.join(", ")
        };
        return refuse(format!(
            "args.params.{unknown}: workflow `{workflow}` has no such parameter (it has: {known})"
        ));
    }
    let missing = params
        .iter()
        .find(|(name, def)| def.default.is_none() && !given.contains_key(*name));
    if let Some((missing, _)) = missing {
        return refuse(format!(
            "args.params.{missing}: workflow `{workflow}` needs it; give a value"
        ));
    }
    let limit = state.durable().settings.max_queued_runs as usize
        + usize::from(fault::on(Fault::QueueLimitOffByOne));
    if state.index().queue.len() >= limit {
        let message = format!("{limit} runs wait already; try again when some have started");
        return Err(No::Refused(Refusal::new(
            Code::Unavailable,
            "queue",
            message,
        )));
    }
    Ok(())
}

/// Starts a run; returns its id.
pub(in crate::core) fn perform(
    turn: &mut Turn,
    workflow: &WorkflowId,
    given: &BTreeMap<String, String>,
    priority: i32,
    by: &By,
) -> Option<ExecutionId> {
    let durable = turn.state().durable();
    let plan = durable
        .workflows
        .get(workflow)
        .map(|w| std::sync::Arc::clone(&w.plan))?;
    let run = ExecutionId(durable.last_run + 1);
    let deadline = plan.def.timeout.map(|t| turn.now.plus(t.0));
    turn.emit(Record::RunCreated {
        run,
        workflow: workflow.clone(),
        revision: plan.revision,
        params: filled(&plan, given),
        priority,
        deadline,
        by: by.clone(),
    });
    Some(run)
}

fn filled(plan: &Plan, given: &BTreeMap<String, String>) -> Vec<(String, String)> {
    let value =
        |name: &String, default: &Option<String>| given.get(name).or(default.as_ref()).cloned();
    plan.def
        .params
        .iter()
        .filter_map(|(name, def)| Some((name.clone(), value(name, &def.default)?)))
        .collect()
}
