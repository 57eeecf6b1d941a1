//! Texts with `${expression}` in them.
//!
//! `$${` stands for a `${` that is meant literally.

use std::collections::BTreeMap;
use std::sync::Arc;

use cel::{Env, Value};
use prost_types::value::Kind;

use crate::expression::Expression;
use crate::value::{Shape, Variables, to_proto};

/// A text with expressions in it.
#[derive(Debug)]
pub(crate) struct Template {
    parts: Vec<Part>,
}

#[derive(Debug)]
enum Part {
    Literal(String),
    Expression(Expression),
}

impl Template {
    /// Compiles a text over the variables of a shape.
    pub(crate) fn compile(env: &Env, shape: &Shape<'_>, source: &str) -> Result<Self, String> {
        let mut parts = Vec::new();
        let mut literal = String::new();
        let mut rest = source;
        while let Some(at) = rest.find("${") {
            if rest[..at].ends_with('$') {
                literal.push_str(&rest[..at]);
                literal.push('{');
                rest = &rest[at + 2..];
                continue;
            }
            literal.push_str(&rest[..at]);
            let inner = &rest[at + 2..];
            let end = closing_brace(inner).ok_or_else(|| {
                format!("`{source}` has a `${{` without its `}}`; write `$${{` for a literal one")
            })?;
            if !literal.is_empty() {
                parts.push(Part::Literal(std::mem::take(&mut literal)));
            }
            parts.push(Part::Expression(Expression::compile(
                env,
                shape,
                &inner[..end],
            )?));
            rest = &inner[end + 1..];
        }
        literal.push_str(rest);
        if !literal.is_empty() {
            parts.push(Part::Literal(literal));
        }
        Ok(Self { parts })
    }

    /// Says whether the text is empty whatever the variables are.
    pub(crate) fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    /// Fills in a text.
    pub(crate) fn text(&self, env: &Arc<Env>, variables: &Variables) -> Result<String, String> {
        let mut text = String::new();
        for part in &self.parts {
            match part {
                Part::Literal(literal) => text.push_str(literal),
                Part::Expression(expression) => match expression.eval(env, variables)? {
                    Value::String(s) => text.push_str(&s),
                    Value::Int(n) => text.push_str(&n.to_string()),
                    Value::UInt(n) => text.push_str(&n.to_string()),
                    Value::Float(n) => text.push_str(&n.to_string()),
                    Value::Bool(b) => text.push_str(if b { "true" } else { "false" }),
                    other => {
                        return Err(format!(
                            "a {} does not fit into a text; use string() or pick a field",
                            other.type_of()
                        ));
                    }
                },
            }
        }
        Ok(text)
    }

    /// Fills in a value: what a single expression gives keeps its type, anything else is a text.
    fn value(&self, env: &Arc<Env>, variables: &Variables) -> Result<prost_types::Value, String> {
        match self.parts.as_slice() {
            [Part::Expression(expression)] => to_proto(&expression.eval(env, variables)?),
            _ => Ok(prost_types::Value {
                kind: Some(Kind::StringValue(self.text(env, variables)?)),
            }),
        }
    }
}

/// A value of the file whose texts are templates.
#[derive(Debug)]
pub(crate) enum ValueTemplate {
    Fixed(Kind),
    Text(Template),
    List(Vec<ValueTemplate>),
    Map(BTreeMap<String, ValueTemplate>),
}

impl ValueTemplate {
    /// Compiles every text in a value.
    pub(crate) fn compile(
        env: &Env,
        shape: &Shape<'_>,
        source: &serde_json::Value,
    ) -> Result<Self, String> {
        use serde_json::Value as Json;
        Ok(match source {
            Json::Null => Self::Fixed(Kind::NullValue(0)),
            Json::Bool(b) => Self::Fixed(Kind::BoolValue(*b)),
            Json::Number(n) => Self::Fixed(Kind::NumberValue(
                n.as_f64()
                    .ok_or_else(|| format!("{n} is too large for a number"))?,
            )),
            Json::String(s) => Self::Text(Template::compile(env, shape, s)?),
            Json::Array(items) => Self::List(
                items
                    .iter()
                    .map(|item| Self::compile(env, shape, item))
                    .collect::<Result<_, _>>()?,
            ),
            Json::Object(fields) => Self::Map(
                fields
                    .iter()
                    .map(|(name, field)| Ok((name.clone(), Self::compile(env, shape, field)?)))
                    .collect::<Result<_, String>>()?,
            ),
        })
    }

    /// Fills in a value.
    pub(crate) fn fill(
        &self,
        env: &Arc<Env>,
        variables: &Variables,
    ) -> Result<prost_types::Value, String> {
        let kind = match self {
            Self::Fixed(kind) => kind.clone(),
            Self::Text(template) => return template.value(env, variables),
            Self::List(items) => Kind::ListValue(prost_types::ListValue {
                values: items
                    .iter()
                    .map(|item| item.fill(env, variables))
                    .collect::<Result<_, _>>()?,
            }),
            Self::Map(fields) => Kind::StructValue(fill_struct(fields, env, variables)?),
        };
        Ok(prost_types::Value { kind: Some(kind) })
    }
}

/// Fills in the fields of a struct.
pub(crate) fn fill_struct(
    fields: &BTreeMap<String, ValueTemplate>,
    env: &Arc<Env>,
    variables: &Variables,
) -> Result<prost_types::Struct, String> {
    Ok(prost_types::Struct {
        fields: fields
            .iter()
            .map(|(name, field)| Ok((name.clone(), field.fill(env, variables)?)))
            .collect::<Result<_, String>>()?,
    })
}

/// Finds the brace that closes an expression, past braces and texts inside of it.
fn closing_brace(source: &str) -> Option<usize> {
    let mut depth = 0_usize;
    let mut quote = None;
    let mut chars = source.char_indices();
    while let Some((at, c)) = chars.next() {
        match (quote, c) {
            (Some(_), '\\') => {
                chars.next();
            }
            (Some(q), c) if c == q => quote = None,
            (Some(_), _) => {}
            (None, '"' | '\'') => quote = Some(c),
            (None, '{') => depth += 1,
            (None, '}') if depth == 0 => return Some(at),
            (None, '}') => depth -= 1,
            (None, _) => {}
        }
    }
    None
}
