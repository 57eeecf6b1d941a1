//! The source tree keeps its own rules: arrows between rooms, who may use what, small files, nothing left behind.
//!
//! Each rule is a plain function over one source, so that it is also tried on a source that breaks it. A rule reads
//! words, not types: it is there to catch a slip, and an exception stands in a list with its reason.

mod arrows;
mod rules;
mod source;

use source::Source;

/// What is wrong and in which line.
type Finding = (usize, String);

/// Checks every source and fails with the whole list of findings.
fn hold(rule: impl Fn(&Source) -> Vec<Finding>) {
    let sources = source::tree();
    assert!(sources.len() > 20, "the source tree was not found");
    let findings: Vec<_> = sources
        .iter()
        .flat_map(|source| {
            rule(source)
                .into_iter()
                .map(|(line, what)| format!("{}:{line}: {what}", source.path))
                .collect::<Vec<_>>()
        })
        .collect();
    assert!(
        findings.is_empty(),
        "{} findings\n{}",
        findings.len(),
        findings.join("\n")
    );
}

/// What a rule says about a made-up source.
fn found(rule: impl Fn(&Source) -> Vec<Finding>, path: &str, text: &str) -> Vec<String> {
    rule(&Source::new(path, text))
        .into_iter()
        .map(|(line, what)| format!("{line}: {what}"))
        .collect()
}

#[test]
fn arrows_between_rooms_point_one_way() {
    hold(arrows::check);
}

#[test]
fn sled_is_used_by_the_journal_only() {
    hold(rules::sled);
}

#[test]
fn generated_types_stop_at_the_wire() {
    hold(rules::generated);
}

#[test]
fn the_reference_model_knows_nothing_of_the_core() {
    hold(rules::model);
}

#[test]
fn files_stay_small() {
    hold(rules::size);
}

#[test]
fn no_path_of_one_machine_is_written_down() {
    hold(rules::machine_paths);
}

#[test]
fn registries_are_named_in_the_lockfile_only() {
    hold(rules::registry_hosts);
}

#[test]
fn modules_are_files_of_their_own_name() {
    hold(rules::mod_files);
}

#[test]
fn no_work_is_left_as_a_note() {
    hold(rules::notes);
}

#[test]
fn tests_wait_for_events_and_do_not_sleep() {
    hold(rules::sleeps);
    let sources = source::tree();
    for (path, reason) in rules::SLEEPS {
        assert!(!reason.is_empty(), "{path} may sleep without a reason");
        let used = sources
            .iter()
            .any(|source| source.path == *path && rules::sleeps_at_all(source));
        assert!(used, "{path} does not sleep any more: take it off the list");
    }
}
