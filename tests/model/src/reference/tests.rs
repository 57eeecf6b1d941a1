//! Short stories, each from a sentence of the contract or of operations.md.

use serde_json::{Value, json};
use signalbox::contract::directive::{Actor, Command, Directive};
use signalbox::contract::outcome::Outcome;

use super::Reference;
use crate::seen::{Reply, Seen};
use crate::step::{Exit, Resume, Settings, Step, Timed};

mod directives;
mod operators;
mod runs;

/// A host with the reference inside, and short words for the steps.
struct Host {
    reference: Reference,
    now: u64,
    keys: u64,
    sessions: u64,
    /// What the last step showed.
    seen: Vec<Seen>,
    /// What all steps showed.
    all: Vec<Seen>,
}

impl Host {
    fn new(settings: Settings) -> Self {
        let reference = Reference::new(settings);
        Self {
            reference,
            now: 1_000,
            keys: 0,
            sessions: 0,
            seen: Vec::new(),
            all: Vec::new(),
        }
    }

    /// A host with the workflow `w` of these nodes, each with its needs.
    fn with_nodes(nodes: &[(&str, &[&str])]) -> Self {
        let mut host = Self::new(Settings::default());
        let nodes: serde_json::Map<String, Value> = nodes
            .iter()
            .map(|(id, needs)| ((*id).to_owned(), json!({ "run": ["true"], "needs": needs })))
            .collect();
        host.workflow(json!({ "id": "w", "nodes": nodes }));
        host
    }

    fn step(&mut self, step: Step) {
        self.seen = self.reference.step(&Timed {
            now: self.now,
            step,
        });
        self.all.extend(self.seen.iter().cloned());
    }

    fn wait(&mut self, ms: u64) {
        self.now += ms;
        self.step(Step::Time);
    }

    fn workflow(&mut self, def: Value) -> Reply {
        self.step(Step::SaveWorkflow {
            def: serde_json::from_value(def).unwrap(),
        });
        self.reply()
    }

    /// Saves a supervisor with an attached engine; `fields` come over what is common.
    fn supervisor(&mut self, id: &str, owns: &[&str], fields: Value) -> Reply {
        let mut def = json!({
            "id": id, "owns": owns, "engine": { "transport": "attached" },
            "allowedCommands": ["run.*", "node.*", "notify"], "operatorAccess": ["run.*", "node.*"]
        });
        for (name, value) in fields.as_object().unwrap() {
            def[name] = value.clone();
        }
        self.step(Step::SaveSupervisor {
            def: serde_json::from_value(def).unwrap(),
        });
        self.reply()
    }

    fn hello(&mut self, id: &str) {
        self.sessions += 1;
        let supervisor = id.parse().unwrap();
        self.step(Step::Hello {
            supervisor,
            resume: Resume::Unsaid,
            signals: None,
            tick_ms: None,
        });
    }

    /// An operator's command, with more fields in `more` (`args`, `ifStatus`).
    fn operator(&mut self, op: &str, target: &str, more: Value) -> Option<Reply> {
        self.operator_as("ann", None, op, target, more)
    }

    fn operator_as(
        &mut self,
        who: &str,
        key: Option<&str>,
        op: &str,
        target: &str,
        more: Value,
    ) -> Option<Reply> {
        let mut command = json!({ "op": op, "target": target });
        for (name, value) in more.as_object().unwrap() {
            command[name] = value.clone();
        }
        let command: Command = serde_json::from_value(command).unwrap();
        let actor = Actor {
            kind: "USER".to_owned(),
            id: who.to_owned(),
        };
        self.step(Step::Command {
            actor,
            command,
            reason: None,
            key: key.map(str::to_owned),
        });
        self.reply_to(self.reference.next_index() - 1)
    }

    /// A directive on the engine's present stream.
    fn directs(&mut self, id: &str, directive: Value) -> Reply {
        let directive: Directive = serde_json::from_value(directive).unwrap();
        let supervisor = id.parse().unwrap();
        let session = self.reference.live(&supervisor).map(|l| l.session);
        let unary = session.is_none();
        self.step(Step::Directive {
            supervisor,
            session,
            unary,
            directive,
            cause_delivered: None,
        });
        self.reply()
    }

    /// A command at the engine's own initiative would need a list; this one cites the event given.
    fn commands(&mut self, id: &str, cause: &str, op: &str, target: &str) -> Reply {
        self.keys += 1;
        let key = format!("k-{}", self.keys);
        self.directs(
            id,
            json!({ "directive": "Command", "key": key, "op": op, "target": target, "cause": cause }),
        )
    }

    fn ends(&mut self, run: u64, node: &str, attempt: u32, exit: Exit) {
        self.step(Step::Report {
            execution: run,
            node: node.parse().unwrap(),
            attempt,
            exit,
        });
    }

    fn reply(&self) -> Reply {
        self.reply_to(self.reference.next_index() - 1)
            .expect("the step has an answer")
    }

    fn reply_to(&self, step: usize) -> Option<Reply> {
        self.all.iter().rev().find_map(|s| match s {
            Seen::Answer { to, reply } if *to == step => Some(reply.clone()),
            _ => None,
        })
    }

    fn run(&self, run: u64) -> String {
        self.reference.run(run).unwrap().status.to_string()
    }

    fn node(&self, run: u64, node: &str) -> String {
        self.reference.run(run).unwrap().nodes[&node.parse().unwrap()].label()
    }

    /// The statuses that a supervisor's stream showed in the last step, as `RUNNING` or `a RUNNING`.
    fn statuses(&self, of: &str) -> Vec<String> {
        let word = |s: &Seen| match s {
            Seen::Event {
                supervisor, fields, ..
            } if supervisor.as_str() == of => {
                let node = fields
                    .get("node")
                    .map(|n| format!("{n} "))
                    .unwrap_or_default();
                fields.get("status").map(|status| format!("{node}{status}"))
            }
            _ => None,
        };
        self.seen.iter().filter_map(word).collect()
    }

    fn starts(&self) -> Vec<String> {
        let start = |s: &Seen| match s {
            Seen::Start {
                execution,
                node,
                attempt,
            } => Some(format!("x{execution}/{node} {attempt}")),
            _ => None,
        };
        self.seen.iter().filter_map(start).collect()
    }

    fn stops(&self) -> Vec<String> {
        let stop = |s: &Seen| match s {
            Seen::Stop { node, kill, .. } => {
                Some(format!("{} {node}", if *kill { "kill" } else { "end" }))
            }
            _ => None,
        };
        self.seen.iter().filter_map(stop).collect()
    }
}

/// The outcome of the only target, with its detail.
fn only(reply: &Reply) -> (Outcome, Option<&str>) {
    assert_eq!(reply.targets.len(), 1, "{reply:?}");
    (reply.targets[0].outcome, reply.targets[0].detail.as_deref())
}

fn code(reply: &Reply) -> &str {
    reply.code.map_or("DONE", |c| c.as_str())
}
