//! The beginning of a session: who may have it, where its stream goes on, and what comes first (C9, C10, C38).

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::contract::code::Code;
use crate::contract::definition::{SupervisorDef, Transport};
use crate::contract::id::{Cursor, SessionId, SupervisorId};
use crate::contract::signal::{EventKind, Signal, Snapshot};
use crate::core::effect::{Refusal, ReviewQuestion};
use crate::host::mailbox::Mailbox;
use crate::host::{HostHandle, Started};
use crate::wire::hello::Hello;
use crate::wire::proto::v1 as pb;
use crate::wire::signal::signal;

use super::feed::{Feed, epoch};
use super::resume;
use super::snapshot::{Parts, Wall};

/// A session that the host has accepted.
pub(super) struct Accepted {
    pub session: SessionId,
    pub transport: Transport,
    pub started: pb::connect_response::Body,
    pub parts: Parts,
    pub reviews: Vec<ReviewQuestion>,
    pub feed: Feed,
}

/// Asks the host for a session. `supervisor` is whose credential the engine showed.
pub(super) async fn open(
    host: &HostHandle,
    supervisor: &SupervisorId,
    hello: &Hello,
    mailbox: &Arc<Mailbox>,
) -> Result<Accepted, Refusal> {
    if hello.supervisor != *supervisor {
        let message = format!(
            "the credential is not one of supervisor `{}`; use its own",
            hello.supervisor
        );
        return Err(Refusal::new(Code::PermissionDenied, "credential", message));
    }
    let Started { start, view } = host
        .hello(
            supervisor.clone(),
            hello.tick_period,
            hello.signals.reviews,
            Arc::clone(mailbox),
        )
        .await?;
    let epoch = epoch(host);
    let found = view.supervisors.get(&start.supervisor);
    // The view may be newer than the decision: the snapshot is its, so the cursor must be its too.
    let as_of = found.map_or(start.as_of, |s| s.last_cursor);
    let plan = resume::plan(&hello.resume, epoch, as_of, start.acknowledged);
    let def = found.map(|s| &*s.def);
    let kinds = kinds(def, hello);
    let wall = Wall {
        now: host.clock().now(),
        wall: host.clock().wall_ms(),
    };
    let cursor = |n| Cursor { epoch, n }.to_string();
    let mut first = signal(
        Signal::Started {
            id: start.session.to_string(),
            reason: start.reason,
            session: start.session,
            cursor: cursor(plan.after),
            snapshot: Snapshot {
                as_of: cursor(as_of),
                ..Snapshot::default()
            },
        },
        wall.wall,
    );
    if let Some(pb::signal::Kind::Started(started)) = &mut first.kind {
        let tick = def.and_then(|d| d.tick).map(|t| t.0).or(hello.tick_period);
        started.tick_period_ms = tick.unwrap_or(0);
        started.event_kinds = kinds.iter().map(|k| k.as_str().to_owned()).collect();
        started.host = concat!("signalbox ", env!("CARGO_PKG_VERSION")).to_owned();
    }
    // A session that wants all that there is needs no filter, and gaps in it are counted exactly.
    let all = hello.signals.events && hello.kinds.is_none();
    Ok(Accepted {
        session: start.session,
        transport: def.map_or(Transport::Attached, |d| d.engine.transport),
        started: pb::connect_response::Body::Signal(first),
        parts: Parts::new(view, start.supervisor, wall),
        reviews: start.reviews,
        feed: Feed::new(
            host.clone(),
            start.supervisor,
            as_of,
            Some(kinds).filter(|_| !all),
            plan,
        ),
    })
}

/// The kinds that the session gets: those of the definition that the hello does not filter out.
fn kinds(def: Option<&SupervisorDef>, hello: &Hello) -> BTreeSet<EventKind> {
    let streams = |kind| def.is_none_or(|d| d.streams(kind));
    let wants = |kind| {
        hello
            .kinds
            .as_ref()
            .is_none_or(|kinds| kinds.contains(&kind))
    };
    EventKind::ALL
        .iter()
        .copied()
        .filter(|kind| hello.signals.events && streams(*kind) && wants(*kind))
        .collect()
}
