//! A mix of inputs as a busy host would see them, made with a core at hand and then kept as a list.
//!
//! Eight lines have an engine each; what nobody owns is the operators'. The mix is made of starts, exits of attempts,
//! commands of engines that cite an event and carry a key, operators' commands with and without a review,
//! acknowledgements and plain time. It depends on nothing but a seed, so the same number of inputs is the same list.

mod define;
mod learn;

use super::Outcome;
use signalbox::contract::directive::{Actor, Body, Command, Directive};
use signalbox::contract::id::{ExecutionId, NodeId, ReviewId, SessionId, SupervisorId};
use signalbox::contract::status::{NodeStatus, RunStatus};
use signalbox::core::input::{Input, Stamp};
use signalbox::core::record::AttemptEnd;
use signalbox::core::state::State;
use std::collections::VecDeque;

/// How many supervisors with an engine there are; each owns one workflow.
const LINES: usize = 8;
/// How many runs there are at once, about.
const RUNS: usize = 200;
/// How many inputs arrive in one millisecond of host time.
const PER_MS: usize = 20;

/// What an event is about: a run, and either one of its nodes or its own status.
type What = (ExecutionId, Option<(NodeId, NodeStatus)>, Option<RunStatus>);

/// What an engine has seen and not yet acted on.
struct Seen {
    cursor: u64,
    run: ExecutionId,
    node: Option<(NodeId, NodeStatus)>,
    status: Option<RunStatus>,
}

/// Makes the inputs one by one.
pub struct Mix {
    state: State,
    inputs: Vec<(Input, Stamp)>,
    random: u64,
    keys: u64,
    attempts: VecDeque<(ExecutionId, NodeId, u32)>,
    /// The number of the first supervisor, and everybody's session.
    first: Option<usize>,
    sessions: Vec<SessionId>,
    seen: Vec<VecDeque<Seen>>,
    newest: Vec<u64>,
    reviews: VecDeque<(usize, ReviewId)>,
    own: VecDeque<ExecutionId>,
    live: usize,
    commands: u64,
    applied: u64,
}

/// Makes `count` inputs, those that set the host up included.
pub fn make(count: usize) -> Outcome<Vec<(Input, Stamp)>> {
    let mut mix = Mix::new();
    mix.set_up()?;
    while mix.inputs.len() < count {
        mix.next()?;
    }
    mix.inputs.truncate(count);
    // A mix of refusals would measure something else.
    if count > 1_000 && mix.applied * 10 < mix.commands * 7 {
        let text = format!(
            "the mix has drifted: {} of {} commands were applied",
            mix.applied, mix.commands
        );
        return Err(text.into());
    }
    Ok(mix.inputs)
}

impl Mix {
    fn new() -> Self {
        Self {
            state: State::default(),
            inputs: Vec::new(),
            random: 0x005e_ed0f_51b0_a11b,
            keys: 0,
            attempts: VecDeque::new(),
            first: None,
            sessions: Vec::new(),
            seen: (0..LINES).map(|_| VecDeque::new()).collect(),
            newest: vec![0; LINES],
            reviews: VecDeque::new(),
            own: VecDeque::new(),
            live: 0,
            commands: 0,
            applied: 0,
        }
    }

    /// Draws a number below `below`.
    fn draw(&mut self, below: u64) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random % below
    }

    fn next(&mut self) -> Outcome<()> {
        match self.draw(100) {
            0..40 if !self.attempts.is_empty() => self.exit(),
            40..66 => self.engine(),
            66..74 => self.operator(),
            74..84 => self.acknowledge(),
            84..90 => {
                self.give(Input::Time);
                Ok(())
            }
            90..96 if !self.reviews.is_empty() => self.verdict(),
            _ if self.live < RUNS => self.start(),
            _ => self.exit(),
        }
    }

    /// An attempt ends, one in ten badly.
    fn exit(&mut self) -> Outcome<()> {
        let Some((run, node, attempt)) = self.attempts.pop_front() else {
            return self.start();
        };
        let end = AttemptEnd::Code(i32::from(self.draw(10) == 0));
        self.give(Input::Ended {
            run,
            node,
            attempt,
            end,
        });
        Ok(())
    }

    /// An operator starts a run, an own one or one of a line, which its engine reviews.
    fn start(&mut self) -> Outcome<()> {
        let line = self.draw(LINES as u64 + 4).min(LINES as u64);
        self.command(
            "run.start",
            &format!("workflow:line-{line}"),
            serde_json::json!({"priority": line % 3}),
        )
    }

    /// An operator pauses or resumes an own run.
    fn operator(&mut self) -> Outcome<()> {
        let live = |state: &State, run: &ExecutionId| {
            state
                .durable()
                .run(*run)
                .is_some_and(|r| !r.status.is_terminal())
        };
        while let Some(run) = self.own.pop_front() {
            if !live(&self.state, &run) {
                continue;
            }
            self.own.push_back(run);
            let held = self
                .state
                .durable()
                .run(run)
                .is_some_and(|r| !r.holds.is_empty());
            let op = if held { "run.resume" } else { "run.pause" };
            return self.command(op, &format!("execution:{run}"), serde_json::json!({}));
        }
        self.start()
    }

    fn command(&mut self, op: &str, target: &str, args: serde_json::Value) -> Outcome<()> {
        let key = Some(self.key());
        let command = Command {
            op: op.to_owned(),
            target: target.to_owned(),
            args: serde_json::from_value(args)?,
            if_status: None,
        };
        self.give(Input::Command {
            reply: 1,
            actor: actor(),
            command: Box::new(command),
            reason: Some("as planned".into()),
            key,
        });
        Ok(())
    }

    /// An engine answers the newest event that it has not acted on.
    fn engine(&mut self) -> Outcome<()> {
        let line = usize::try_from(self.draw(LINES as u64))?;
        let Some(seen) = self.seen[line].pop_back() else {
            return self.acknowledge();
        };
        self.seen[line].truncate(64);
        let run = seen.run;
        let execution = format!("execution:{run}");
        let (op, target) = match (&seen.node, seen.status) {
            (Some((node, NodeStatus::Failed)), _) => ("node.retry", format!("node:{run}/{node}")),
            (_, Some(RunStatus::Running)) => ("run.pause", execution),
            (_, Some(RunStatus::Pausing | RunStatus::Paused)) => ("run.resume", execution),
            (_, Some(_)) if self.live < RUNS => ("run.start", format!("workflow:line-{line}")),
            _ => return self.pass(line, seen.cursor),
        };
        let body = Body::Command(Command {
            op: op.to_owned(),
            target,
            args: Default::default(),
            if_status: None,
        });
        self.direct(line, Some(format!("event:e-{}", seen.cursor)), body)
    }

    /// An engine says that an event calls for nothing.
    fn pass(&mut self, line: usize, cursor: u64) -> Outcome<()> {
        let body = Body::NoOpinion { answers: None };
        self.direct(line, Some(format!("event:e-{cursor}")), body)
    }

    fn verdict(&mut self) -> Outcome<()> {
        let Some((line, review)) = self.reviews.pop_front() else {
            return self.exit();
        };
        let verdict = if self.draw(10) == 0 { "deny" } else { "allow" };
        let body = Body::ReviewVerdict {
            answers: review.to_string(),
            verdict: verdict.into(),
        };
        self.direct(line, None, body)
    }

    fn direct(&mut self, line: usize, cause: Option<String>, body: Body) -> Outcome<()> {
        let key = match &body {
            Body::ReviewVerdict { .. } => None,
            _ => Some(self.key()),
        };
        let directive = Directive {
            key,
            cause,
            reason: None,
            dry_run: false,
            body,
        };
        let session = self.sessions.get(line).copied();
        self.give(Input::Directive {
            reply: 2,
            supervisor: supervisor(line)?,
            session,
            directive: Box::new(directive),
            delivered: None,
        });
        Ok(())
    }

    fn acknowledge(&mut self) -> Outcome<()> {
        let line = usize::try_from(self.draw(LINES as u64))?;
        self.give(Input::Acknowledge {
            supervisor: supervisor(line)?,
            cursor: self.newest[line],
        });
        Ok(())
    }

    fn key(&mut self) -> String {
        self.keys += 1;
        format!("key-{:08}", self.keys)
    }
}

fn supervisor(line: usize) -> Outcome<SupervisorId> {
    Ok(format!("line-{line}").parse()?)
}

fn actor() -> Actor {
    Actor {
        kind: "KEY".into(),
        id: "ops".into(),
    }
}
