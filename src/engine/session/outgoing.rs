//! The stream to an engine: what the task sends, then its last words. The last words need no place in the channel, so
//! a session ends even if its engine does not read.

use std::collections::VecDeque;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::sync::{mpsc, oneshot};
use tokio_stream::Stream;
use tonic::Status;

use crate::wire::proto::v1 as pb;

/// How many messages are on their way to the transport at most.
const MOST: usize = 64;

/// The last words of a session.
#[derive(Debug, Default)]
pub(super) struct LastWords {
    /// Messages.
    pub messages: VecDeque<pb::ConnectResponse>,
    /// The error that ends the stream; none for an end in order.
    pub status: Option<Status>,
}

/// The stream to an engine.
pub struct Outgoing {
    messages: mpsc::Receiver<pb::ConnectResponse>,
    end: Option<oneshot::Receiver<LastWords>>,
    last: LastWords,
}

/// Makes a stream and the two ends that feed it.
pub(super) fn channel() -> (
    mpsc::Sender<pb::ConnectResponse>,
    oneshot::Sender<LastWords>,
    Outgoing,
) {
    let (sender, messages) = mpsc::channel(MOST);
    let (end_sender, end) = oneshot::channel();
    let outgoing = Outgoing {
        messages,
        end: Some(end),
        last: LastWords::default(),
    };
    (sender, end_sender, outgoing)
}

impl Stream for Outgoing {
    type Item = Result<pb::ConnectResponse, Status>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if self.end.is_some() {
            match self.messages.poll_recv(cx) {
                Poll::Ready(Some(message)) => return Poll::Ready(Some(Ok(message))),
                Poll::Pending => return Poll::Pending,
                Poll::Ready(None) => {}
            }
        }
        if let Some(end) = &mut self.end {
            match Pin::new(end).poll(cx) {
                Poll::Pending => return Poll::Pending,
                // A task that left no words has ended with the program.
                Poll::Ready(last) => {
                    self.last = last.unwrap_or_default();
                    self.end = None;
                }
            }
        }
        if let Some(message) = self.last.messages.pop_front() {
            return Poll::Ready(Some(Ok(message)));
        }
        Poll::Ready(self.last.status.take().map(Err))
    }
}
