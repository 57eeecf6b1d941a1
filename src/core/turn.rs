//! One turn: an input, everything that follows from it, and what leaves.
//!
//! The order within a turn: what is due, in the order of its time; the input; then slots. What follows
//! from a change of a run is settled right after the change (see [`super::runs`]).

use std::collections::VecDeque;

use super::audit::AuditEntry;
use super::effect::{Decision, Effect, Output, Refusal, Reply};
use super::fault::{self, Fault};
use super::input::{Input, Stamp, Token};
use super::record::{By, Channel, Entry, Record};
use super::state::Sender;
use super::state::State;
use super::state::index::Due;
use super::{interlocking, requests, runs, supervisors};
use crate::contract::outcome::Answer;
use crate::contract::time::HostTime;

/// The state being changed by one input, and what came of it so far.
pub(super) struct Turn<'a> {
    state: &'a mut State,
    /// The time of the input.
    pub now: HostTime,
    wall: u64,
    out: Decision,
    /// What is decided now became due while the host was down.
    pub host_down: bool,
}

impl State {
    /// Decides one input: changes the state and returns the records that did so, and what leaves once
    /// they are durable. An earlier time than the last one counts as that.
    pub fn decide(&mut self, input: Input, at: Stamp) -> Decision {
        let now = at.now.max(self.durable().now);
        let mut turn = Turn {
            state: self,
            now,
            wall: at.wall,
            out: Decision::default(),
            host_down: false,
        };
        if let Input::Opened {
            boot,
            monotonic,
            settings,
        } = &input
        {
            turn.state.transient = super::state::Transient {
                opened_at: now,
                ..Default::default()
            };
            turn.emit(Record::Opened {
                boot: boot.clone(),
                monotonic: *monotonic,
                settings: settings.clone(),
            });
            turn.host_down = true;
        }
        turn.run_due();
        turn.host_down = false;
        supervisors::tick::send_due(&mut turn);
        turn.flush_refusals();
        turn.take(input);
        runs::slots::fill(&mut turn);
        turn.out
    }

    /// Returns when the next thing is due by itself.
    #[must_use]
    pub fn next_due(&self) -> Option<HostTime> {
        let due = self.index().due.first().map(|(at, _)| *at);
        let tick = self.transient.next_ticks.first().map(|(at, _)| *at);
        let row = self
            .transient
            .refusals
            .keys()
            .next()
            .map(|(second, ..)| HostTime((second + 1) * 1_000));
        [due, tick, row].into_iter().flatten().min()
    }
}

impl Turn<'_> {
    /// Returns the state as it is now.
    pub fn state(&self) -> &State {
        self.state
    }

    /// Returns the forgettable part, to change it.
    pub fn transient(&mut self) -> &mut super::state::Transient {
        &mut self.state.transient
    }

    /// Returns the number of the owner of a target.
    pub fn owner_of(&self, one: &runs::act::One) -> Option<u32> {
        interlocking::owner_of(self.state.durable(), one)
    }

    /// Returns the wall time, unix milliseconds.
    pub fn wall(&self) -> u64 {
        self.wall
    }

    /// Makes a fact: routes it, applies it, and keeps it for the journal.
    pub fn emit(&mut self, record: Record) {
        let to = supervisors::route::readers(self.state.durable(), &record);
        self.emit_to(record, &to);
    }

    /// Makes a fact for these readers.
    pub fn emit_to(&mut self, record: Record, readers: &[u32]) {
        let kind = record.kind();
        let durable = self.state.durable();
        let to = readers
            .iter()
            .filter_map(|number| durable.supervisors.get(number))
            .filter(|s| !s.def.is_gateway() && kind.is_some_and(|k| s.def.streams(k)))
            .map(|s| (s.number, s.last_cursor + 1))
            .collect();
        let entry = Entry {
            seq: durable.seq + 1,
            time: self.now,
            wall: self.wall,
            to,
            record,
        };
        self.state.apply(&entry);
        self.out.entries.push(entry);
    }

    /// Adds an audit row with the turn's time.
    pub fn audit(&mut self, row: AuditEntry) {
        let row = AuditEntry {
            time: self.now,
            wall_ms: self.wall,
            host_down: self.host_down,
            ..row.bounded()
        };
        self.out.audit.push(row);
    }

    /// Sends something once the facts so far are durable.
    pub fn send(&mut self, output: Output) {
        self.out.outputs.push(output);
    }

    /// Gives the runtime something to do.
    pub fn effect(&mut self, effect: Effect) {
        self.send(Output::Effect(effect));
    }

    /// Answers a caller.
    pub fn reply(&mut self, to: Token, reply: Reply) {
        self.send(Output::Reply { to, reply });
    }

    /// Answers a directive or command.
    pub fn answer(&mut self, to: Token, answer: Answer) {
        self.reply(to, Reply::Answer(Box::new(answer)));
    }

    /// Refuses something that is neither a directive nor a command.
    pub fn refuse(&mut self, to: Token, refusal: Refusal) {
        self.reply(to, Reply::Refused(Box::new(refusal)));
    }

    /// Notes a message of a sender and says whether it comes too fast: the one `rate` messages before
    /// it came less than a second ago. Refused messages count too.
    pub fn floods(&mut self, sender: Sender, rate: u32) -> bool {
        let now = self.now;
        let rate = rate as usize + usize::from(fault::on(Fault::FloodOffByOne));
        let times: &mut VecDeque<HostTime> = self.state.transient.floods.entry(sender).or_default();
        let over =
            times.len() >= rate && times.front().is_some_and(|first| now.since(*first) < 1_000);
        if over && fault::on(Fault::FloodCountsAcceptedOnly) {
            return over;
        }
        while times.len() >= rate.max(1) {
            times.pop_front();
        }
        times.push_back(now);
        over
    }

    /// Counts a refusal that has one audit row per sender, check and second.
    pub fn count_refusal(&mut self, row: AuditEntry, check: &'static str) {
        let key = (self.now.0 / 1_000, row.actor.clone(), check);
        let row = AuditEntry {
            time: self.now,
            wall_ms: self.wall,
            ..row.bounded()
        };
        self.state
            .transient
            .refusals
            .entry(key)
            .or_insert((0, row))
            .0 += 1;
    }

    fn flush_refusals(&mut self) {
        let second = self.now.0 / 1_000;
        while let Some(entry) = self
            .state
            .transient
            .refusals
            .first_entry()
            .filter(|e| e.key().0 < second)
        {
            let (count, row) = entry.remove();
            self.out.audit.push(AuditEntry {
                count: Some(count),
                ..row
            });
        }
    }

    fn run_due(&mut self) {
        self.state.wake_retries(self.now);
        while let Some((at, due)) = self.state.index().due.first().copied() {
            if at > self.now {
                break;
            }
            match due {
                Due::Review(id) => requests::review::time_out(self, id),
                Due::RunTimeout(run) => runs::stop::time_out(self, run),
                Due::DrainLimit(run) => runs::stop::end_drain(self, run),
                Due::Kill(run, node) => runs::attempt::kill(self, run, node),
                Due::AttemptTimeout(run, node) => runs::attempt::time_out(self, run, node),
                Due::Retry(run, node) => self.state.retry_is_due(at, run, node),
            }
            runs::slots::fill(self);
        }
    }

    fn take(&mut self, input: Input) {
        match input {
            // Both have had their say before anything else.
            Input::Opened { .. } | Input::Time => {}
            Input::SaveSupervisor {
                reply,
                def,
                source,
                actor,
            } => {
                supervisors::save::supervisor(self, reply, &def, source, &actor);
            }
            Input::SaveWorkflow {
                reply,
                def,
                source,
                actor,
            } => {
                supervisors::save::workflow(self, reply, &def, source, &actor);
            }
            Input::IssueCredential {
                reply,
                credential,
                replace,
                actor,
            } => {
                supervisors::save::credential(self, reply, *credential, replace, &actor);
            }
            Input::Hello {
                reply,
                supervisor,
                tick_period,
                reviews,
            } => {
                supervisors::session::hello(self, reply, &supervisor, tick_period, reviews);
            }
            Input::Disconnected {
                supervisor,
                session,
            } => {
                supervisors::session::disconnected(self, &supervisor, session);
            }
            Input::Directive {
                reply,
                supervisor,
                session,
                directive,
                delivered,
            } => {
                interlocking::engine::direct(
                    self,
                    reply,
                    &supervisor,
                    session,
                    &directive,
                    delivered,
                );
            }
            Input::Acknowledge { supervisor, cursor } => {
                supervisors::session::acknowledge(self, &supervisor, cursor);
            }
            Input::Fault { supervisor, signal } => {
                requests::review::fault(self, &supervisor, &signal)
            }
            Input::Command {
                reply,
                actor,
                command,
                reason,
                key,
            } => {
                interlocking::operator::command(self, reply, &actor, &command, reason, key);
            }
            Input::Ended {
                run,
                node,
                attempt,
                end,
            } => runs::attempt::ended(self, run, &node, attempt, end),
        }
    }
}

/// Says that the host itself did it.
pub(super) fn by_system(reason: &str) -> By {
    By {
        channel: Channel::System,
        actor: "SYSTEM".to_owned(),
        cause: None,
        reason: Some(reason.to_owned()),
    }
}
