//! The naive reference of the core.
//!
//! It keeps the whole history as lists of plain facts, each with the time of the step that made it, and
//! answers every question by scanning them: who owns a unit, which session is live, what a key answered, how
//! often a cause was cited, how a run stands. Nothing is kept in an index, and no state is updated in place:
//! a run's [`view::RunView`] is folded anew from its whole log after every fact. Clarity comes before speed.
//!
//! Absent on purpose: the journal, audit, retention, and everything of a session that is not a decision.

use std::rc::Rc;

use signalbox::contract::directive::Actor;
use signalbox::contract::id::SupervisorId;

use crate::seen::Seen;
use crate::step::{Settings, Step, Timed};

mod act;
mod deadlines;
mod directives;
mod events;
mod history;
mod judge;
mod known;
mod operators;
mod ownership;
mod reviews;
mod sessions;
mod settle;
mod summary;
pub mod view;

#[cfg(test)]
mod tests;

use history::History;
pub use history::Note;
pub use summary::{RunSummary, Summary};

/// The reference: give it steps, compare what it says is seen.
#[derive(Debug)]
pub struct Reference {
    settings: Settings,
    history: History,
    /// The time of the present step.
    now: u64,
    /// The index of the present step.
    index: usize,
    seen: Vec<Seen>,
    notes: Vec<Note>,
}

/// Who gives a command.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Caller {
    Engine(SupervisorId),
    Operator(Actor),
    System,
}

impl Caller {
    fn channel(&self) -> &'static str {
        match self {
            Self::Engine(_) => "ENGINE",
            Self::Operator(_) => "OPERATOR",
            Self::System => "SYSTEM",
        }
    }

    fn actor(&self) -> String {
        match self {
            Self::Engine(id) => format!("supervisor:{id}"),
            Self::Operator(actor) => actor.to_string(),
            Self::System => "SYSTEM".to_owned(),
        }
    }

    /// The name under which it holds a run.
    fn holder(&self) -> String {
        match self {
            Self::Operator(actor) => format!("person:{actor}"),
            other => other.actor(),
        }
    }
}

/// Where a change comes from, as events show it.
#[derive(Debug, Clone)]
struct By {
    caller: Caller,
    cause: Option<String>,
    reason: Option<String>,
}

impl Reference {
    /// Opens an empty host at time 0.
    #[must_use]
    pub fn new(settings: Settings) -> Self {
        Self {
            settings,
            history: History::opened(),
            now: 0,
            index: 0,
            seen: Vec::new(),
            notes: Vec::new(),
        }
    }

    /// Decides what is due, then the step; gives what is seen of both.
    pub fn step(&mut self, timed: &Timed) -> Vec<Seen> {
        self.now = timed.now;
        if timed.step == Step::Crash {
            self.lose_what_is_transient();
        }
        self.decide_what_is_due();
        self.send_ticks();
        match &timed.step {
            Step::SaveWorkflow { def } => self.save_workflow(def),
            Step::SaveSupervisor { def } => self.save_supervisor(def),
            Step::Hello {
                supervisor,
                resume,
                signals,
                tick_ms,
            } => {
                self.hello(supervisor, *resume, signals.as_deref(), *tick_ms);
            }
            Step::Disconnect { supervisor } => self.end_session(supervisor),
            Step::Directive {
                supervisor,
                session,
                unary,
                directive,
                cause_delivered,
            } => {
                let reply =
                    self.directive(supervisor, *session, *unary, directive, *cause_delivered);
                self.answer(self.index, reply);
            }
            Step::Command {
                actor,
                command,
                reason,
                key,
            } => {
                self.operator_command(actor, command, reason.as_deref(), key.as_deref());
            }
            Step::Report {
                execution,
                node,
                attempt,
                exit,
            } => self.report(*execution, node, *attempt, *exit),
            Step::Ack { supervisor, cursor } => self.ack(supervisor, *cursor),
            Step::Time | Step::Crash => {}
        }
        self.fill_slots();
        self.index += 1;
        std::mem::take(&mut self.seen)
    }

    /// Gives the index that the next step will have.
    #[must_use]
    pub fn next_index(&self) -> usize {
        self.index
    }

    /// Gives how a run stands.
    #[must_use]
    pub fn run(&self, run: u64) -> Option<Rc<view::RunView>> {
        self.history.run(run)
    }

    /// Takes what was noted for the coverage since the last call: things that nobody outside sees.
    pub fn take_notes(&mut self) -> Vec<Note> {
        std::mem::take(&mut self.notes)
    }

    fn see(&mut self, seen: Seen) {
        self.seen.push(seen);
    }

    fn answer(&mut self, to: usize, reply: crate::seen::Reply) {
        self.see(Seen::Answer { to, reply });
    }
}
