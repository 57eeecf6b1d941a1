//! `run logs`.

use std::collections::BTreeMap;
use std::time::Duration;

use super::args::LogsArgs;
use super::client::Client;
use super::output::{Output, safe};
use super::{Failure, runs};
use crate::operators::LogStream;
use crate::operators::view::{AsOf, ExecutionDetail, LogView, LogsQuery};

/// How often a log that grows is read again.
const EVERY: Duration = Duration::from_millis(500);

/// One log and how far it was read.
type Places = BTreeMap<(String, u32, &'static str), u64>;

/// Runs `run logs`.
pub(super) async fn run(client: &Client, out: &Output, args: &LogsArgs) -> Result<u8, Failure> {
    let mut places = Places::new();
    let mut printer = Printer {
        out,
        last: None,
        one: args.node.is_some(),
    };
    loop {
        let detail = runs::show(client, &args.id).await?;
        let (ended, mut more) = (detail.body.row.status.is_terminal(), false);
        for (node, attempt) in wanted(&detail.body, args)? {
            for stream in [LogStream::Stdout, LogStream::Stderr] {
                more |= read(
                    client,
                    args,
                    &mut places,
                    &mut printer,
                    &node,
                    attempt,
                    stream,
                )
                .await?;
            }
        }
        if !args.follow || (ended && !more) {
            return Ok(0);
        }
        if !more {
            tokio::time::sleep(EVERY).await;
        }
    }
}

/// Returns the nodes whose logs are wanted, with the attempt.
fn wanted(detail: &ExecutionDetail, args: &LogsArgs) -> Result<Vec<(String, u32)>, Failure> {
    if let Some(node) = &args.node
        && !detail.nodes.iter().any(|n| n.id.as_str() == node)
    {
        let names: Vec<&str> = detail.nodes.iter().map(|n| n.id.as_str()).collect();
        return Err(
            Failure::new(5, format!("`{}` has no node `{node}`", args.id))
                .hint(format!("it has {}", names.join(", "))),
        );
    }
    let nodes = detail
        .nodes
        .iter()
        .filter(|n| n.started && args.node.as_deref().is_none_or(|w| n.id.as_str() == w));
    // A node that is to be tried again has the number of an attempt that has not begun.
    Ok(nodes
        .map(|n| (n.id.to_string(), args.attempt.unwrap_or(n.attempt)))
        .collect())
}

/// Reads what is new in one log; says whether there was anything.
async fn read(
    client: &Client,
    args: &LogsArgs,
    places: &mut Places,
    printer: &mut Printer<'_>,
    node: &str,
    attempt: u32,
    stream: LogStream,
) -> Result<bool, Failure> {
    let name = match stream {
        LogStream::Stdout => "stdout",
        LogStream::Stderr => "stderr",
    };
    let place = (node.to_owned(), attempt, name);
    let after = places.get(&place).copied();
    let query = LogsQuery {
        node: Some(node.to_owned()),
        attempt: Some(attempt),
        stream: Some(stream),
        tail: Some(args.tail),
        after,
    };
    let read: Result<AsOf<LogView>, Failure> = client
        .get(&["api", "executions", &args.id, "logs"], &query)
        .await;
    let view = match read {
        Ok(view) => view,
        // An attempt that is about to begin has no log yet.
        Err(failure) if failure.code.as_deref() == Some("NOT_FOUND") && args.attempt.is_none() => {
            return Ok(false);
        }
        Err(failure) => return Err(failure),
    };
    let news = after.is_none_or(|after| view.body.next > after) && !view.body.text.is_empty();
    places.insert(place, view.body.next);
    if news {
        printer.print(&view)?;
    }
    Ok(news)
}

struct Printer<'a> {
    out: &'a Output,
    last: Option<(String, u32, LogStream)>,
    one: bool,
}

impl Printer<'_> {
    fn print(&mut self, view: &AsOf<LogView>) -> Result<(), Failure> {
        if self.out.is_json() {
            return self.out.line(view, |_| String::new());
        }
        let log = &view.body;
        let name = (log.node.to_string(), log.attempt, log.stream);
        if self.last.as_ref() != Some(&name)
            && !(self.one && log.stream == LogStream::Stdout && self.last.is_none())
        {
            let stream = match log.stream {
                LogStream::Stdout => "stdout",
                LogStream::Stderr => "stderr",
            };
            self.out.write(&format!(
                "==> {} attempt {} {stream} <==\n",
                safe(&name.0),
                name.1
            ))?;
        }
        self.last = Some(name);
        if log.truncated {
            eprintln!(
                "(earlier output of {} is left out; ask for more with --tail)",
                safe(log.node.as_str())
            );
        }
        self.out.program(&log.text)?;
        if !log.text.ends_with('\n') && !log.running {
            self.out.write("\n")?;
        }
        Ok(())
    }
}
