//! Fills a type from a tree, and says for everything that does not fit where it is and what is known instead.

use std::fmt::{self, Display};

use serde::de::value::StrDeserializer;
use serde::de::{
    DeserializeOwned, DeserializeSeed, Deserializer, Error as _, Expected, IntoDeserializer,
    MapAccess, SeqAccess, Unexpected, Visitor,
};
use serde::forward_to_deserialize_any;

use super::tree::{Key, Node, Number, Step, Value, path_text};
use super::{MAX_MISTAKES, Mistake, Place};

/// Fills a type. What does not fit is noted and taken out of the tree, so that the rest is checked too.
pub(super) fn fill<T: DeserializeOwned>(tree: &mut Node, mistakes: &mut Vec<Mistake>) -> Option<T> {
    let mut removed: Vec<Vec<Step>> = Vec::new();
    while mistakes.len() < MAX_MISTAKES {
        let fault = match T::deserialize(&*tree) {
            Ok(def) => return Some(def),
            Err(fault) => fault,
        };
        let path: Vec<Step> = fault.path.iter().rev().cloned().collect();
        // A field that was taken out is missing only because of that.
        let known = fault.missing.as_ref().is_some_and(|field| {
            let whole: Vec<Step> = path
                .iter()
                .cloned()
                .chain([Step::Key((*field).to_owned())])
                .collect();
            removed.contains(&whole)
        });
        if !known {
            let place = fault.place.unwrap_or(tree.place);
            mistakes.push(Mistake {
                place,
                path: path_text(&path),
                message: fault.message,
            });
        }
        if path.is_empty() {
            return None;
        }
        tree.remove(&path);
        removed.push(path);
    }
    None
}

/// Why a type could not be filled.
#[derive(Debug)]
pub(super) struct Fault {
    /// Where; absent until somebody on the way out knows.
    place: Option<Place>,
    /// The steps to it, the innermost first.
    path: Vec<Step>,
    /// The field that is missing there.
    missing: Option<&'static str>,
    message: String,
}

impl Fault {
    fn new(message: impl Into<String>) -> Self {
        Self {
            place: None,
            path: Vec::new(),
            missing: None,
            message: message.into(),
        }
    }

    fn at(mut self, place: Place) -> Self {
        self.place.get_or_insert(place);
        self
    }

    fn below(mut self, step: Step) -> Self {
        self.path.push(step);
        self
    }
}

impl Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Fault {}

impl serde::de::Error for Fault {
    fn custom<T: Display>(message: T) -> Self {
        Self::new(message.to_string())
    }

    fn invalid_type(unexpected: Unexpected<'_>, expected: &dyn Expected) -> Self {
        Self::new(format!(
            "this is {}; write {}",
            plain(&unexpected),
            wanted(&expected.to_string())
        ))
    }

    fn invalid_value(unexpected: Unexpected<'_>, expected: &dyn Expected) -> Self {
        Self::new(format!(
            "{} does not fit; write {}",
            plain(&unexpected),
            wanted(&expected.to_string())
        ))
    }

    fn unknown_variant(variant: &str, expected: &'static [&'static str]) -> Self {
        Self::new(format!(
            "`{variant}` is not known here; {}",
            known(variant, expected)
        ))
    }

    fn unknown_field(field: &str, expected: &'static [&'static str]) -> Self {
        Self::new(format!(
            "`{field}` is not a key that is known here; {}",
            known(field, expected)
        ))
    }

    fn missing_field(field: &'static str) -> Self {
        Self {
            missing: Some(field),
            ..Self::new(format!("`{field}` is missing; it must be given"))
        }
    }
}

fn known(given: &str, expected: &[&str]) -> String {
    let near = expected
        .iter()
        .map(|name| (distance(&given.to_lowercase(), &name.to_lowercase()), *name))
        .min()
        .filter(|(distance, name)| *distance <= 1 + name.len() / 4);
    let list = expected.join(", ");
    match near {
        Some((_, name)) => format!("did you mean `{name}`? Known are {list}"),
        None if expected.is_empty() => "nothing is known here; take it out".to_owned(),
        None => format!("known are {list}"),
    }
}

/// How many letters must be changed, put in or taken out to come from one word to the other.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().take(64).collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().take(64).enumerate() {
        let mut before = row[0];
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let change = before + usize::from(x != *y);
            before = row[j + 1];
            row[j + 1] = change.min(before + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}

fn plain(unexpected: &Unexpected<'_>) -> String {
    match unexpected {
        Unexpected::Map | Unexpected::StructVariant => "keys with values".to_owned(),
        Unexpected::Seq | Unexpected::TupleVariant => "a list".to_owned(),
        Unexpected::Str(text) => format!("`{}`", text.chars().take(80).collect::<String>()),
        Unexpected::Unsigned(n) => format!("`{n}`"),
        Unexpected::Signed(n) => format!("`{n}`"),
        Unexpected::Other(what) => (*what).to_owned(),
        other => other.to_string(),
    }
}

fn wanted(expected: &str) -> String {
    match expected {
        "a map" => "keys with values".to_owned(),
        "a sequence" => "a list".to_owned(),
        "a string" => "a text".to_owned(),
        "u32" => "a whole number from 0 to 4294967295".to_owned(),
        _ if expected.starts_with("struct ") => "keys with values".to_owned(),
        _ if expected.starts_with("enum ") => "one of the known words".to_owned(),
        other => other.to_owned(),
    }
}

impl Node {
    /// Returns the text of a scalar, whatever its type.
    fn text(&self) -> Option<&str> {
        match &self.value {
            Value::Text(text) | Value::Bool(_, text) | Value::Number(_, text) => Some(text),
            Value::Null | Value::List(_) | Value::Map(_) => None,
        }
    }

    fn unexpected(&self) -> Unexpected<'_> {
        match &self.value {
            Value::Null => Unexpected::Other("empty"),
            Value::Bool(_, text) | Value::Number(_, text) | Value::Text(text) => {
                Unexpected::Str(text)
            }
            Value::List(_) => Unexpected::Seq,
            Value::Map(_) => Unexpected::Map,
        }
    }

    fn misfit<T>(&self, expected: &'static str) -> Result<T, Fault> {
        Err(Fault::invalid_type(self.unexpected(), &expected).at(self.place))
    }
}

impl<'de> Deserializer<'de> for &'de Node {
    type Error = Fault;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        match &self.value {
            Value::Null => visitor.visit_unit(),
            Value::Bool(b, _) => visitor.visit_bool(*b),
            Value::Number(Number::Positive(n), _) => visitor.visit_u64(*n),
            Value::Number(Number::Negative(n), _) => visitor.visit_i64(*n),
            Value::Number(Number::Fraction, text) | Value::Text(text) => visitor.visit_str(text),
            Value::List(_) => return self.deserialize_seq(visitor),
            Value::Map(_) => return self.deserialize_map(visitor),
        }
        .map_err(|fault: Fault| fault.at(self.place))
    }

    fn deserialize_str<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        match (&self.value, self.text()) {
            (_, Some(text)) => visitor
                .visit_str(text)
                .map_err(|fault: Fault| fault.at(self.place)),
            (Value::Null, None) => Err(Fault::new(
                "it is empty; write a text, in quotes if it is the word `null` or `~`",
            )
            .at(self.place)),
            _ => self.misfit("a text"),
        }
    }

    fn deserialize_string<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        self.deserialize_str(visitor)
    }

    fn deserialize_identifier<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        self.deserialize_str(visitor)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        // An empty value is not the same as an absent key: somebody meant to write something.
        if matches!(self.value, Value::Null) {
            return Err(Fault::new("it is empty; write a value or take the key out").at(self.place));
        }
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Fault> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        let Value::List(items) = &self.value else {
            return self.misfit("a list");
        };
        visitor
            .visit_seq(Items { items, next: 0 })
            .map_err(|fault: Fault| fault.at(self.place))
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        let Value::Map(entries) = &self.value else {
            return self.misfit("keys with values");
        };
        visitor
            .visit_map(Entries { entries, next: 0 })
            .map_err(|fault: Fault| fault.at(self.place))
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Fault> {
        self.deserialize_map(visitor)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Fault> {
        let Some(text) = self.text() else {
            return self.misfit("a text");
        };
        let word: StrDeserializer<'_, Fault> = text.into_deserializer();
        visitor
            .visit_enum(word)
            .map_err(|fault| fault.at(self.place))
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char bytes byte_buf unit unit_struct tuple
        tuple_struct ignored_any
    }
}

struct Items<'a> {
    items: &'a [Option<Node>],
    next: usize,
}

impl<'de> SeqAccess<'de> for Items<'de> {
    type Error = Fault;

    fn next_element_seed<T: DeserializeSeed<'de>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, Fault> {
        while let Some(item) = self.items.get(self.next) {
            let number = self.next;
            self.next += 1;
            if let Some(node) = item {
                return seed
                    .deserialize(node)
                    .map(Some)
                    .map_err(|f| f.at(node.place).below(Step::Item(number)));
            }
        }
        Ok(None)
    }
}

struct Entries<'a> {
    entries: &'a [(Key, Node)],
    next: usize,
}

impl<'de> MapAccess<'de> for Entries<'de> {
    type Error = Fault;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, Fault> {
        let Some((key, _)) = self.entries.get(self.next) else {
            return Ok(None);
        };
        let text: StrDeserializer<'_, Fault> = key.text.as_str().into_deserializer();
        seed.deserialize(text)
            .map(Some)
            .map_err(|f| f.at(key.place).below(Step::Key(key.text.clone())))
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Fault> {
        let Some((key, node)) = self.entries.get(self.next) else {
            return Err(Fault::new("a value was asked for after the last key"));
        };
        self.next += 1;
        seed.deserialize(node)
            .map_err(|f| f.at(node.place).below(Step::Key(key.text.clone())))
    }
}
