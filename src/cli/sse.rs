//! Server-sent events: the parser, and following a stream over cuts of the connection.

use std::ops::ControlFlow;
use std::time::Duration;

use backoff::ExponentialBackoff;
use backoff::backoff::Backoff as _;
use futures_util::StreamExt as _;
use serde::Serialize;

use super::Failure;
use super::client::Client;
use crate::operators::view::FeedEvent;

/// The longest line of a stream, in bytes.
const MAX_LINE: usize = 4 * 1024 * 1024;
/// How long a stream may be silent before it counts as cut: three heartbeats.
const SILENCE: Duration = Duration::from_secs(30);
/// How long a host that cannot be reached is tried again.
const GIVE_UP: Duration = Duration::from_secs(300);

/// One block of a stream.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Block {
    /// Its name; empty for ordinary events.
    pub event: String,
    /// Its data; empty for signs of life.
    pub data: String,
}

/// Takes a stream apart.
#[derive(Debug, Default)]
pub(super) struct Parser {
    line: Vec<u8>,
    block: Block,
    has_data: bool,
    /// The last id that was sent.
    pub last_id: Option<String>,
}

impl Parser {
    /// Takes bytes and returns the blocks that they end; signs of life come as blocks without data.
    pub fn feed(&mut self, bytes: &[u8]) -> Result<Vec<Block>, Failure> {
        let mut out = Vec::new();
        for byte in bytes {
            if *byte != b'\n' {
                self.line.push(*byte);
                if self.line.len() > MAX_LINE {
                    return Err(Failure::new(
                        1,
                        "the event stream has a line without an end; is it a signalbox host?",
                    ));
                }
                continue;
            }
            let line = std::mem::take(&mut self.line);
            let line = line.strip_suffix(b"\r").unwrap_or(&line);
            if line.is_empty() {
                self.has_data = false;
                out.push(std::mem::take(&mut self.block));
                continue;
            }
            self.field(&String::from_utf8_lossy(line));
        }
        Ok(out)
    }

    fn field(&mut self, line: &str) {
        let (name, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match name {
            "data" => {
                if self.has_data {
                    self.block.data.push('\n');
                }
                self.has_data = true;
                self.block.data.push_str(value);
            }
            "event" => value.clone_into(&mut self.block.event),
            "id" if !value.contains('\0') => self.last_id = Some(value.to_owned()),
            // Comments, retry times and what is unknown say nothing to us.
            _ => {}
        }
    }
}

/// What comes on a followed stream.
pub(super) enum Seen<'a> {
    /// An event.
    Event(&'a FeedEvent),
    /// Everything up to this place was read.
    Place(u64),
}

/// Follows the stream after a place until `see` breaks. A cut is told on standard error and healed.
pub(super) async fn follow<T>(
    client: &Client,
    query: &impl Serialize,
    mut after: Option<u64>,
    mut see: impl FnMut(Seen<'_>) -> Result<ControlFlow<T>, Failure>,
) -> Result<T, Failure> {
    let mut pace = pace();
    let mut told = false;
    loop {
        let failure = match client.events(query, after).await {
            Ok(response) => {
                pace.reset();
                if std::mem::take(&mut told) {
                    eprintln!("connected again");
                }
                match read(response, &mut after, &mut see).await? {
                    ControlFlow::Break(done) => return Ok(done),
                    ControlFlow::Continue(why) => Failure::new(1, why),
                }
            }
            Err(failure) if failure.is_lost() || failure.code.as_deref() == Some("UNAVAILABLE") => {
                failure
            }
            Err(failure) => return Err(failure),
        };
        let Some(wait) = pace.next_backoff() else {
            return Err(failure);
        };
        if !std::mem::replace(&mut told, true) {
            eprintln!(
                "the event stream was cut ({}); trying again",
                super::output::safe(&failure.message)
            );
        }
        tokio::time::sleep(wait).await;
    }
}

fn pace() -> ExponentialBackoff {
    backoff::ExponentialBackoffBuilder::new()
        .with_initial_interval(Duration::from_millis(200))
        .with_multiplier(2.0)
        .with_randomization_factor(0.2)
        .with_max_interval(Duration::from_secs(5))
        .with_max_elapsed_time(Some(GIVE_UP))
        .build()
}

/// Reads one connection until it ends, and says why it did.
async fn read<T>(
    response: reqwest::Response,
    after: &mut Option<u64>,
    see: &mut impl FnMut(Seen<'_>) -> Result<ControlFlow<T>, Failure>,
) -> Result<ControlFlow<T, String>, Failure> {
    let mut parser = Parser::default();
    let mut stream = response.bytes_stream();
    loop {
        let bytes = match tokio::time::timeout(SILENCE, stream.next()).await {
            Ok(Some(Ok(bytes))) => bytes,
            Ok(Some(Err(error))) => return Ok(ControlFlow::Continue(error.to_string())),
            Ok(None) => return Ok(ControlFlow::Continue("the host ended it".to_owned())),
            Err(_) => return Ok(ControlFlow::Continue("nothing came any more".to_owned())),
        };
        for block in parser.feed(&bytes)? {
            if block.event == "problem" {
                let problem = serde_json::from_str(&block.data);
                return Err(problem.map_or_else(
                    |_| Failure::new(1, "the host ended the stream with a problem that this version cannot read; compare `signalbox --version` with the host's"),
                    |p| Failure::of_problem(&p),
                ));
            }
            let flow = if block.data.is_empty() {
                let place = parser.last_id.as_deref().and_then(|id| id.parse().ok());
                place.map_or(Ok(ControlFlow::Continue(())), |place| {
                    *after = Some(place);
                    see(Seen::Place(place))
                })?
            } else {
                let event: FeedEvent = serde_json::from_str(&block.data)
                    .map_err(|e| Failure::new(1, format!("an event cannot be read ({e}); compare `signalbox --version` with the host's")))?;
                *after = Some(event.seq);
                see(Seen::Event(&event))?
            };
            if let ControlFlow::Break(done) = flow {
                return Ok(ControlFlow::Break(done));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(parser: &mut Parser, text: &str, cut: usize) -> Vec<Block> {
        text.as_bytes()
            .chunks(cut)
            .flat_map(|part| parser.feed(part).expect("parses"))
            .collect()
    }

    #[test]
    fn a_stream_is_the_same_however_it_is_cut() {
        let text = ": connected\nid: 4\n\nid: 5\r\ndata: {\"a\": \"é\"}\r\n\r\nevent: problem\ndata:one\ndata: two\nretry: 5\n\n: idle\nid: 9\n\n";
        for cut in [1, 2, 3, 7, 1_000] {
            let mut parser = Parser::default();
            let blocks = all(&mut parser, text, cut);
            let seen: Vec<(&str, &str)> = blocks
                .iter()
                .map(|b| (b.event.as_str(), b.data.as_str()))
                .collect();
            assert_eq!(
                seen,
                [
                    ("", ""),
                    ("", "{\"a\": \"é\"}"),
                    ("problem", "one\ntwo"),
                    ("", "")
                ],
                "{cut}"
            );
            assert_eq!(parser.last_id.as_deref(), Some("9"));
        }
    }

    #[test]
    fn the_place_to_go_on_from_is_that_of_the_last_id() {
        let mut parser = Parser::default();
        all(&mut parser, "id: 7\ndata: x\n\ndata: y\n\n", 3);
        assert_eq!(parser.last_id.as_deref(), Some("7"));
        // A block that was cut in the middle has not moved it.
        all(&mut parser, "id: 8", 3);
        assert_eq!(parser.last_id.as_deref(), Some("7"));
    }

    #[test]
    fn a_line_without_an_end_is_refused() {
        let mut parser = Parser::default();
        assert!(parser.feed(&vec![b'x'; MAX_LINE + 1]).is_err());
    }
}
