//! A program outlives its host, runs once, and its end is never made up.

use super::*;

/// Appends a line to a ledger, tells that, and waits.
fn entry(bed: &Bed, code: i32) -> (StartAttempt, PathBuf, PathBuf, PathBuf) {
    let (ready, go) = (bed.fifo("ready"), bed.fifo("go"));
    let ledger = bed.dir.path().join("ledger");
    let script = format!(
        "echo token >>{}; echo on >{}; read x <{}; echo after; exit {code}",
        ledger.display(),
        ready.display(),
        go.display()
    );
    (sh("ledger", &script), ready, go, ledger)
}

fn lines(path: &Path) -> usize {
    std::fs::read_to_string(path)
        .expect("a ledger")
        .lines()
        .count()
}

/// A30: whatever is started again, the ledger has one line for the attempt.
#[test]
fn a30_two_starts_of_one_attempt_run_its_program_once() {
    let mut bed = Bed::new();
    let (attempt, ready, go, ledger) = entry(&bed, 5);
    bed.start(&attempt);
    bed.start(&attempt);
    bed.started(&attempt);
    said(&ready);
    bed.start(&attempt);
    bed.host_ends();
    bed.host_begins();
    bed.start(&attempt);
    bed.started(&attempt);
    bed.runtime().recover(vec![attempt.clone()]);
    let_go(&go);
    assert_eq!(bed.exit(&attempt), Exit::Code(5));
    bed.quiet();
    assert_eq!(lines(&ledger), 1);
    // After its end a start only says again how it ended.
    bed.start(&attempt);
    bed.started(&attempt);
    assert_eq!(bed.exit(&attempt), Exit::Code(5));
    assert_eq!(lines(&ledger), 1);
}

/// A30: two hosts that both believe to be the one, each with a shim on its way.
#[test]
fn a30_shims_that_race_for_an_attempt_run_its_program_once() {
    let mut bed = Bed::new();
    let ledger = bed.dir.path().join("ledger");
    for round in 0..10 {
        let attempt = sh(
            &format!("race{round}"),
            &format!("echo {round} >>{}", ledger.display()),
        );
        bed.start(&attempt);
        let first = bed.running.take().expect("a host");
        bed.host_begins();
        bed.start(&attempt);
        assert_eq!(bed.next(), Report::Started(attempt.id.clone()));
        assert_eq!(bed.exit(&attempt), Exit::Code(0));
        drop(first);
        assert_eq!(lines(&ledger), round + 1);
    }
}

#[test]
fn a_new_host_attaches_and_learns_the_true_end_and_all_output() {
    let mut bed = Bed::new();
    let (attempt, ready, go, _) = entry(&bed, 9);
    bed.start(&attempt);
    bed.started(&attempt);
    said(&ready);
    bed.host_ends();
    assert!(!matches!(state(bed.shim_pid(&attempt)), None | Some('Z')));
    bed.host_begins();
    bed.runtime().recover(vec![attempt.clone()]);
    bed.started(&attempt);
    let_go(&go);
    assert_eq!(bed.exit(&attempt), Exit::Code(9));
    assert_eq!(bed.stdout(&attempt), "after\n");
}

#[test]
fn an_end_that_nobody_watched_is_reported_to_the_next_host() {
    let mut bed = Bed::new();
    let (attempt, ready, go, ledger) = entry(&bed, 0);
    bed.start(&attempt);
    bed.started(&attempt);
    said(&ready);
    let shim = bed.shim_pid(&attempt);
    bed.host_ends();
    let_go(&go);
    gone(shim);
    bed.host_begins();
    bed.runtime().recover(vec![attempt.clone()]);
    bed.started(&attempt);
    assert_eq!(bed.exit(&attempt), Exit::Code(0));
    assert_eq!(lines(&ledger), 1);
    assert_eq!(state(shim), None, "the shim is reaped");
}

#[test]
fn an_attempt_that_never_began_is_started_by_the_next_host() {
    let bed = Bed::new();
    let attempt = sh("new", "exit 4");
    bed.runtime().recover(vec![attempt.clone()]);
    bed.started(&attempt);
    assert_eq!(bed.exit(&attempt), Exit::Code(4));
}

fn expect_lost(bed: &Bed, attempt: &StartAttempt) {
    match bed.next() {
        Report::Lost(id, reason) if id == attempt.id => {
            assert!(reason.starts_with("host_lost"), "{reason}");
        }
        other => panic!("{other:?} does not say that {:?} is lost", attempt.id),
    }
}

#[test]
fn an_attempt_whose_shim_is_killed_is_lost_and_its_processes_are_ended() {
    let bed = Bed::new();
    let ready = bed.fifo("ready");
    let script = format!("sleep 1000 & echo $! $$ >{}; wait", ready.display());
    let attempt = sh("orphan", &script);
    bed.start(&attempt);
    bed.started(&attempt);
    let pids: Vec<i32> = said(&ready)
        .split(' ')
        .map(|p| p.parse().expect("a pid"))
        .collect();
    kill9(bed.shim_pid(&attempt));
    expect_lost(&bed, &attempt);
    assert_eq!(pids.len(), 2);
    for pid in pids {
        gone(pid);
    }
}

#[test]
fn an_attempt_whose_shim_died_while_nobody_watched_is_lost_and_its_processes_are_ended() {
    let mut bed = Bed::new();
    let ready = bed.fifo("ready");
    let attempt = sh(
        "orphan",
        &format!("sleep 1000 & echo $! $$ >{}; wait", ready.display()),
    );
    bed.start(&attempt);
    bed.started(&attempt);
    let pids: Vec<i32> = said(&ready)
        .split(' ')
        .map(|p| p.parse().expect("a pid"))
        .collect();
    bed.host_ends();
    let shim = bed.shim_pid(&attempt);
    kill9(shim);
    // The leader as well, and the record of the child: the session and the variables still tell.
    gone(shim);
    std::fs::remove_file(bed.attempt_dir(&attempt).join("pid")).expect("a record");
    bed.host_begins();
    bed.runtime().recover(vec![attempt.clone()]);
    expect_lost(&bed, &attempt);
    for pid in pids {
        gone(pid);
    }
}

#[test]
fn a_number_that_now_means_a_stranger_is_never_signalled() {
    let mut bed = Bed::new();
    let attempt = sh("reused", "exit 0");
    assert_eq!(bed.run(&attempt), Exit::Code(0));
    bed.host_ends();
    let mut stranger = std::process::Command::new("sleep")
        .arg("1000")
        .spawn()
        .expect("sleep");
    // As if shim and program had died without a word, and their numbers had been given away.
    let dir = bed.attempt_dir(&attempt);
    std::fs::remove_file(dir.join("exit")).expect("an exit");
    for (file, field) in [("pid", "child"), ("lock", "shim")] {
        let text = std::fs::read_to_string(dir.join(file)).expect("a record");
        let mut value: serde_json::Value = serde_json::from_str(&text).expect("json");
        value[field]["pid"] = stranger.id().into();
        // Start times are told in hundredths of a second, and this all happens within one.
        let start = value[field]["start"].as_u64().expect("a start time");
        value[field]["start"] = (start - 1).into();
        std::fs::write(dir.join(file), value.to_string()).expect("writes");
    }
    bed.host_begins();
    bed.runtime().recover(vec![attempt.clone()]);
    expect_lost(&bed, &attempt);
    assert!(
        stranger.try_wait().expect("waits").is_none(),
        "the stranger lives"
    );
    stranger.kill().expect("kills");
    stranger.wait().expect("waits");
}

#[test]
fn an_attempt_that_no_record_knows_is_ended_and_not_reported() {
    let mut bed = Bed::new();
    let attempt = node("unlisted", &["sleep", "1000"]);
    bed.start(&attempt);
    bed.started(&attempt);
    let (shim, child) = (bed.shim_pid(&attempt), bed.child_pid(&attempt));
    bed.host_ends();
    bed.host_begins();
    bed.runtime().recover(Vec::new());
    gone(child);
    gone(shim);
    bed.quiet();
    let exit = std::fs::read_to_string(bed.attempt_dir(&attempt).join("exit")).expect("an exit");
    assert!(exit.contains("\"signal\":9"), "{exit}");
}

#[test]
fn logs_of_former_attempts_stay() {
    let mut bed = Bed::new();
    let attempt = sh("old", "echo kept");
    assert_eq!(bed.run(&attempt), Exit::Code(0));
    bed.host_ends();
    bed.host_begins();
    bed.runtime().recover(Vec::new());
    bed.quiet();
    assert_eq!(bed.stdout(&attempt), "kept\n");
}

#[test]
fn an_attempt_without_a_trace_is_not_started_again_when_the_machine_went_down() {
    let mut bed = Bed::new();
    bed.host_ends();
    std::fs::write(bed.dir.path().join("boot"), "another boot").expect("a note");
    bed.host_begins();
    let attempt = sh("begun", "exit 0");
    bed.runtime().recover(vec![attempt.clone()]);
    expect_lost(&bed, &attempt);
    // The next restart of the host alone is an ordinary one.
    bed.host_ends();
    bed.host_begins();
    let next = sh("next", "exit 0");
    bed.runtime().recover(vec![next.clone()]);
    bed.started(&next);
    assert_eq!(bed.exit(&next), Exit::Code(0));
}

#[test]
fn an_end_whose_new_name_the_machine_forgot_still_counts() {
    let mut bed = Bed::new();
    let attempt = sh("renamed", "exit 6");
    assert_eq!(bed.run(&attempt), Exit::Code(6));
    bed.host_ends();
    let dir = bed.attempt_dir(&attempt);
    std::fs::rename(dir.join("exit"), dir.join("exit.tmp")).expect("renames");
    bed.host_begins();
    bed.runtime().recover(vec![attempt.clone()]);
    bed.started(&attempt);
    assert_eq!(bed.exit(&attempt), Exit::Code(6));
}
