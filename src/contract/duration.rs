//! Durations as definitions write them: a whole number and a unit, for instance `500ms`, `30s`, `5m`.

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A duration in milliseconds; written as `<number><unit>` with the units `ms`, `s`, `m`, `h`, `d`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Millis(pub u64);

/// Says that a text is not a duration, and how one is written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is not a duration; write a whole number and a unit of ms, s, m, h or d, for instance `30s`"
)]
pub struct NotADuration(pub String);

const UNITS: [(&str, u64); 5] = [
    ("d", 86_400_000),
    ("h", 3_600_000),
    ("m", 60_000),
    ("s", 1_000),
    ("ms", 1),
];

impl std::str::FromStr for Millis {
    type Err = NotADuration;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let digits = text
            .find(|c: char| !c.is_ascii_digit())
            .unwrap_or(text.len());
        let (number, unit) = text.split_at(digits);
        UNITS
            .iter()
            .find(|(name, _)| *name == unit)
            .and_then(|(_, ms)| number.parse::<u64>().ok()?.checked_mul(*ms))
            .map(Millis)
            .ok_or_else(|| NotADuration(text.to_owned()))
    }
}

impl std::fmt::Display for Millis {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (name, ms) = UNITS
            .iter()
            .find(|(_, ms)| self.0 > 0 && self.0.is_multiple_of(*ms))
            .unwrap_or(&("s", 1_000));
        write!(f, "{}{name}", self.0 / ms)
    }
}

impl Serialize for Millis {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Millis {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?
            .parse()
            .map_err(serde::de::Error::custom)
    }
}
