//! CEL expressions that are checked when the file is loaded: syntax, variables, fields and functions.
//!
//! A field that the contract does not have is a mistake at load, not at three in the morning.

use std::sync::Arc;

use cel::common::ast::{CallExpr, EntryExpr, Expr, LiteralValue};
use cel::{Context, Env, IdedExpr, Program, Value};

use crate::value::{Shape, Variables};

/// The longest expression, in bytes. What needs more is a program, and belongs into one.
const LONGEST: usize = 1024;

/// What may be called, besides operators.
const FUNCTIONS: [&str; 20] = [
    "bool",
    "bytes",
    "contains",
    "double",
    "dyn",
    "endsWith",
    "hasValue",
    "int",
    "optional.none",
    "optional.of",
    "optional.ofNonZeroValue",
    "or",
    "orValue",
    "size",
    "startsWith",
    "string",
    "type",
    "uint",
    "value",
    "@not_strictly_false",
];

/// Names of types, which an expression may compare with `type(x)`.
const TYPES: [&str; 10] = [
    "bool",
    "bytes",
    "double",
    "int",
    "list",
    "map",
    "null_type",
    "string",
    "type",
    "uint",
];

/// A compiled expression.
#[derive(Debug)]
pub(crate) struct Expression {
    program: Program,
}

impl Expression {
    /// Compiles an expression over the variables of a shape.
    pub(crate) fn compile(env: &Env, shape: &Shape<'_>, source: &str) -> Result<Self, String> {
        if source.trim().is_empty() {
            return Err("the expression is empty".to_owned());
        }
        if source.len() > LONGEST {
            return Err(format!(
                "the expression has {} bytes; at most {LONGEST} are allowed",
                source.len()
            ));
        }
        let program = env.compile(source).map_err(|errors| {
            let mut found: Vec<_> = errors
                .errors
                .iter()
                .map(|e| format!("{} (at {}:{} of the expression)", e.msg, e.pos.0, e.pos.1))
                .collect();
            found.dedup();
            format!(
                "`{}` is no CEL expression: {}",
                source.trim(),
                found.join("; ")
            )
        })?;
        let mut problems = Vec::new();
        check(program.expression(), shape, &mut Vec::new(), &mut problems);
        problems.dedup();
        if problems.is_empty() {
            Ok(Self { program })
        } else {
            Err(format!("in `{}`: {}", source.trim(), problems.join("; ")))
        }
    }

    /// Evaluates it.
    pub(crate) fn eval(&self, env: &Arc<Env>, variables: &Variables) -> Result<Value, String> {
        let mut context = Context::with_env(Arc::clone(env));
        for (name, value) in variables {
            context.add_variable_from_value(*name, value.clone());
        }
        self.program.execute(&context).map_err(|e| e.to_string())
    }
}

/// Walks an expression and notes unknown variables, fields and functions. `bound` holds the variables
/// of the macros around it.
fn check(node: &IdedExpr, shape: &Shape<'_>, bound: &mut Vec<String>, problems: &mut Vec<String>) {
    match &node.expr {
        Expr::Unspecified | Expr::Literal(_) => {}
        Expr::Ident(name) => {
            if !name.starts_with('@')
                && !bound.contains(name)
                && !TYPES.contains(&name.as_str())
                && !shape.has(name)
            {
                problems.push(format!(
                    "there is no variable `{name}` here; there are {}",
                    shape.names()
                ));
            }
        }
        Expr::Select(select) => {
            if let Some(path) = path_of(node) {
                if bound.iter().any(|b| b == path[0]) {
                    return;
                }
                if shape.has(path[0]) {
                    if let Err(problem) = shape.resolve(&path) {
                        problems.push(problem);
                    }
                    return;
                }
            }
            check(&select.operand, shape, bound, problems);
        }
        Expr::Call(call) => {
            let name = call.func_name.as_str();
            let qualified = call
                .target
                .as_ref()
                .and_then(|target| path_of(target))
                .is_some_and(|path| path == ["optional"]);
            if qualified {
                if !FUNCTIONS.contains(&format!("optional.{name}").as_str()) {
                    problems.push(format!("there is no function `optional.{name}`"));
                }
            } else if name.starts_with(|c: char| c.is_ascii_alphabetic())
                && !FUNCTIONS.contains(&name)
            {
                problems.push(format!("there is no function `{name}`"));
            }
            if let Some(target) = call.target.as_ref().filter(|_| !qualified) {
                check(target, shape, bound, problems);
            }
            if let Some(rule) = fired_rule(call).filter(|rule| !shape.has_rule(rule)) {
                problems.push(format!(
                    "there is no rule `{rule}` in this file, so it never fires"
                ));
            }
            for arg in &call.args {
                check(arg, shape, bound, problems);
            }
        }
        Expr::List(list) => list
            .elements
            .iter()
            .for_each(|e| check(e, shape, bound, problems)),
        Expr::Map(map) => map
            .entries
            .iter()
            .for_each(|e| check_entry(&e.expr, shape, bound, problems)),
        Expr::Struct(_) => {
            problems.push("there are no messages to construct here; write a map".to_owned())
        }
        Expr::Comprehension(c) => {
            check(&c.iter_range, shape, bound, problems);
            let depth = bound.len();
            bound.push(c.iter_var.clone());
            bound.extend(c.iter_var2.clone());
            bound.push(c.accu_var.clone());
            for part in [&c.accu_init, &c.loop_cond, &c.loop_step, &c.result] {
                check(part, shape, bound, problems);
            }
            bound.truncate(depth);
        }
    }
}

fn check_entry(
    entry: &EntryExpr,
    shape: &Shape<'_>,
    bound: &mut Vec<String>,
    problems: &mut Vec<String>,
) {
    match entry {
        EntryExpr::StructField(field) => check(&field.value, shape, bound, problems),
        EntryExpr::MapEntry(entry) => {
            check(&entry.key, shape, bound, problems);
            check(&entry.value, shape, bound, problems);
        }
    }
}

/// Returns the rule in `fired["rule"]`.
fn fired_rule(call: &CallExpr) -> Option<&str> {
    match (call.func_name.as_str(), call.args.as_slice()) {
        ("_[_]", [map, key]) => match (&map.expr, &key.expr) {
            (Expr::Ident(name), Expr::Literal(LiteralValue::String(rule))) if name == "fired" => {
                Some(rule.inner())
            }
            _ => None,
        },
        _ => None,
    }
}

/// Returns `a.b.c` as its segments; nothing where the root is no name.
fn path_of(node: &IdedExpr) -> Option<Vec<&str>> {
    let mut path = Vec::new();
    let mut node = node;
    loop {
        match &node.expr {
            Expr::Ident(name) => {
                path.push(name.as_str());
                path.reverse();
                return Some(path);
            }
            Expr::Select(select) => {
                path.push(select.field.as_str());
                node = &select.operand;
            }
            Expr::Unspecified
            | Expr::Call(_)
            | Expr::Comprehension(_)
            | Expr::List(_)
            | Expr::Literal(_)
            | Expr::Map(_)
            | Expr::Struct(_) => return None,
        }
    }
}
