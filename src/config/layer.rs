//! One source of the configuration: its keys are known and its aliases resolved before it is merged.

use std::path::Path;

use figment::error::Kind;
use figment::value::{Dict, Map, Value};
use figment::{Error, Metadata, Profile, Provider, Source};

use super::{Config, ENV_PREFIX, Flags};

/// The first part of keys that are other names of the keys after it.
const ALIAS: &str = "yukta";
/// The keys that have another name.
const ALIASED: [&str; 2] = ["supervisor.review-timeout", "supervisor.default.enabled"];

/// A source that is not settled yet.
pub(super) struct Layer {
    metadata: Metadata,
    name: String,
    data: Dict,
}

/// A source whose keys are all known.
pub(super) struct Settled {
    metadata: Metadata,
    data: Dict,
}

impl Layer {
    /// Takes a TOML file.
    pub fn file(path: &Path, text: &str) -> Result<Self, String> {
        let name = format!("file {}", path.display());
        let data: Dict = toml::from_str(text).map_err(|error| {
            let line = error.span().map_or(1, |s| {
                text.get(..s.start)
                    .map_or(1, |before| before.matches('\n').count() + 1)
            });
            format!("{name}, line {line}: {}", error.message())
        })?;
        Ok(Self {
            metadata: Metadata::from(name.clone(), Source::File(path.to_owned())),
            name,
            data,
        })
    }

    /// Takes the environment.
    pub fn env(
        variables: impl IntoIterator<Item = (String, String)>,
        wrong: &mut Vec<String>,
    ) -> Self {
        let mut data = Dict::new();
        for (variable, value) in variables {
            let Some(key) = variable.strip_prefix(ENV_PREFIX) else {
                continue;
            };
            let parts: Vec<String> = key
                .split("__")
                .map(|p| p.to_lowercase().replace('_', "-"))
                .collect();
            // `Value: FromStr` never fails: what is no number, list or boolean is a text.
            let value: Value = value
                .parse()
                .unwrap_or_else(|_: std::convert::Infallible| Value::from(""));
            if !put(&mut data, &parts, value) {
                wrong.push(format!(
                    "variable {variable}: another variable sets what is above or below it; keep one"
                ));
            }
        }
        let name = format!("environment ({ENV_PREFIX}…)");
        Self {
            metadata: Metadata::named(name.clone()),
            name,
            data,
        }
    }

    /// Takes the flags.
    pub fn flags(flags: &Flags) -> Self {
        let Flags {
            data_dir,
            grpc,
            http,
        } = flags;
        let mut data = Dict::new();
        let dir = data_dir.as_ref().map(|d| d.to_string_lossy().into_owned());
        for (path, value) in [
            (&["data-dir"][..], dir),
            (&["grpc", "listen"], grpc.clone()),
            (&["http", "listen"], http.clone()),
        ] {
            if let Some(value) = value {
                let parts: Vec<String> = path.iter().map(|p| (*p).to_owned()).collect();
                put(&mut data, &parts, Value::from(value));
            }
        }
        let name = "command line".to_owned();
        Self {
            metadata: Metadata::named(name.clone()),
            name,
            data,
        }
    }

    /// Resolves aliases and names every key that is not known.
    pub fn settled(mut self, wrong: &mut Vec<String>) -> Settled {
        if let Some(Value::Dict(_, aliases)) = self.data.remove(ALIAS) {
            for (key, value) in leaves(&aliases) {
                let parts: Vec<String> = key.split('.').map(str::to_owned).collect();
                if !ALIASED.contains(&key.as_str()) {
                    let known = ALIASED.map(|k| format!("{ALIAS}.{k}")).join(", ");
                    wrong.push(format!(
                        "unknown key `{ALIAS}.{key}` in {}; known are {known}",
                        self.name
                    ));
                } else if self.data.find(&parts) || !put(&mut self.data, &parts, value) {
                    wrong.push(format!(
                        "`{key}` and `{ALIAS}.{key}` are the same key, and {} has both; keep one",
                        self.name
                    ));
                }
            }
        }
        let known = known_keys();
        for (key, _) in leaves(&self.data) {
            if !known.contains(&key) {
                let near = known
                    .iter()
                    .max_by_key(|k| likeness(k, &key))
                    .map_or("", String::as_str);
                wrong.push(format!(
                    "unknown key `{key}` in {}; did you mean `{near}`?",
                    self.name
                ));
            }
        }
        Settled {
            metadata: self.metadata,
            data: self.data,
        }
    }
}

impl Provider for Settled {
    fn metadata(&self) -> Metadata {
        self.metadata.clone()
    }

    fn data(&self) -> Result<Map<Profile, Dict>, Error> {
        Ok(Profile::Default.collect(self.data.clone()))
    }
}

/// Says where a wrong value stands and what would be right.
pub(super) fn describe(error: &Error) -> String {
    let key = error.path.join(".");
    let place = error
        .metadata
        .as_ref()
        .map_or_else(|| "the defaults".to_owned(), |m| m.name.to_string());
    let what = match &error.kind {
        Kind::InvalidType(found, wanted) => format!("this is {found}; give {wanted}"),
        Kind::InvalidValue(found, wanted) => format!("{found} does not fit; give {wanted}"),
        other => other.to_string(),
    };
    format!("`{key}` in {place}: {what}")
}

trait Find {
    fn find(&self, path: &[String]) -> bool;
}

impl Find for Dict {
    fn find(&self, path: &[String]) -> bool {
        match path
            .split_first()
            .map(|(first, rest)| (self.get(first), rest))
        {
            Some((Some(_), [])) => true,
            Some((Some(Value::Dict(_, below)), rest)) => below.find(rest),
            _ => false,
        }
    }
}

/// Puts a value at a path; fails where a value stands in the way.
fn put(data: &mut Dict, path: &[String], value: Value) -> bool {
    match path {
        [] => false,
        [last] => data.insert(last.clone(), value).is_none(),
        [first, rest @ ..] => match data
            .entry(first.clone())
            .or_insert_with(|| Value::from(Dict::new()))
        {
            Value::Dict(_, below) => put(below, rest, value),
            _ => false,
        },
    }
}

/// Returns the keys that have values, as dotted paths. An empty table is a key of its own.
fn leaves(data: &Dict) -> Vec<(String, Value)> {
    let mut out = Vec::new();
    for (key, value) in data {
        match value {
            Value::Dict(_, below) if !below.is_empty() => {
                out.extend(
                    leaves(below)
                        .into_iter()
                        .map(|(k, v)| (format!("{key}.{k}"), v)),
                );
            }
            // An empty table says nothing and hurts nobody, as long as it is a table that we know.
            Value::Dict(..)
                if known_keys()
                    .iter()
                    .any(|k| k.starts_with(&format!("{key}."))) => {}
            _ => out.push((key.clone(), value.clone())),
        }
    }
    out
}

fn known_keys() -> Vec<String> {
    let all = figment::value::Value::serialize(Config::default());
    match all {
        Ok(Value::Dict(_, data)) => flat(&data),
        _ => Vec::new(),
    }
}

fn flat(data: &Dict) -> Vec<String> {
    data.iter()
        .flat_map(|(key, value)| match value {
            Value::Dict(_, below) => flat(below)
                .into_iter()
                .map(|k| format!("{key}.{k}"))
                .collect(),
            _ => vec![key.clone()],
        })
        .collect()
}

/// How many pairs of neighbouring letters two keys share.
fn likeness(a: &str, b: &str) -> usize {
    let pairs = |text: &str| {
        text.as_bytes()
            .windows(2)
            .map(<[u8]>::to_vec)
            .collect::<Vec<_>>()
    };
    let of_b = pairs(b);
    pairs(a).iter().filter(|p| of_b.contains(p)).count()
}
