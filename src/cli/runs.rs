//! `run` and `node`.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::args::{
    Commanding, ListArgs, NodeAction, NodeArgs, RunAction, RunArgs, StartArgs, StopArgs,
};
use super::client::Client;
use super::command::{self, each};
use super::output::{Output, or_dash, table, time};
use super::{Failure, logs, watch};
use crate::contract::signal::HoldView;
use crate::operators::view::{AsOf, ExecutionDetail, ExecutionRow, Executions, ExecutionsQuery};

/// The most executions of one page.
const PAGE: usize = 500;

/// Runs `run …`.
pub(super) async fn run(client: &Client, out: &Output, args: RunArgs) -> Result<u8, Failure> {
    let none = BTreeMap::new();
    match args.action {
        RunAction::Start(args) => start(client, out, args).await,
        RunAction::List(args) => list(client, out, args).await,
        RunAction::Show { id } => {
            let detail: AsOf<ExecutionDetail> = show(client, &id).await?;
            out.print(&detail, |d| people(&d.body))?;
            Ok(0)
        }
        RunAction::Pause { targets, how } => {
            each(
                client,
                out,
                "run.pause",
                executions(targets.ids),
                &none,
                &how,
            )
            .await
        }
        RunAction::Resume { targets, how } => {
            each(
                client,
                out,
                "run.resume",
                executions(targets.ids),
                &none,
                &how,
            )
            .await
        }
        RunAction::Stop(args) => stop(client, out, args).await,
        RunAction::Logs(args) => logs::run(client, out, &args).await,
    }
}

/// Runs `node …`.
pub(super) async fn node(client: &Client, out: &Output, args: NodeArgs) -> Result<u8, Failure> {
    let (op, nodes, how): (_, _, Commanding) = match args.action {
        NodeAction::Retry { nodes, how } => ("node.retry", nodes, how),
        NodeAction::Skip { nodes, how } => ("node.skip", nodes, how),
    };
    // One command for all of them, as the contract has it: they share its key and its review.
    let target = format!("node:{}", nodes.ids.join(","));
    each(client, out, op, vec![target], &BTreeMap::new(), &how).await
}

/// Takes ids of executions and whole targets alike.
fn executions(ids: Vec<String>) -> Vec<String> {
    ids.into_iter()
        .map(|id| {
            if id.contains(':') || id.contains('.') {
                id
            } else {
                format!("execution:{id}")
            }
        })
        .collect()
}

async fn start(client: &Client, out: &Output, args: StartArgs) -> Result<u8, Failure> {
    let StartArgs {
        workflow,
        params,
        priority,
        wait,
        how,
    } = args;
    let mut given = BTreeMap::new();
    let mut texts = serde_json::Map::new();
    for (name, value) in params {
        if texts.insert(name.clone(), Value::String(value)).is_some() {
            return Err(
                Failure::new(2, format!("the parameter `{name}` is given twice"))
                    .hint("keep one of them"),
            );
        }
    }
    if !texts.is_empty() {
        given.insert("params".to_owned(), Value::Object(texts));
    }
    if let Some(priority) = priority {
        given.insert("priority".to_owned(), json!(priority));
    }
    let result = command::send(
        client,
        "run.start",
        format!("workflow:{workflow}"),
        given,
        &how,
    )
    .await?;
    let exit = command::exit_code(&result);
    let Some(id) = result.execution_id else {
        out.print(&result, command::people)?;
        return Ok(exit);
    };
    if !wait {
        out.print(&result, |_| format!("{id}\n"))?;
        return Ok(exit);
    }
    if !out.is_json() {
        out.write(&format!("{id}\n"))?;
    }
    let detail = watch::wait(client, out, id).await?;
    let succeeded = detail.body.row.status == crate::contract::status::RunStatus::Succeeded;
    out.print(&detail, |d| people(&d.body))?;
    Ok(u8::from(!succeeded))
}

async fn stop(client: &Client, out: &Output, args: StopArgs) -> Result<u8, Failure> {
    let StopArgs {
        targets,
        mode,
        grace_ms,
        drain_timeout_ms,
        how,
    } = args;
    let given = [
        ("mode", mode.map(Value::String)),
        ("graceMs", grace_ms.map(|n| json!(n))),
        ("drainTimeoutMs", drain_timeout_ms.map(|n| json!(n))),
    ];
    let given = given
        .into_iter()
        .filter_map(|(name, value)| Some((name.to_owned(), value?)))
        .collect();
    each(
        client,
        out,
        "run.stop",
        executions(targets.ids),
        &given,
        &how,
    )
    .await
}

async fn list(client: &Client, out: &Output, args: ListArgs) -> Result<u8, Failure> {
    let ListArgs {
        workflow,
        status,
        limit,
    } = args;
    if limit == 0 {
        return Err(Failure::new(2, "--limit 0 lists nothing").hint("give 1 or more"));
    }
    let mut all: Option<AsOf<Executions>> = None;
    let mut token = None;
    loop {
        let have = all.as_ref().map_or(0, |a| a.body.executions.len());
        let query = ExecutionsQuery {
            workflow: workflow.clone(),
            status: status.clone(),
            page_size: Some((limit - have).min(PAGE)),
            page_token: token.take(),
        };
        let page: AsOf<Executions> = client.get(&["api", "executions"], &query).await?;
        let all = match all.as_mut() {
            Some(all) => {
                all.body.executions.extend(page.body.executions);
                all.body.next_page_token = page.body.next_page_token;
                all
            }
            None => all.insert(page),
        };
        token.clone_from(&all.body.next_page_token);
        if token.is_none() || all.body.executions.len() >= limit {
            out.print(all, |all| {
                table(&HEADER, all.body.executions.iter().map(row))
            })?;
            return Ok(0);
        }
    }
}

/// Reads an execution.
pub(super) async fn show(client: &Client, id: &str) -> Result<AsOf<ExecutionDetail>, Failure> {
    client.get(&["api", "executions", id], &Value::Null).await
}

const HEADER: [&str; 6] = ["id", "workflow", "status", "priority", "started", "holds"];

fn row(run: &ExecutionRow) -> [String; 6] {
    [
        run.id.to_string(),
        run.workflow.to_string(),
        run.status.to_string(),
        run.priority.to_string(),
        time(run.started_ms),
        holds(&run.holds),
    ]
}

fn holds(holds: &[HoldView]) -> String {
    let texts = holds.iter().map(|hold| match &hold.reason {
        Some(reason) => format!("{} ({reason})", hold.holder),
        None => hold.holder.clone(),
    });
    or_dash(Some(texts.collect::<Vec<_>>().join(", ")).filter(|t| !t.is_empty()))
}

/// Shows an execution.
pub(super) fn people(detail: &ExecutionDetail) -> String {
    let mut text = table(&HEADER, [row(&detail.row)]);
    if !detail.params.is_empty() {
        text.push('\n');
        text.push_str(&table(
            &["param", "value"],
            detail.params.iter().map(|(k, v)| [k.clone(), v.clone()]),
        ));
    }
    if !detail.open_reviews.is_empty() {
        text.push_str(&format!(
            "\nwaits for the reviews {}\n",
            detail.open_reviews.join(", ")
        ));
    }
    let nodes = detail.nodes.iter().map(|node| {
        let end = match (node.exit_code, node.exit_signal) {
            (Some(code), _) => format!("exit {code}"),
            (None, Some(signal)) => format!("signal {signal}"),
            (None, None) => "-".to_owned(),
        };
        let needs: Vec<&str> = node.needs.iter().map(|n| n.as_str()).collect();
        [
            node.id.to_string(),
            node.status.to_string(),
            or_dash(node.why),
            node.attempt.to_string(),
            end,
            or_dash(Some(needs.join(",")).filter(|n| !n.is_empty())),
            or_dash(node.owner.as_ref()),
        ]
    });
    text.push('\n');
    text.push_str(&table(
        &["node", "status", "why", "attempt", "end", "needs", "owner"],
        nodes,
    ));
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_an_execution_and_a_target_stays_one() {
        let ids = ["x1", "workflow:build", "execution:x2"]
            .map(str::to_owned)
            .to_vec();
        assert_eq!(
            executions(ids),
            ["execution:x1", "workflow:build", "execution:x2"]
        );
    }
}
