//! Steps that are planned together: the beginning, bursts of one kind that reach the limits which are too high
//! to be met by chance, and short stories that would rarely come about step by step.

use serde_json::json;
use signalbox::contract::directive::{Actor, Body, Command, Directive};
use signalbox::contract::status::RunStatus;
use signalbox::contract::unit::Unit;

use super::{Generator, command, world};
use crate::reference::Reference;
use crate::reference::view::RunView;
use crate::step::{Resume, Settings, Step};

/// One seed in so many begins with each kind of burst.
const EVERY: u64 = 20;

impl Generator {
    /// Plans the first steps: definitions, sessions, and for some seeds a burst.
    pub(super) fn plan_beginning(&mut self, seed: u64) {
        let mut steps: Vec<Step> = Vec::new();
        for which in 0..3 {
            steps.push(Step::SaveWorkflow {
                def: world::revision(which, &mut self.rng),
            });
        }
        for name in [
            world::ENGINES[0],
            world::ENGINES[1],
            world::ENGINES[2],
            world::GATE,
        ] {
            steps.push(Step::SaveSupervisor {
                def: world::first(name, &mut self.rng),
            });
        }
        for name in world::ENGINES {
            if self.chance(80) {
                steps.push(plain_hello(name));
            }
        }
        match seed % EVERY {
            3 => steps.extend(self.crowd()),
            8 => steps.extend(notifies()),
            13 => steps.extend(self.impatient_operator()),
            18 => steps.extend(self.many_reviews()),
            _ => {}
        }
        self.plan(steps.into_iter().map(|step| (0, step)).collect());
    }

    fn plan(&mut self, mut steps: Vec<(u64, Step)>) {
        steps.reverse();
        self.planned = steps;
    }

    /// Plans a short story, if there is somebody to play it.
    pub(super) fn plan_story(&mut self, reference: &Reference) {
        let connected = |s: &&str| reference.live_session(&world::id(s)).is_some();
        let connected: Vec<&str> = world::ENGINES.into_iter().filter(connected).collect();
        let Some(name) = self.pick(&connected).copied() else {
            return;
        };
        let own: Vec<&RunView> = reference
            .runs()
            .filter(|r| {
                r.is_live()
                    && reference
                        .run_owner(r.id)
                        .is_some_and(|o| o.as_str() == name)
            })
            .collect();
        let own = self.pick(&own).map(|r| r.id);
        // Runs that nobody is asked about, for operators.
        let free: Vec<&RunView> = reference
            .runs()
            .filter(|r| {
                r.is_live()
                    && reference
                        .run_owner(r.id)
                        .is_none_or(|o| o.as_str() == world::GATE)
            })
            .collect();
        let free = self.pick(&free).map(|r| r.id);
        let story = match (self.rng.u32(0..100), own, free) {
            (0..6, ..) => self.flood_story(),
            (6..14, ..) => self.exhaust_story(name),
            (14..17, ..) => self.minute_story(name),
            (17..32, Some(run), _) => {
                self.given_up_story(reference, name, &format!("execution:x{run}"))
            }
            (32..50, Some(run), _) => self.two_hold_story(name, &format!("execution:x{run}")),
            (50..80, _, Some(run)) => self.pester_story(reference, None, run),
            (_, Some(run), _) => self.pester_story(reference, Some(name), run),
            _ => return,
        };
        self.plan(story);
    }

    /// One run and its nodes get one command after the other, from an engine or else an operator.
    fn pester_story(
        &mut self,
        reference: &Reference,
        engine: Option<&str>,
        run: u64,
    ) -> Vec<(u64, Step)> {
        let nodes: Vec<String> = reference
            .run(run)
            .map(|r| r.nodes.keys().map(ToString::to_string).collect())
            .unwrap_or_default();
        // Stops only end a story, since little else is left to do after one.
        let stops_at = self.rng.usize(2..7);
        let mut steps = Vec::new();
        for n in 0..9 {
            let on_run = self.chance(70);
            let mut command = if n >= stops_at && on_run {
                let args = self.stop_args();
                command("run.stop", format!("execution:x{run}"), &args)
            } else if on_run {
                let op = self.one(["run.pause", "run.pause", "run.resume", "run.resumeHeld"]);
                command(op, format!("execution:x{run}"), &[])
            } else {
                let op = self.one(["node.retry", "node.skip"]);
                let node = self.pick(&nodes).cloned().unwrap_or_default();
                command(op, format!("node:x{run}/{node}"), &[])
            };
            if self.chance(15) && on_run {
                command.if_status = self.pick(RunStatus::ALL).map(|s| s.as_str().to_owned());
            }
            let ms = if engine == Some("north") {
                340
            } else {
                self.rng.u64(0..20)
            };
            let step = match engine {
                Some(name) => {
                    let cause = self.one(["session", "last event", "last event", "initiative"]);
                    self.stream(name, Body::Command(command), Some(cause))
                }
                None => Step::Command {
                    actor: self.actor(),
                    command,
                    reason: None,
                    key: None,
                },
            };
            steps.push((ms, step));
        }
        steps
    }

    /// A supervisor's third message before comes a second ago, or a millisecond less.
    fn flood_story(&mut self) -> Vec<(u64, Step)> {
        let last = self.one([996, 997]);
        let send = |ms| {
            (
                ms,
                self.stream("north", Body::NoOpinion { answers: None }, None),
            )
        };
        [1_000, 0, 3, last].map(send).to_vec()
    }

    /// One signal causes more commands than it may.
    fn exhaust_story(&mut self, name: &str) -> Vec<(u64, Step)> {
        let cause = self.one(["last event", "last event", "newest review"]);
        let again = command("run.resumeHeld", "owned.held".to_owned(), &[]);
        // Slow enough for the supervisor that may send three a second.
        let ms = if name == "north" { 340 } else { 5 };
        (0..7)
            .map(|_| {
                (
                    ms,
                    self.stream(name, Body::Command(again.clone()), Some(cause)),
                )
            })
            .collect()
    }

    /// The budget of a minute is spent, and just not free again, or just free.
    fn minute_story(&mut self, name: &str) -> Vec<(u64, Step)> {
        let pause = command("run.pause", "owned.held".to_owned(), &[]);
        let last = self.one([59_999, 60_000]);
        let send = |ms| {
            (
                ms,
                self.stream(name, Body::Command(pause.clone()), Some("initiative")),
            )
        };
        [0, 0, 0, 0, 0, last].map(send).to_vec()
    }

    /// The owner gives the run up while its engine is asked about it.
    fn given_up_story(&mut self, reference: &Reference, name: &str, run: &str) -> Vec<(u64, Step)> {
        let Some(def) = reference
            .all_supervisors()
            .into_iter()
            .find(|s| s.id.as_str() == name)
        else {
            return Vec::new();
        };
        let mut def = (*def).clone();
        def.owns.retain(|unit| !matches!(unit, Unit::Workflow(_)));
        let op = self.one(["run.pause", "run.stop"]);
        let answer = self.verdict("newest");
        vec![
            (3, operator(command(op, run.to_owned(), &[]))),
            (5, Step::SaveSupervisor { def }),
            (5, planned(name, answer)),
        ]
    }

    /// A person and the engine hold the same run, and the engine lets go.
    fn two_hold_story(&mut self, name: &str, run: &str) -> Vec<(u64, Step)> {
        let command = |op: &str| command(op, run.to_owned(), &[]);
        let allow = Body::ReviewVerdict {
            answers: "newest".to_owned(),
            verdict: "allow".to_owned(),
        };
        let mut steps = vec![
            (1, operator(command("run.pause"))),
            (400, self.stream(name, allow, None)),
        ];
        let ops = [
            "run.pause",
            "run.pause",
            "run.resume",
            "run.pause",
            "run.resumeHeld",
            "run.resumeHeld",
        ];
        for op in &ops[..self.rng.usize(1..=ops.len())] {
            steps.push((
                410,
                self.stream(name, Body::Command(command(op)), Some("last event")),
            ));
        }
        steps
    }

    /// A directive on the live stream of an engine, with a new key.
    fn stream(&mut self, name: &str, body: Body, cause: Option<&str>) -> Step {
        let answers = matches!(body, Body::ReviewVerdict { .. });
        let key = if answers { None } else { Some(self.new_key()) };
        let (cause, reason) = (cause.map(str::to_owned), Some("a story".to_owned()));
        let directive = Directive {
            key,
            cause,
            reason,
            dry_run: false,
            body,
        };
        planned(name, directive)
    }

    /// More starts than a `Started` may cause, and more live runs than a selector gives.
    fn crowd(&mut self) -> Vec<Step> {
        self.settings = Settings {
            max_queued_runs: 400,
            ..self.settings.clone()
        };
        let mut steps = vec![eager_east(&["workflow:wide"]), plain_hello("east")];
        let wide = || command("run.start", "workflow:wide".to_owned(), &[]);
        for n in 0..207 {
            let cause = if n < 202 { "session" } else { "event:e-1" };
            steps.push(east_commands(n, cause, wide()));
        }
        let selectors = [
            command("run.pause", "workflow:wide".to_owned(), &[]),
            command(
                "run.stop",
                "owned.held".to_owned(),
                &[("mode", json!("immediate"))],
            ),
        ];
        for (n, selector) in selectors.into_iter().enumerate() {
            steps.push(east_commands(300 + n as u64, "event:e-2", selector));
        }
        steps
    }

    /// More commands in a second than an operator may send.
    fn impatient_operator(&mut self) -> Vec<Step> {
        let target = self.one(["execution:x99999", "workflow:chain"]);
        let pause = command("run.resume", target.to_owned(), &[]);
        (0..203).map(|_| operator(pause.clone())).collect()
    }

    /// More reviews than a supervisor may have open.
    fn many_reviews(&mut self) -> Vec<Step> {
        let mut steps = vec![eager_east(&["workflow:wide"]), plain_hello("east")];
        steps.push(east_commands(
            900,
            "session",
            command("run.start", "workflow:wide".to_owned(), &[]),
        ));
        for n in 1..=64 {
            let args = [("graceMs", json!(n))];
            steps.push(operator(command(
                "run.stop",
                "execution:x1".to_owned(),
                &args,
            )));
        }
        steps.push(operator(command(
            "run.pause",
            "execution:x1".to_owned(),
            &[],
        )));
        steps.push(operator(command(
            "run.stop",
            "execution:x1".to_owned(),
            &[],
        )));
        steps
    }
}

fn plain_hello(name: &str) -> Step {
    Step::Hello {
        supervisor: world::id(name),
        resume: Resume::Unsaid,
        signals: None,
        tick_ms: None,
    }
}

/// More messages to people than may pass in a minute.
fn notifies() -> Vec<Step> {
    let mut steps = vec![eager_east(&["workflow:wide"]), plain_hello("east")];
    for n in 0..63 {
        let body = Body::Notify {
            level: "info".to_owned(),
            message: "look".to_owned(),
            data: None,
        };
        steps.push(east_directs(n, "session", body));
    }
    steps
}

fn eager_east(owns: &[&str]) -> Step {
    let def = json!({
        "id": "east", "owns": owns, "engine": { "transport": "attached" },
        "allowedCommands": ["run.*", "node.*", "notify"], "operatorAccess": ["run.*", "node.*"],
        "initiative": ["run.*"], "maxDirectivesPerSecond": 100_000, "maxCommandsPerEvent": 10
    });
    Step::SaveSupervisor {
        def: world::supervisor_of(def),
    }
}

fn east_commands(n: u64, cause: &str, command: Command) -> Step {
    east_directs(n, cause, Body::Command(command))
}

fn east_directs(n: u64, cause: &str, body: Body) -> Step {
    let (key, cause) = (Some(format!("burst {n}")), Some(cause.to_owned()));
    planned(
        "east",
        Directive {
            key,
            cause,
            reason: None,
            dry_run: false,
            body,
        },
    )
}

/// A directive on a stream whose number is filled in when it is sent.
fn planned(name: &str, directive: Directive) -> Step {
    let supervisor = world::id(name);
    Step::Directive {
        supervisor,
        session: None,
        unary: false,
        directive,
        cause_delivered: None,
    }
}

fn operator(command: Command) -> Step {
    let actor = Actor {
        kind: "USER".to_owned(),
        id: "ann".to_owned(),
    };
    Step::Command {
        actor,
        command,
        reason: None,
        key: None,
    }
}

/// Fills in what a planned directive could not know: its session, and the words `session`, `last event`,
/// `newest review` for causes and `newest` for an answer.
pub(super) fn filled(step: Step, reference: &Reference) -> Step {
    let Step::Directive {
        supervisor,
        session: None,
        unary: false,
        mut directive,
        ..
    } = step
    else {
        return step;
    };
    let session = reference.live_session(&supervisor);
    let own = reference
        .reviews()
        .into_iter()
        .filter(|(_, asked)| *asked == supervisor);
    let newest = own.map(|(id, _)| id).max().unwrap_or(1);
    match directive.cause.as_deref() {
        Some("session") => directive.cause = Some(format!("event:s-{}", session.unwrap_or(1))),
        Some("last event") => {
            directive.cause = Some(format!("event:e-{}", reference.last_event(&supervisor)));
        }
        Some("newest review") => directive.cause = Some(format!("event:r-{newest}")),
        Some("answers:newest") => directive.cause = Some(format!("answers:r-{newest}")),
        _ => {}
    }
    match &mut directive.body {
        Body::ReviewVerdict { answers, .. }
        | Body::NoOpinion {
            answers: Some(answers),
        } if answers == "newest" => {
            *answers = format!("r-{newest}");
        }
        _ => {}
    }
    // A stream always has some number.
    let session = session.or(Some(1));
    Step::Directive {
        supervisor,
        session,
        unary: false,
        directive,
        cause_delivered: None,
    }
}
