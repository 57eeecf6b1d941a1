//! Who is told to stop stops, with everything it has started; nobody else is touched and no zombie stays.

use super::*;

/// A program that ignores SIGTERM and says so.
fn stubborn(bed: &Bed, name: &str) -> (StartAttempt, PathBuf) {
    let ready = bed.fifo(&format!("{name}.ready"));
    let script = format!(
        "trap '' TERM; echo on >{}; while :; do sleep 1000; done",
        ready.display()
    );
    (sh(name, &script), ready)
}

#[test]
fn a_program_that_is_told_to_terminate_may_end_in_its_own_way() {
    let bed = Bed::new();
    let (ready, go) = (bed.fifo("ready"), bed.fifo("go"));
    let script = format!(
        "trap 'echo bye; exit 7' TERM; echo on >{}; read x <{}",
        ready.display(),
        go.display()
    );
    let attempt = sh("polite", &script);
    bed.start(&attempt);
    bed.started(&attempt);
    said(&ready);
    bed.stop(&attempt, StopSignal::Terminate);
    assert_eq!(bed.exit(&attempt), Exit::Code(7));
    assert_eq!(bed.stdout(&attempt), "bye\n");
}

#[test]
fn a_program_without_a_handler_ends_by_the_signal() {
    let bed = Bed::new();
    let attempt = node("plain", &["sleep", "1000"]);
    bed.start(&attempt);
    bed.started(&attempt);
    bed.stop(&attempt, StopSignal::Terminate);
    assert_eq!(bed.exit(&attempt), Exit::Signal(15));
}

/// A43: the kill after the grace works where the first signal does not.
#[test]
fn a_program_that_ignores_termination_dies_by_kill() {
    let bed = Bed::new();
    let (attempt, ready) = stubborn(&bed, "stubborn");
    bed.start(&attempt);
    bed.started(&attempt);
    said(&ready);
    bed.stop(&attempt, StopSignal::Terminate);
    bed.stop(&attempt, StopSignal::Kill);
    assert_eq!(bed.exit(&attempt), Exit::Signal(9));
}

/// A43, across a restart in the middle.
#[test]
fn an_attached_program_dies_by_kill_as_well() {
    let mut bed = Bed::new();
    let (attempt, ready) = stubborn(&bed, "stubborn");
    bed.start(&attempt);
    bed.started(&attempt);
    said(&ready);
    bed.stop(&attempt, StopSignal::Terminate);
    bed.host_ends();
    bed.host_begins();
    bed.runtime().recover(vec![attempt.clone()]);
    bed.started(&attempt);
    bed.stop(&attempt, StopSignal::Kill);
    assert_eq!(bed.exit(&attempt), Exit::Signal(9));
}

#[test]
fn a_stop_right_behind_the_start_is_not_lost() {
    let bed = Bed::new();
    let attempt = node("early", &["sleep", "1000"]);
    bed.start(&attempt);
    bed.stop(&attempt, StopSignal::Kill);
    bed.started(&attempt);
    assert_eq!(bed.exit(&attempt), Exit::Signal(9));
}

#[test]
fn a_stop_after_the_end_touches_nobody() {
    let bed = Bed::new();
    let attempt = sh("over", "exit 0");
    assert_eq!(bed.run(&attempt), Exit::Code(0));
    bed.stop(&attempt, StopSignal::Kill);
    bed.quiet();
}

/// Processes that a script has started and named, one line each, last its own.
fn helpers(bed: &Bed, script: &str, signal: StopSignal) -> (Exit, Vec<i32>) {
    let ready = bed.fifo("ready");
    let attempt = sh(
        "family",
        &script.replace("READY", &ready.display().to_string()),
    );
    bed.start(&attempt);
    bed.started(&attempt);
    let pids = said(&ready)
        .split_ascii_whitespace()
        .map(|pid| pid.parse().expect("a pid"))
        .collect();
    bed.stop(&attempt, signal);
    (bed.exit(&attempt), pids)
}

#[test]
fn a_killed_group_takes_its_helpers_along() {
    let bed = Bed::new();
    let script = "sleep 1000 & a=$!; (sleep 1000 & echo $a $! $$ >READY; wait) & wait";
    let (exit, pids) = helpers(&bed, script, StopSignal::Kill);
    assert_eq!(exit, Exit::Signal(9));
    assert_eq!(pids.len(), 3);
    for pid in pids {
        assert_eq!(state(pid), None, "{pid}");
    }
}

#[test]
fn a_helper_that_ignores_termination_does_not_outlive_its_program() {
    let bed = Bed::new();
    let script = "(trap '' TERM; sleep 1000 & echo $! >READY; wait) & wait";
    let (exit, pids) = helpers(&bed, script, StopSignal::Terminate);
    assert_eq!(exit, Exit::Signal(15));
    for pid in pids {
        assert_eq!(state(pid), None, "{pid}");
    }
}

#[test]
fn a_helper_in_a_session_of_its_own_is_stopped_too() {
    let bed = Bed::new();
    let script = "setsid sh -c 'sleep 1000 & echo $! $$ >READY; wait' >/dev/null 2>&1 & sleep 1000";
    let (exit, pids) = helpers(&bed, script, StopSignal::Terminate);
    assert_eq!(exit, Exit::Signal(15));
    assert_eq!(pids.len(), 2);
    for pid in pids {
        assert_eq!(state(pid), None, "{pid}");
    }
}

/// A50: only the leader of the group is killed, by somebody else.
#[test]
fn a50_a_node_whose_leader_is_killed_is_over_at_once_though_a_helper_lives() {
    let bed = Bed::new();
    let ready = bed.fifo("ready");
    let attempt = sh(
        "led",
        &format!("sleep 1000 & echo $! >{}; wait", ready.display()),
    );
    bed.start(&attempt);
    bed.started(&attempt);
    let helper: i32 = said(&ready).parse().expect("a pid");
    let before = signalbox::clock::monotonic_ms();
    kill9(bed.child_pid(&attempt));
    assert_eq!(bed.exit(&attempt), Exit::Signal(9));
    let took = signalbox::clock::monotonic_ms() - before;
    assert!(took < 2000, "{took} ms");
    assert_eq!(state(helper), None, "resources are released");
}

/// A51: short programs, some of which leave a child of a child behind.
#[test]
fn a51_short_attempts_leave_no_zombie() {
    let bed = Bed::new();
    let ready = bed.fifo("ready");
    let attempts: Vec<StartAttempt> = (0..200)
        .map(|n| {
            let script = if n % 4 == 0 {
                "(sleep 0.01 &) ; exit 0"
            } else {
                "exit 0"
            };
            sh(&format!("n{n}"), script)
        })
        .collect();
    for attempt in &attempts {
        bed.start(attempt);
    }
    let mut exits = 0;
    while exits < attempts.len() {
        match bed.next() {
            Report::Started(_) => {}
            Report::Exited(_, Exit::Code(0)) => exits += 1,
            other => panic!("{other:?}"),
        }
    }
    // Also below a shim that runs on: its orphans are reaped as they end.
    let script = format!(
        "for i in 1 2 3 4 5; do (true &); done; echo on >{}; sleep 1000",
        ready.display()
    );
    let long = sh("long", &script);
    bed.start(&long);
    bed.started(&long);
    said(&ready);
    let shims: Vec<i32> = attempts
        .iter()
        .map(|attempt| bed.shim_pid(attempt))
        .collect();
    let me = i32::try_from(std::process::id()).expect("a pid");
    for pid in shims {
        if let Ok(text) = std::fs::read_to_string(format!("/proc/{pid}/stat")) {
            let rest = text.rsplit_once(')').expect("a stat").1;
            let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
            assert!(
                fields[0] != "Z" || fields[1] != me.to_string(),
                "shim {pid} is a zombie"
            );
        }
    }
    let live = std::fs::read_dir(bed.dir.path().join("live"))
        .expect("a directory")
        .count();
    assert_eq!(live, 1, "only the long one is listed");
    bed.stop(&long, StopSignal::Kill);
    assert_eq!(bed.exit(&long), Exit::Signal(9));
}
