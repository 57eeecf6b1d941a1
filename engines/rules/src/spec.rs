//! The form of a file of rules, as it is written. See [`crate::RuleSet`] for an example.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_saphyr::Spanned;

/// The whole file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct FileSpec {
    /// The wanted period of ticks, for instance `30s`.
    pub(crate) tick: Option<Spanned<String>>,
    /// The rules, tried in their order.
    pub(crate) rules: Vec<RuleSpec>,
}

/// The kind of signal that a rule is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub(crate) enum On {
    Event,
    Tick,
    Review,
    Started,
}

impl On {
    /// Returns the kind as it stands on the wire.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Event => "Event",
            Self::Tick => "Tick",
            Self::Review => "Review",
            Self::Started => "Started",
        }
    }
}

/// One rule.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct RuleSpec {
    pub(crate) name: Spanned<String>,
    pub(crate) on: On,
    /// Kinds of events; absent means all.
    pub(crate) kinds: Option<Vec<String>>,
    /// A condition; absent means always.
    pub(crate) when: Option<Spanned<String>>,
    /// How often it may fire for one execution; absent means as often as it likes.
    pub(crate) limit: Option<u32>,
    /// A cause of its own, a text with expressions; absent means the signal.
    pub(crate) cause: Option<Spanned<String>>,
    /// Says that its commands are the engine's own initiative.
    #[serde(default)]
    pub(crate) initiative: bool,
    /// The reason of each of its directives that has none of its own.
    pub(crate) reason: Option<Spanned<String>>,
    #[serde(rename = "do")]
    pub(crate) steps: Vec<StepSpec>,
}

/// One directive: exactly one of its four kinds, and a reason.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct StepSpec {
    pub(crate) command: Option<CommandSpec>,
    pub(crate) verdict: Option<VerdictSpec>,
    pub(crate) notify: Option<NotifySpec>,
    pub(crate) no_opinion: Option<bool>,
    pub(crate) reason: Option<Spanned<String>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct CommandSpec {
    pub(crate) op: Spanned<String>,
    pub(crate) target: Spanned<String>,
    #[serde(default)]
    pub(crate) args: BTreeMap<String, serde_json::Value>,
    pub(crate) if_status: Option<Spanned<String>>,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum VerdictSpec {
    Allow,
    Deny,
    RequireApproval,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct NotifySpec {
    pub(crate) level: LevelSpec,
    pub(crate) message: Spanned<String>,
    #[serde(default)]
    pub(crate) data: BTreeMap<String, serde_json::Value>,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum LevelSpec {
    Info,
    Warning,
    Error,
}

impl LevelSpec {
    /// Returns the level as it stands on the wire.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Info => "info",
            Self::Warning => "warning",
            Self::Error => "error",
        }
    }
}
