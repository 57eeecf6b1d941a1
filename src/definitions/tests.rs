use super::*;

fn mistakes<T: std::fmt::Debug>(read: Result<Read<T>, Vec<Mistake>>) -> Vec<String> {
    read.expect_err("must be refused")
        .iter()
        .map(Mistake::to_string)
        .collect()
}

fn workflow(text: &str) -> WorkflowDef {
    match read_workflow(text, Format::Yaml) {
        Ok(read) => read.def,
        Err(mistakes) => panic!("{mistakes:?}"),
    }
}

#[test]
fn a67_what_looks_like_another_type_stays_the_text_that_was_written() {
    let yaml = "
id: on
params:
  n: {default: 0123}
  y: {default: 1.10}
  no_: {default: 2026-01-01}
nodes:
  on: {run: [echo, on, no, y, yes, off, 0123, 1.10, 2026-01-01, true, 0x1F, 1_000, 1e3, -0, .5, 12345678901234567890123]}
  no: {run: [true], needs: [on], env: {A: no, B: 1.0, C: 007}}
  y: {run: [echo], needs: [on, no]}
  1.10: {run: [echo], needs: [y]}
  0123: {run: [echo], needs: [1.10]}
  2026-01-01: {run: [echo], needs: [0123], cwd: 1.50}
";
    let def = workflow(yaml);
    let ids: Vec<&str> = def.nodes.keys().map(|k| k.as_str()).collect();
    assert_eq!(ids, ["0123", "1.10", "2026-01-01", "no", "on", "y"]);
    assert_eq!(def.id.as_str(), "on");
    let defaults: Vec<_> = def.params.values().map(|p| p.default.as_deref()).collect();
    assert_eq!(defaults, [Some("0123"), Some("2026-01-01"), Some("1.10")]);
    let run = &def.nodes[&"on".parse().expect("id")].run;
    let written = "echo on no y yes off 0123 1.10 2026-01-01 true 0x1F 1_000 1e3 -0 .5 12345678901234567890123";
    assert_eq!(run.join(" "), written);
    let no = &def.nodes[&"no".parse().expect("id")];
    assert_eq!(
        no.env.values().map(String::as_str).collect::<Vec<_>>(),
        ["no", "1.0", "007"]
    );
    assert_eq!(no.run, ["true"]);
    assert_eq!(
        def.nodes[&"2026-01-01".parse().expect("id")].cwd.as_deref(),
        Some("1.50")
    );

    // The same through JSON, quoted and, where JSON knows it, bare.
    let json = serde_json::to_string_pretty(&def).expect("json");
    assert_eq!(read_workflow(&json, Format::Json).expect("reads").def, def);
    assert_eq!(workflow(&json), def);
    let bare = r#"{"id":"w","nodes":{"a":{"run":["echo",1.10,true,12]}}}"#;
    let def = read_workflow(bare, Format::Json).expect("reads").def;
    assert_eq!(
        def.nodes[&"a".parse().expect("id")].run,
        ["echo", "1.10", "true", "12"]
    );
}

#[test]
fn a68_a_key_that_is_given_twice_is_refused_with_both_lines() {
    let yaml = "
id: w
nodes:
  a: {run: [echo]}
  b: {run: [echo]}
  a: {run: [rm]}
";
    let expected = "6:3: nodes.a: `a` is given twice, on line 4 and on line 6; keep one of them";
    assert_eq!(mistakes(read_workflow(yaml, Format::Yaml)), [expected]);

    let json = "{\"id\": \"w\",\n\"nodes\": {\n\"a\": {\"run\": [\"echo\"]},\n\"a\": {\"run\": [\"rm\"]}}}";
    let expected = "4:1: nodes.a: `a` is given twice, on line 3 and on line 4; keep one of them";
    assert_eq!(mistakes(read_workflow(json, Format::Json)), [expected]);

    let yaml = "id: s\nallowedCommands: [run.stop]\nengine: {transport: attached}\n'allowedCommands': []\n";
    let expected = "4:1: allowedCommands: `allowedCommands` is given twice, on line 2 and on line 4; keep one of them";
    assert_eq!(mistakes(read_supervisor(yaml, Format::Yaml)), [expected]);
}

#[test]
fn every_mistake_is_named_with_its_line_at_once() {
    let yaml = "id: w w
timeout: 5
params:
  A: {defalt: x}
nodes:
  a:
    run: echo
  b:
    run: [echo, [1]]
    neds: [a]
    retries: {max: many}
  c:
    needs: [a]
  d/e: {run: [x]}
  f: {run: [x], timeout: }
";
    assert_eq!(
        mistakes(read_workflow(yaml, Format::Yaml)),
        [
            "1:5: id: `w w` is not a workflow id; use 1 to 64 of A-Z a-z 0-9 . _ - and begin with a letter or digit",
            "2:10: timeout: `5` is not a duration; write a whole number and a unit of ms, s, m, h or d, for instance `30s`",
            "4:7: params.A.defalt: `defalt` is not a key that is known here; did you mean `default`? Known are default",
            "7:10: nodes.a.run: this is `echo`; write a list",
            "9:17: nodes.b.run[1]: this is a list; write a text",
            "10:5: nodes.b.neds: `neds` is not a key that is known here; did you mean `needs`? Known are run, needs, env, cwd, timeout, retries, group",
            "11:20: nodes.b.retries.max: this is `many`; write a whole number from 0 to 4294967295",
            "13:5: nodes.c: `run` is missing; it must be given",
            "14:3: nodes.d/e: `d/e` is not a node id; use 1 to 64 of A-Z a-z 0-9 . _ - and begin with a letter or digit",
            "15:24: nodes.f.timeout: it is empty; write a value or take the key out",
        ]
    );
}

#[test]
fn what_is_wrong_with_the_whole_has_the_line_of_its_field() {
    let yaml = "id: w
nodes:
  build.compile:
    run: [cc]
    needs:
      - build
      - nowhere
  build:
    needs: [build.compile]
    run: [\"\"]
";
    assert_eq!(
        mistakes(read_workflow(yaml, Format::Yaml)),
        [
            "5:5: nodes.build.compile.needs: there is no node `nowhere`",
            "9:5: nodes.build.needs: the nodes need each other in a circle: build → build.compile → build; take one of these needs out",
            "10:5: nodes.build.run: give the program to run and its arguments, as a list",
        ]
    );
    let yaml = "id: s\nowns: [\"workflow:w\", \"workflow:w\"]\nengine:\n  transport: attached\n  command: [x]\nmaxRisk: low\n";
    assert_eq!(
        mistakes(read_supervisor(yaml, Format::Yaml)),
        [
            "2:22: owns[1]: `workflow:w` is listed twice; list it once",
            "5:3: engine.command: has no effect here: it belongs to transport managed; take it out",
            "6:1: maxRisk: this version of the host does not serve it yet; take the field out",
        ]
    );
}

#[test]
fn unknown_words_are_answered_with_the_known_ones() {
    let yaml = "id: s\nengine: {transport: atached}\nevents: [NODE_STATUS, NODE]\noperatorAccess: [run.stopp]\n";
    assert_eq!(
        mistakes(read_supervisor(yaml, Format::Yaml)),
        [
            "2:21: engine.transport: `atached` is not known here; did you mean `attached`? Known are builtin, attached, managed",
            "3:23: events[1]: `NODE` is not known here; known are NODE_STATUS, WORKFLOW_STATUS, CONTROL_OUTCOME, LOG, INPUT, EventsMissed, OWNERSHIP",
            "4:18: operatorAccess[0]: `run.stopp` is not an operation; write a name such as run.pause, or a prefix such as run.*",
        ]
    );
}

#[test]
fn a_text_that_is_no_yaml_or_no_json_is_refused_with_its_line() {
    let found = mistakes(read_workflow("id: w\nnodes: [\n", Format::Yaml));
    assert_eq!(found.len(), 1);
    assert!(found[0].starts_with("2:8: "), "{found:?}");
    let found = mistakes(read_workflow("{\"id\": \"w\",\n}", Format::Json));
    assert!(
        found[0].starts_with("2:") && found[0].contains("not JSON"),
        "{found:?}"
    );
    // YAML is not JSON.
    let found = mistakes(read_workflow("id: w", Format::Json));
    assert!(found[0].contains("not JSON"), "{found:?}");
    for (text, part) in [
        ("", "empty"),
        ("- a\n", "keys with values"),
        ("id: w\n---\nid: x\n", "document"),
        ("a: &a {b: c}\nd:\n  <<: *a\n", "merge keys"),
        ("id: !mine w\n", "tag"),
        ("id: !!int w\n", "tag"),
    ] {
        let found = mistakes(read_workflow(text, Format::Yaml));
        assert!(
            found.iter().any(|m| m.to_lowercase().contains(part)),
            "{text:?}: {found:?}"
        );
    }
}

#[test]
fn a_text_cannot_cost_more_than_its_size() {
    let mut bomb = String::from("a: &a [x,x,x,x,x,x,x,x,x,x]\n");
    for (n, m) in ["b", "c", "d", "e", "f", "g", "h"]
        .iter()
        .zip(["a", "b", "c", "d", "e", "f", "g"])
    {
        bomb.push_str(&format!(
            "{n}: &{n} [*{m},*{m},*{m},*{m},*{m},*{m},*{m},*{m},*{m},*{m}]\n"
        ));
    }
    assert_eq!(mistakes(read_workflow(&bomb, Format::Yaml)).len(), 1);
    let deep = format!("id: {}", "[".repeat(2_000));
    assert_eq!(mistakes(read_workflow(&deep, Format::Yaml)).len(), 1);
    let nested: String = (0..80).map(|n| format!("{}k:\n", " ".repeat(n))).collect();
    assert_eq!(mistakes(read_workflow(&nested, Format::Yaml)).len(), 1);
    let big = format!("id: w # {}", "x".repeat(MAX_BYTES));
    assert!(mistakes(read_workflow(&big, Format::Yaml))[0].contains("bytes"));
    let many: String = (0..1_000).map(|n| format!("k{n}: 1\n")).collect();
    assert_eq!(
        mistakes(read_workflow(&many, Format::Yaml)).len(),
        MAX_MISTAKES
    );
}

#[test]
fn aliases_stand_for_what_they_name() {
    let def = workflow(
        "id: w\nnodes:\n  a: &n {run: &r [sleep, 1.10]}\n  b: *n\n  c: {run: *r, needs: [a]}\n",
    );
    assert_eq!(def.nodes[&"b".parse().expect("id")].run, ["sleep", "1.10"]);
    assert_eq!(def.nodes[&"c".parse().expect("id")].run, ["sleep", "1.10"]);
}

#[test]
fn texts_of_every_style_and_script_come_through() {
    let def = workflow(
        "id: w\nnodes:\n  a:\n    run:\n      - \"\\u00e9\\U0001F600\"\n      - 'it''s'\n      - |\n        a\n        b\n      - >-\n        c\n        d\n      - ''\n      - \"null\"\n",
    );
    assert_eq!(
        def.nodes[&"a".parse().expect("id")].run,
        ["é😀", "it's", "a\nb\n", "c d", "", "null"]
    );
    let json = r#"{"id":"w","nodes":{"a":{"run":["\ud83d\ude00\/\t","x"]}}}"#;
    let def = read_workflow(json, Format::Json).expect("reads").def;
    assert_eq!(def.nodes[&"a".parse().expect("id")].run, ["😀/\t", "x"]);
}

#[test]
fn what_was_written_is_found_behind_other_scripts_and_line_ends() {
    let text = "\u{feff}# é😀\r\nid: w\r\nparams: {É: {default: 0123}, N: {default: !!int 7}, Q: {default: !!int '5'}}\r\nnodes:\r\n  a: {run: [é, 1.10, true, *x]}\r\n".replace(", *x", "");
    let found = mistakes(read_workflow(&text, Format::Yaml));
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].starts_with("3:10: params.É: "), "{found:?}");
    let def = workflow(&text.replace('É', "E"));
    assert_eq!(
        def.nodes[&"a".parse().expect("id")].run,
        ["é", "1.10", "true"]
    );
    let defaults: Vec<_> = def
        .params
        .values()
        .filter_map(|p| p.default.as_deref())
        .collect();
    assert_eq!(defaults, ["0123", "7", "5"]);
}

#[test]
fn a_directory_loads_whole_or_not_at_all_in_the_order_of_names() {
    let dir = tempfile::tempdir().expect("a directory");
    let write = |name: &str, text: &str| {
        let path = dir.path().join(name);
        std::fs::create_dir_all(path.parent().expect("parent")).expect("directories");
        std::fs::write(path, text).expect("writes");
    };
    assert!(load_dir(dir.path()).expect("nothing there").is_empty());
    write("workflows/b.yaml", "id: one\nnodes: {a: {run: [x]}}\n");
    write(
        "workflows/a.json",
        "{\"id\": \"two\", \"nodes\": {\"a\": {\"run\": [\"x\"]}}}",
    );
    write("workflows/.hidden.yaml", "nonsense");
    write("workflows/notes.txt", "nonsense");
    write(
        "supervisors/a.yml",
        "id: one\nengine: {transport: attached}\n",
    );
    let names = |loaded: Vec<Loaded>| loaded.iter().map(|l| l.def.name()).collect::<Vec<_>>();
    assert_eq!(
        names(load_dir(dir.path()).expect("loads")),
        ["workflow:two", "workflow:one", "supervisor:one"]
    );

    write("workflows/c.yaml", "\nid: one\nnodes: {a: {run: [x]}}\n");
    write(
        "workflows/d.yaml",
        "id: d\nnodes: {a: {run: [x], colour: red}}\n",
    );
    std::fs::write(dir.path().join("supervisors/b.yaml"), [0xff, 0xfe]).expect("writes");
    let problems = load_dir(dir.path()).expect_err("is refused");
    let text = problems.to_string();
    assert_eq!(problems.0.len(), 3, "{text}");
    for part in [
        "workflows/d.yaml:2:23: nodes.a.colour: `colour`",
        "supervisors/b.yaml: it is not UTF-8",
        "workflows/c.yaml:2:1: id: `workflow:one` is defined in",
    ] {
        assert!(text.contains(part), "{part} in {text}");
    }
}
