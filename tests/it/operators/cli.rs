//! The command line: the real program, as a process of its own.

use std::path::Path;
use std::process::Stdio;

use serde_json::Value;
use signalbox::host::runtime::Exit;
use signalbox::testkit::{FakeRuntime, Host, patience};

use super::{BUILD, Desk};

/// What the program said.
#[derive(Debug)]
struct Said {
    exit: i32,
    out: String,
    err: String,
}

/// Calls the program with a key.
fn program(desk: &Desk, key: &str, args: &[&str]) -> tokio::process::Command {
    let mut command = tokio::process::Command::new(env!("CARGO_BIN_EXE_signalbox"));
    command
        .args(args)
        .env_clear()
        .env("SIGNALBOX_URL", desk.url(""))
        .env("SIGNALBOX_KEY", key)
        .env("XDG_RUNTIME_DIR", "/nonexistent")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true);
    command
}

async fn ended(mut command: tokio::process::Command) -> Said {
    let output = patience("the program to end", command.output())
        .await
        .expect("starts");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("text");
    Said {
        exit: output.status.code().expect("a code"),
        out: text(output.stdout),
        err: text(output.stderr),
    }
}

async fn call(desk: &Desk, args: &[&str]) -> Said {
    ended(program(desk, &desk.admin, args)).await
}

fn file(dir: &Path, name: &str, text: &str) -> String {
    let path = dir.join(name);
    std::fs::write(&path, text).expect("writes");
    path.display().to_string()
}

#[tokio::test]
async fn a67_what_looks_like_another_type_comes_through_the_command_line_as_it_was_written() {
    let desk = Desk::with(Host::builder().runtime(FakeRuntime::finishing())).await;
    let dir = tempfile::tempdir().expect("a directory");
    let yaml = "id: on\nparams: {V: {default: 1.10}, W: {}}\nnodes:\n  no: {run: [echo, 0123, y], env: {A: no}}\n  0123: {run: [echo, 2026-01-01], needs: [no]}\n";
    let said = call(
        &desk,
        &["workflow", "apply", &file(dir.path(), "w.yaml", yaml)],
    )
    .await;
    assert_eq!(
        (said.exit, said.out.as_str()),
        (0, "on saved (revision 1)\n"),
        "{said:?}"
    );
    // What is shown can be applied again as it is, in both forms.
    let shown = call(&desk, &["workflow", "show", "on"]).await;
    let again = call(
        &desk,
        &[
            "workflow",
            "apply",
            &file(dir.path(), "again.yaml", &shown.out),
        ],
    )
    .await;
    assert_eq!(
        again.out, "on unchanged (revision 1)\n",
        "{}\n{again:?}",
        shown.out
    );
    let json: Value = serde_json::from_str(
        &call(&desk, &["-o", "json", "workflow", "show", "on"])
            .await
            .out,
    )
    .expect("JSON");
    let again = call(
        &desk,
        &[
            "workflow",
            "apply",
            &file(dir.path(), "w.json", &json["definition"].to_string()),
        ],
    )
    .await;
    assert_eq!(again.out, "on unchanged (revision 1)\n", "{again:?}");

    let said = call(
        &desk,
        &[
            "run", "start", "on", "--param", "W=0123", "--wait", "-o", "json",
        ],
    )
    .await;
    assert_eq!(said.exit, 0, "{said:?}");
    let run: Value = serde_json::from_str(&said.out).expect("JSON");
    assert_eq!(
        (&run["params"]["V"], &run["params"]["W"]),
        (&"1.10".into(), &"0123".into())
    );
    let starts = desk.host.runtime().starts();
    assert_eq!(starts[0].argv, ["echo", "0123", "y"]);
    assert_eq!(
        (starts[0].env["A"].as_str(), starts[0].env["V"].as_str()),
        ("no", "1.10")
    );
    assert_eq!(starts[1].argv, ["echo", "2026-01-01"]);
}

#[tokio::test]
async fn a68_a_definition_with_mistakes_is_refused_with_every_line_before_it_is_sent() {
    let desk = Desk::open().await;
    let dir = tempfile::tempdir().expect("a directory");
    let path = file(
        dir.path(),
        "w.yaml",
        "id: w\nnodes:\n  a: {run: [x]}\n  a: {run: [y]}\n  b: {run: [x], neds: [a]}\n",
    );
    let said = call(&desk, &["workflow", "apply", &path]).await;
    assert_eq!((said.exit, said.out.as_str()), (2, ""));
    for part in [
        format!("{path}:4:3: nodes.a: `a` is given twice, on line 3 and on line 4"),
        format!("{path}:5:17: nodes.b.neds"),
        "did you mean `needs`?".to_owned(),
    ] {
        assert!(said.err.contains(&part), "{part} in {}", said.err);
    }
    assert!(desk.host.view().await.workflows.is_empty());
}

#[tokio::test]
async fn the_exit_code_says_how_it_ended() {
    let fails = FakeRuntime::finishing();
    let desk = Desk::with(Host::builder().runtime(fails)).await;
    desk.workflow(BUILD).await;
    desk.workflow("id: bad\nnodes: {a: {run: [fail]}}\n").await;
    desk.workflow("id: owned\nnodes: {a: {run: [x]}}\n").await;
    desk.supervisor("id: pipeline\nowns: [\"workflow:owned\"]\nengine: {transport: attached}\n")
        .await;
    desk.host
        .runtime()
        .on_start(|start| Some(Exit::Code(i32::from(start.argv[0] == "fail"))));

    let ok = call(&desk, &["run", "start", "build", "--wait"]).await;
    assert_eq!(ok.exit, 0, "{ok:?}");
    assert!(
        ok.out.starts_with("x1\n") && ok.out.contains("SUCCEEDED"),
        "{ok:?}"
    );
    let failed = call(&desk, &["run", "start", "bad", "--wait"]).await;
    assert_eq!(failed.exit, 1, "{failed:?}");
    for (args, exit) in [
        (&["run", "list"][..], 0),
        (&["run", "list", "--status", "FAILED", "-o", "json"], 0),
        (&["run", "show", "x1"], 0),
        (&["events"], 0),
        (&["audit", "--execution", "x1"], 0),
        (&["supervisor", "list"], 0),
        (&["supervisor", "show", "pipeline"], 0),
        (&["workflow", "list"], 0),
        (&["run", "stop", "x1"], 0),
        (&["run", "show", "x99"], 5),
        (&["run", "stop", "x99"], 5),
        (&["run", "pause", "x1"], 5),
        (&["run", "pause", "x1", "--if-status", "RUNNING"], 5),
        (&["run", "stop", "x1", "x99"], 5),
        (&["node", "retry", "x1/make"], 5),
        (&["node", "skip", "x2/a"], 0),
        (&["run", "start", "none"], 5),
        (&["run", "start", "owned"], 6),
        (&["run", "start", "build", "--param", "NOPE=1"], 2),
        (
            &[
                "run", "start", "build", "--param", "MODE=1", "--param", "MODE=2",
            ],
            2,
        ),
        (&["run", "stop", "x1/y"], 2),
        (&["workflow", "apply", "/no/such/file.yaml"], 2),
        (&["--url", "http://127.0.0.1:1", "run", "list"], 1),
        (&["--url", "ftp://127.0.0.1", "run", "list"], 2),
        (&["doctor", "check", "/no/such/dir"], 2),
    ] {
        let said = call(&desk, args).await;
        assert_eq!(said.exit, exit, "{args:?} {said:?}");
        assert_eq!(said.err.is_empty(), exit == 0, "{args:?} {said:?}");
        if exit != 0 {
            assert!(said.err.contains("error"), "{args:?} {said:?}");
        }
    }
    assert_eq!(
        ended(program(&desk, "wrong", &["run", "list"])).await.exit,
        4
    );
    assert_eq!(
        ended(program(&desk, &desk.viewer, &["run", "stop", "x1"]))
            .await
            .exit,
        4
    );
    let mut keyless = program(&desk, "", &["run", "list"]);
    keyless.env_remove("SIGNALBOX_KEY");
    let said = ended(keyless).await;
    assert!(said.exit == 4 && said.err.contains("hint:"), "{said:?}");
}

#[tokio::test]
async fn a_credential_that_is_issued_is_printed_alone() {
    let desk = Desk::open().await;
    desk.supervisor("id: pipeline\nengine: {transport: attached}\n")
        .await;
    let engine = call(&desk, &["credential", "issue", "pipeline"]).await;
    let operator = call(&desk, &["credential", "issue", "--role", "viewer", "ada"]).await;
    for said in [&engine, &operator] {
        assert_eq!(said.exit, 0, "{said:?}");
        assert!(
            desk.host.handle().authenticate(said.out.trim()).is_some(),
            "{said:?}"
        );
    }
    assert_eq!(
        ended(program(&desk, operator.out.trim(), &["run", "list"]))
            .await
            .exit,
        0
    );
    assert_eq!(
        ended(program(&desk, engine.out.trim(), &["run", "list"]))
            .await
            .exit,
        4
    );
}

#[tokio::test]
async fn text_from_outside_does_not_control_the_terminal() {
    let desk = Desk::open().await;
    desk.workflow("id: w\nnodes: {a: {run: [x]}}\n").await;
    let id = desk.start("w").await;
    let reason = "\u{1b}]0;owned\u{7}\u{202e}";
    assert_eq!(
        call(&desk, &["run", "pause", &id, "--reason", reason])
            .await
            .exit,
        0
    );
    for args in [
        &["run", "show", &id][..],
        &["run", "list"],
        &["audit"],
        &["events"],
    ] {
        let said = call(&desk, args).await;
        assert!(
            said.out.contains("\\u{1b}]0;owned\\u{7}\\u{202e}"),
            "{args:?} {said:?}"
        );
        assert!(
            !said.out.contains(['\u{1b}', '\u{7}', '\u{202e}']),
            "{args:?}"
        );
    }
}

#[tokio::test]
async fn a_wait_goes_on_when_its_connection_is_cut() {
    let mut desk = Desk::open().await;
    desk.workflow(BUILD).await;
    let mut command = program(
        &desk,
        &desk.admin,
        &["run", "start", "build", "--wait", "-o", "json"],
    );
    let child = command.spawn().expect("starts");
    desk.host.until_node("x1", "fetch", "RUNNING").await;
    desk.cut().await;
    desk.host.exit("x1", "fetch", 0).await;
    desk.serve().await;
    desk.host.until_node("x1", "make", "RUNNING").await;
    desk.host.exit("x1", "make", 0).await;
    let output = patience("the wait to end", child.wait_with_output())
        .await
        .expect("ends");
    let err = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{err}");
    let run: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(run["status"], "SUCCEEDED");
}

#[tokio::test]
async fn logs_are_followed_until_the_execution_ends() {
    let desk = Desk::open().await;
    desk.workflow("id: w\nnodes: {a: {run: [x]}}\n").await;
    let id = desk.start("w").await;
    desk.logs.text("x1/a/1/Stdout", "first\n");
    desk.logs.text("x1/a/1/Stderr", "");
    let once = call(&desk, &["run", "logs", &id, "--node", "a"]).await;
    assert_eq!((once.exit, once.out.as_str()), (0, "first\n"), "{once:?}");
    let child = program(
        &desk,
        &desk.admin,
        &["run", "logs", &id, "--node", "a", "--follow"],
    )
    .spawn()
    .expect("starts");
    desk.logs.text("x1/a/1/Stdout", "first\nsecond\n");
    desk.logs.text("x1/a/1/Stderr", "oops\n");
    desk.host.exit(&id, "a", 0).await;
    let output = patience("the logs to end", child.wait_with_output())
        .await
        .expect("ends");
    let out = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(0));
    assert!(
        out.contains("first\nsecond\n") && out.contains("oops\n"),
        "{out}"
    );
    let missing = call(&desk, &["run", "logs", &id, "--node", "b"]).await;
    assert!(
        missing.exit == 5 && missing.err.contains("it has a"),
        "{missing:?}"
    );
}
