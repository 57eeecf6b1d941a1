//! `audit`.

use super::Failure;
use super::args::AuditArgs;
use super::client::Client;
use super::output::{Output, or_dash, table, time};
use crate::operators::view::{AsOf, Audit, AuditQuery, AuditRowView};

/// The most rows of one request.
const PAGE: usize = 1_000;

/// Runs `audit`.
pub(super) async fn run(client: &Client, out: &Output, args: &AuditArgs) -> Result<u8, Failure> {
    let AuditArgs {
        after,
        limit,
        execution,
        kind,
    } = args;
    let mut query = AuditQuery {
        after: *after,
        limit: Some((*limit).clamp(1, PAGE)),
        execution: execution.clone(),
        kind: kind.clone(),
    };
    let mut all: AsOf<Audit> = client.get(&["api", "audit"], &query).await?;
    while all.body.more && all.body.rows.len() < *limit {
        query.after = Some(all.body.next);
        query.limit = Some((limit - all.body.rows.len()).min(PAGE));
        let page: AsOf<Audit> = client.get(&["api", "audit"], &query).await?;
        all.body.rows.extend(page.body.rows);
        (all.body.next, all.body.more, all.body.head) =
            (page.body.next, page.body.more, page.body.head);
    }
    out.print(&all, |all| {
        let header = [
            "no", "time", "kind", "actor", "op", "target", "outcome", "check", "cause", "detail",
            "reason",
        ];
        table(&header, all.body.rows.iter().map(row))
    })?;
    Ok(0)
}

fn row(row: &AuditRowView) -> [String; 11] {
    let entry = &row.entry;
    let detail = match entry.count {
        Some(count) => Some(format!(
            "{} times: {}",
            count,
            entry.detail.as_deref().unwrap_or("-")
        )),
        None => entry.detail.clone(),
    };
    [
        row.no.to_string(),
        time(entry.wall_ms),
        entry.kind.clone(),
        entry.actor.clone(),
        or_dash(entry.op.as_ref()),
        or_dash(entry.target.as_ref()),
        or_dash(entry.outcome.as_ref()),
        or_dash(entry.check.as_ref()),
        or_dash(entry.cause.as_ref()),
        or_dash(detail),
        or_dash(entry.reason.as_ref()),
    ]
}
