//! From the file to rules that can run: everything is compiled and every mistake collected.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use cel::Env;
use serde_saphyr::Spanned;

use crate::error::{Error, Mistake};
use crate::expression::Expression;
use crate::rules::{Action, Cause, Rule, RuleSet, Step};
use crate::spec::{CommandSpec, FileSpec, NotifySpec, On, RuleSpec, StepSpec};
use crate::template::{Template, ValueTemplate};
use crate::value::Shape;

/// The shortest period of ticks (C15).
const SHORTEST_TICK: Duration = Duration::from_millis(100);

/// Reads and compiles a file.
pub(crate) fn load(path: &Path) -> Result<RuleSet, Error> {
    let source = std::fs::read_to_string(path).map_err(|source| Error::Read {
        path: path.to_owned(),
        source,
    })?;
    parse(path, &source)
}

/// Compiles the text of a file.
pub(crate) fn parse(path: &Path, source: &str) -> Result<RuleSet, Error> {
    let spec: FileSpec = serde_saphyr::from_str(source).map_err(|e| malformed(path, &e))?;
    let mut loader = Loader {
        env: Arc::new(Env::stdlib()),
        mistakes: Vec::new(),
        rule: String::new(),
        line: 0,
    };
    let rules = loader.file(&spec);
    if loader.mistakes.is_empty() {
        Ok(rules)
    } else {
        Err(Error::Rules {
            path: path.to_owned(),
            mistakes: loader.mistakes,
        })
    }
}

/// Puts the place before the message, where editors and terminals find it.
fn malformed(path: &Path, error: &serde_saphyr::Error) -> Error {
    let message = error.without_snippet().to_string();
    let (place, message) = match error.location() {
        Some(at) => {
            let said = format!(" at line {}, column {}", at.line(), at.column());
            (
                format!(":{}:{}", at.line(), at.column()),
                message.replace(&said, ""),
            )
        }
        None => (String::new(), message),
    };
    Error::Form {
        path: path.to_owned(),
        place,
        message,
    }
}

/// Collects mistakes; `rule` and `line` say where it is at the moment.
struct Loader {
    env: Arc<Env>,
    mistakes: Vec<Mistake>,
    rule: String,
    line: u64,
}

impl Loader {
    fn mistake(&mut self, message: impl Into<String>) {
        self.mistakes.push(Mistake {
            line: self.line,
            rule: self.rule.clone(),
            message: message.into(),
        });
    }

    /// Keeps what could be made, and notes what could not, at the place of its text.
    fn at<T>(&mut self, text: &Spanned<String>, field: &str, made: Result<T, String>) -> Option<T> {
        made.map_err(|problem| {
            self.mistakes.push(Mistake {
                line: text.referenced.line(),
                rule: self.rule.clone(),
                message: format!("{field}: {problem}"),
            });
        })
        .ok()
    }

    fn file(&mut self, spec: &FileSpec) -> RuleSet {
        let tick = spec
            .tick
            .as_ref()
            .and_then(|text| self.at(text, "tick", period(&text.value)));
        if spec.rules.is_empty() {
            self.mistake("there are no rules; write at least one below `rules`");
        }
        let names: BTreeSet<_> = spec
            .rules
            .iter()
            .map(|rule| rule.name.value.clone())
            .collect();
        let mut taken = BTreeSet::new();
        let rules = spec
            .rules
            .iter()
            .filter_map(|rule| {
                self.rule.clone_from(&rule.name.value);
                self.line = rule.name.referenced.line();
                if !is_name(&rule.name.value) {
                    self.mistake("a name begins with a letter or digit, then has letters, digits, `.`, `_` and `-`, and at most 64 of them: keys are made from it");
                }
                if !taken.insert(rule.name.value.as_str()) {
                    self.mistake("another rule has this name; keys are made from it, so give it one of its own");
                }
                self.rule(rule, &names)
            })
            .collect();
        RuleSet {
            env: Arc::clone(&self.env),
            tick,
            rules,
        }
    }

    fn rule(&mut self, spec: &RuleSpec, names: &BTreeSet<String>) -> Option<Rule> {
        let before = self.mistakes.len();
        let shape = Shape::of(spec.on, names);
        if spec.kinds.is_some() && spec.on != On::Event {
            self.mistake(format!(
                "`kinds` is for rules on Event only; this one is on {}",
                spec.on.as_str()
            ));
        }
        if spec.kinds.as_ref().is_some_and(Vec::is_empty) {
            self.mistake(
                "`kinds` is empty, so the rule would never fire; name a kind or leave it out",
            );
        }
        if spec.limit == Some(0) {
            self.mistake("`limit: 0` means that the rule never fires; raise it or remove the rule");
        }
        if spec.initiative && spec.cause.is_some() {
            self.mistake("`initiative` and `cause` both say what the cause is; keep one");
        }
        let env = Arc::clone(&self.env);
        let when = spec
            .when
            .as_ref()
            .and_then(|text| self.at(text, "when", Expression::compile(&env, &shape, &text.value)));
        let cause = self.cause(spec, &shape);
        let reason = self.template(spec.reason.as_ref(), "reason", &shape);
        if spec.steps.is_empty() {
            self.mistake("`do` is empty; give it a directive");
        }
        let steps: Vec<_> = spec
            .steps
            .iter()
            .filter_map(|step| self.step(spec, step, &shape))
            .collect();
        if spec
            .steps
            .iter()
            .filter(|s| s.verdict.is_some() || s.no_opinion.is_some())
            .count()
            > 1
        {
            self.mistake("a review is answered once; keep one `verdict` or `noOpinion`");
        }
        (self.mistakes.len() == before).then(|| Rule {
            name: spec.name.value.clone(),
            on: spec.on,
            kinds: spec.kinds.clone().unwrap_or_default().into_iter().collect(),
            when,
            limit: spec.limit,
            cause,
            reason,
            steps,
        })
    }

    fn cause(&mut self, spec: &RuleSpec, shape: &Shape<'_>) -> Cause {
        if spec.initiative {
            return Cause::Initiative;
        }
        match self.template(spec.cause.as_ref(), "cause", shape) {
            Some(template) => Cause::Text(template),
            None => Cause::Signal,
        }
    }

    fn step(&mut self, rule: &RuleSpec, step: &StepSpec, shape: &Shape<'_>) -> Option<Step> {
        let reason = self.template(step.reason.as_ref(), "reason", shape);
        let StepSpec {
            command,
            verdict,
            notify,
            no_opinion,
            reason: _,
        } = step;
        let action = match (command, verdict, notify, no_opinion) {
            (Some(command), None, None, None) => {
                let unprompted = rule.initiative || (rule.on == On::Tick && rule.cause.is_none());
                if unprompted && reason.is_none() && rule.reason.is_none() {
                    self.mistake("a command without an event behind it needs a `reason` (C21)");
                }
                self.command(command, shape)?
            }
            (None, Some(verdict), None, None) => {
                self.only_reviews(rule, "verdict");
                Action::Verdict(*verdict)
            }
            (None, None, Some(notify), None) => self.notify(notify, shape)?,
            (None, None, None, Some(true)) => {
                self.only_reviews(rule, "noOpinion");
                Action::NoOpinion
            }
            (None, None, None, Some(false)) => {
                self.mistake(
                    "`noOpinion: false` says nothing; write `noOpinion: true` or remove it",
                );
                return None;
            }
            (_, _, _, _) => {
                self.mistake("each directive below `do` is exactly one of command, verdict, notify, noOpinion");
                return None;
            }
        };
        Some(Step { action, reason })
    }

    fn only_reviews(&mut self, rule: &RuleSpec, what: &str) {
        if rule.on != On::Review {
            self.mistake(format!(
                "`{what}` answers a review, but this rule is on {}",
                rule.on.as_str()
            ));
        }
    }

    fn command(&mut self, spec: &CommandSpec, shape: &Shape<'_>) -> Option<Action> {
        if !spec.op.value.contains('.') || spec.op.value.contains("${") {
            let problem = Err(format!(
                "`{}` is no operation; write for instance run.pause",
                spec.op.value
            ));
            self.at::<()>(&spec.op, "op", problem);
        }
        let target = self.template(Some(&spec.target), "target", shape);
        if target.as_ref().is_some_and(Template::is_empty) {
            self.at::<()>(
                &spec.target,
                "target",
                Err("it is empty; write for instance execution:${event.execution}".to_owned()),
            );
        }
        let args = self.values(&spec.args, "args", shape);
        let if_status = self.template(spec.if_status.as_ref(), "ifStatus", shape);
        Some(Action::Command {
            op: spec.op.value.clone(),
            target: target?,
            args,
            if_status,
        })
    }

    fn notify(&mut self, spec: &NotifySpec, shape: &Shape<'_>) -> Option<Action> {
        let message = self.template(Some(&spec.message), "message", shape);
        let data = self.values(&spec.data, "data", shape);
        Some(Action::Notify {
            level: spec.level,
            message: message?,
            data,
        })
    }

    fn template(
        &mut self,
        text: Option<&Spanned<String>>,
        field: &str,
        shape: &Shape<'_>,
    ) -> Option<Template> {
        let text = text?;
        let made = Template::compile(&self.env, shape, &text.value);
        self.at(text, field, made)
    }

    fn values(
        &mut self,
        values: &BTreeMap<String, serde_json::Value>,
        field: &str,
        shape: &Shape<'_>,
    ) -> BTreeMap<String, ValueTemplate> {
        let mut filled = BTreeMap::new();
        for (name, value) in values {
            match ValueTemplate::compile(&self.env, shape, value) {
                Ok(value) => drop(filled.insert(name.clone(), value)),
                Err(problem) => self.mistake(format!("{field}.{name}: {problem}")),
            }
        }
        filled
    }
}

/// Ids of the contract's form (C2).
fn is_name(name: &str) -> bool {
    name.len() <= 64
        && name.starts_with(|c: char| c.is_ascii_alphanumeric())
        && name
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-'))
}

/// Reads a period such as `500ms`, `30s`, `5m` or `1h`.
fn period(text: &str) -> Result<Duration, String> {
    let wrong = || format!("`{text}` is no period; write for instance 500ms, 30s, 5m or 1h");
    let split = text.find(|c: char| !c.is_ascii_digit()).ok_or_else(wrong)?;
    let number: u64 = text[..split].parse().map_err(|_| wrong())?;
    let unit = match &text[split..] {
        "ms" => 1,
        "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        _ => return Err(wrong()),
    };
    let period = Duration::from_millis(number.checked_mul(unit).ok_or_else(wrong)?);
    if period < SHORTEST_TICK {
        return Err(format!(
            "`{text}` is too short; the shortest period is 100ms (C15)"
        ));
    }
    Ok(period)
}
