//! Counts connections: one too many is closed at once, so that the rest keep their places.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_stream::{Stream, StreamExt as _};
use tonic::transport::server::{Connected, TcpConnectInfo};

/// A connection and its place.
pub(super) struct Counted {
    stream: TcpStream,
    _place: OwnedSemaphorePermit,
}

/// Lets at most so many connections be open at once.
pub(super) fn limited(
    incoming: impl Stream<Item = io::Result<TcpStream>>,
    most: usize,
) -> impl Stream<Item = io::Result<Counted>> {
    let places = Arc::new(Semaphore::new(most));
    incoming.filter_map(move |stream| match stream {
        Ok(stream) => match Arc::clone(&places).try_acquire_owned() {
            Ok(place) => Some(Ok(Counted {
                stream,
                _place: place,
            })),
            Err(_) => {
                tracing::warn!(most, peer = ?stream.peer_addr().ok(), "connection closed, there are too many");
                None
            }
        },
        Err(error) => Some(Err(error)),
    })
}

impl Connected for Counted {
    type ConnectInfo = TcpConnectInfo;

    fn connect_info(&self) -> TcpConnectInfo {
        self.stream.connect_info()
    }
}

impl AsyncRead for Counted {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl AsyncWrite for Counted {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, parts)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn one_connection_too_many_is_closed_and_a_place_that_is_left_is_free() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0")
            .await
            .expect("a port");
        let addr = listener.local_addr().expect("an address");
        let incoming = tokio_stream::wrappers::TcpListenerStream::new(listener);
        let mut limited = std::pin::pin!(limited(incoming, 1));
        let _first_client = TcpStream::connect(addr).await.expect("connects");
        let first = limited
            .next()
            .await
            .expect("a connection")
            .expect("accepted");
        let second_client = TcpStream::connect(addr).await.expect("connects");
        let third_client = async {
            // The second is closed by the host before the third comes.
            second_client.readable().await.expect("readable");
            assert_eq!(second_client.try_read(&mut [0; 1]).expect("closed"), 0);
            drop(first);
            TcpStream::connect(addr).await.expect("connects")
        };
        let (third, _client) = tokio::join!(limited.next(), third_client);
        assert!(third.expect("a connection").is_ok());
    }
}
