//! The first message of a session.

use std::collections::BTreeSet;

use super::proto::v1 as pb;
use super::{Malformed, given};
use crate::contract::CONTRACT_VERSION;
use crate::contract::id::SupervisorId;
use crate::contract::signal::EventKind;

/// The longest name of an engine, in characters.
const NAME_MOST: usize = 128;
/// The shortest period of ticks, in milliseconds (C15).
const TICK_LEAST_MS: u64 = 100;

/// What an engine asks for when its session begins (C9).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hello {
    /// Whose engine it is.
    pub supervisor: SupervisorId,
    /// The engine's name, version and kit; shown, never a reason for a decision.
    pub engine: String,
    /// Where the stream goes on.
    pub resume: Resume,
    /// The period of ticks that it asks for where the definition has none, in milliseconds.
    pub tick_period: Option<u64>,
    /// The kinds of events that it wants; none for all.
    pub kinds: Option<BTreeSet<EventKind>>,
    /// The signals that it handles.
    pub signals: Signals,
    /// Whether it says something at least every 10 seconds.
    pub heartbeat: bool,
}

/// The signals that an engine handles; `Started` always comes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Signals {
    /// `Event`.
    pub events: bool,
    /// `Tick`.
    pub ticks: bool,
    /// `Review`.
    pub reviews: bool,
}

/// Where a stream goes on (C38).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Resume {
    /// After the last acknowledged cursor.
    Acknowledged,
    /// After this cursor, as sent.
    After(String),
    /// From now on.
    Snapshot,
}

/// Why a hello is not accepted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadHello {
    /// It is for another version of the contract.
    #[error(
        "contract_version: version {0} is not served; this host serves version {CONTRACT_VERSION}"
    )]
    Version(u32),
    /// A field is wrong.
    #[error(transparent)]
    Malformed(#[from] Malformed),
}

impl TryFrom<pb::Hello> for Hello {
    type Error = BadHello;

    fn try_from(raw: pb::Hello) -> Result<Self, BadHello> {
        let pb::Hello {
            supervisor,
            engine,
            contract_version,
            resume,
            tick_period_ms,
            event_kinds,
            signals,
            heartbeat,
        } = raw;
        // First, since other versions may mean other things by the rest.
        if contract_version != CONTRACT_VERSION {
            return Err(BadHello::Version(contract_version));
        }
        let supervisor = supervisor
            .parse()
            .map_err(|e| Malformed::new("hello.supervisor", format!("{e}")))?;
        let engine = read_engine(engine)?;
        let resume = match resume {
            None => Resume::Acknowledged,
            Some(pb::hello::Resume::AfterCursor(cursor)) => Resume::After(cursor),
            Some(pb::hello::Resume::Snapshot(true)) => Resume::Snapshot,
            Some(pb::hello::Resume::Snapshot(false)) => {
                return Err(Malformed::new("hello.snapshot", "send true, or leave it out").into());
            }
        };
        if (1..TICK_LEAST_MS).contains(&tick_period_ms) {
            let message = "a tick is sent every 100 ms at most; send 100 or more, or leave it out";
            return Err(Malformed::new("hello.tick_period_ms", message).into());
        }
        Ok(Self {
            supervisor,
            engine,
            resume,
            tick_period: Some(tick_period_ms).filter(|p| *p > 0),
            kinds: read_kinds(&event_kinds)?,
            signals: read_signals(&signals)?,
            heartbeat,
        })
    }
}

fn read_engine(raw: Option<pb::EngineInfo>) -> Result<String, Malformed> {
    let pb::EngineInfo { name, version, sdk } = raw.unwrap_or_default();
    if name.is_empty() || name.chars().count() > NAME_MOST {
        return Err(Malformed::new(
            "hello.engine.name",
            "say in 1 to 128 characters which engine this is",
        ));
    }
    let more = [given(version), given(sdk)];
    let mut label = name;
    for part in more.into_iter().flatten() {
        label.push(' ');
        label.extend(part.chars().take(NAME_MOST));
    }
    Ok(label)
}

fn read_kinds(names: &[String]) -> Result<Option<BTreeSet<EventKind>>, Malformed> {
    if names.is_empty() {
        return Ok(None);
    }
    let kinds = names.iter().enumerate().map(|(i, name)| {
        EventKind::ALL
            .iter()
            .copied()
            .find(|k| k.as_str() == name)
            .ok_or_else(|| {
                unknown(
                    format!("hello.event_kinds[{i}]"),
                    name,
                    EventKind::ALL.iter().map(|k| k.as_str()),
                )
            })
    });
    kinds.collect::<Result<_, _>>().map(Some)
}

fn read_signals(names: &[String]) -> Result<Signals, Malformed> {
    const NAMES: [&str; 6] = [
        "Event",
        "Tick",
        "Review",
        "Delegated",
        "Consulted",
        "Started",
    ];
    for (i, name) in names.iter().enumerate() {
        if !NAMES.contains(&name.as_str()) {
            return Err(unknown(format!("hello.signals[{i}]"), name, NAMES));
        }
    }
    let takes = |name: &str| names.is_empty() || names.iter().any(|n| n == name);
    Ok(Signals {
        events: takes("Event"),
        ticks: takes("Tick"),
        reviews: takes("Review"),
    })
}

fn unknown(path: String, name: &str, known: impl IntoIterator<Item = &'static str>) -> Malformed {
    let known: Vec<&str> = known.into_iter().collect();
    let name: String = name.chars().take(80).collect();
    Malformed::new(
        path,
        format!("`{name}` is not known; send some of {}", known.join(", ")),
    )
}
