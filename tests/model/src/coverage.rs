//! Counts what sequences reached, and knows what they must reach.

use std::collections::BTreeMap;
use std::fmt;

use signalbox::contract::outcome::ResultStatus;

use crate::reference::Note;
use crate::seen::Seen;
use crate::step::{Step, Timed};

mod classes;

/// What was reached how often, by class. A class is a short text, for instance
/// `met ENGINE run.stop RUNNING APPLIED` or `refused engine CAUSE_EXPIRED by cause`.
#[derive(Debug, Clone, Default)]
pub struct Coverage {
    counts: BTreeMap<String, u64>,
    /// Who asked in each step of the present sequence.
    asked: Vec<&'static str>,
    /// How many steps were counted.
    steps: u64,
}

impl Coverage {
    /// Begins a new sequence.
    pub fn begin(&mut self) {
        self.asked.clear();
    }

    /// Counts a step with what it showed and what the reference noted.
    pub fn count(&mut self, timed: &Timed, seen: &[Seen], notes: &[Note]) {
        self.steps += 1;
        self.asked.push(match timed.step {
            Step::Directive { .. } => "engine",
            Step::Command { .. } => "operator",
            _ => "save",
        });
        if timed.step == Step::Crash {
            self.hit("a crash".to_owned());
        }
        for seen in seen {
            self.count_seen(seen);
        }
        for note in notes {
            self.hit(match note {
                Note::Met {
                    op,
                    state,
                    outcome,
                    channel,
                } => {
                    format!("met {channel} {} {state} {outcome}", op.as_str())
                }
                Note::Cause(kind, code) => format!("cause {kind} {code}"),
                Note::Review(end) => format!("review {end}"),
                Note::Run(None, to) => format!("run new {to}"),
                Note::Run(Some(from), to) => format!("run {from} {to}"),
                Note::Node(from, to) => format!("node {from} {to}"),
                Note::Rare(what) => (*what).to_owned(),
            });
        }
    }

    fn count_seen(&mut self, seen: &Seen) {
        match seen {
            Seen::Answer { to, reply } => {
                let who = self.asked.get(*to).copied().unwrap_or("save");
                let check = reply
                    .check
                    .as_deref()
                    .map(|c| format!(" by {c}"))
                    .unwrap_or_default();
                match reply.code {
                    Some(code) => self.hit(format!("refused {who} {code}{check}")),
                    None if reply.status == ResultStatus::Done => self.hit(format!("done {who}")),
                    None => {}
                }
                if reply.replayed {
                    self.hit(format!("replayed {who}"));
                }
                if reply.matched.is_some() {
                    self.hit(format!("truncated {who}"));
                }
                if let Some(detail) = reply
                    .targets
                    .iter()
                    .filter_map(|t| t.detail.as_deref())
                    .next()
                {
                    let word = detail.split(' ').next().unwrap_or("");
                    self.hit(format!("detail {word}"));
                }
            }
            Seen::SessionStarted {
                reason,
                open_reviews,
                ..
            } => {
                self.hit(format!("started {reason}"));
                if !open_reviews.is_empty() {
                    self.hit("started with open reviews".to_owned());
                }
            }
            Seen::Event { kind, .. } => self.hit(format!("event {}", kind.as_str())),
            Seen::Goaway { .. } => self.hit("goaway".to_owned()),
            Seen::Review { .. } => self.hit("review asked".to_owned()),
            Seen::Tick { .. } => self.hit("tick".to_owned()),
            Seen::Start { .. } => self.hit("attempt starts".to_owned()),
            Seen::Stop { kill, .. } => {
                self.hit(
                    if *kill {
                        "attempt is killed"
                    } else {
                        "attempt is ended"
                    }
                    .to_owned(),
                );
            }
        }
    }

    fn hit(&mut self, class: String) {
        *self.counts.entry(class).or_default() += 1;
    }

    /// Adds what another has counted.
    pub fn merge(&mut self, other: &Self) {
        self.steps += other.steps;
        for (class, n) in &other.counts {
            *self.counts.entry(class.clone()).or_default() += n;
        }
    }

    /// Gives how often a class was reached.
    #[must_use]
    pub fn of(&self, class: &str) -> u64 {
        self.counts.get(class).copied().unwrap_or(0)
    }

    /// Lists the classes that must be reached and never were.
    #[must_use]
    pub fn missing(&self) -> Vec<String> {
        classes::required()
            .into_iter()
            .filter(|class| self.of(class) == 0)
            .collect()
    }
}

impl fmt::Display for Coverage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{} steps", self.steps)?;
        self.counts
            .iter()
            .try_for_each(|(class, n)| writeln!(f, "{n:>9}  {class}"))
    }
}
