//! A text as a tree whose nodes know their places and whose scalars keep what was written.

use serde::de::{Deserialize, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde_saphyr::options::{DuplicateKeyPolicy, MergeKeyPolicy};
use serde_saphyr::{Location, Spanned};

use super::{Format, MAX_BYTES, MAX_DEPTH, Mistake, Place};

/// How many aliases a text may have, and how much they may stand for.
const MAX_ALIASES: usize = 1_000;
const MAX_REPLAYED: usize = 20_000;
/// How many nodes a text may have.
const MAX_NODES: usize = 250_000;

/// A part of a text.
#[derive(Debug)]
pub(super) struct Node {
    pub place: Place,
    pub value: Value,
}

/// What a part of a text is. Removed items of lists leave their place empty, so that the others keep their number.
#[derive(Debug)]
pub(super) enum Value {
    Null,
    Bool(bool, String),
    Number(Number, String),
    Text(String),
    List(Vec<Option<Node>>),
    Map(Vec<(Key, Node)>),
}

/// A number as its type says; the text beside it says how it was written.
#[derive(Debug, Clone, Copy)]
pub(super) enum Number {
    Positive(u64),
    Negative(i64),
    Fraction,
}

/// A key with its place.
#[derive(Debug)]
pub(super) struct Key {
    pub text: String,
    pub place: Place,
}

/// One step of a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Step {
    Key(String),
    Item(usize),
}

/// Writes a path as people read it.
pub(super) fn path_text(path: &[Step]) -> String {
    let mut out = String::new();
    for step in path {
        match step {
            Step::Key(key) if out.is_empty() => out.push_str(key),
            Step::Key(key) => {
                out.push('.');
                out.push_str(key);
            }
            Step::Item(n) => out.push_str(&format!("[{n}]")),
        }
    }
    out
}

impl Node {
    /// Finds the place of a path, or of the nearest part above it. Keys may hold dots.
    pub fn find(&self, path: &str) -> Place {
        self.search(path).unwrap_or(self.place)
    }

    fn search(&self, path: &str) -> Option<Place> {
        let rest = path.strip_prefix('.').unwrap_or(path);
        match &self.value {
            Value::Map(entries) => entries
                .iter()
                .filter_map(|(key, node)| Some((key, node, rest.strip_prefix(key.text.as_str())?)))
                .filter(|(_, _, tail)| tail.is_empty() || tail.starts_with(['.', '[']))
                // The longest key is the most exact one: `build.compile` before `build`.
                .max_by_key(|(key, node, tail)| (node.search(tail).is_some(), key.text.len()))
                .map(|(key, node, tail)| node.search(tail).unwrap_or(key.place)),
            Value::List(items) => {
                let (number, tail) = rest.strip_prefix('[')?.split_once(']')?;
                let node = items.get(number.parse::<usize>().ok()?)?.as_ref()?;
                Some(node.search(tail).unwrap_or(node.place))
            }
            _ => None,
        }
    }

    /// Takes out the part at a path.
    pub fn remove(&mut self, path: &[Step]) {
        let Some((first, rest)) = path.split_first() else {
            return;
        };
        match (&mut self.value, first) {
            (Value::Map(entries), Step::Key(key)) if rest.is_empty() => {
                entries.retain(|(k, _)| k.text != *key)
            }
            (Value::Map(entries), Step::Key(key)) => {
                if let Some((_, node)) = entries.iter_mut().find(|(k, _)| k.text == *key) {
                    node.remove(rest);
                }
            }
            (Value::List(items), Step::Item(n)) => match items.get_mut(*n) {
                Some(item) if rest.is_empty() => *item = None,
                Some(Some(node)) => node.remove(rest),
                _ => {}
            },
            _ => {}
        }
    }
}

/// Parses a text; keys that are given twice are mistakes, and the first one counts for the rest of the check.
pub(super) fn parse(text: &str, format: Format) -> Result<(Node, Vec<Mistake>), Vec<Mistake>> {
    if text.len() > MAX_BYTES {
        let message = format!(
            "it has {} bytes, and a definition has {MAX_BYTES} at most; split it",
            text.len()
        );
        return Err(vec![Mistake {
            place: Place::START,
            path: String::new(),
            message,
        }]);
    }
    // JSON is read by the same parser, so that both give the same result; its own form is checked first.
    if format == Format::Json {
        serde_json::from_str::<serde::de::IgnoredAny>(text).map_err(|e| vec![of_json(&e)])?;
    }
    let raw: Spanned<Raw> =
        serde_saphyr::from_str_with_options(text, options()).map_err(|e| vec![of_yaml(&e)])?;
    let mut mistakes = Vec::new();
    let root = Plant {
        text,
        mistakes: &mut mistakes,
        path: Vec::new(),
    }
    .node(raw);
    Ok((root, mistakes))
}

fn options() -> serde_saphyr::Options {
    serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_depth: MAX_DEPTH,
            max_documents: 1,
            max_nodes: MAX_NODES,
            max_events: 4 * MAX_NODES,
            max_aliases: MAX_ALIASES,
            max_anchors: MAX_ALIASES,
            max_recorded_anchor_events: MAX_REPLAYED,
            max_recorded_anchor_bytes: MAX_BYTES,
            max_total_scalar_bytes: 2 * MAX_BYTES,
            flow_nesting_limit: MAX_DEPTH,
        },
        alias_limits: serde_saphyr::alias_limits! {
            max_total_replayed_events: MAX_REPLAYED,
            max_replay_stack_depth: 8,
        },
        duplicate_keys: DuplicateKeyPolicy::PassThrough,
        merge_keys: MergeKeyPolicy::Error,
        strict_booleans: true,
        leading_zero_numbers_as_strings: true,
        underscored_numbers_as_strings: true,
        null_as_string: true,
        reject_unsupported_tags: true,
        non_finite_float_policy: serde_saphyr::options::NonFiniteFloatPolicy::AsString,
        emit_comments: false,
        with_snippet: false,
    }
}

fn of_json(error: &serde_json::Error) -> Mistake {
    let whole = error.to_string();
    let message = whole.split(" at line ").next().unwrap_or_default();
    let place = Place {
        line: error.line().max(1) as u64,
        column: error.column().max(1) as u64,
    };
    Mistake {
        place,
        path: String::new(),
        message: format!("it is not JSON: {message}"),
    }
}

fn of_yaml(error: &serde_saphyr::Error) -> Mistake {
    let error = error.without_snippet();
    let place = error.location().map_or(Place::START, place);
    let said = format!(" at line {}, column {}", place.line, place.column);
    let mut message = error.to_string().replace(&said, "");
    if matches!(error, serde_saphyr::Error::Budget { .. }) {
        message.push_str("; a definition is smaller and flatter than that");
    }
    if matches!(error, serde_saphyr::Error::MergeKeyNotAllowed { .. }) {
        message = "merge keys (`<<`) are not served; write the keys out".into();
    }
    if matches!(error, serde_saphyr::Error::InvalidScalar { .. }) {
        message.push_str("; take the tag before the value away");
    }
    Mistake {
        place,
        path: String::new(),
        message,
    }
}

fn place(location: Location) -> Place {
    Place {
        line: location.line().max(1),
        column: location.column().max(1),
    }
}

/// A value as the parser gives it.
enum Raw {
    Null,
    Bool(bool),
    Number(Number),
    Text(String),
    List(Vec<Spanned<Raw>>),
    Map(Vec<(Spanned<String>, Spanned<Raw>)>),
}

impl<'de> Deserialize<'de> for Raw {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Take;
        impl<'de> Visitor<'de> for Take {
            type Value = Raw;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("keys with values, a list or a text")
            }
            fn visit_unit<E>(self) -> Result<Raw, E> {
                Ok(Raw::Null)
            }
            fn visit_bool<E>(self, v: bool) -> Result<Raw, E> {
                Ok(Raw::Bool(v))
            }
            fn visit_i64<E>(self, v: i64) -> Result<Raw, E> {
                Ok(Raw::Number(
                    u64::try_from(v).map_or(Number::Negative(v), Number::Positive),
                ))
            }
            fn visit_u64<E>(self, v: u64) -> Result<Raw, E> {
                Ok(Raw::Number(Number::Positive(v)))
            }
            fn visit_i128<E>(self, _: i128) -> Result<Raw, E> {
                Ok(Raw::Number(Number::Fraction))
            }
            fn visit_u128<E>(self, _: u128) -> Result<Raw, E> {
                Ok(Raw::Number(Number::Fraction))
            }
            fn visit_f64<E>(self, _: f64) -> Result<Raw, E> {
                Ok(Raw::Number(Number::Fraction))
            }
            fn visit_str<E>(self, v: &str) -> Result<Raw, E> {
                Ok(Raw::Text(v.to_owned()))
            }
            fn visit_string<E>(self, v: String) -> Result<Raw, E> {
                Ok(Raw::Text(v))
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Raw, A::Error> {
                let mut items = Vec::new();
                while let Some(item) = seq.next_element()? {
                    items.push(item);
                }
                Ok(Raw::List(items))
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Raw, A::Error> {
                let mut entries = Vec::new();
                while let Some(key) = map.next_key::<Spanned<String>>()? {
                    entries.push((key, map.next_value()?));
                    if entries.len() > MAX_NODES {
                        return Err(A::Error::custom("too many keys"));
                    }
                }
                Ok(Raw::Map(entries))
            }
        }
        deserializer.deserialize_any(Take)
    }
}

/// Makes the tree.
struct Plant<'a> {
    text: &'a str,
    mistakes: &'a mut Vec<Mistake>,
    path: Vec<Step>,
}

impl Plant<'_> {
    fn node(&mut self, raw: Spanned<Raw>) -> Node {
        let Spanned {
            value,
            referenced,
            defined,
        } = raw;
        let value = match value {
            Raw::Null => Value::Null,
            Raw::Bool(b) => Value::Bool(b, self.written(defined)),
            Raw::Number(n) => Value::Number(n, self.written(defined)),
            Raw::Text(text) => Value::Text(text),
            Raw::List(items) => {
                let numbered = items.into_iter().enumerate();
                Value::List(
                    numbered
                        .map(|(n, item)| Some(self.below(Step::Item(n), item)))
                        .collect(),
                )
            }
            Raw::Map(entries) => {
                let mut out: Vec<(Key, Node)> = Vec::with_capacity(entries.len());
                let mut first = std::collections::BTreeMap::new();
                for (key, node) in entries {
                    let (text, place) = (key.value, place(key.referenced));
                    let node = self.below(Step::Key(text.clone()), node);
                    if let Some(line) = first.get(&text) {
                        self.twice(&text, *line, place);
                    } else {
                        first.insert(text.clone(), place.line);
                        out.push((Key { text, place }, node));
                    }
                }
                Value::Map(out)
            }
        };
        Node {
            place: place(referenced),
            value,
        }
    }

    fn below(&mut self, step: Step, raw: Spanned<Raw>) -> Node {
        self.path.push(step);
        let node = self.node(raw);
        self.path.pop();
        node
    }

    fn twice(&mut self, key: &str, first: u64, place: Place) {
        let mut path = self.path.clone();
        path.push(Step::Key(key.to_owned()));
        let message = format!(
            "`{key}` is given twice, on line {first} and on line {}; keep one of them",
            place.line
        );
        self.mistakes.push(Mistake {
            place,
            path: path_text(&path),
            message,
        });
    }

    /// Returns a scalar as it was written.
    fn written(&self, at: Location) -> String {
        let span = at.span();
        let slice = || {
            let from = usize::try_from(span.byte_offset()?).ok()?;
            let len = usize::try_from(span.byte_len()?).ok()?;
            self.text.get(from..from.checked_add(len)?)
        };
        // Quotes are there only beside a tag that makes a number of the text.
        slice()
            .unwrap_or_default()
            .trim()
            .trim_matches(['\'', '"'])
            .to_owned()
    }
}
