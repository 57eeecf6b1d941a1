//! What the demo prints: a line an event, a bar where somebody looks at a terminal, the decisions at the end.

use std::collections::BTreeMap;
use std::io::IsTerminal as _;

use comfy_table::{ContentArrangement, Table, presets};
use indicatif::{ProgressBar, ProgressStyle};

use crate::contract::signal::{Event, EventKind};
use crate::core::audit::AuditEntry;

/// Shows a run as it goes.
pub(super) struct Show {
    bar: Option<ProgressBar>,
    nodes: BTreeMap<String, bool>,
}

impl Show {
    /// Looks whether somebody looks.
    pub fn new() -> Self {
        let bar = std::io::stdout().is_terminal().then(|| {
            let bar = ProgressBar::new(0);
            if let Ok(style) =
                ProgressStyle::with_template("{spinner} {bar:30} {pos}/{len} nodes  {msg}")
            {
                bar.set_style(style);
            }
            bar
        });
        Self {
            bar,
            nodes: BTreeMap::new(),
        }
    }

    /// Prints a line above the bar.
    pub fn line(&self, text: &str) {
        match &self.bar {
            Some(bar) => bar.println(text),
            None => println!("{text}"),
        }
    }

    /// Takes the bar away.
    pub fn done(&mut self) {
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
        }
    }

    /// Shows an event of the run.
    pub fn event(&mut self, event: &Event) {
        let status = event.status.as_deref().unwrap_or_default();
        let why = event
            .reason
            .as_ref()
            .or(event.why.as_ref())
            .map(|w| format!(" ({w})"))
            .unwrap_or_default();
        let by = event
            .actor
            .as_ref()
            .map(|a| format!(" by {a}"))
            .unwrap_or_default();
        match (event.kind, &event.node) {
            (EventKind::NodeStatus, Some(node)) => {
                let attempt = event.attempt.unwrap_or_default();
                let done = matches!(status, "SUCCEEDED" | "SKIPPED");
                self.nodes.insert(node.to_string(), done);
                self.advance(node.as_str(), status);
                // That a node may start, or waits again, follows from the rest.
                if !matches!(status, "READY" | "PENDING") || !by.is_empty() {
                    let exit = event
                        .exit_code
                        .filter(|c| *c != 0)
                        .map(|c| format!(", exit {c}"))
                        .unwrap_or_default();
                    self.line(&format!(
                        "  {node:<8} {status} attempt {attempt}{exit}{by}{why}"
                    ));
                }
            }
            (EventKind::WorkflowStatus, _) => self.line(&format!("run {status}{by}{why}")),
            _ => {}
        }
    }

    fn advance(&self, node: &str, status: &str) {
        if let Some(bar) = &self.bar {
            bar.set_length(self.nodes.len().max(1) as u64);
            bar.set_position(self.nodes.values().filter(|done| **done).count() as u64);
            bar.set_message(format!("{node} {status}"));
            bar.tick();
        }
    }
}

/// Prints the audit rows of a run as a table.
pub(super) fn decisions(rows: &[AuditEntry], execution: &str) {
    let mut table = Table::new();
    table
        .load_style(presets::UTF8_HORIZONTAL_ONLY)
        .set_content_arrangement(ContentArrangement::Dynamic);
    table.set_header(["who", "what", "target", "outcome", "cause", "why"]);
    let concerns = |row: &&AuditEntry| {
        let target = row.target.as_deref().unwrap_or_default();
        let names = |text: &str| text.split([':', '/', ',']).any(|part| part == execution);
        names(target)
            || row
                .detail
                .as_deref()
                .is_some_and(|d| d.contains(&format!("of {execution}:")))
    };
    for row in rows.iter().filter(concerns) {
        let what = match (row.kind.as_str(), &row.op) {
            ("verdict", Some(op)) => format!("verdict on {op}"),
            ("refusal", Some(op)) => format!("{op} refused"),
            (_, Some(op)) => op.clone(),
            (kind, None) => kind.to_owned(),
        };
        let why = row
            .reason
            .as_ref()
            .or(row.detail.as_ref())
            .cloned()
            .unwrap_or_default();
        let cause = row.cause.clone().unwrap_or_default();
        let cause = if row.initiative {
            format!("{cause} (own)")
        } else {
            cause
        };
        table.add_row([
            row.actor.clone(),
            what,
            row.target.clone().unwrap_or_default(),
            row.outcome.clone().unwrap_or_default(),
            cause,
            why,
        ]);
    }
    println!("\nDecisions about {execution}, with their causes:\n{table}");
}
