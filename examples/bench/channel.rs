//! The baseline of the signals: a bare stream fed by a channel with events as long as ours.

use super::Outcome;
use super::{bare, process};
use signalbox::wire::proto::v1::connect_request::Body as Hear;
use std::sync::Arc;

/// Serves; a stream gets events without end once it has said hello.
pub async fn serve() -> Outcome<()> {
    let addr = bare::listen(Arc::new(|mut incoming, out| {
        tokio::spawn(async move {
            let hello = incoming.message().await;
            if !matches!(hello, Ok(Some(m)) if matches!(m.body, Some(Hear::Hello(_)))) {
                return;
            }
            if out.send(Ok(bare::started())).await.is_err() {
                return;
            }
            for number in 1.. {
                let event = bare::node_event(number);
                if out.send(Ok(event)).await.is_err() {
                    return;
                }
            }
        });
    }))
    .await?;
    process::serve(addr, "none", async |_| Ok("no orders here".into())).await
}
