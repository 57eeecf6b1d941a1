use super::*;
use crate::proto::signal::Kind;

fn rules(source: &str) -> RuleSet {
    match load::parse(Path::new("rules.yaml"), source) {
        Ok(rules) => rules,
        Err(e) => panic!("{e}"),
    }
}

fn refused(source: &str) -> String {
    match load::parse(Path::new("rules.yaml"), source) {
        Ok(_) => panic!("it was accepted:\n{source}"),
        Err(e) => e.to_string(),
    }
}

fn failed(id: &str, execution: &str, attempt: u32) -> pb::Signal {
    pb::Signal {
        id: id.to_owned(),
        time_ms: 1_000,
        kind: Some(Kind::Event(Box::new(pb::Event {
            kind: "NODE_STATUS".to_owned(),
            cursor: format!("c-{id}"),
            execution: execution.to_owned(),
            node: "build.compile".to_owned(),
            status: "FAILED".to_owned(),
            attempt,
            exit: Some(pb::event::Exit::ExitCode(7)),
            ..Default::default()
        }))),
    }
}

fn review(id: &str, op: &str, target: &str) -> pb::Signal {
    let mode = prost_types::Value {
        kind: Some(prost_types::value::Kind::StringValue(
            "immediate".to_owned(),
        )),
    };
    let args = prost_types::Struct {
        fields: [("mode".to_owned(), mode)].into(),
    };
    let command = pb::ReviewedCommand {
        op: op.to_owned(),
        target: target.to_owned(),
        args: Some(args),
        ..Default::default()
    };
    let actor = pb::Actor {
        kind: "KEY".to_owned(),
        id: "ci-bot".to_owned(),
    };
    let review = pb::Review {
        id: id.to_owned(),
        timeout_ms: 5_000,
        command: Some(command),
        actor: Some(actor),
        as_of: String::new(),
    };
    pb::Signal {
        id: id.to_owned(),
        time_ms: 1_000,
        kind: Some(Kind::Review(review)),
    }
}

fn tick(id: &str) -> pb::Signal {
    pb::Signal {
        id: id.to_owned(),
        time_ms: 1_000,
        kind: Some(Kind::Tick(pb::Tick::default())),
    }
}

fn decide(rules: &RuleSet, memory: &mut Memory, signal: &pb::Signal) -> Vec<pb::Directive> {
    let decision = rules.decide(memory, signal);
    assert_eq!(decision.problems, Vec::new());
    decision.directives
}

const RETRY: &str = r#"
rules:
  - name: retry-twice
    on: Event
    kinds: [NODE_STATUS]
    when: event.status == "FAILED" && event.attempt < 3
    reason: "attempt ${event.attempt} ended with ${event.exitCode}"
    do:
      - command:
          op: node.retry
          target: node:${event.execution}/${event.node}
          ifStatus: FAILED
"#;

#[test]
fn a_rule_turns_an_event_into_a_command_with_its_texts_filled_in() {
    let rules = rules(RETRY);
    let directives = decide(&rules, &mut Memory::default(), &failed("e-1", "x1", 2));
    let expected = pb::Directive {
        key: "rules/retry-twice/e-1/0".to_owned(),
        cause: "event:e-1".to_owned(),
        reason: "attempt 2 ended with 7".to_owned(),
        body: Some(Body::Command(pb::Command {
            op: "node.retry".to_owned(),
            target: "node:x1/build.compile".to_owned(),
            args: None,
            if_status: "FAILED".to_owned(),
        })),
        ..Default::default()
    };
    assert_eq!(directives, [expected]);
}

#[test]
fn the_same_signal_gives_the_same_keys_and_bodies_in_another_process() {
    let first = decide(
        &rules(RETRY),
        &mut Memory::default(),
        &failed("e-1", "x1", 2),
    );
    let second = decide(
        &rules(RETRY),
        &mut Memory::default(),
        &failed("e-1", "x1", 2),
    );
    assert_eq!(first, second);
}

#[test]
fn a_condition_that_does_not_hold_gives_nothing() {
    assert_eq!(
        decide(
            &rules(RETRY),
            &mut Memory::default(),
            &failed("e-1", "x1", 3)
        ),
        []
    );
}

#[test]
fn a_rule_with_kinds_does_not_see_other_kinds() {
    let mut signal = failed("e-1", "x1", 1);
    if let Some(Kind::Event(event)) = &mut signal.kind {
        event.kind = "WORKFLOW_STATUS".to_owned();
    }
    assert_eq!(decide(&rules(RETRY), &mut Memory::default(), &signal), []);
}

#[test]
fn a_limit_counts_for_each_execution_by_itself() {
    let rules = rules(
        "rules:\n  - name: once\n    on: Event\n    limit: 1\n    do:\n      - notify: {level: info, message: failed}\n",
    );
    let mut memory = Memory::default();
    assert_eq!(
        decide(&rules, &mut memory, &failed("e-1", "x1", 1)).len(),
        1
    );
    assert_eq!(
        decide(&rules, &mut memory, &failed("e-2", "x1", 2)).len(),
        0
    );
    assert_eq!(
        decide(&rules, &mut memory, &failed("e-3", "x2", 1)).len(),
        1
    );
}

#[test]
fn seen_says_how_often_the_rule_fired_before() {
    let rules = rules(
        "rules:\n  - name: count\n    on: Event\n    when: seen < 2\n    do:\n      - notify: {level: info, message: \"${seen} before\"}\n",
    );
    let mut memory = Memory::default();
    let texts: Vec<_> = (0..4)
        .flat_map(|n| decide(&rules, &mut memory, &failed(&format!("e-{n}"), "x1", 1)))
        .map(|d| match d.body {
            Some(Body::Notify(notify)) => notify.message,
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(texts, ["0 before", "1 before"]);
}

#[test]
fn memory_is_bounded_and_forgets_the_execution_that_was_quiet_for_longest() {
    let mut memory = Memory::default();
    for n in 0..REMEMBERED {
        memory.fire(&format!("x{n}"), 0);
    }
    memory.fire("x0", 0);
    memory.fire("one-more", 0);
    assert_eq!(memory.executions.len(), REMEMBERED - FORGOTTEN + 1);
    assert_eq!(memory.count("x0", 0), 2, "it was used a moment ago");
    assert_eq!(memory.count("x1", 0), 0);
}

const GUARD: &str = r#"
rules:
  - name: guard
    on: Review
    when: review.command.op == "run.stop" && review.command.args.mode == "immediate"
    do:
      - verdict: deny
        reason: not now, ${review.actor.id}
      - command: {op: run.pause, target: "execution:${review.execution}"}
  - name: others
    on: Review
    do:
      - verdict: allow
"#;

#[test]
fn the_first_rule_that_answers_a_review_decides() {
    let directives = decide(
        &rules(GUARD),
        &mut Memory::default(),
        &review("r-7", "run.stop", "node:x4/a"),
    );
    assert_eq!(
        directives.len(),
        2,
        "the second rule has no verdict left to give: {directives:?}"
    );
    let Some(Body::ReviewVerdict(verdict)) = &directives[0].body else {
        panic!("{directives:?}")
    };
    assert_eq!(verdict.answers, "r-7");
    assert_eq!(verdict.verdict(), pb::Verdict::Deny);
    assert_eq!(directives[0].reason, "not now, ci-bot");
    assert_eq!(
        directives[0].key, "",
        "key and cause are those of the question"
    );
    let Some(Body::Command(command)) = &directives[1].body else {
        panic!("{directives:?}")
    };
    assert_eq!(command.target, "execution:x4");
    assert_eq!(directives[1].cause, "event:r-7");
}

#[test]
fn a_review_that_no_rule_answers_gets_no_opinion_at_once() {
    let directives = decide(
        &rules(RETRY),
        &mut Memory::default(),
        &review("r-1", "run.pause", "execution:x1"),
    );
    assert_eq!(directives, [no_opinion("r-1")]);
}

#[test]
fn a_condition_that_cannot_be_evaluated_is_reported_and_the_review_gets_no_opinion() {
    let rules = rules(
        "rules:\n  - name: bad\n    on: Review\n    when: review.command.args.nothing == 1\n    do: [{verdict: allow}]\n",
    );
    let decision = rules.decide(
        &mut Memory::default(),
        &review("r-1", "run.pause", "execution:x1"),
    );
    assert_eq!(decision.directives, [no_opinion("r-1")]);
    assert_eq!(decision.problems.len(), 1);
    assert!(decision.problems[0].1.contains("nothing"), "{decision:?}");
}

#[test]
fn a_rule_that_fails_halfway_sends_nothing_and_does_not_count() {
    let rules = rules(
        "rules:\n  - name: bad\n    on: Event\n    limit: 1\n    do:\n      - notify: {level: info, message: one}\n      - notify: {level: info, message: \"${event.log[0].text}\"}\n",
    );
    let mut memory = Memory::default();
    let decision = rules.decide(&mut memory, &failed("e-1", "x1", 1));
    assert_eq!(decision.directives, []);
    assert_eq!(decision.problems.len(), 1);
    assert_eq!(memory.count("x1", 0), 0);
}

#[test]
fn causes_are_the_signal_the_timer_the_initiative_or_a_text() {
    let source = r#"
rules:
  - {name: timer, on: Tick, reason: late, do: [{command: {op: run.pause, target: owned.running}}]}
  - {name: own, on: Tick, initiative: true, reason: late, do: [{command: {op: run.pause, target: owned.running}}]}
  - {name: text, on: Tick, cause: "event:${signal.id}", do: [{command: {op: run.pause, target: owned.running}}]}
"#;
    let directives = decide(&rules(source), &mut Memory::default(), &tick("t-1"));
    let causes: Vec<_> = directives.iter().map(|d| d.cause.as_str()).collect();
    assert_eq!(causes, ["tick", "initiative", "event:t-1"]);
}

#[test]
fn arguments_keep_their_types() {
    let source = r#"
rules:
  - name: stop
    on: Event
    do:
      - command:
          op: run.stop
          target: execution:${event.execution}
          args: {mode: immediate, graceMs: 500, deep: {attempt: "${event.attempt}", text: "n${event.attempt}", list: [true, null]}}
"#;
    let directives = decide(
        &rules(source),
        &mut Memory::default(),
        &failed("e-1", "x1", 2),
    );
    let Some(Body::Command(command)) = &directives[0].body else {
        panic!("{directives:?}")
    };
    let args = command.args.clone().unwrap();
    let number = |n| prost_types::value::Kind::NumberValue(n);
    assert_eq!(args.fields["graceMs"].kind, Some(number(500.0)));
    let Some(prost_types::value::Kind::StructValue(deep)) = &args.fields["deep"].kind else {
        panic!("{args:?}")
    };
    assert_eq!(deep.fields["attempt"].kind, Some(number(2.0)));
    assert_eq!(
        deep.fields["text"].kind,
        Some(prost_types::value::Kind::StringValue("n2".to_owned()))
    );
}

#[test]
fn hello_asks_only_for_what_rules_are_on() {
    let on_events = rules(RETRY);
    assert_eq!(on_events.signals(), ["Event", "Started"]);
    assert_eq!(on_events.event_kinds(), ["NODE_STATUS"]);
    let on_reviews = rules(GUARD);
    assert_eq!(on_reviews.signals(), ["Review", "Started"]);
    let all =
        rules("rules:\n  - {name: a, on: Event, do: [{notify: {level: info, message: m}}]}\n");
    assert_eq!(
        all.event_kinds(),
        Vec::<String>::new(),
        "no rule narrows it"
    );
}

#[test]
fn a_dollar_sign_can_be_meant_literally() {
    let rules = rules(
        "rules:\n  - {name: a, on: Tick, do: [{notify: {level: info, message: \"$5, $${x}, ${{'k': '}'}.k}\"}}]}\n",
    );
    let directives = decide(&rules, &mut Memory::default(), &tick("t-1"));
    let Some(Body::Notify(notify)) = &directives[0].body else {
        panic!("{directives:?}")
    };
    assert_eq!(notify.message, "$5, ${x}, }");
}

#[test]
fn every_mistake_is_named_with_its_line_and_rule() {
    let error = refused(
        r#"rules:
  - name: one
    on: Event
    when: event.statsu == "FAILED"
    do: [{notify: {level: info, message: m}}]
  - name: two
    on: Tick
    when: event.status == "x"
    do:
      - command: {op: run.pause, target: owned.running}
  - name: two
    on: Event
    when: lower(event.node) ==
    do: []
"#,
    );
    for part in [
        "rules.yaml has",
        "line 4: rule one: when: in `event.statsu == \"FAILED\"`: `event` has no field `statsu`; it has actor",
        "line 8: rule two: when: in `event.status == \"x\"`: there is no variable `event` here; there are tick, signal, seen, fired",
        "line 6: rule two: a command without an event behind it needs a `reason`",
        "line 11: rule two: another rule has this name",
        "line 13: rule two: when: `lower(event.node) ==` is no CEL expression",
        "line 11: rule two: `do` is empty",
    ] {
        assert!(error.contains(part), "missing `{part}` in\n{error}");
    }
}

#[test]
fn what_is_not_of_the_form_is_refused_with_its_place() {
    for (source, part) in [
        (
            "rules:\n  - {name: a, on: Event, do: [], nmae: x}\n",
            "nmae",
        ),
        ("rules: []\nrules: []\n", "rules.yaml:2:1: duplicate"),
        (
            "rules:\n  - name: a\n    on: Evnt\n    do: []\n",
            "rules.yaml:3:9: unknown variant",
        ),
        (
            "rules:\n  - name: a\n   on: Event\n",
            "rules.yaml:2:5: missing field `on`; correct",
        ),
        ("rules: []\n", "there are no rules"),
        ("tick: 5\nrules: []\n", "`5` is no period"),
        ("tick: 20ms\nrules: []\n", "too short"),
    ] {
        let error = refused(source);
        assert!(error.contains(part), "missing `{part}` in\n{error}");
    }
}

#[test]
fn rules_that_could_not_work_are_refused() {
    let notify = "do: [{notify: {level: info, message: m}}]";
    for (rule, part) in [
        (
            "name: a, on: Event, do: [{verdict: allow}]",
            "answers a review",
        ),
        (
            "name: a, on: Review, do: [{verdict: allow}, {noOpinion: true}]",
            "answered once",
        ),
        (
            "name: a, on: Review, do: [{verdict: allow, noOpinion: true}]",
            "exactly one",
        ),
        ("name: a, on: Review, do: [{reason: r}]", "exactly one"),
        (
            &format!("name: a, on: Tick, kinds: [LOG], {notify}"),
            "on Event only",
        ),
        (
            &format!("name: a, on: Event, kinds: [], {notify}"),
            "`kinds` is empty",
        ),
        (
            &format!("name: a, on: Event, limit: 0, {notify}"),
            "limit: 0",
        ),
        (&format!("name: a b, on: Event, {notify}"), "a name begins"),
        (
            &format!("name: a, on: Event, initiative: true, cause: tick, {notify}"),
            "keep one",
        ),
        (
            "name: a, on: Event, do: [{command: {op: pause, target: x}}]",
            "no operation",
        ),
        (
            "name: a, on: Event, do: [{command: {op: run.pause, target: ''}}]",
            "it is empty",
        ),
        (
            "name: a, on: Event, do: [{command: {op: run.pause, target: '${event.node'}}]",
            "without its `}`",
        ),
        (
            "name: a, on: Event, do: [{command: {op: run.pause, target: x, args: {a: '${nope}'}}}]",
            "args.a",
        ),
        (
            &format!("name: a, on: Event, when: 'lowerAscii(event.node)', {notify}"),
            "no function `lowerAscii`",
        ),
        (
            &format!("name: a, on: Event, when: '{}', {notify}", "1+".repeat(600)),
            "at most 1024",
        ),
    ] {
        let error = refused(&format!("rules:\n  - {{{rule}}}\n"));
        assert!(error.contains(part), "missing `{part}` in\n{error}");
    }
}

#[test]
fn macros_and_presence_tests_pass_the_check() {
    for when in [
        "['a', 'b'].exists(n, n == event.node)",
        "event.gained.all(u, u.startsWith('workflow:'))",
        "has(event.node) && size(event.node) > 0",
        "event.node in ['a'] || event.node.contains('b') || event.node.endsWith('c')",
        "int(event.attempt) + 1 > 2 ? true : event.history",
        "type(event.exitCode) == int",
        "event.kind == 'EventsMissed' && event.missed.count > 0",
    ] {
        let rules = rules(&format!(
            "rules:\n  - {{name: a, on: Event, when: \"{when}\", do: [{{notify: {{level: info, message: m}}}}]}}\n"
        ));
        let decision = rules.decide(&mut Memory::default(), &failed("e-1", "x1", 2));
        assert_eq!(decision.problems, Vec::new(), "{when}");
    }
}

#[test]
fn deep_nesting_is_refused_and_brings_nothing_down() {
    for expression in [
        format!("{}true{}", "(".repeat(450), ")".repeat(450)),
        format!("{}true", "!".repeat(900)),
        vec!["1"; 500].join("+"),
    ] {
        let source = format!(
            "rules:\n  - {{name: a, on: Tick, when: '{expression}', do: [{{notify: {{level: info, message: m}}}}]}}\n"
        );
        // Accepted or refused, but decided.
        if let Ok(rules) = load::parse(Path::new("rules.yaml"), &source) {
            rules.decide(&mut Memory::default(), &tick("t-1"));
        }
    }
}

#[test]
fn a_rule_can_ask_how_often_another_fired_for_the_same_execution() {
    let source = r#"
rules:
  - {name: busy, on: Event, when: event.attempt == 1, do: [{notify: {level: info, message: m}}]}
  - {name: calm, on: Event, when: event.attempt == 2, do: [{notify: {level: info, message: m}}]}
  - {name: guard, on: Review, when: 'fired["busy"] > fired["calm"]', do: [{verdict: deny}]}
  - {name: else, on: Review, do: [{verdict: allow}]}
"#;
    let rules = rules(source);
    let mut memory = Memory::default();
    let verdict = |id: &str, memory: &mut Memory| {
        let directives = decide(&rules, memory, &review(id, "run.stop", "execution:x1"));
        match &directives[0].body {
            Some(Body::ReviewVerdict(verdict)) => verdict.verdict(),
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(verdict("r-1", &mut memory), pb::Verdict::Allow);
    decide(&rules, &mut memory, &failed("e-1", "x1", 1));
    decide(&rules, &mut memory, &failed("e-2", "x2", 1));
    assert_eq!(verdict("r-2", &mut memory), pb::Verdict::Deny);
    decide(&rules, &mut memory, &failed("e-3", "x1", 2));
    assert_eq!(verdict("r-3", &mut memory), pb::Verdict::Allow);
    let error = refused(
        "rules:\n  - {name: a, on: Review, when: 'fired[\"b\"] > 0', do: [{verdict: deny}]}\n",
    );
    assert!(error.contains("no rule `b`"), "{error}");
}

#[test]
fn the_rules_that_the_demo_ships_are_accepted() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../src/demo/files/rules/report.yaml");
    let rules = RuleSet::load(&path).unwrap();
    assert!(!rules.rules.is_empty());
}
