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

/// How many signals one side of a round has at least.
const SIGNALS: u64 = 200_000;

/// Measures the signals. Those that come as they happen are decided, stored and waited for on the disk by the same host
/// meanwhile, which is what bounds them; so that row informs, and the goal is held by those that are there already.
pub fn rows(args: &Args) -> Outcome<Vec<Row>> {
    let medians = rounds::several(args, 2, ours, bare)?;
    let cases = [
        (
            "1",
            "signals/s to 1 engine, from a backlog / bare stream",
            Some((0.5, 0.8)),
        ),
        (
            "1-live",
            "signals/s to 1 engine, as they are made / bare stream",
            None,
        ),
    ];
    Ok(cases
        .into_iter()
        .zip(medians)
        .map(|((case, measure, goal), medians)| Row {
            id: "G7",
            case,
            measure,
            medians,
            must: goal.map(|(must, _)| must),
            aim: goal.map(|(_, aim)| aim),
            better: Better::Higher,
        })
        .collect())
}

/// A new host: its signals as they are made, then all of them again.
fn ours() -> Outcome<Vec<f64>> {
    let dir = tempfile::tempdir()?;
    let mut host = Server::start("host-watched", dir.path())?;
    let live = receive(&mut host, Resume::Snapshot(true), true)?;
    let behind = receive(&mut host, Resume::AfterCursor("c1-0".into()), false)?;
    Ok(vec![behind, live])
}

fn bare() -> Outcome<Vec<f64>> {
    let dir = tempfile::tempdir()?;
    let mut server = Server::start("channel", dir.path())?;
    let rate = receive(&mut server, Resume::Snapshot(true), false)?;
    Ok(vec![rate, rate])
}

/// Receives signals and returns how many came in a second; `make`: the server is told to make them first.
fn receive(server: &mut Server, resume: Resume, make: bool) -> Outcome<f64> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let mut engine = Engine::connect(server, "watch", resume).await?;
        if make {
            server.order(&format!("load {SIGNALS}"))?;
        }
        let (mut seen, mut start) = (0, instant());
        while seen < SIGNALS {
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
        if make {
            server.hear()?;
        }
        engine.close().await;
        Ok(seen as f64 / elapsed)
    })
}
