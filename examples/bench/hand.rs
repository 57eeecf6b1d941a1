//! The decision loop written by hand, which checks nothing: a bare stream and the bare store.
//!
//! One thread writes: it takes what waits, puts one key for each answer and each event into one batch, flushes the
//! store, syncs its file, and lets the messages go. The event that follows from a command is stored after the command's
//! answer, so a loop waits for the disk twice; or in the same batch, so that it waits once.

use super::Outcome;
use super::bare::{self, Out};
use super::process;
use prost::Message as _;
use signalbox::wire::proto::v1::connect_request::Body as Hear;
use signalbox::wire::proto::v1::connect_response::Body as Say;
use signalbox::wire::proto::v1::{self as pb, directive};
use std::fs::File;
use std::path::Path;
use std::sync::{Arc, mpsc};

/// How many commands one batch takes at most, as with the host.
const BATCH: usize = 256;

/// A command and the stream that it came by.
struct Asked(pb::Directive, Out);

/// Serves the loop; `once`: the answer and the event wait for the disk together.
pub async fn serve(dir: &Path, once: bool) -> Outcome<()> {
    let (asks, asked) = mpsc::channel::<Asked>();
    let store = Store::open(dir, once)?;
    std::thread::Builder::new()
        .name("store".into())
        .spawn(move || store.run(&asked))?;
    let addr = bare::listen(Arc::new(move |mut incoming, out| {
        let asks = asks.clone();
        tokio::spawn(async move {
            while let Ok(Some(message)) = incoming.message().await {
                match message.body {
                    Some(Hear::Hello(_)) => {
                        let _ = out.send(Ok(bare::started())).await;
                    }
                    Some(Hear::Directive(directive)) => {
                        let _ = asks.send(Asked(directive, out.clone()));
                    }
                    _ => {}
                }
            }
        });
    }))
    .await?;
    process::serve(addr, "none", async |_| Ok("no orders here".into())).await
}

struct Store {
    db: sled::Db,
    file: File,
    once: bool,
    events: u64,
    runs: u64,
}

/// An event that waits for the disk: its number, the message, and where it goes.
type Waiting = (u64, pb::ConnectResponse, Out);

impl Store {
    fn open(dir: &Path, once: bool) -> Outcome<Self> {
        let db = sled::Config::new()
            .path(dir)
            .cache_capacity(64 << 20)
            .flush_every_ms(None)
            .open()?;
        Ok(Self {
            db,
            file: File::open(dir.join("db"))?,
            once,
            events: 0,
            runs: 0,
        })
    }

    fn run(mut self, asked: &mpsc::Receiver<Asked>) {
        // Events that follow from answers that are stored, each to be stored next.
        let mut next: Vec<Waiting> = Vec::new();
        loop {
            let mut asks = Vec::new();
            if next.is_empty() {
                let Ok(first) = asked.recv() else { return };
                asks.push(first);
            }
            asks.extend(asked.try_iter().take(BATCH));
            let mut batch = sled::Batch::default();
            let mut events = std::mem::take(&mut next);
            let mut answers = Vec::new();
            for Asked(directive, out) in asks {
                let (key, result, event) = self.decide(directive);
                batch.insert([b"a/", key.as_bytes()].concat(), result.encode_to_vec());
                answers.push((result, out.clone()));
                if self.once {
                    events.push((self.events, event, out));
                } else {
                    next.push((self.events, event, out));
                }
            }
            for (number, event, _) in &events {
                let key = [b"e/".as_slice(), &number.to_be_bytes()].concat();
                batch.insert(key, event.encode_to_vec());
            }
            if let Err(error) = self.commit(batch) {
                eprintln!("bench: the store failed: {error}");
                return;
            }
            let events = events.into_iter().map(|(_, event, out)| (event, out));
            for (message, out) in answers.into_iter().chain(events) {
                // A client that has gone waits for nothing.
                let _ = out.blocking_send(Ok(message));
            }
        }
    }

    fn commit(&self, batch: sled::Batch) -> Outcome<()> {
        self.db.apply_batch(batch)?;
        self.db.flush()?;
        Ok(self.file.sync_data()?)
    }

    /// Says yes to everything.
    fn decide(
        &mut self,
        asked: pb::Directive,
    ) -> (String, pb::ConnectResponse, pb::ConnectResponse) {
        let (op, target) = match asked.body {
            Some(directive::Body::Command(command)) => (command.op, command.target),
            _ => (String::new(), String::new()),
        };
        let (previous, status) = match op.as_str() {
            "run.pause" => ("RUNNING", "PAUSING"),
            "run.resume" => ("PAUSING", "RUNNING"),
            _ => ("QUEUED", "RUNNING"),
        };
        let run = match target.strip_prefix("execution:") {
            Some(run) => run.to_owned(),
            None => {
                self.runs += 1;
                format!("x{}", self.runs)
            }
        };
        self.events += 1;
        let event = bare::event(self.events, &run, previous, status, &asked.cause);
        let result = pb::DirectiveResult {
            r#ref: asked.r#ref,
            key: asked.key.clone(),
            status: "DONE".into(),
            targets: vec![pb::TargetOutcome {
                target: format!("execution:{run}"),
                outcome: "APPLIED".into(),
                order: 1,
                ..Default::default()
            }],
            durable: true,
            ..Default::default()
        };
        let result = pb::ConnectResponse {
            body: Some(Say::Result(result)),
        };
        (asked.key, result, event)
    }
}
