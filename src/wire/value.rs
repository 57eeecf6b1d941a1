//! JSON values on the wire: `google.protobuf.Struct` and `Value`, whose numbers are all floating point.
//! Whole numbers come out as whole numbers, so that equal directives are equal by gRPC and by JSON (C19).

use prost_types::value::Kind;
use prost_types::{ListValue, Struct, Value as Wire};
use serde_json::{Map, Number, Value};

use super::Malformed;

/// Beyond this a floating-point number is not sure to be the whole number that was meant.
const WHOLE_MOST: f64 = 9_007_199_254_740_992.0;

/// Reads the fields of a struct; `path` names it in errors.
///
/// # Errors
/// A value without a kind, or a number that JSON cannot hold.
pub fn fields(raw: Struct, path: &str) -> Result<Map<String, Value>, Malformed> {
    let Struct { fields } = raw;
    fields
        .into_iter()
        .map(|(name, value)| {
            let value = json(value, &format!("{path}.{name}"))?;
            Ok((name, value))
        })
        .collect()
}

/// Reads a value; `path` names it in errors.
///
/// # Errors
/// A value without a kind, or a number that JSON cannot hold.
pub fn json(raw: Wire, path: &str) -> Result<Value, Malformed> {
    let Wire { kind } = raw;
    match kind {
        None => Err(Malformed::new(
            path,
            "the value has no kind; send null for nothing",
        )),
        Some(Kind::NullValue(_)) => Ok(Value::Null),
        Some(Kind::BoolValue(b)) => Ok(Value::Bool(b)),
        Some(Kind::StringValue(s)) => Ok(Value::String(s)),
        Some(Kind::NumberValue(n)) => number(n).map(Value::Number).ok_or_else(|| {
            Malformed::new(
                path,
                "not a number is no JSON value; send a finite number or a text",
            )
        }),
        Some(Kind::StructValue(s)) => fields(s, path).map(Value::Object),
        Some(Kind::ListValue(ListValue { values })) => values
            .into_iter()
            .enumerate()
            .map(|(i, v)| json(v, &format!("{path}[{i}]")))
            .collect::<Result<_, _>>()
            .map(Value::Array),
    }
}

fn number(n: f64) -> Option<Number> {
    #[expect(
        clippy::cast_possible_truncation,
        reason = "the bound keeps every whole number exact"
    )]
    if n.fract() == 0.0 && n.abs() <= WHOLE_MOST {
        return Some(Number::from(n as i64));
    }
    Number::from_f64(n)
}

/// Writes the fields of a struct.
pub fn to_struct<'a>(fields: impl IntoIterator<Item = (&'a String, &'a Value)>) -> Struct {
    Struct {
        fields: fields
            .into_iter()
            .map(|(name, value)| (name.clone(), to_value(value)))
            .collect(),
    }
}

/// Writes a value. A whole number beyond 2^53 loses its last digits, as the wire has no whole numbers.
#[must_use]
pub fn to_value(value: &Value) -> Wire {
    let kind = match value {
        Value::Null => Kind::NullValue(0),
        Value::Bool(b) => Kind::BoolValue(*b),
        // Every JSON number of this build has a floating-point form.
        Value::Number(n) => n.as_f64().map_or(Kind::NullValue(0), Kind::NumberValue),
        Value::String(s) => Kind::StringValue(s.clone()),
        Value::Array(values) => Kind::ListValue(ListValue {
            values: values.iter().map(to_value).collect(),
        }),
        Value::Object(fields) => Kind::StructValue(to_struct(fields)),
    };
    Wire { kind: Some(kind) }
}
