//! Makes sequences of steps that reach every class of [`crate::coverage`], from a seed and nothing else.
//!
//! The world is small (three workflows, four supervisors, two operators), with small limits, so that limits,
//! ties and repeats come often. A generator asks the reference how things stand and aims at states, not at
//! ids: a command picks a state first, then somebody in it. A directive or command has at most one defect in
//! its shape, so that the order of checks is tested and not the order of complaints about one shape.

use std::collections::BTreeMap;

use fastrand::Rng;
use serde_json::Value;
use signalbox::contract::directive::{Command, Directive};
use signalbox::contract::id::{NodeId, SupervisorId};
use signalbox::contract::status::NodeStatus;

use crate::reference::Reference;
use crate::seen::Seen;
use crate::step::{Exit, Resume, Settings, Step, Timed};

mod commands;
mod directives;
mod plans;
mod world;

/// The steps of a sequence.
pub const STEPS: usize = 500;

/// How likely each kind of step is; the sum does not matter.
#[derive(Debug, Clone, Copy)]
struct Weights {
    save: u32,
    session: u32,
    crash: u32,
    directive: u32,
    command: u32,
    report: u32,
    time: u32,
}

/// What different seeds care for.
const THEMES: [Weights; 5] = [
    // A bit of everything.
    Weights {
        save: 4,
        session: 5,
        crash: 1,
        directive: 36,
        command: 20,
        report: 24,
        time: 10,
    },
    // Engines that command.
    Weights {
        save: 2,
        session: 4,
        crash: 1,
        directive: 60,
        command: 8,
        report: 18,
        time: 8,
    },
    // Operators and reviews.
    Weights {
        save: 2,
        session: 5,
        crash: 2,
        directive: 26,
        command: 42,
        report: 14,
        time: 8,
    },
    // Work that fails, stops and is tried again.
    Weights {
        save: 1,
        session: 2,
        crash: 1,
        directive: 26,
        command: 18,
        report: 40,
        time: 12,
    },
    // Owners and sessions that come and go.
    Weights {
        save: 12,
        session: 14,
        crash: 4,
        directive: 30,
        command: 20,
        report: 14,
        time: 6,
    },
];

/// A generator of one sequence.
#[derive(Debug)]
pub struct Generator {
    rng: Rng,
    settings: Settings,
    weights: Weights,
    now: u64,
    /// How many steps are still to come.
    left: usize,
    /// Steps that come before anything else, the next one last, each so many milliseconds after the one before.
    planned: Vec<(u64, Step)>,
    /// Times at which something could happen.
    awaited: Vec<u64>,
    keys: u64,
    /// Directives and commands sent with a key, to be sent again.
    sent: Vec<(SupervisorId, Directive)>,
    given: Vec<Step>,
    /// When sessions of a supervisor were replaced, since a host may refuse the sixth within a minute.
    takeovers: BTreeMap<SupervisorId, Vec<u64>>,
    acked: BTreeMap<SupervisorId, u64>,
}

impl Generator {
    /// Makes the generator of a seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        let mut rng = Rng::with_seed(seed);
        let theme = usize::try_from(seed % THEMES.len() as u64).unwrap_or(0);
        let mut generator = Self {
            settings: world::settings(&mut rng),
            weights: THEMES[theme],
            now: 1_000 + rng.u64(0..3_000),
            left: STEPS,
            planned: Vec::new(),
            awaited: Vec::new(),
            keys: 0,
            sent: Vec::new(),
            given: Vec::new(),
            takeovers: BTreeMap::new(),
            acked: BTreeMap::new(),
            rng,
        };
        generator.plan_beginning(seed);
        generator
    }

    /// Gives the settings that the sequence starts with.
    #[must_use]
    pub fn settings(&self) -> Settings {
        self.settings.clone()
    }

    /// Makes the next step; none at the end. `reference` has taken all steps before.
    pub fn next(&mut self, reference: &Reference) -> Option<Timed> {
        self.left = self.left.checked_sub(1)?;
        if self.planned.is_empty() && self.chance(4) {
            self.plan_story(reference);
        }
        let step = match self.planned.pop() {
            Some((ms, step)) => {
                self.now += ms;
                plans::filled(step, reference)
            }
            None => {
                self.pass_time(reference);
                self.choose(reference)
            }
        };
        if let Step::Command { .. } = step {
            self.given.push(step.clone());
        }
        Some(Timed {
            now: self.now,
            step,
        })
    }

    /// Learns from what the last step showed.
    pub fn learn(&mut self, seen: &[Seen]) {
        for seen in seen {
            match seen {
                Seen::Review { timeout_ms, .. } => self.awaited.push(self.now + timeout_ms),
                Seen::Event { .. } => {
                    let full_second = self.now / 1_000 * 1_000;
                    self.awaited
                        .push(full_second + world::CAUSE_AGE_MS + self.rng.u64(0..2));
                }
                Seen::SessionStarted { .. } => {
                    self.awaited
                        .push(self.now + world::CAUSE_AGE_MS + self.rng.u64(0..2));
                }
                _ => {}
            }
        }
        let (now, keep) = (self.now, self.awaited.len().saturating_sub(60));
        self.awaited.drain(..keep);
        self.awaited.retain(|t| *t > now);
    }

    /// Whether something of this likelihood, in percent, happens.
    fn chance(&mut self, percent: u32) -> bool {
        self.rng.u32(0..100) < percent
    }

    fn pick<'a, T>(&mut self, from: &'a [T]) -> Option<&'a T> {
        if from.is_empty() {
            None
        } else {
            from.get(self.rng.usize(0..from.len()))
        }
    }

    /// Picks from what is known to have something.
    fn one<T: Copy, const N: usize>(&mut self, from: [T; N]) -> T {
        from[self.rng.usize(0..N)]
    }

    fn pass_time(&mut self, reference: &Reference) {
        let ms = match self.rng.u32(0..1_000) {
            0..330 => 0,
            330..800 => self.rng.u64(1..40),
            800..890 => self.rng.u64(40..400),
            // To the next deadline, or just beside it.
            890..950 => match reference.next_deadline() {
                Some(at) => (at + self.rng.u64(0..3)).saturating_sub(self.now + 1),
                None => 1,
            },
            950..970 => match self.pick(&self.awaited.clone()) {
                Some(at) => at.saturating_sub(self.now),
                None => 1,
            },
            970..995 => self.rng.u64(400..1_500),
            995..998 => self.one([1_000, 999, 5_000, 5_001]),
            _ => self.one([60_000, 12_000]),
        };
        // A far deadline is not waited for each time.
        self.now += if ms > 2_500 && self.chance(80) { 7 } else { ms };
    }

    fn choose(&mut self, reference: &Reference) -> Step {
        let w = self.weights;
        let kinds = [
            w.save,
            w.session,
            w.crash,
            w.directive,
            w.command,
            w.report,
            w.time,
        ];
        let mut left = self.rng.u32(0..kinds.iter().sum());
        let mut kind = 0;
        while left >= kinds[kind] {
            left -= kinds[kind];
            kind += 1;
        }
        match kind {
            0 if self.chance(30) => Step::SaveWorkflow {
                def: world::workflow(&mut self.rng),
            },
            0 => Step::SaveSupervisor {
                def: self.some_supervisor(reference),
            },
            1 => self.session_step(reference),
            _ if self.chance(12) && self.someone_is_gone(reference).is_some() => {
                self.someone_is_gone(reference).unwrap_or(Step::Time)
            }
            2 => Step::Crash,
            3 => self.directive_step(reference),
            4 => self.command_step(reference),
            5 => self.report_step(reference).unwrap_or(Step::Time),
            _ => Step::Time,
        }
    }

    /// The hello of an engine that is not connected, if there is one.
    fn someone_is_gone(&mut self, reference: &Reference) -> Option<Step> {
        let gone = |id: &SupervisorId| reference.live_session(id).is_none();
        let gone: Vec<SupervisorId> = world::ENGINES
            .iter()
            .map(|n| world::id(n))
            .filter(gone)
            .collect();
        let supervisor = self.pick(&gone)?.clone();
        let last = reference.last_event(&supervisor);
        Some(self.hello(supervisor, last))
    }

    fn some_supervisor(
        &mut self,
        reference: &Reference,
    ) -> signalbox::contract::definition::SupervisorDef {
        let taken: Vec<_> = reference
            .all_supervisors()
            .iter()
            .map(|s| (s.id.clone(), s.owns.clone()))
            .collect();
        world::supervisor(&mut self.rng, &taken)
    }

    fn session_step(&mut self, reference: &Reference) -> Step {
        let supervisor = self.one(world::ENGINES);
        let supervisor: SupervisorId = world::id(supervisor);
        let last = reference.last_event(&supervisor);
        if reference.live_session(&supervisor).is_some() {
            match self.rng.u32(0..10) {
                0..3 => {
                    self.awaited
                        .push(self.now + world::REVIEW_MS + self.rng.u64(0..2));
                    return Step::Disconnect { supervisor };
                }
                3..7 => {
                    let acked = self.acked.entry(supervisor.clone()).or_default();
                    let cursor = self.rng.u64(*acked..=last.max(*acked));
                    *acked = cursor;
                    return Step::Ack { supervisor, cursor };
                }
                _ => {}
            }
            let now = self.now;
            let times = self.takeovers.entry(supervisor.clone()).or_default();
            times.retain(|t| t + 60_000 > now);
            if times.len() >= 4 {
                return Step::Time;
            }
            times.push(now);
        }
        self.hello(supervisor, last)
    }

    fn hello(&mut self, supervisor: SupervisorId, last: u64) -> Step {
        let resume = match self.rng.u32(0..10) {
            0..4 => Resume::Unsaid,
            4..7 => Resume::After(self.rng.u64(0..=last)),
            7 => Resume::After(last + 3),
            _ => Resume::Snapshot,
        };
        let signals: Option<Vec<String>> = match self.rng.u32(0..10) {
            0 => Some(vec!["Event".to_owned()]),
            1 => Some(vec![
                "Event".to_owned(),
                "Review".to_owned(),
                "Tick".to_owned(),
            ]),
            _ => None,
        };
        Step::Hello {
            supervisor,
            resume,
            signals,
            tick_ms: None,
        }
    }

    fn report_step(&mut self, reference: &Reference) -> Option<Step> {
        let running: Vec<(u64, NodeId, u32)> = reference
            .runs()
            .flat_map(|r| r.running().map(|(node, n)| (r.id, node.clone(), n.attempt)))
            .collect();
        let (execution, node, attempt) = match self.pick(&running).cloned() {
            Some(one) if self.chance(93) => one,
            _ => self.stale_attempt(reference)?,
        };
        let exit = match self.rng.u32(0..100) {
            0..48 => Exit::Code(0),
            48..70 => Exit::Code(self.one([1, 2, 137, 255])),
            70..80 => Exit::Signal(self.one([9, 15])),
            80..87 => Exit::NotStarted,
            87..93 => Exit::Lost,
            _ => Exit::Started,
        };
        Some(Step::Report {
            execution,
            node,
            attempt,
            exit,
        })
    }

    /// An attempt that is not running, or not any more.
    fn stale_attempt(&mut self, reference: &Reference) -> Option<(u64, NodeId, u32)> {
        if self.chance(10) {
            return Some((9_999, world::id("a"), 1));
        }
        let runs: Vec<_> = reference.runs().collect();
        let run = self.pick(&runs)?;
        let nodes: Vec<_> = run.nodes.iter().collect();
        let (node, n) = self.pick(&nodes)?;
        let attempt = if n.status == NodeStatus::Running || self.chance(30) {
            n.attempt + 1
        } else {
            n.attempt
        };
        Some((run.id, (*node).clone(), attempt))
    }

    /// A new key: mostly short, now and then as long as it may be.
    fn new_key(&mut self) -> String {
        self.keys += 1;
        let key = format!("k {}", self.keys);
        if self.chance(1) {
            format!("{key:~>128}")
        } else {
            key
        }
    }

    fn reason(&mut self) -> Option<String> {
        match self.rng.u32(0..20) {
            0..9 => None,
            9 => Some(String::new()),
            10 => Some("r".repeat(1_024)),
            _ => Some("because".to_owned()),
        }
    }
}

/// Makes a command from its parts.
fn command(op: &str, target: String, args: &[(&str, Value)]) -> Command {
    let args = args
        .iter()
        .map(|(name, value)| ((*name).to_owned(), value.clone()))
        .collect();
    Command {
        op: op.to_owned(),
        target,
        args,
        if_status: None,
    }
}
