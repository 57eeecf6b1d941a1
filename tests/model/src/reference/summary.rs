//! How everything stands, to compare at the end of a sequence.

use std::collections::BTreeMap;
use std::fmt;

use super::Reference;
use super::view::NodeView;
use signalbox::contract::status::{NodeStatus, Why};

/// How one run stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunSummary {
    /// Its number.
    pub id: u64,
    /// Its workflow.
    pub workflow: String,
    /// Its status.
    pub status: String,
    /// Its priority.
    pub priority: i32,
    /// How many commands were applied to it.
    pub order: u64,
    /// Its holders, the oldest first.
    pub holds: Vec<String>,
    /// By node: its status, its why if any, and its attempt, as in `SKIPPED upstream 0`.
    pub nodes: BTreeMap<String, String>,
}

/// How everything stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Summary {
    /// All runs, the oldest first.
    pub runs: Vec<RunSummary>,
    /// By supervisor: the number of the last event in its stream; without those whose stream is empty.
    pub cursors: BTreeMap<String, u64>,
    /// The numbers of the open reviews.
    pub open_reviews: Vec<u64>,
}

impl NodeView {
    /// The status in a word or two: SKIPPED comes with its why.
    pub(super) fn label(&self) -> String {
        match (self.status, self.why) {
            (NodeStatus::Skipped, Some(why)) => format!("{} {why}", self.status),
            _ => self.status.to_string(),
        }
    }
}

impl Reference {
    /// Sums up how everything stands.
    #[must_use]
    pub fn state(&self) -> Summary {
        let node = |n: &NodeView| {
            let why = n.why.map_or("", Why::as_str);
            format!("{} {why} {}", n.status, n.attempt).replace("  ", " ")
        };
        let run = |r: &std::rc::Rc<super::view::RunView>| RunSummary {
            id: r.id,
            workflow: r.def.id.to_string(),
            status: r.status.to_string(),
            priority: r.priority,
            order: r.order,
            holds: r.holds.clone(),
            nodes: r
                .nodes
                .iter()
                .map(|(id, n)| (id.to_string(), node(n)))
                .collect(),
        };
        let cursors = self
            .supervisors()
            .into_iter()
            .map(|s| (s.id.to_string(), self.last_cursor(&s.id)));
        Summary {
            runs: self.history.all_runs().map(run).collect(),
            cursors: cursors.filter(|(_, n)| *n > 0).collect(),
            open_reviews: self.open_reviews(None).iter().map(|r| r.id).collect(),
        }
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for r in &self.runs {
            write!(
                f,
                "x{} {} {} priority {} order {}",
                r.id, r.workflow, r.status, r.priority, r.order
            )?;
            writeln!(f, " holds [{}]", r.holds.join(", "))?;
            r.nodes
                .iter()
                .try_for_each(|(id, n)| writeln!(f, "    {id}: {n}"))?;
        }
        writeln!(
            f,
            "cursors {:?}, open reviews {:?}",
            self.cursors, self.open_reviews
        )
    }
}
