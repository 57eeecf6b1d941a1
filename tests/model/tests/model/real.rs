//! The real core, driven by the model's steps and seen from outside.

use std::collections::BTreeMap;

use signalbox::contract::code::Code;
use signalbox::contract::id::{ExecutionId, SessionId};
use signalbox::contract::time::HostTime;
use signalbox::core::effect::{Decision, Effect, Output, Refusal, Reply, SessionMessage};
use signalbox::core::input::{Input, Stamp};
use signalbox::core::projection;
use signalbox::core::record::{self, AttemptEnd, Entry, Source};
use signalbox::core::state::{Durable, State};
use signalbox_model::seen::{Reply as SeenReply, Seen, fields_of};
use signalbox_model::step::{Exit, Resume, Settings, Step, Timed};

/// The core with the journal that it would have written.
pub struct Real {
    settings: Settings,
    state: State,
    journal: Vec<Vec<u8>>,
    steps: usize,
    resumes: BTreeMap<usize, Resume>,
}

impl Real {
    /// Opens a host at time 0.
    pub fn new(settings: &Settings) -> Self {
        let mut real = Self {
            settings: settings.clone(),
            state: State::default(),
            journal: Vec::new(),
            steps: 0,
            resumes: BTreeMap::new(),
        };
        real.open(0);
        real
    }

    fn open(&mut self, now: u64) -> Vec<Seen> {
        let s = &self.settings;
        let settings = record::Settings {
            max_running_runs: s.max_running_runs,
            max_running_nodes: s.max_running_nodes,
            max_queued_runs: s.max_queued_runs,
            review_timeout_ms: s.review_timeout_ms,
            default_enabled: s.default_enabled,
            operator_rate: 200,
        };
        let input = Input::Opened {
            boot: "boot".into(),
            monotonic: now,
            settings,
        };
        self.decide(input, now)
    }

    fn decide(&mut self, input: Input, now: u64) -> Vec<Seen> {
        let at = Stamp {
            now: HostTime(now),
            wall: 1_000_000 + now,
        };
        let decision = self.state.decide(input, at);
        self.state
            .check()
            .expect("the index is what the durable state says");
        self.keep(&decision);
        self.seen(decision)
    }

    fn keep(&mut self, decision: &Decision) {
        for entry in &decision.entries {
            let mut bytes = Vec::new();
            entry
                .encode_into(&mut bytes)
                .expect("records can be stored");
            self.journal.push(bytes);
        }
    }

    /// Does one step and says what is seen of it.
    pub fn step(&mut self, timed: &Timed) -> Vec<Seen> {
        let index = self.steps;
        self.steps += 1;
        let Timed { now, step } = timed;
        let reply = index as u64;
        let actor = || signalbox::contract::directive::Actor {
            kind: "KEY".into(),
            id: "admin".into(),
        };
        let input = match step.clone() {
            Step::SaveWorkflow { def } => Input::SaveWorkflow {
                reply,
                def: Box::new(def),
                source: Source::Api,
                actor: actor(),
            },
            Step::SaveSupervisor { def } => Input::SaveSupervisor {
                reply,
                def: Box::new(def),
                source: Source::Api,
                actor: actor(),
            },
            Step::Hello {
                supervisor,
                resume,
                signals,
                tick_ms,
            } => {
                self.resumes.insert(index, resume);
                let reviews = signals.is_none_or(|named| named.iter().any(|s| s == "Review"));
                Input::Hello {
                    reply,
                    supervisor,
                    tick_period: tick_ms,
                    reviews,
                }
            }
            Step::Disconnect { supervisor } => {
                let durable = self.state.durable();
                let number = durable.numbers.get(&supervisor).copied();
                let live = self.state.live_sessions().find(|(n, _)| Some(*n) == number);
                let Some((_, session)) = live else {
                    return self.decide(Input::Time, *now);
                };
                Input::Disconnected {
                    supervisor,
                    session,
                }
            }
            Step::Directive {
                supervisor,
                session,
                unary: _,
                directive,
                cause_delivered,
            } => Input::Directive {
                reply,
                supervisor,
                session: session.map(SessionId),
                directive: Box::new(directive),
                delivered: cause_delivered.map(HostTime),
            },
            Step::Command {
                actor,
                command,
                reason,
                key,
            } => Input::Command {
                reply,
                actor,
                command: Box::new(command),
                reason,
                key,
            },
            Step::Report {
                execution,
                node,
                attempt,
                exit,
            } => {
                let end = match exit {
                    Exit::Started => return self.decide(Input::Time, *now),
                    Exit::Code(code) => AttemptEnd::Code(code),
                    Exit::Signal(signal) => AttemptEnd::Signal(signal),
                    Exit::NotStarted => AttemptEnd::NotStarted,
                    Exit::Lost => AttemptEnd::Lost,
                };
                Input::Ended {
                    run: ExecutionId(execution),
                    node,
                    attempt,
                    end,
                }
            }
            Step::Time => Input::Time,
            Step::Ack { supervisor, cursor } => Input::Acknowledge { supervisor, cursor },
            Step::Crash => {
                self.replay();
                return self.open(*now);
            }
        };
        self.decide(input, *now)
    }

    /// Replays the whole journal, and the newer half on a state snapshot: both must give the same state.
    fn replay(&mut self) {
        let entries: Vec<Entry> = self
            .journal
            .iter()
            .map(|bytes| Entry::decode(bytes).expect("records can be read back"))
            .collect();
        let mut whole = State::default();
        let mut half = State::default();
        for (i, entry) in entries.iter().enumerate() {
            whole.apply(entry);
            half.apply(entry);
            if i == entries.len() / 2 {
                let bytes = half.durable().to_bytes().expect("the state can be stored");
                half = State::from_durable(
                    Durable::from_bytes(&bytes).expect("the state can be read back"),
                );
            }
        }
        assert!(
            whole.durable() == self.state.durable(),
            "replaying the journal gives another state"
        );
        assert!(
            half.durable() == self.state.durable(),
            "going on from a snapshot gives another state"
        );
        self.state = whole;
    }

    /// Returns the durable state, to compare it at the end.
    pub fn durable(&self) -> &Durable {
        self.state.durable()
    }

    /// Returns a digest of everything that was recorded.
    pub fn trace(&self) -> u64 {
        use std::hash::{Hash, Hasher};
        let mut hasher = std::collections::hash_map::DefaultHasher::new();
        self.journal.hash(&mut hasher);
        hasher.finish()
    }

    fn seen(&mut self, decision: Decision) -> Vec<Seen> {
        let mut out = Vec::new();
        for entry in &decision.entries {
            for (number, cursor) in &entry.to {
                let supervisor = self.durable().supervisors[number].def.id.clone();
                let event = projection::event(&entry.record)
                    .expect("what has a place in a stream is an event");
                out.push(Seen::Event {
                    supervisor,
                    cursor: *cursor,
                    kind: event.kind,
                    fields: fields_of(&event),
                });
            }
        }
        for output in decision.outputs {
            out.extend(self.output(output));
        }
        out
    }

    fn output(&mut self, output: Output) -> Option<Seen> {
        Some(match output {
            Output::Reply { to, reply } => {
                let to = usize::try_from(to).expect("tokens are step indexes");
                match reply {
                    Reply::Answer(answer) => Seen::Answer {
                        to,
                        reply: SeenReply::from(&*answer),
                    },
                    Reply::Saved(_) => Seen::Answer {
                        to,
                        reply: SeenReply::done(Vec::new()),
                    },
                    Reply::Refused(refusal) => Seen::Answer {
                        to,
                        reply: refused(&refusal),
                    },
                    Reply::Started(start) => {
                        let supervisor = &self.durable().supervisors[&start.supervisor];
                        let after = match self.resumes.get(&to).copied().unwrap_or(Resume::Unsaid) {
                            Resume::After(n) if n <= start.as_of => n,
                            Resume::After(_) | Resume::Snapshot => start.as_of,
                            Resume::Unsaid => start.acknowledged.unwrap_or(start.as_of),
                        };
                        Seen::SessionStarted {
                            supervisor: supervisor.def.id.clone(),
                            session: start.session.0,
                            reason: start.reason.as_str().to_owned(),
                            after,
                            open_reviews: start.reviews.iter().map(|r| r.id.0).collect(),
                        }
                    }
                }
            }
            Output::Session { to, message } => match message {
                SessionMessage::Review(r) => Seen::Review {
                    session: to.0,
                    id: r.id.0,
                    timeout_ms: r.deadline.since(self.durable().now),
                    op: r.command.op,
                    target: r.command.target,
                    args: serde_json::to_string(&r.command.args).expect("arguments are JSON"),
                    if_status: r.command.if_status,
                    reason: r.reason,
                    actor: r.actor,
                },
                SessionMessage::Tick {
                    scheduled, missed, ..
                } => Seen::Tick {
                    session: to.0,
                    scheduled: scheduled.0,
                    missed,
                },
                SessionMessage::Replaced => Seen::Goaway {
                    session: to.0,
                    reason: "REPLACED".into(),
                },
            },
            Output::Effect(Effect::Start(start)) => Seen::Start {
                execution: start.run.0,
                node: start.node,
                attempt: start.attempt,
            },
            Output::Effect(Effect::Stop {
                run,
                node,
                attempt,
                kill,
            }) => Seen::Stop {
                execution: run.0,
                node,
                attempt,
                kill,
            },
        })
    }
}

fn refused(refusal: &Refusal) -> SeenReply {
    let check = match refusal.check {
        // Saves and hellos are refused as a whole; the reference names no check for them.
        "definition" | "ownership" | "source" | "supervisor" | "transport" => None,
        check => Some(check.to_owned()),
    };
    let reply = SeenReply::refused(refusal.code, check.as_deref().unwrap_or_default());
    debug_assert_ne!(refusal.code, Code::Internal, "{refusal:?}");
    SeenReply { check, ..reply }
}
