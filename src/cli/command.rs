//! Commands on executions and nodes: sending them, and what came of each target.

use std::collections::BTreeMap;
use std::time::Duration;

use rand::RngExt as _;

use super::args::Commanding;
use super::client::Client;
use super::failure::{Failure, worse};
use super::output::{Output, or_dash, table};
use crate::contract::code::Code;
use crate::contract::outcome::{Outcome, ResultStatus};
use crate::operators::view::{CommandRequest, CommandResult};

/// How often a command is sent again after its connection broke, and how long between.
const AGAIN: [Duration; 3] = [
    Duration::from_millis(200),
    Duration::from_millis(500),
    Duration::from_secs(2),
];

/// Sends one command. A connection that breaks leaves open whether it arrived: it is sent again under its key.
pub(super) async fn send(
    client: &Client,
    op: &str,
    target: String,
    args: BTreeMap<String, serde_json::Value>,
    how: &Commanding,
) -> Result<CommandResult, Failure> {
    let Commanding {
        reason,
        if_status,
        idempotency_key,
    } = how.clone();
    let request = CommandRequest {
        op: op.to_owned(),
        target,
        args,
        if_status,
        reason,
    };
    let key = idempotency_key.unwrap_or_else(|| {
        let random: u128 = rand::rng().random();
        format!("cli-{random:032x}")
    });
    let mut again = AGAIN.iter();
    loop {
        match client
            .post(&["api", "commands"], Some(&request), Some(&key))
            .await
        {
            Err(failure) if failure.is_lost() => match again.next() {
                Some(wait) => tokio::time::sleep(*wait).await,
                None => return Err(failure),
            },
            result => return result,
        }
    }
}

/// Sends the same command to several targets, tells what came of each, and returns the worst exit code.
pub(super) async fn each(
    client: &Client,
    out: &Output,
    op: &str,
    targets: Vec<String>,
    args: &BTreeMap<String, serde_json::Value>,
    how: &Commanding,
) -> Result<u8, Failure> {
    let many = targets.len() > 1;
    let mut exit = 0;
    for target in targets {
        // One key stands for one command.
        let mut how = how.clone();
        if many {
            how.idempotency_key = how.idempotency_key.map(|key| format!("{key}/{target}"));
        }
        match send(client, op, target.clone(), args.clone(), &how).await {
            Ok(result) => {
                exit = worse(exit, exit_code(&result));
                out.print(&result, people)?;
            }
            Err(failure) if many => {
                eprintln!("{}:", super::output::safe(&target));
                failure.print();
                exit = worse(exit, failure.exit);
            }
            Err(failure) => return Err(failure),
        }
    }
    Ok(exit)
}

/// Returns the exit code of a command that was answered (C48).
pub(super) fn exit_code(result: &CommandResult) -> u8 {
    let answer = &result.answer;
    match answer.status {
        ResultStatus::Refused => answer.code.map_or(1, Code::exit_code),
        ResultStatus::AwaitingApproval => Code::AwaitingApproval.exit_code(),
        ResultStatus::Done | ResultStatus::DryRun => {
            let codes = answer.targets.iter().map(|target| match target.outcome {
                Outcome::Applied | Outcome::AlreadyInState => 0,
                Outcome::NotFound => Code::NotFound.exit_code(),
                Outcome::PreconditionFailed => Code::PreconditionFailed.exit_code(),
                // Another supervisor took it over in the middle of the command.
                Outcome::NotOwned => Code::ControlledBySupervisor.exit_code(),
            });
            codes.fold(0, worse)
        }
    }
}

/// Shows what came of a command.
pub(super) fn people(result: &CommandResult) -> String {
    let answer = &result.answer;
    let rows = answer.targets.iter().map(|t| {
        [
            t.target.clone(),
            t.outcome.as_str().to_owned(),
            or_dash(t.detail.as_ref()),
            or_dash(t.order),
        ]
    });
    let mut text = table(&["target", "outcome", "detail", "order"], rows);
    if let Some(matched) = answer.matched {
        text.push_str(&format!(
            "only the oldest {} of {matched} matching ones; send it again for the rest\n",
            answer.targets.len()
        ));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::outcome::{Answer, TargetResult};

    fn result(outcomes: &[Outcome]) -> CommandResult {
        let target = |outcome: &Outcome| TargetResult {
            target: "execution:x1".into(),
            outcome: *outcome,
            detail: None,
            order: None,
        };
        CommandResult {
            answer: Answer::done(outcomes.iter().map(target).collect()),
            execution_id: None,
        }
    }

    #[test]
    fn with_several_outcomes_the_worst_counts_and_what_is_so_already_is_done() {
        use Outcome::{AlreadyInState, Applied, NotFound, NotOwned, PreconditionFailed};
        for (outcomes, exit) in [
            (&[][..], 0),
            (&[Applied, AlreadyInState], 0),
            (&[Applied, PreconditionFailed], 5),
            (&[NotFound], 5),
            (&[NotOwned, NotFound, Applied], 6),
        ] {
            assert_eq!(exit_code(&result(outcomes)), exit, "{outcomes:?}");
        }
        let refused = |code| CommandResult {
            answer: Answer::refused(code, "check", "why"),
            execution_id: None,
        };
        assert_eq!(exit_code(&refused(Code::ControlRejected)), 6);
        assert_eq!(exit_code(&refused(Code::Unavailable)), 1);
    }
}
