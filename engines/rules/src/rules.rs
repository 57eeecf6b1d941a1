//! Rules at work: a signal goes in, directives come out.
//!
//! Deciding is pure: no clock, no chance, no I/O. The only state is [`Memory`].

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use cel::{Env, Value};

use crate::error::Error;
use crate::expression::Expression;
use crate::load;
use crate::proto as pb;
use crate::proto::directive::Body;
use crate::spec::{LevelSpec, On, VerdictSpec};
use crate::template::{Template, ValueTemplate, fill_struct};
use crate::value::{Seen, Variables, fired};

/// The rules of one file, checked and compiled.
///
/// ```yaml
/// tick: 30s                       # optional; used where the supervisor's definition has no tick
/// rules:
///   - name: retry-twice           # unique; keys are made from it
///     on: Event                   # Event, Tick, Review or Started
///     kinds: [NODE_STATUS]        # for Event; default: all
///     when: event.status == "FAILED" && event.attempt < 3
///     reason: "attempt ${event.attempt} failed with exit code ${event.exitCode}"
///     do:
///       - command:
///           op: node.retry
///           target: "node:${event.execution}/${event.node}"
///           ifStatus: FAILED
///   - name: no-stop-while-reporting
///     on: Review
///     when: review.command.op == "run.stop" && review.actor.kind == "KEY"
///     do:
///       - verdict: deny           # allow, deny or requireApproval
///         reason: the report is being written
///   - name: cool-down
///     on: Tick
///     limit: 1                    # how often it may fire for one execution
///     initiative: true            # the cause is `initiative` instead of the signal
///     reason: it runs hot         # required without an event behind it
///     do:
///       - command: { op: run.pause, target: owned.running, args: { suspend: false } }
///       - notify: { level: warning, message: "all runs are paused" }
/// ```
///
/// Conditions and the `${…}` in texts are CEL over `signal` {id, kind, timeMs}, one of `event`, `tick`,
/// `review`, `started`, and `seen`: how often the rule has fired for this execution since the engine
/// began. `fired["other-rule"]` says the same of another rule, as it was before this signal. Field names are those of the contract's JSON form; every field is there, empty or null where
/// the signal has none. The cause of a command is the signal, unless `initiative` or `cause` says
/// otherwise. The first rule that answers a review decides; a review that none answers gets
/// `NoOpinion` at once.
pub struct RuleSet {
    pub(crate) env: Arc<Env>,
    pub(crate) tick: Option<Duration>,
    pub(crate) rules: Vec<Rule>,
}

impl std::fmt::Debug for RuleSet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RuleSet")
            .field("tick", &self.tick)
            .field("rules", &self.rules)
            .finish_non_exhaustive()
    }
}

/// One compiled rule.
#[derive(Debug)]
pub(crate) struct Rule {
    pub(crate) name: String,
    pub(crate) on: On,
    /// Kinds of events; empty means all.
    pub(crate) kinds: BTreeSet<String>,
    pub(crate) when: Option<Expression>,
    pub(crate) limit: Option<u32>,
    pub(crate) cause: Cause,
    pub(crate) reason: Option<Template>,
    pub(crate) steps: Vec<Step>,
}

/// Where the cause of commands and messages comes from.
#[derive(Debug)]
pub(crate) enum Cause {
    Signal,
    Initiative,
    Text(Template),
}

/// One compiled directive.
#[derive(Debug)]
pub(crate) struct Step {
    pub(crate) action: Action,
    pub(crate) reason: Option<Template>,
}

#[derive(Debug)]
pub(crate) enum Action {
    Command {
        op: String,
        target: Template,
        args: BTreeMap<String, ValueTemplate>,
        if_status: Option<Template>,
    },
    Verdict(VerdictSpec),
    Notify {
        level: LevelSpec,
        message: Template,
        data: BTreeMap<String, ValueTemplate>,
    },
    NoOpinion,
}

/// How often each rule has fired, by execution. Bounded: the executions that were quiet for longest are
/// forgotten. An execution that ends is kept, since a retry may open it again.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    executions: BTreeMap<String, Fired>,
    clock: u64,
}

#[derive(Debug, Default)]
struct Fired {
    by_rule: BTreeMap<usize, u32>,
    used: u64,
}

/// How many executions are remembered, and how many are forgotten at once past that.
const REMEMBERED: usize = 10_000;
const FORGOTTEN: usize = 1_000;

impl Memory {
    fn count(&self, execution: &str, rule: usize) -> u32 {
        self.executions
            .get(execution)
            .and_then(|fired| fired.by_rule.get(&rule))
            .copied()
            .unwrap_or(0)
    }

    fn fire(&mut self, execution: &str, rule: usize) {
        if !self.executions.contains_key(execution) && self.executions.len() >= REMEMBERED {
            let mut by_use: Vec<_> = self
                .executions
                .iter()
                .map(|(id, fired)| (fired.used, id.clone()))
                .collect();
            by_use.sort_unstable();
            for (_, id) in by_use.into_iter().take(FORGOTTEN) {
                self.executions.remove(&id);
            }
        }
        self.clock += 1;
        let fired = self.executions.entry(execution.to_owned()).or_default();
        fired.used = self.clock;
        let count = fired.by_rule.entry(rule).or_default();
        *count = count.saturating_add(1);
    }
}

/// What the rules made of a signal.
#[derive(Debug, Default)]
pub(crate) struct Decision {
    /// The directives, in the order in which they are sent. `ref` is the session's.
    pub(crate) directives: Vec<pb::Directive>,
    /// What went wrong, for the log: rule and problem.
    pub(crate) problems: Vec<(String, String)>,
}

impl RuleSet {
    /// Reads, checks and compiles a file of rules.
    ///
    /// # Errors
    /// Names the file with every mistake, its line and its rule.
    pub fn load(path: &Path) -> Result<Self, Error> {
        load::load(path)
    }

    /// Returns the signals that the rules are on, for `hello`.
    pub(crate) fn signals(&self) -> Vec<String> {
        [On::Event, On::Tick, On::Review, On::Started]
            .into_iter()
            .filter(|on| *on == On::Started || self.rules.iter().any(|rule| rule.on == *on))
            .map(|on| on.as_str().to_owned())
            .collect()
    }

    /// Returns the kinds of events that the rules are on, for `hello`; empty means all.
    pub(crate) fn event_kinds(&self) -> Vec<String> {
        let on_events = || self.rules.iter().filter(|rule| rule.on == On::Event);
        if on_events().any(|rule| rule.kinds.is_empty()) {
            return Vec::new();
        }
        let kinds: BTreeSet<_> = on_events()
            .flat_map(|rule| rule.kinds.iter().cloned())
            .collect();
        kinds.into_iter().collect()
    }

    /// Decides what a signal calls for.
    pub(crate) fn decide(&self, memory: &mut Memory, signal: &pb::Signal) -> Decision {
        let mut decision = Decision::default();
        let Some(seen) = Seen::of(signal) else {
            return decision;
        };
        let before = fired(
            self.rules
                .iter()
                .enumerate()
                .map(|(index, rule)| (rule.name.as_str(), memory.count(&seen.execution, index))),
        );
        let mut answered = false;
        for (index, rule) in self.rules.iter().enumerate() {
            if rule.on != seen.on
                || !(rule.kinds.is_empty() || rule.kinds.contains(&seen.event_kind))
            {
                continue;
            }
            let count = memory.count(&seen.execution, index);
            if rule.limit.is_some_and(|limit| count >= limit) {
                continue;
            }
            let mut variables = seen.variables.clone();
            variables.push(("seen", Value::Int(i64::from(count))));
            variables.push(("fired", before.clone()));
            match self.apply(rule, &signal.id, &variables, answered) {
                Ok(None) => {}
                Ok(Some(directives)) => {
                    memory.fire(&seen.execution, index);
                    answered |= directives.iter().any(|d| {
                        matches!(d.body, Some(Body::ReviewVerdict(_) | Body::NoOpinion(_)))
                    });
                    decision.directives.extend(directives);
                }
                Err(problem) => decision.problems.push((rule.name.clone(), problem)),
            }
        }
        if seen.on == On::Review && !answered {
            decision.directives.push(no_opinion(&signal.id));
        }
        decision
    }

    /// Tries one rule: nothing where its condition does not hold. All of its directives or none.
    fn apply(
        &self,
        rule: &Rule,
        signal: &str,
        variables: &Variables,
        answered: bool,
    ) -> Result<Option<Vec<pb::Directive>>, String> {
        if let Some(when) = &rule.when {
            match when
                .eval(&self.env, variables)
                .map_err(|e| format!("when: {e}"))?
            {
                Value::Bool(true) => {}
                Value::Bool(false) => return Ok(None),
                other => {
                    return Err(format!(
                        "when: it gave a {}, not true or false",
                        other.type_of()
                    ));
                }
            }
        }
        let mut directives = Vec::new();
        for (place, step) in rule.steps.iter().enumerate() {
            let answers = matches!(step.action, Action::Verdict(_) | Action::NoOpinion);
            if answers && answered {
                continue;
            }
            directives.push(self.direct(rule, step, place, signal, variables)?);
        }
        Ok(Some(directives))
    }

    fn direct(
        &self,
        rule: &Rule,
        step: &Step,
        place: usize,
        signal: &str,
        variables: &Variables,
    ) -> Result<pb::Directive, String> {
        let fill = |template: &Template| template.text(&self.env, variables);
        let fill_optional =
            |template: Option<&Template>| template.map_or_else(|| Ok(String::new()), fill);
        let reason = fill_optional(step.reason.as_ref().or(rule.reason.as_ref()))?;
        let (key, cause, body) = match &step.action {
            // Verdicts have the key and cause of the question they answer, by default (C19).
            Action::Verdict(verdict) => {
                let verdict = match verdict {
                    VerdictSpec::Allow => pb::Verdict::Allow,
                    VerdictSpec::Deny => pb::Verdict::Deny,
                    VerdictSpec::RequireApproval => pb::Verdict::RequireApproval,
                };
                let body = pb::ReviewVerdict {
                    answers: signal.to_owned(),
                    verdict: verdict.into(),
                    reason: String::new(),
                };
                (String::new(), String::new(), Body::ReviewVerdict(body))
            }
            Action::NoOpinion => {
                return Ok(pb::Directive {
                    reason,
                    ..no_opinion(signal)
                });
            }
            Action::Command {
                op,
                target,
                args,
                if_status,
            } => {
                let target = fill(target)?;
                let args = if args.is_empty() {
                    None
                } else {
                    Some(fill_struct(args, &self.env, variables)?)
                };
                let if_status = fill_optional(if_status.as_ref())?;
                let body = Body::Command(pb::Command {
                    op: op.clone(),
                    target,
                    args,
                    if_status,
                });
                (
                    key(rule, signal, place),
                    self.cause(rule, signal, variables)?,
                    body,
                )
            }
            Action::Notify {
                level,
                message,
                data,
            } => {
                let data = if data.is_empty() {
                    None
                } else {
                    Some(fill_struct(data, &self.env, variables)?)
                };
                let body = Body::Notify(pb::Notify {
                    level: level.as_str().to_owned(),
                    message: fill(message)?,
                    data,
                });
                (
                    key(rule, signal, place),
                    self.cause(rule, signal, variables)?,
                    body,
                )
            }
        };
        Ok(pb::Directive {
            r#ref: 0,
            key,
            cause,
            reason,
            dry_run: false,
            body: Some(body),
        })
    }

    fn cause(&self, rule: &Rule, signal: &str, variables: &Variables) -> Result<String, String> {
        match &rule.cause {
            Cause::Initiative => Ok("initiative".to_owned()),
            Cause::Text(template) => template.text(&self.env, variables),
            Cause::Signal if rule.on == On::Tick => Ok("tick".to_owned()),
            Cause::Signal => Ok(format!("event:{signal}")),
        }
    }
}

/// The key of a directive: the same whenever the same rule meets the same signal (C19).
fn key(rule: &Rule, signal: &str, place: usize) -> String {
    format!("rules/{}/{signal}/{place}", rule.name)
}

/// Says that a review gets no answer, so that nobody waits for one.
fn no_opinion(review: &str) -> pb::Directive {
    pb::Directive {
        key: format!("rules/no-opinion/{review}"),
        cause: format!("answers:{review}"),
        body: Some(Body::NoOpinion(pb::NoOpinion {
            answers: review.to_owned(),
        })),
        ..Default::default()
    }
}

#[cfg(test)]
mod tests;
