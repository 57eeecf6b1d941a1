//! G7: signals a second to one engine, from a backlog and as they happen, against a bare stream fed by a channel.

use super::Outcome;
use super::args::Args;
use super::engine::Engine;
use super::machine::instant;
use super::process::Server;
use super::rounds;
use super::table::{Better, Row};
use signalbox::wire::proto::v1::connect_response::Body as Hear;
use signalbox::wire::proto::v1::{self as pb, hello::Resume, signal::Kind};
use std::cell::RefCell;

/// How many signals one side of a round has at least.
const SIGNALS: u64 = 200_000;

/// Measures the signals.
pub fn rows(args: &Args) -> Outcome<Vec<Row>> {
    let dir = tempfile::tempdir()?;
    let mut host = Server::start("host-watched", dir.path())?;
    // The backlog is made once, and read again in every round.
    let backlog = load(&mut host)?;
    let host = RefCell::new(host);
    let bare = || Server::start("channel", dir.path());
    let medians = rounds::several(
        args,
        2,
        || {
            let resume = Resume::AfterCursor("c1-0".into());
            let behind = receive(&mut host.borrow_mut(), resume, Some(backlog))?;
            let live = receive(&mut host.borrow_mut(), Resume::Snapshot(true), None)?;
            Ok(vec![behind, live])
        },
        || {
            let resume = Resume::AfterCursor("c1-0".into());
            let rate = receive(&mut bare()?, resume, Some(SIGNALS))?;
            Ok(vec![rate, rate])
        },
    )?;
    let cases = [
        ("1", "signals/s to 1 engine, from a backlog / bare stream"),
        (
            "1-live",
            "signals/s to 1 engine, as they happen / bare stream",
        ),
    ];
    Ok(cases
        .into_iter()
        .zip(medians)
        .map(|((case, measure), medians)| Row {
            id: "G7",
            case,
            measure,
            medians,
            must: Some(0.5),
            aim: Some(0.8),
            better: Better::Higher,
        })
        .collect())
}

/// Has the server make signals; returns how many there are.
fn load(server: &mut Server) -> Outcome<u64> {
    server.order(&format!("load {SIGNALS}"))?;
    Ok(server.hear()?.parse()?)
}

/// Receives signals and returns how many came in a second: `count` that are there, else those of a new load.
fn receive(server: &mut Server, resume: Resume, count: Option<u64>) -> Outcome<f64> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let mut engine = Engine::connect(server, "watch", resume).await?;
        if count.is_none() {
            server.order(&format!("load {SIGNALS}"))?;
        }
        let wanted = count.unwrap_or(SIGNALS);
        let (mut seen, mut start) = (0, instant());
        while seen < wanted {
            if let Hear::Signal(pb::Signal {
                kind: Some(Kind::Event(_)),
                ..
            }) = engine.hear().await?
            {
                if seen == 0 {
                    start = instant();
                }
                seen += 1;
            }
        }
        let elapsed = start.elapsed().as_secs_f64();
        if count.is_none() {
            server.hear()?;
        }
        Ok(seen as f64 / elapsed)
    })
}
