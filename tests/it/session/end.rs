//! The end: replacement, half-close, stop, faults, and when an engine may come back.

use pb::connect_response::Body as Response;
use signalbox::testkit::hello;

use super::*;

#[tokio::test]
async fn a_newer_session_replaces_the_older_one_whose_directives_are_stale() {
    let host = host().start().await;
    let mut old = host.engine("night").await;
    let new = host.engine("night").await;
    let goaway = old.goaway().await;
    assert_eq!(goaway.reason, "REPLACED");
    assert_eq!(
        old.ended().await.map(|s| s.code()),
        None,
        "a replacement is no error"
    );

    let client = host.dial("night").await;
    let stale = client
        .submit(old.session(), notify("k-1"))
        .await
        .expect("a result");
    assert_eq!(
        (stale.status.as_str(), stale.code.as_str()),
        ("REFUSED", "STALE_SESSION")
    );
    let stale = client.submit("", notify("k-1")).await.expect("a result");
    assert_eq!(
        stale.code, "STALE_SESSION",
        "where a session is live it must be named"
    );
    let good = client
        .submit(new.session(), notify("k-1"))
        .await
        .expect("a result");
    assert_eq!((good.status.as_str(), good.durable), ("DONE", true));
}

#[tokio::test]
async fn after_a_half_close_signals_go_on_and_answers_come_by_calls() {
    let host = host().start().await;
    let client = host.dial("night").await;
    let mut engine = client.begin(hello("night")).await.expect("a session");
    engine.half_close();
    let mut start = signalbox::testkit::command_directive("k-1", "run.start", "workflow:w");
    start.cause = format!("event:{}", engine.started().id);
    let result = client
        .submit(engine.session(), start)
        .await
        .expect("a result");
    let run = result.targets[0].execution.clone();
    let (event, _) = engine.until_node(&run, "a", "RUNNING").await;
    let mut pause =
        signalbox::testkit::command_directive("k-2", "run.pause", &format!("execution:{run}"));
    pause.cause = format!("event:{event}");
    let result = client
        .submit(engine.session(), pause)
        .await
        .expect("a result");
    assert_eq!(result.targets[0].outcome, "APPLIED");
    engine.until_run(&run, "PAUSING").await;
}

#[tokio::test]
async fn a_stop_says_goodbye_after_everything_was_answered() {
    let mut host = host().start().await;
    let mut engine = host.engine("night").await;
    let sent = engine
        .flood((0..20).map(|n| notify(&format!("k-{n}"))))
        .await;
    // What the host has received is what it must answer.
    host.until(|d| d.supervisors.values().any(|s| s.keys.len() == 20))
        .await;
    host.stop().await;
    for reference in sent {
        assert_eq!(engine.result(reference).await.status, "DONE");
    }
    let goaway = engine.goaway().await;
    assert_eq!(
        (goaway.reason.as_str(), goaway.retry_after_ms),
        ("SHUTTING_DOWN", 1_000)
    );
    assert!(engine.ended().await.is_none());
}

#[tokio::test]
async fn an_engine_that_fails_may_come_back_after_a_pause_that_grows() {
    let host = host().start().await;
    let client = host.dial("night").await;
    let mut last = 0;
    for _ in 0..4 {
        let mut engine = client.begin(hello("night")).await.expect("a session");
        engine.fault("", "cannot cope").await;
        let status = failed(&mut engine).await;
        assert_status(&status, Code::Unavailable, "UNAVAILABLE");
        let wait = wait_ms(&status);
        assert!(wait > last, "{wait} ms after {last} ms");
        last = wait;

        let early = client.begin(hello("night")).await.expect_err("too early");
        assert_status(&early, Code::Unavailable, "UNAVAILABLE");
        assert_eq!(wait_ms(&early), wait);
        host.advance(wait).await;
    }
    // Others were never held up.
    host.engine("day").await;
}

#[tokio::test]
async fn an_engine_that_leaves_in_order_may_come_back_at_once() {
    let host = host().start().await;
    for _ in 0..5 {
        let engine = host.engine("night").await;
        engine.kill();
    }
}

#[tokio::test]
async fn the_host_sees_at_once_that_an_engine_has_gone() {
    let host = host().start().await;
    let mut engine = host.engine("night").await;
    let cause = format!("event:{}", engine.started().id);
    let start = engine
        .command("k-1", "run.start", "workflow:w")
        .cause(&cause)
        .await;
    let target = start.targets[0].target.clone();
    let operator = host.command("run.pause", &target).send();
    engine.next_review().await;
    engine.kill();
    host.until_offline("night").await;
    // The review stays open for an engine that may come back in time.
    host.advance(5_000).await;
    let answer = patience("the answer", operator)
        .await
        .expect("no panic")
        .expect("an answer");
    assert_eq!(answer.code.map(|c| c.as_str()), Some("CONTROL_REJECTED"));
    // From now on the engine has been gone for too long to be asked at all.
    host.advance(1).await;
    let answer = host.command("run.pause", &target).await;
    assert_eq!(answer.code.map(|c| c.as_str()), Some("CONTROL_REJECTED"));
    assert_eq!(host.view().await.last_review, 1);
}

#[tokio::test]
async fn an_idle_stream_shows_that_the_host_is_alive() {
    let host = hasty().start().await;
    let mut engine = host.engine("night").await;
    let as_of = engine.started().started.as_of.clone();
    loop {
        match engine.wire().next().await.expect("the stream goes on") {
            Some(Response::Progress(progress)) => {
                assert_eq!(progress.cursor, as_of);
                break;
            }
            Some(_) => {}
            None => panic!("the stream ended"),
        }
    }
}

#[tokio::test]
async fn an_engine_that_promised_a_heartbeat_and_is_silent_is_cut_off() {
    let host = hasty().start().await;
    let promise = pb::Hello {
        heartbeat: true,
        ..hello("night")
    };
    let mut engine = host
        .dial("night")
        .await
        .begin(promise)
        .await
        .expect("a session");
    assert_status(
        &failed(&mut engine).await,
        Code::DeadlineExceeded,
        "DEADLINE_EXCEEDED",
    );
}

#[tokio::test]
async fn a_message_that_is_too_long_is_refused_in_words() {
    let host = host().start().await;
    let mut engine = host.engine("night").await;
    let mut long = notify("k-1");
    long.reason = "x".repeat(5 << 20);
    engine.directive(long).send().await;
    let status = failed(&mut engine).await;
    assert_status(&status, Code::InvalidArgument, "INVALID_ARGUMENT");
    assert!(status.message().contains("4194304"), "{}", status.message());
}

#[tokio::test]
async fn ticks_come_where_the_definition_has_none_and_the_engine_asks() {
    let host = host().start().await;
    let asks = pb::Hello {
        tick_period_ms: 500,
        ..hello("night")
    };
    let mut engine = host
        .dial("night")
        .await
        .begin(asks)
        .await
        .expect("a session");
    assert_eq!(engine.started().started.tick_period_ms, 500);
    host.advance(500).await;
    assert_eq!(engine.next_tick().await.missed, 0);
    host.advance(1_500).await;
    let tick = engine.next_tick().await;
    assert_eq!(
        (tick.missed, tick.now_ms - tick.scheduled_ms < 500),
        (2, true)
    );
    let result = engine
        .command("k-1", "run.start", "workflow:w")
        .cause("tick")
        .reason("it is time")
        .await;
    assert_eq!(result.status, "DONE");
}

/// Carries one connection to the host until it is dropped, which cuts it without a word, as the end of a process does.
struct Cable {
    addr: std::net::SocketAddr,
    task: tokio::task::JoinHandle<()>,
}

impl Cable {
    async fn to(host: &Host) -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0")
            .await
            .expect("a port");
        let (addr, host) = (
            listener.local_addr().expect("an address"),
            host.engine_addr(),
        );
        let task = tokio::spawn(async move {
            let (mut engine, _) = listener.accept().await.expect("a connection");
            let mut host = tokio::net::TcpStream::connect(host)
                .await
                .expect("the host listens");
            // Ends with either side; nobody asks how.
            let _ = tokio::io::copy_bidirectional(&mut engine, &mut host).await;
        });
        Self { addr, task }
    }
}

#[tokio::test]
async fn a_connection_that_breaks_is_a_failure_that_is_seen_at_once() {
    let host = host().start().await;
    let cable = Cable::to(&host).await;
    let client =
        signalbox::testkit::EngineClient::dial(cable.addr, &host.credential("night").await).await;
    let engine = client.begin(hello("night")).await.expect("a session");
    cable.task.abort();
    host.until_offline("night").await;
    let status = host.engine_status("night").expect("known");
    assert!(status.last_failure.is_some(), "{status:?}");
    let early = host
        .dial("night")
        .await
        .begin(hello("night"))
        .await
        .expect_err("too early");
    assert_status(&early, Code::Unavailable, "UNAVAILABLE");
    drop(engine);
}
