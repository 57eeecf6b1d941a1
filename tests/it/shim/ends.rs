//! How a program ended, or why it could not start, is reported truly.

use super::*;

#[test]
fn exit_codes_are_reported_as_they_are() {
    let bed = Bed::new();
    for code in [0, 1, 42, 255] {
        let attempt = sh(&format!("n{code}"), &format!("exit {code}"));
        assert_eq!(bed.run(&attempt), Exit::Code(code));
    }
}

#[test]
fn the_signal_that_ended_a_program_is_reported() {
    let bed = Bed::new();
    for signal in [6, 9, 15] {
        let attempt = sh(&format!("n{signal}"), &format!("kill -{signal} $$"));
        assert_eq!(bed.run(&attempt), Exit::Signal(signal));
    }
}

fn not_started(bed: &Bed, attempt: &StartAttempt) -> String {
    bed.start(attempt);
    match bed.next() {
        Report::NotStarted(id, reason) if id == attempt.id => reason,
        other => panic!("{other:?} is no reason why {:?} did not start", attempt.id),
    }
}

#[test]
fn a_program_that_cannot_start_is_named_with_the_reason_and_what_to_do() {
    let bed = Bed::new();
    let reason = not_started(&bed, &node("absent", &["no-such-program-here"]));
    for part in ["`no-such-program-here`", "PATH=", "install it"] {
        assert!(reason.contains(part), "{reason}");
    }

    let file = bed.dir.path().join("plain");
    std::fs::write(&file, "x").expect("a file");
    let reason = not_started(&bed, &node("plain", &[file.to_str().expect("a path")]));
    for part in ["plain", "ermission denied", "chmod +x"] {
        assert!(reason.contains(part), "{reason}");
    }

    let mut lost = sh("lost", "exit 0");
    lost.cwd = Some("/no/such/directory".into());
    let reason = not_started(&bed, &lost);
    for part in ["/no/such/directory", "No such file", "`cwd`"] {
        assert!(reason.contains(part), "{reason}");
    }
}

#[test]
fn a_start_that_failed_says_the_same_after_a_restart() {
    let mut bed = Bed::new();
    let attempt = node("absent", &["no-such-program-here"]);
    let first = not_started(&bed, &attempt);
    bed.host_ends();
    bed.host_begins();
    bed.runtime().recover(vec![attempt.clone()]);
    assert_eq!(bed.next(), Report::NotStarted(attempt.id, first));
}

#[test]
fn names_that_would_leave_the_data_directory_are_refused() {
    let bed = Bed::new();
    for bad in ["..", "a/b", ""] {
        let reason = not_started(&bed, &sh(bad, "exit 0"));
        assert!(reason.contains("does not match"), "{reason}");
    }
}

#[test]
fn a_host_program_that_is_no_shim_is_reported_not_waited_for() {
    let mut bed = Bed::new();
    for (program, words) in [
        ("/no/such/signalbox", "could not be started"),
        ("/bin/false", "code 1"),
    ] {
        bed.host_ends();
        bed.program = program.into();
        bed.host_begins();
        let reason = not_started(&bed, &sh("n", "exit 0"));
        assert!(reason.contains(words), "{reason}");
    }
}

#[test]
fn a_program_sees_the_allowed_and_declared_variables_and_its_own_name_and_no_others() {
    let bed = Bed::new();
    let mut attempt = node("env", &["env", "-0"]);
    attempt.env.insert("DECLARED".into(), "two words".into());
    attempt.env.insert("LANG".into(), "declared-wins".into());
    attempt.env.insert("SIGNALBOX_NODE".into(), "forged".into());
    assert_eq!(bed.run(&attempt), Exit::Code(0));
    let text = bed.stdout(&attempt);
    let seen: BTreeMap<&str, &str> = text
        .split_terminator('\0')
        .filter_map(|entry| entry.split_once('='))
        .collect();
    let allowed = ["PATH", "HOME", "LANG", "TZ", "TMPDIR", "USER", "DECLARED"];
    for name in seen.keys() {
        assert!(
            allowed.contains(name) || name.starts_with("SIGNALBOX_"),
            "{name}"
        );
    }
    assert_eq!(seen.get("DECLARED"), Some(&"two words"));
    assert_eq!(seen.get("LANG"), Some(&"declared-wins"));
    assert_eq!(seen.get("SIGNALBOX_EXECUTION"), Some(&"x1"));
    assert_eq!(seen.get("SIGNALBOX_NODE"), Some(&"env"));
    assert_eq!(seen.get("SIGNALBOX_ATTEMPT"), Some(&"1"));
    let hidden = |name: &str| !allowed.contains(&name) && !seen.contains_key(name);
    assert!(
        std::env::vars().any(|(name, _)| hidden(&name)),
        "this process has variables to hide"
    );
}

#[test]
fn values_of_variables_are_in_no_file_argument_or_environment_of_the_shim() {
    let bed = Bed::new();
    let (ready, go) = (bed.fifo("ready"), bed.fifo("go"));
    let mut attempt = sh(
        "secret",
        &format!("echo on >{}; read x <{}", ready.display(), go.display()),
    );
    attempt.env.insert("TOKEN".into(), "hunter2-canary".into());
    bed.start(&attempt);
    bed.started(&attempt);
    said(&ready);
    let shim = bed.shim_pid(&attempt);
    let environ = std::fs::read(format!("/proc/{shim}/environ")).expect("readable");
    assert_eq!(String::from_utf8_lossy(&environ), "");
    let cmdline = std::fs::read_to_string(format!("/proc/{shim}/cmdline")).expect("readable");
    assert!(!cmdline.contains("canary"), "{cmdline}");
    let_go(&go);
    assert_eq!(bed.exit(&attempt), Exit::Code(0));
    for file in std::fs::read_dir(bed.attempt_dir(&attempt)).expect("a directory") {
        let path = file.expect("an entry").path();
        if path.ends_with("ctl") {
            continue;
        }
        let text = std::fs::read(&path).expect("readable");
        assert!(
            !String::from_utf8_lossy(&text).contains("canary"),
            "{}",
            path.display()
        );
    }
}

#[test]
fn everything_that_is_written_is_for_the_owner_only() {
    use std::os::unix::fs::PermissionsExt;
    let bed = Bed::new();
    let attempt = sh("modes", "umask; echo err >&2");
    assert_eq!(bed.run(&attempt), Exit::Code(0));
    let mut dir = bed.attempt_dir(&attempt);
    for entry in std::fs::read_dir(&dir).expect("a directory") {
        let entry = entry.expect("an entry");
        let mode = entry.metadata().expect("metadata").permissions().mode() & 0o777;
        assert_eq!(mode, 0o600, "{:?}", entry.path());
    }
    while dir != bed.dir.path() {
        let mode = dir.metadata().expect("metadata").permissions().mode() & 0o777;
        assert_eq!(mode, 0o700, "{}", dir.display());
        dir.pop();
    }
}

#[test]
fn nodes_of_an_execution_share_a_working_directory_unless_they_name_one() {
    let bed = Bed::new();
    assert_eq!(bed.run(&sh("write", "echo shared >file")), Exit::Code(0));
    let read = node("read", &["cat", "file"]);
    assert_eq!(bed.run(&read), Exit::Code(0));
    assert_eq!(bed.stdout(&read), "shared\n");

    let mut elsewhere = node("elsewhere", &["pwd"]);
    elsewhere.cwd = Some("/".into());
    assert_eq!(bed.run(&elsewhere), Exit::Code(0));
    assert_eq!(bed.stdout(&elsewhere), "/\n");
}
