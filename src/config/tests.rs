use super::*;

fn with(toml: &str, env: &[(&str, &str)], flags: &Flags) -> Result<Config, String> {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("host.toml");
    std::fs::write(&file, toml).expect("writes");
    let env = env.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned()));
    load(Some(&file), env, flags)
        .map_err(|e| e.to_string().replace(&dir.path().display().to_string(), ""))
}

#[test]
fn without_anything_the_defaults_hold() {
    let config = load(None, Vec::new(), &Flags::default()).expect("loads");
    assert_eq!(config, Config::default());
    assert_eq!(config.http.listen.to_string(), "127.0.0.1:7421");
    assert_eq!(config.supervisor.review_timeout, Millis(5_000));
}

#[test]
fn what_comes_later_wins_key_by_key() {
    let toml = "data-dir = 'a'\n[http]\nlisten = '127.0.0.1:1'\n[grpc]\nlisten = '127.0.0.1:2'\n[scheduler]\nmax-running-runs = 3\nmax-queued-runs = 4\n";
    let env = [
        ("SIGNALBOX_HOST__GRPC__LISTEN", "[::1]:5"),
        ("SIGNALBOX_HOST__SCHEDULER__MAX_RUNNING_RUNS", "6"),
        ("SIGNALBOX_HOST__SUPERVISOR__DEFAULT__ENABLED", "false"),
        ("SIGNALBOX_HOST__HTTP__ALLOWED_HOSTS", "[box.example]"),
        ("SIGNALBOX_URL", "not ours"),
    ];
    let flags = Flags {
        http: Some("127.0.0.1:7".into()),
        ..Flags::default()
    };
    let config = with(toml, &env, &flags).expect("loads");
    assert_eq!(config.data_dir, PathBuf::from("a"));
    assert_eq!(config.http.listen.port(), 7);
    assert_eq!(config.grpc.listen.to_string(), "[::1]:5");
    assert_eq!(
        (
            config.scheduler.max_running_runs,
            config.scheduler.max_queued_runs
        ),
        (6, 4)
    );
    assert!(!config.supervisor.default.enabled);
    assert_eq!(config.http.allowed_hosts, ["box.example"]);
}

#[test]
fn the_other_names_of_the_two_keys_are_taken() {
    let toml = "[yukta.supervisor]\nreview-timeout = '3s'\ndefault.enabled = false\n";
    let config = with(toml, &[], &Flags::default()).expect("loads");
    assert_eq!(config.supervisor.review_timeout, Millis(3_000));
    assert!(!config.supervisor.default.enabled);
    let env = [("SIGNALBOX_HOST__YUKTA__SUPERVISOR__REVIEW_TIMEOUT", "2s")];
    let config = with(toml, &env, &Flags::default()).expect("loads");
    assert_eq!(config.supervisor.review_timeout, Millis(2_000));

    let both = "[supervisor]\nreview-timeout = '3s'\n[yukta.supervisor]\nreview-timeout = '3s'\n";
    let error = with(both, &[], &Flags::default()).expect_err("refused");
    assert!(
        error.contains("are the same key, and file /host.toml has both"),
        "{error}"
    );
    let other = "[yukta]\nport = 3\n";
    let error = with(other, &[], &Flags::default()).expect_err("refused");
    assert!(
        error.contains("unknown key `yukta.port` in file /host.toml"),
        "{error}"
    );
}

#[test]
fn a_key_that_nobody_knows_is_named_with_where_it_stands() {
    let toml = "[supervisor]\nreveiw-timeout = '3s'\n[shceduler]\nmax-running-runs = 1\n";
    let env = [("SIGNALBOX_HOST__HTTP__LISTENN", "x")];
    let error = with(toml, &env, &Flags::default()).expect_err("refused");
    let lines: Vec<&str> = error.lines().collect();
    assert_eq!(
        lines,
        [
            "unknown key `shceduler.max-running-runs` in file /host.toml; did you mean `scheduler.max-running-runs`?",
            "unknown key `supervisor.reveiw-timeout` in file /host.toml; did you mean `supervisor.review-timeout`?",
            "unknown key `http.listenn` in environment (SIGNALBOX_HOST__…); did you mean `http.listen`?",
        ]
    );
}

#[test]
fn a_wrong_value_is_named_with_its_key_and_where_it_stands() {
    for (toml, part) in [
        (
            "[scheduler]\nmax-running-runs = 'many'\n",
            "`scheduler.max-running-runs` in file /host.toml: this is string \"many\"; give u32",
        ),
        (
            "[supervisor]\nreview-timeout = '5'\n",
            "`supervisor.review-timeout` in file /host.toml: `5` is not a duration",
        ),
        (
            "[supervisor]\nreview-timeout = '2d'\n",
            "`supervisor.review-timeout`: give a duration from 1ms to 1d",
        ),
        (
            "[scheduler]\nmax-queued-runs = 1000001\n",
            "`scheduler.max-queued-runs`: give a number from 0 to 1000000",
        ),
        ("http = 3\n", "`http`"),
        ("a = \n", "file /host.toml, line 1"),
    ] {
        let error = with(toml, &[], &Flags::default()).expect_err("refused");
        assert!(error.contains(part), "{part} in {error}");
    }
    let flags = Flags {
        http: Some("nowhere".into()),
        ..Flags::default()
    };
    let error = with("", &[], &flags).expect_err("refused");
    assert!(error.contains("`http.listen` in command line"), "{error}");
    let error = load(
        Some(Path::new("/no/such/file.toml")),
        Vec::new(),
        &Flags::default(),
    )
    .expect_err("refused");
    assert!(
        error
            .to_string()
            .contains("/no/such/file.toml cannot be read"),
        "{error}"
    );
}

#[test]
fn the_table_of_the_documentation_names_every_key() {
    let source = include_str!("../config.rs");
    let config = toml::Value::try_from(Config::default()).expect("prints");
    fn keys(value: &toml::Value, path: &str, out: &mut Vec<String>) {
        match value {
            toml::Value::Table(table) => table.iter().for_each(|(k, v)| {
                keys(
                    v,
                    &if path.is_empty() {
                        k.clone()
                    } else {
                        format!("{path}.{k}")
                    },
                    out,
                );
            }),
            _ => out.push(path.to_owned()),
        }
    }
    let mut all = Vec::new();
    keys(&config, "", &mut all);
    assert_eq!(all.len(), 12);
    for key in all {
        assert!(source.contains(&format!("//! | `{key}` |")), "{key}");
    }
}
