//! What the mix learns from a decision: attempts that run, events that engines see, reviews that are open.

use super::{Mix, PER_MS, Seen};
use signalbox::contract::outcome::Outcome;
use signalbox::contract::time::HostTime;
use signalbox::core::effect::{Decision, Effect, Output, Reply, SessionMessage};
use signalbox::core::input::{Input, Stamp};
use signalbox::core::record::{Entry, Record};

impl Mix {
    /// Gives an input to the core and keeps it.
    pub(super) fn give(&mut self, input: Input) {
        let now = (self.inputs.len() / PER_MS) as u64;
        let stamp = Stamp {
            now: HostTime(now),
            wall: 1_700_000_000_000 + now,
        };
        let decision = self.state.decide(input.clone(), stamp);
        self.inputs.push((input, stamp));
        self.learn(decision);
    }

    fn learn(&mut self, decision: Decision) {
        decision.entries.iter().for_each(|entry| self.event(entry));
        for output in decision.outputs {
            match output {
                Output::Effect(Effect::Start(start)) => {
                    self.attempts
                        .push_back((start.run, start.node, start.attempt));
                }
                Output::Effect(Effect::Stop { .. }) => {}
                Output::Reply {
                    reply: Reply::Answer(answer),
                    ..
                } => {
                    let done = answer
                        .targets
                        .iter()
                        .filter(|t| t.outcome == Outcome::Applied)
                        .count() as u64;
                    self.commands += 1;
                    self.applied +=
                        u64::from(answer.code.is_none() && done >= answer.targets.len() as u64);
                }
                Output::Session {
                    to,
                    message: SessionMessage::Review(question),
                } => {
                    // The sessions are made in the order of the lines.
                    let line = self.sessions.iter().position(|session| *session == to);
                    self.reviews.extend(line.map(|line| (line, question.id)));
                }
                Output::Reply {
                    reply: Reply::Started(start),
                    ..
                } => self.sessions.push(start.session),
                Output::Reply { .. } | Output::Session { .. } => {}
            }
        }
    }

    fn event(&mut self, entry: &Entry) {
        let (run, node, status) = match &entry.record {
            Record::SupervisorSaved { number, .. } => {
                // Numbers are dense, in the order of the lines.
                self.first.get_or_insert(*number as usize);
                return;
            }
            Record::RunCreated { run, workflow, .. } => {
                self.live += 1;
                if workflow.as_str() == "line-8" {
                    self.own.push_back(*run);
                }
                return self.number(entry, None);
            }
            Record::RunStatus { run, to, .. } => {
                self.live -= usize::from(to.is_terminal());
                (*run, None, Some(*to))
            }
            Record::NodeStatus { run, node, to, .. } => (*run, Some((node.clone(), *to)), None),
            _ => return self.number(entry, None),
        };
        self.number(entry, Some((run, node, status)));
    }

    fn number(&mut self, entry: &Entry, what: Option<super::What>) {
        let Some(first) = self.first else { return };
        for (number, cursor) in &entry.to {
            let line = *number as usize - first;
            self.newest[line] = *cursor;
            if let Some((run, node, status)) = what.clone() {
                self.seen[line].push_back(Seen {
                    cursor: *cursor,
                    run,
                    node,
                    status,
                });
            }
        }
    }
}
