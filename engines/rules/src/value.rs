//! The variables of expressions, made from signals.
//!
//! Names are those of the contract's JSON form. Every field is always there: a text that the signal
//! does not carry is empty, a number that it does not carry is null, so a condition may name any field
//! without asking for it first. Numbers count as integers wherever they are whole.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use cel::Value;
use cel::objects::Key;
use prost_types::value::Kind;

use crate::proto as pb;
use crate::spec::On;

/// The variables of one evaluation.
pub(crate) type Variables = Vec<(&'static str, Value)>;

/// What is known of a value before there is one.
#[derive(Debug, Clone, Copy)]
enum Node {
    /// A text, a number, a list: nothing to select from.
    Leaf,
    /// A map with names that only the sender knows.
    Open,
    /// A map with these fields.
    Fields(&'static [(&'static str, Node)]),
}

use Node::{Fields, Leaf, Open};

const SIGNAL: Node = Fields(&[("id", Leaf), ("kind", Leaf), ("timeMs", Leaf)]);

const EVENT: Node = Fields(&[
    ("actor", Leaf),
    ("attempt", Leaf),
    ("cause", Leaf),
    ("channel", Leaf),
    ("cursor", Leaf),
    ("detail", Leaf),
    ("execution", Leaf),
    ("exitCode", Leaf),
    ("exitSignal", Leaf),
    ("gained", Leaf),
    ("history", Leaf),
    (
        "input",
        Fields(&[
            ("choices", Leaf),
            ("deadlineMs", Leaf),
            ("id", Leaf),
            ("prompt", Leaf),
            ("status", Leaf),
            ("type", Leaf),
        ]),
    ),
    ("kind", Leaf),
    ("log", Leaf),
    ("lost", Leaf),
    (
        "missed",
        Fields(&[
            ("byKind", Open),
            ("count", Leaf),
            ("executions", Leaf),
            ("executionsTruncated", Leaf),
            ("fromCursor", Leaf),
            ("reason", Leaf),
            ("summaryExact", Leaf),
            ("toCursor", Leaf),
        ]),
    ),
    ("node", Leaf),
    ("op", Leaf),
    ("order", Leaf),
    ("outcome", Leaf),
    ("previous", Leaf),
    ("priority", Leaf),
    ("reason", Leaf),
    ("retryAtMs", Leaf),
    ("status", Leaf),
    ("successor", Leaf),
    ("why", Leaf),
    ("workflow", Leaf),
]);

const TICK: Node = Fields(&[("missed", Leaf), ("nowMs", Leaf), ("scheduledMs", Leaf)]);

const REVIEW: Node = Fields(&[
    ("actor", Fields(&[("id", Leaf), ("kind", Leaf)])),
    ("asOf", Leaf),
    (
        "command",
        Fields(&[
            ("args", Open),
            ("ifStatus", Leaf),
            ("op", Leaf),
            ("reason", Leaf),
            ("target", Leaf),
        ]),
    ),
    ("execution", Leaf),
    ("id", Leaf),
    ("timeoutMs", Leaf),
]);

const STARTED: Node = Fields(&[
    ("asOf", Leaf),
    ("cursor", Leaf),
    ("reason", Leaf),
    ("session", Leaf),
]);

/// The variables that a rule may name, with their fields, and the rules that `fired` knows.
#[derive(Debug)]
pub(crate) struct Shape<'a> {
    variables: [(&'static str, Node); 4],
    rules: &'a BTreeSet<String>,
}

impl<'a> Shape<'a> {
    /// Returns the shape for rules on a kind of signal, in a file with these rules.
    pub(crate) fn of(on: On, rules: &'a BTreeSet<String>) -> Self {
        let own = match on {
            On::Event => ("event", EVENT),
            On::Tick => ("tick", TICK),
            On::Review => ("review", REVIEW),
            On::Started => ("started", STARTED),
        };
        Self {
            variables: [own, ("signal", SIGNAL), ("seen", Leaf), ("fired", Open)],
            rules,
        }
    }

    /// Says whether there is a variable of this name.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.variables.iter().any(|(n, _)| *n == name)
    }

    /// Says whether `fired` knows a rule of this name.
    pub(crate) fn has_rule(&self, name: &str) -> bool {
        self.rules.contains(name)
    }

    /// Lists the variables, for messages.
    pub(crate) fn names(&self) -> String {
        self.variables.map(|(name, _)| name).join(", ")
    }

    /// Follows a path from a variable, and says what is wrong where it leads nowhere.
    pub(crate) fn resolve(&self, path: &[&str]) -> Result<(), String> {
        let root = path.first().copied().unwrap_or_default();
        let mut node = self
            .variables
            .iter()
            .find(|(n, _)| *n == root)
            .map_or(Open, |(_, node)| *node);
        let mut walked = root.to_owned();
        for field in path.iter().skip(1) {
            node = match node {
                Open => return Ok(()),
                Leaf => {
                    return Err(format!(
                        "`{walked}` has no fields, so there is no `{walked}.{field}`"
                    ));
                }
                Fields(fields) => match fields.iter().find(|(n, _)| n == field) {
                    Some((_, node)) => *node,
                    None => {
                        let names: Vec<_> = fields.iter().map(|(n, _)| *n).collect();
                        return Err(format!(
                            "`{walked}` has no field `{field}`; it has {}",
                            names.join(", ")
                        ));
                    }
                },
            };
            walked = format!("{walked}.{field}");
        }
        Ok(())
    }
}

/// What a rule gets to see of a signal.
#[derive(Debug)]
pub(crate) struct Seen {
    /// The kind, as rules name it.
    pub(crate) on: On,
    /// The kind of event; empty for other signals.
    pub(crate) event_kind: String,
    /// The execution that it is about; empty where it is about none.
    pub(crate) execution: String,
    /// `signal` and the variable of its kind.
    pub(crate) variables: Variables,
}

impl Seen {
    /// Reads a signal; nothing for kinds that rules do not know.
    pub(crate) fn of(signal: &pb::Signal) -> Option<Self> {
        use pb::signal::Kind;
        let (on, kind, event_kind, execution, own) = match signal.kind.as_ref()? {
            Kind::Event(e) => (
                On::Event,
                "Event",
                e.kind.clone(),
                e.execution.clone(),
                ("event", event(e)),
            ),
            Kind::Tick(t) => (
                On::Tick,
                "Tick",
                String::new(),
                String::new(),
                ("tick", tick(t)),
            ),
            Kind::Review(r) => {
                let execution = execution_of(r.command.as_ref().map_or("", |c| &c.target));
                (
                    On::Review,
                    "Review",
                    String::new(),
                    execution.to_owned(),
                    ("review", review(r, execution)),
                )
            }
            Kind::Started(s) => (
                On::Started,
                "Started",
                String::new(),
                String::new(),
                ("started", started(s)),
            ),
            Kind::Delegated(_) | Kind::Consulted(_) => return None,
        };
        let signal = map([
            ("id", text(&signal.id)),
            ("kind", kind.into()),
            ("timeMs", signal.time_ms.into()),
        ]);
        Some(Self {
            on,
            event_kind,
            execution,
            variables: vec![own, ("signal", signal)],
        })
    }
}

/// Returns the execution in a target: of `execution:x1` and of `node:x1/build`, else nothing.
fn execution_of(target: &str) -> &str {
    if let Some(execution) = target.strip_prefix("execution:") {
        execution
    } else if let Some(nodes) = target.strip_prefix("node:") {
        nodes.split('/').next().unwrap_or_default()
    } else {
        ""
    }
}

fn event(e: &pb::Event) -> Value {
    let pb::Event {
        kind,
        cursor,
        history,
        execution,
        workflow,
        node,
        status,
        previous,
        attempt,
        why,
        exit,
        retry_at_ms,
        op,
        outcome,
        detail,
        channel,
        actor,
        cause,
        order,
        reason,
        priority,
        holds: _,
        successor,
        log,
        input,
        units_gained,
        units_lost,
        missed,
    } = e;
    let (exit_code, exit_signal) = match exit {
        Some(pb::event::Exit::ExitCode(code)) => (int(*code), Value::Null),
        Some(pb::event::Exit::ExitSignal(signal)) => (Value::Null, int(*signal)),
        None => (Value::Null, Value::Null),
    };
    map([
        ("actor", text(actor)),
        ("attempt", int(*attempt)),
        ("cause", text(cause)),
        ("channel", text(channel)),
        ("cursor", text(cursor)),
        ("detail", text(detail)),
        ("execution", text(execution)),
        ("exitCode", exit_code),
        ("exitSignal", exit_signal),
        ("gained", texts(units_gained)),
        ("history", (*history).into()),
        ("input", input.as_ref().map_or(Value::Null, input_request)),
        ("kind", text(kind)),
        ("log", log.iter().map(log_line).collect::<Vec<_>>().into()),
        ("lost", texts(units_lost)),
        ("missed", missed.as_ref().map_or(Value::Null, events_missed)),
        ("node", text(node)),
        ("op", text(op)),
        ("order", count(*order)),
        ("outcome", text(outcome)),
        ("previous", text(previous)),
        ("priority", priority.map_or(Value::Null, int)),
        ("reason", text(reason)),
        ("retryAtMs", retry_at_ms.map_or(Value::Null, int)),
        ("status", text(status)),
        ("successor", text(successor)),
        ("why", text(why)),
        ("workflow", text(workflow)),
    ])
}

fn input_request(i: &pb::InputRequest) -> Value {
    map([
        ("choices", texts(&i.choices)),
        ("deadlineMs", i.deadline_ms.map_or(Value::Null, int)),
        ("id", text(&i.id)),
        ("prompt", text(&i.prompt)),
        ("status", text(&i.status)),
        ("type", text(&i.r#type)),
    ])
}

fn log_line(line: &pb::LogLine) -> Value {
    map([
        ("attempt", int(line.attempt)),
        ("node", text(&line.node)),
        ("stream", text(&line.stream)),
        ("text", text(&line.text)),
        ("timeMs", line.time_ms.into()),
    ])
}

fn events_missed(m: &pb::EventsMissed) -> Value {
    let by_kind: HashMap<Key, Value> = m
        .count_by_kind
        .iter()
        .map(|(kind, n)| (kind.clone().into(), count(*n)))
        .collect();
    map([
        ("byKind", by_kind.into()),
        ("count", count(m.count)),
        ("executions", texts(&m.executions)),
        ("executionsTruncated", m.executions_truncated.into()),
        ("fromCursor", text(&m.from_cursor)),
        ("reason", text(&m.reason)),
        ("summaryExact", m.summary_exact.into()),
        ("toCursor", text(&m.to_cursor)),
    ])
}

fn tick(t: &pb::Tick) -> Value {
    map([
        ("missed", count(t.missed)),
        ("nowMs", t.now_ms.into()),
        ("scheduledMs", t.scheduled_ms.into()),
    ])
}

fn review(r: &pb::Review, execution: &str) -> Value {
    let command = r.command.clone().unwrap_or_default();
    let actor = r.actor.clone().unwrap_or_default();
    let args = command.args.unwrap_or_default();
    map([
        (
            "actor",
            map([("id", text(&actor.id)), ("kind", text(&actor.kind))]),
        ),
        ("asOf", text(&r.as_of)),
        (
            "command",
            map([
                ("args", from_struct(&args)),
                ("ifStatus", text(&command.if_status)),
                ("op", text(&command.op)),
                ("reason", text(&command.reason)),
                ("target", text(&command.target)),
            ]),
        ),
        ("execution", text(execution)),
        ("id", text(&r.id)),
        ("timeoutMs", count(r.timeout_ms)),
    ])
}

fn started(s: &pb::Started) -> Value {
    map([
        ("asOf", text(&s.as_of)),
        ("cursor", text(&s.cursor)),
        ("reason", text(&s.reason)),
        ("session", text(&s.session)),
    ])
}

/// Makes the variable `fired`: how often each rule has fired.
pub(crate) fn fired<'a>(counts: impl Iterator<Item = (&'a str, u32)>) -> Value {
    let counts: HashMap<Key, Value> = counts.map(|(rule, n)| (rule.into(), int(n))).collect();
    counts.into()
}

fn map<const N: usize>(fields: [(&'static str, Value); N]) -> Value {
    HashMap::<Key, Value>::from(fields.map(|(name, value)| (Key::from(name), value))).into()
}

fn text(s: &str) -> Value {
    s.into()
}

fn texts(list: &[String]) -> Value {
    list.iter().map(|s| text(s)).collect::<Vec<_>>().into()
}

fn int(n: impl Into<i64>) -> Value {
    Value::Int(n.into())
}

/// A count as an integer, so that it can be compared and added without a cast.
fn count(n: u64) -> Value {
    Value::Int(i64::try_from(n).unwrap_or(i64::MAX))
}

fn from_struct(s: &prost_types::Struct) -> Value {
    let fields: HashMap<Key, Value> = s
        .fields
        .iter()
        .map(|(k, v)| (k.clone().into(), from_proto(v)))
        .collect();
    fields.into()
}

fn from_proto(value: &prost_types::Value) -> Value {
    match &value.kind {
        None | Some(Kind::NullValue(_)) => Value::Null,
        Some(Kind::BoolValue(b)) => (*b).into(),
        Some(Kind::NumberValue(n)) => number(*n),
        Some(Kind::StringValue(s)) => text(s),
        Some(Kind::ListValue(list)) => list
            .values
            .iter()
            .map(from_proto)
            .collect::<Vec<_>>()
            .into(),
        Some(Kind::StructValue(s)) => from_struct(s),
    }
}

/// The largest number below which every whole one has a float of its own.
const EXACT: f64 = 9_007_199_254_740_992.0;

fn number(n: f64) -> Value {
    if n.fract() == 0.0 && n.abs() <= EXACT {
        #[expect(
            clippy::cast_possible_truncation,
            reason = "it is whole and small enough, as just checked"
        )]
        let whole = n as i64;
        Value::Int(whole)
    } else {
        Value::Float(n)
    }
}

/// Turns what an expression gave into a value of the contract.
pub(crate) fn to_proto(value: &Value) -> Result<prost_types::Value, String> {
    #[expect(
        clippy::cast_precision_loss,
        reason = "numbers of the contract are floats, as in JSON"
    )]
    let kind = match value {
        Value::Null => Kind::NullValue(0),
        Value::Bool(b) => Kind::BoolValue(*b),
        Value::Int(n) => Kind::NumberValue(*n as f64),
        Value::UInt(n) => Kind::NumberValue(*n as f64),
        Value::Float(n) => Kind::NumberValue(*n),
        Value::String(s) => Kind::StringValue(s.to_string()),
        Value::List(items) => Kind::ListValue(prost_types::ListValue {
            values: items.iter().map(to_proto).collect::<Result<_, _>>()?,
        }),
        Value::Map(m) => Kind::StructValue(prost_types::Struct {
            fields: m
                .map
                .iter()
                .map(|(key, value)| Ok((key.to_string(), to_proto(value)?)))
                .collect::<Result<BTreeMap<_, _>, String>>()?,
        }),
        other => return Err(format!("a {} cannot be an argument", other.type_of())),
    };
    Ok(prost_types::Value { kind: Some(kind) })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lists the paths of a shape that lead to something without known fields.
    fn leaves(prefix: &str, node: Node, paths: &mut Vec<String>) {
        match node {
            Leaf | Open => paths.push(prefix.to_owned()),
            Fields(fields) => fields
                .iter()
                .for_each(|(name, node)| leaves(&format!("{prefix}.{name}"), *node, paths)),
        }
    }

    #[test]
    fn every_field_that_the_check_lets_pass_is_there_when_it_is_evaluated() {
        use pb::signal::Kind;
        let full_event = pb::Event {
            input: Some(pb::InputRequest::default()),
            missed: Some(pb::EventsMissed::default()),
            ..Default::default()
        };
        let kinds = [
            (On::Event, Kind::Event(Box::new(full_event))),
            (On::Tick, Kind::Tick(pb::Tick::default())),
            (On::Review, Kind::Review(pb::Review::default())),
            (On::Started, Kind::Started(pb::Started::default())),
        ];
        let env = std::sync::Arc::new(cel::Env::stdlib());
        for (on, kind) in kinds {
            let seen = Seen::of(&pb::Signal {
                kind: Some(kind),
                ..Default::default()
            })
            .unwrap();
            let mut variables = seen.variables;
            variables.push(("seen", Value::Int(0)));
            variables.push(("fired", fired(std::iter::empty())));
            let rules = BTreeSet::new();
            let shape = Shape::of(on, &rules);
            let mut paths = Vec::new();
            shape
                .variables
                .iter()
                .for_each(|(name, node)| leaves(name, *node, &mut paths));
            for path in paths {
                let expression =
                    crate::expression::Expression::compile(&env, &shape, &path).unwrap();
                assert!(expression.eval(&env, &variables).is_ok(), "{path}");
            }
        }
    }

    #[test]
    fn arguments_go_through_expressions_unchanged() {
        let whole = prost_types::Value {
            kind: Some(Kind::NumberValue(10_000.0)),
        };
        assert_eq!(from_proto(&whole), Value::Int(10_000));
        assert_eq!(to_proto(&from_proto(&whole)).unwrap(), whole);
        let half = prost_types::Value {
            kind: Some(Kind::NumberValue(0.5)),
        };
        assert_eq!(to_proto(&from_proto(&half)).unwrap(), half);
    }

    #[test]
    fn the_execution_is_found_in_targets_that_name_one() {
        assert_eq!(execution_of("execution:x1"), "x1");
        assert_eq!(execution_of("node:x1/build.compile,x1/b"), "x1");
        assert_eq!(execution_of("owned.running"), "");
    }
}
