//! What a managed engine writes, in the host's log.

use tokio::io::{AsyncBufReadExt as _, AsyncRead, BufReader};

use crate::contract::id::SupervisorId;

/// How much of a line is logged, in bytes.
const LINE_MOST: usize = 8 << 10;

/// Logs everything that comes, line by line, until it ends. Untrusted: the log shows it as a value.
pub(super) async fn log(
    supervisor: SupervisorId,
    stream: &'static str,
    from: impl AsyncRead + Unpin,
) {
    let mut lines = Lines::new(from);
    loop {
        match lines.next().await {
            Ok(Some(line)) => {
                tracing::info!(%supervisor, stream, line = line.text, cut = line.cut, "engine output");
            }
            Ok(None) => return,
            Err(error) => {
                tracing::warn!(%supervisor, stream, %error, "engine output cannot be read");
                return;
            }
        }
    }
}

/// A line, or as much of it as is kept.
#[derive(Debug, PartialEq, Eq)]
struct Line {
    text: String,
    /// How many bytes were left out.
    cut: usize,
}

/// Lines of bounded length, whatever is written.
struct Lines<R> {
    from: BufReader<R>,
}

impl<R: AsyncRead + Unpin> Lines<R> {
    fn new(from: R) -> Self {
        Self {
            from: BufReader::new(from),
        }
    }

    async fn next(&mut self) -> std::io::Result<Option<Line>> {
        let (mut kept, mut length) = (Vec::new(), 0);
        loop {
            let bytes = self.from.fill_buf().await?;
            if bytes.is_empty() {
                return Ok((length > 0).then(|| line(&kept, length)));
            }
            let end = bytes.iter().position(|b| *b == b'\n');
            let part = &bytes[..end.unwrap_or(bytes.len())];
            let room = LINE_MOST - kept.len();
            kept.extend_from_slice(&part[..part.len().min(room)]);
            length += part.len();
            let used = part.len() + usize::from(end.is_some());
            self.from.consume(used);
            if end.is_some() {
                return Ok(Some(line(&kept, length)));
            }
        }
    }
}

fn line(kept: &[u8], length: usize) -> Line {
    let text = String::from_utf8_lossy(kept)
        .trim_end_matches('\r')
        .to_owned();
    Line {
        text,
        cut: length - kept.len(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn lines(bytes: &[u8]) -> Vec<(String, usize)> {
        let mut lines = Lines::new(bytes);
        let mut out = Vec::new();
        while let Some(Line { text, cut }) = lines.next().await.expect("readable") {
            out.push((text, cut));
        }
        out
    }

    #[tokio::test]
    async fn lines_come_one_by_one_and_the_last_needs_no_end() {
        let got = lines(b"one\r\n\ntwo\xff\nthree").await;
        let expected = [("one", 0), ("", 0), ("two\u{fffd}", 0), ("three", 0)];
        assert_eq!(got, expected.map(|(text, cut)| (text.to_owned(), cut)));
    }

    #[tokio::test]
    async fn a_line_without_end_costs_no_more_than_its_beginning() {
        let mut bytes = vec![b'x'; 1 << 20];
        bytes.extend_from_slice(b"\nnext\n");
        let got = lines(&bytes).await;
        assert_eq!(got[0].0.len(), LINE_MOST);
        assert_eq!(got[0].1, (1 << 20) - LINE_MOST);
        assert_eq!(got[1], ("next".to_owned(), 0));
    }
}
