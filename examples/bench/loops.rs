//! G5: the decision loop. An engine is told that a run changed its status, commands the next change, and is told what
//! became of it and of the run; a loop is over when both have come.
//!
//! The runs of our host hold an attempt that never ends, so `run.pause` and `run.resume` follow each other and each
//! leads to one event. With 64 in flight there are 64 runs on one stream, on both sides. The baseline stores one key
//! for the answer and one for the event and checks nothing. Ours decides both at once and waits for the disk once a
//! loop; the baseline of the goal learns of the event after the answer, so it waits twice. A second row sets it beside
//! one that waits once, which only a program that both answers and makes the event can do.

use super::Outcome;
use super::args::Args;
use super::engine::Engine;
use super::machine::instant;
use super::process::Server;
use super::rounds;
use super::table::{Better, Row};
use signalbox::wire::proto::v1::connect_response::Body as Hear;
use signalbox::wire::proto::v1::{self as pb, hello::Resume, signal::Kind};
use std::collections::BTreeMap;
use std::time::Instant;

/// How many loops one side of a round makes one after the other, and how many at 64 in flight.
const ONE_BY_ONE: usize = 1_500;
const TOGETHER: usize = 30_000;
const IN_FLIGHT: usize = 64;

/// Measures the loop.
pub fn rows(args: &Args) -> Outcome<Vec<Row>> {
    let twice = rounds::several(args, 2, || side("host"), || side("hand"))?;
    let once = rounds::several(args, 2, || side("host"), || side("hand-once"))?;
    let p50 = "decision loop, 1 in flight, p50 ms / by hand";
    let rate = "decision loops/s, 64 in flight / by hand";
    let cases = [
        ("p50", p50, Some(1.25), Some(1.05), Better::Lower),
        ("64-in-flight", rate, Some(0.8), Some(1.3), Better::Higher),
        ("p50-one-wait", p50, None, None, Better::Lower),
        ("64-in-flight-one-wait", rate, None, None, Better::Higher),
    ];
    Ok(cases
        .into_iter()
        .zip(twice.into_iter().chain(once))
        .map(|((case, measure, must, aim, better), medians)| Row {
            id: "G5",
            case,
            measure,
            medians,
            must,
            aim,
            better,
        })
        .collect())
}

/// Measures one side: p50 in milliseconds at 1 in flight, loops a second at 64.
fn side(role: &str) -> Outcome<Vec<f64>> {
    let dir = tempfile::tempdir()?;
    let server = Server::start(role, dir.path())?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let one = drive(&server, 1, ONE_BY_ONE).await?;
        let many = drive(&server, IN_FLIGHT, TOGETHER).await?;
        Ok(vec![one.p50_ms, many.per_second])
    })
}

struct Speed {
    p50_ms: f64,
    per_second: f64,
}

/// One run and its loop.
struct Lane {
    run: String,
    sent: Instant,
    answered: bool,
    told: Option<(String, &'static str)>,
}

async fn drive(server: &Server, lanes: usize, loops: usize) -> Outcome<Speed> {
    let mut engine = Engine::connect(server, "bench", Resume::Snapshot(true)).await?;
    let mut driver = Driver {
        prefix: engine.started.clone(),
        lanes: Vec::new(),
        by_run: BTreeMap::new(),
        sent: 0,
    };
    for lane in 0..lanes {
        let (signal, key) = (
            engine.started.clone(),
            format!("{}-start-{lane}", driver.prefix),
        );
        let target = "workflow:bench".to_owned();
        engine
            .command(lane as u64, key, &signal, "run.start", target)
            .await?;
        driver.lanes.push(Lane {
            run: String::new(),
            sent: instant(),
            answered: false,
            told: None,
        });
    }
    // One in ten more, to be warm.
    let warm = loops / 10;
    let (mut done, mut times, mut start) = (0, Vec::with_capacity(loops), instant());
    while times.len() < loops {
        let Some(lane) = driver.take(engine.hear().await?)? else {
            continue;
        };
        done += 1;
        if done == lanes + warm {
            start = instant();
        } else if done > lanes + warm {
            times.push(driver.lanes[lane].sent.elapsed().as_secs_f64() * 1_000.0);
        }
        driver.send(&engine, lane).await?;
    }
    let elapsed = start.elapsed().as_secs_f64();
    engine.close().await;
    Ok(Speed {
        p50_ms: rounds::median(&times),
        per_second: loops as f64 / elapsed,
    })
}

struct Driver {
    prefix: String,
    lanes: Vec<Lane>,
    by_run: BTreeMap<String, usize>,
    sent: u64,
}

impl Driver {
    /// Takes a message; returns the lane whose loop is over with it.
    fn take(&mut self, message: Hear) -> Outcome<Option<usize>> {
        let lane = match message {
            Hear::Result(result) => self.result(result)?,
            Hear::Signal(pb::Signal {
                id,
                kind: Some(Kind::Event(event)),
                ..
            }) => {
                let next = match event.status.as_str() {
                    "RUNNING" => "run.pause",
                    "PAUSING" => "run.resume",
                    _ => return Ok(None),
                };
                let lane = *self
                    .by_run
                    .get(&event.execution)
                    .ok_or("an event of an unknown run")?;
                self.lanes[lane].told = Some((id, next));
                lane
            }
            Hear::Goaway(goaway) => return Err(format!("sent away: {}", goaway.reason).into()),
            Hear::Signal(_) | Hear::SnapshotChunk(_) | Hear::Progress(_) => return Ok(None),
        };
        let over = self.lanes[lane].answered && self.lanes[lane].told.is_some();
        Ok(over.then_some(lane))
    }

    fn result(&mut self, result: pb::DirectiveResult) -> Outcome<usize> {
        let applied = result.targets.first().filter(|t| t.outcome == "APPLIED");
        let Some(target) = applied else {
            return Err(format!("a command was not applied: {result:?}").into());
        };
        let lane = usize::try_from(result.r#ref)? % self.lanes.len();
        let begun = !self.lanes[lane].run.is_empty();
        if let Some(run) = target.target.strip_prefix("execution:").filter(|_| !begun) {
            self.by_run.insert(run.to_owned(), lane);
            self.lanes[lane].run = run.to_owned();
        }
        self.lanes[lane].answered = true;
        Ok(lane)
    }

    async fn send(&mut self, engine: &Engine, lane: usize) -> Outcome<()> {
        let Some((signal, op)) = self.lanes[lane].told.take() else {
            return Err("a lane has nothing to answer".into());
        };
        let target = format!("execution:{}", self.lanes[lane].run);
        self.sent += 1;
        let reference = self.sent * self.lanes.len() as u64 + lane as u64;
        let key = format!("{}-{}", self.prefix, self.sent);
        self.lanes[lane].answered = false;
        self.lanes[lane].sent = instant();
        engine.command(reference, key, &signal, op, target).await
    }
}
