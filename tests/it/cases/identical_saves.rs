//! A46: what is saved again as it is changes nothing.

use serde_json::{Value, json};
use signalbox::testkit::{FakeEngine, Host};
use signalbox::wire::proto::v1::Tick;
use signalbox::wire::proto::v1::signal::Kind;

use super::{night, start_by};

fn ticking() -> Value {
    let mut supervisor = night();
    supervisor["tick"] = "10s".into();
    supervisor
}

/// A workflow with every kind of timer.
fn timed() -> Value {
    json!({"id": "w", "timeout": "1m", "nodes": {
        "a": {"run": ["a"], "timeout": "20s", "retries": {"max": 3, "delay": "5s"}},
    }})
}

async fn bed() -> Host {
    Host::builder()
        .workflow(timed())
        .supervisor(ticking())
        .start()
        .await
}

/// Saves both definitions again, in several forms that mean the same.
async fn save_again(host: &Host) {
    let last = host.records().len();
    let rows = host.audit().len();
    for _ in 0..2 {
        let saved = host
            .save_workflow(timed())
            .await
            .expect("it was good before");
        assert!(!saved.changed);
        let saved = host
            .save_supervisor(ticking())
            .await
            .expect("it was good before");
        assert!(!saved.changed);
    }
    let yaml = "
nodes:
  a:
    retries: { delay: 5000ms, max: 3 }
    timeout: 20s
    run: [a]
timeout: 60s
id: w
";
    let saved = host.save_workflow(yaml).await.expect("it means the same");
    assert!(!saved.changed, "another spelling is no other definition");
    assert_eq!(host.records().len(), last, "no record was made");
    assert_eq!(host.audit().len(), rows, "nothing was done");
}

/// The next tick. Nothing else comes before it, least of all another `Started`; the one event that there may be told
/// the engine what it owns.
async fn only_tick(engine: &mut FakeEngine) -> Tick {
    loop {
        match engine.next_signal().await.kind {
            Some(Kind::Tick(tick)) => return tick,
            Some(Kind::Event(event)) => assert_eq!(event.kind, "OWNERSHIP", "{event:?}"),
            other => panic!("nothing has happened, and this came: {other:?}"),
        }
    }
}

#[tokio::test]
async fn a46_an_identical_save_moves_no_tick_and_begins_no_session() {
    let host = bed().await;
    let mut engine = host.engine("night").await;
    host.advance(4_000).await;
    save_again(&host).await;
    host.advance(6_000).await;
    let mut ticks = vec![only_tick(&mut engine).await];
    save_again(&host).await;
    host.advance(10_000).await;
    ticks.push(only_tick(&mut engine).await);
    assert_eq!(ticks[1].scheduled_ms - ticks[0].scheduled_ms, 10_000);
    assert!(ticks.iter().all(|t| t.missed == 0), "{ticks:?}");
    assert!(
        ticks.iter().all(|t| t.scheduled_ms == t.now_ms),
        "{ticks:?}"
    );
    assert_eq!(
        host.engine_status("night")
            .and_then(|s| s.session)
            .map(|s| s.to_string()),
        Some(engine.session().to_owned())
    );
}

#[tokio::test]
async fn a46_an_identical_save_moves_no_deadline_of_a_run_and_starts_nothing() {
    let host = bed().await;
    let mut engine = host.engine("night").await;
    let run = start_by(&mut engine, "start").await;
    host.exit(&run, "a", 1).await;

    host.advance(4_999).await;
    save_again(&host).await;
    assert_eq!(host.runtime().starts().len(), 1);
    host.advance(1).await;
    assert_eq!(
        host.runtime().starts().len(),
        2,
        "the retry comes in its time"
    );

    host.advance(19_999).await;
    save_again(&host).await;
    assert!(host.runtime().stops().is_empty());
    host.advance(1).await;
    assert_eq!(
        host.runtime().stops().len(),
        1,
        "the attempt's timeout comes in its time"
    );
    host.exit(&run, "a", 143).await;

    host.advance(34_999).await;
    save_again(&host).await;
    assert_ne!(host.run_status(&run).await.as_str(), "STOPPING");
    host.advance(1).await;
    assert_eq!(
        host.run_status(&run).await.as_str(),
        "STOPPING",
        "the run's timeout comes in its time"
    );
    assert_eq!(host.view().await.runs.len(), 1);
}

#[tokio::test]
async fn a46_an_identical_save_after_a_restart_changes_nothing_either() {
    let mut host = bed().await;
    host.restart().await;
    save_again(&host).await;
}
