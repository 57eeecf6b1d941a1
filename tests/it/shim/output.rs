//! All output is kept or counted, and nothing about it delays or stalls a program.

use super::*;

#[test]
fn output_is_complete_when_the_exit_is_reported_also_a_last_line_without_end() {
    let bed = Bed::new();
    let attempt = sh("lines", "seq 1 20000; printf last; printf oops >&2");
    assert_eq!(bed.run(&attempt), Exit::Code(0));
    let text = bed.stdout(&attempt);
    assert!(
        text.starts_with("1\n2\n") && text.ends_with("\n20000\nlast"),
        "{} bytes",
        text.len()
    );
    assert_eq!(text.lines().count(), 20001);
    assert_eq!(bed.log(&attempt, Stream::Stderr).bytes, b"oops");
}

#[test]
fn a_program_reads_nothing_from_the_host() {
    let bed = Bed::new();
    let attempt = node("cat", &["cat"]);
    assert_eq!(bed.run(&attempt), Exit::Code(0));
    assert_eq!(bed.stdout(&attempt), "");
}

/// A53: any bytes, more than the limit; what is kept and what is dropped add up to what was produced.
#[test]
fn garbage_beyond_the_limit_is_counted_to_the_byte() {
    const LIMIT: u64 = 1024 * 1024;
    const PRODUCED: u64 = 5 * 1024 * 1024 + 3;
    let bed = Bed::with_log_limit(LIMIT);
    let attempt = sh(
        "garbage",
        &format!("printf '\\307\\377'; head -c {PRODUCED} /dev/urandom; printf end"),
    );
    assert_eq!(bed.run(&attempt), Exit::Code(0));
    let log = bed.log(&attempt, Stream::Stdout);
    assert_eq!(log.total, PRODUCED + 5);
    assert_eq!(log.bytes.len() as u64 + log.dropped, log.total);
    assert!(log.bytes.len() as u64 <= LIMIT && log.bytes.len() as u64 > LIMIT / 2);
    assert_eq!(&log.bytes[..2], b"\xc7\xff");
    assert!(log.bytes.ends_with(b"end"));
    let stat = std::fs::read_to_string(bed.attempt_dir(&attempt).join("logstat")).expect("logstat");
    let stat: serde_json::Value = serde_json::from_str(&stat).expect("json");
    assert_eq!(stat["stdout"]["kept"], log.bytes.len() as u64);
    assert_eq!(stat["stdout"]["dropped"], log.dropped);
}

#[test]
fn a_log_can_be_read_while_the_program_runs() {
    let bed = Bed::new();
    let (ready, go) = (bed.fifo("ready"), bed.fifo("go"));
    let script = format!(
        "seq 1 30000; echo on >{}; read x <{}",
        ready.display(),
        go.display()
    );
    let attempt = sh("live", &script);
    bed.start(&attempt);
    bed.started(&attempt);
    said(&ready);
    // The program is ahead of the log by what the pipe and the shim hold at most.
    let log = bed.log(&attempt, Stream::Stdout);
    assert!(log.total >= 168_894 - 2 * 65_536, "{}", log.total);
    let_go(&go);
    assert_eq!(bed.exit(&attempt), Exit::Code(0));
    assert_eq!(bed.log(&attempt, Stream::Stdout).total, 168_894);
}

/// A50, first half: somebody else holds the streams of a program that has ended.
#[test]
fn a_grandchild_that_holds_the_output_does_not_delay_the_exit() {
    let bed = Bed::new();
    let attempt = sh("holder", "sleep 1000 & echo $!; echo done");
    let before = signalbox::clock::monotonic_ms();
    assert_eq!(bed.run(&attempt), Exit::Code(0));
    let took = signalbox::clock::monotonic_ms() - before;
    assert!(took < 2000, "{took} ms");
    let text = bed.stdout(&attempt);
    let (helper, rest) = text.split_once('\n').expect("two lines");
    assert_eq!(rest, "done\n");
    // An ordinary end leaves its helpers alone.
    let helper = helper.parse().expect("a pid");
    assert!(matches!(state(helper), Some('S' | 'R')));
    kill9(helper);
}

#[test]
fn a_grandchild_that_never_stops_writing_does_not_delay_the_exit() {
    let bed = Bed::with_log_limit(64 * 1024);
    let attempt = sh("chatter", "yes & exit 3");
    let before = signalbox::clock::monotonic_ms();
    assert_eq!(bed.run(&attempt), Exit::Code(3));
    let took = signalbox::clock::monotonic_ms() - before;
    assert!(took < 2000, "{took} ms");
    let log = bed.log(&attempt, Stream::Stdout);
    assert_eq!(log.bytes.len() as u64 + log.dropped, log.total);
}
