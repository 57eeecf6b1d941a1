//! The rules that read one source at a time.

use super::Finding;
use super::source::Source;

/// The longest a Rust file may be, in lines.
const LONGEST: usize = 800;

/// Who may use sled beside the journal, and why.
const SLED: &[(&str, &str)] = &[(
    "examples/",
    "the benchmarks measure the journal against the bare store",
)];

/// Who may use the generated types of the wire, and why. Tests and benchmarks speak the raw protocol.
const GENERATED: &[(&str, &str)] = &[
    (
        "src/wire",
        "it makes them and turns them into the contract's own",
    ),
    ("src/engine", "it serves the generated service"),
    (
        "src/testkit",
        "its fake engine must be able to send what is wrong",
    ),
    ("tests/", "raw clients prove the wire"),
    (
        "examples/",
        "the baseline of the benchmarks is the bare stream",
    ),
];

/// What the reference model may not name: it is written from the documents, and shares no idea with what it checks.
const MODEL: &[&str] = &["core", "Permit", "Record", "ArgSpec", "OpSpec", "ArgType"];

/// Tests that sleep, each with the reason why no event can be awaited.
pub const SLEEPS: &[(&str, &str)] = &[];

/// `sled` in the code of anybody but the journal.
pub fn sled(source: &Source) -> Vec<Finding> {
    if source.path.starts_with("src/journal") || excepted(SLED, &source.path) {
        return Vec::new();
    }
    words(source, "sled")
        .filter(|(_, rest)| rest.starts_with("::") || rest.starts_with(';'))
        .map(|(line, _)| (line, "sled belongs to the journal".to_owned()))
        .collect()
}

/// `wire::proto` outside the rooms that may see generated types.
pub fn generated(source: &Source) -> Vec<Finding> {
    if excepted(GENERATED, &source.path) || source.path.starts_with("engines/") {
        return Vec::new();
    }
    let wire = words(source, "wire").filter(|(_, rest)| {
        rest.strip_prefix("::").is_some_and(|tail| {
            let path = tail.split(';').next().unwrap_or_default();
            let list = path.trim_start_matches('{');
            list.starts_with("proto") || (path.starts_with('{') && path.contains("proto::"))
        })
    });
    let included = words(source, "include_proto").filter(|(_, rest)| rest.starts_with('!'));
    wire.chain(included)
        .map(|(line, _)| {
            (
                line,
                "generated types stop at the wire; use the contract's own".to_owned(),
            )
        })
        .collect()
}

/// Anything of the core in the reference model.
pub fn model(source: &Source) -> Vec<Finding> {
    if !source.path.starts_with("tests/model/src/") {
        return Vec::new();
    }
    let named = MODEL
        .iter()
        .flat_map(|name| words(source, name).map(move |(line, _)| (line, *name)));
    let mut findings: Vec<_> = named
        .map(|(line, name)| (line, format!("the reference model may not know `{name}`")))
        .collect();
    for (line, text) in source.text_lines() {
        if text.to_lowercase().contains("operations table") {
            findings.push((
                line,
                "the reference model has its own transcription of the operations".to_owned(),
            ));
        }
    }
    findings
}

/// A Rust file that has grown too long.
pub fn size(source: &Source) -> Vec<Finding> {
    let lines = source.text.lines().count();
    if !source.path.ends_with(".rs") || lines <= LONGEST {
        return Vec::new();
    }
    vec![(lines, format!("{lines} lines; split it before {LONGEST}"))]
}

/// A path that exists on somebody's machine only.
pub fn machine_paths(source: &Source) -> Vec<Finding> {
    const PATHS: [&str; 3] = ["/root/", "/home/", "/Users/"];
    lines_with(source, |line| {
        PATHS.iter().copied().find(|path| {
            line.match_indices(path).any(|(place, _)| {
                // `https://host/home/` is no path of a machine.
                !line[..place].ends_with(|letter: char| letter.is_alphanumeric() || letter == '.')
            })
        })
    })
}

/// The host of a package registry: a mirror would be as good.
pub fn registry_hosts(source: &Source) -> Vec<Finding> {
    const HOSTS: [&str; 8] = [
        "index.crates.io",
        "static.crates.io",
        "://crates.io",
        "pypi.org",
        "pythonhosted.org",
        "npmjs.org",
        "npmjs.com",
        "deb.debian.org",
    ];
    if source.path == "Cargo.lock" {
        return Vec::new();
    }
    lines_with(source, |line| {
        HOSTS.iter().copied().find(|host| line.contains(host))
    })
}

/// The other way of naming a module's file.
pub fn mod_files(source: &Source) -> Vec<Finding> {
    if source.path.ends_with("/mod.rs") {
        vec![(1, "name it `foo.rs` beside `foo/`".to_owned())]
    } else {
        Vec::new()
    }
}

/// Work that was left for later without saying so to anybody.
pub fn notes(source: &Source) -> Vec<Finding> {
    const NOTES: [&str; 4] = ["TODO", "FIXME", "XXX", "HACK"];
    lines_with(source, |line| {
        NOTES.iter().copied().find(|note| {
            line.match_indices(note).any(|(place, _)| {
                let letter = |letter: char| letter.is_alphanumeric() || letter == '_';
                !line[..place].ends_with(letter) && !line[place + note.len()..].starts_with(letter)
            })
        })
    })
}

/// A test that sleeps and is not on the list.
pub fn sleeps(source: &Source) -> Vec<Finding> {
    if excepted(SLEEPS, &source.path) {
        return Vec::new();
    }
    all_sleeps(source)
        .into_iter()
        .map(|line| (line, "await the event; a test does not sleep".to_owned()))
        .collect()
}

/// Whether a test of the source sleeps, list or not.
pub fn sleeps_at_all(source: &Source) -> bool {
    !all_sleeps(source).is_empty()
}

fn all_sleeps(source: &Source) -> Vec<usize> {
    ["sleep", "sleep_until", "sleep_ms"]
        .into_iter()
        .flat_map(|name| words(source, name))
        .filter(|(line, rest)| source.is_test(*line) && rest.trim_start().starts_with('('))
        .map(|(line, _)| line)
        .collect()
}

fn excepted(list: &[(&str, &str)], path: &str) -> bool {
    list.iter().any(|(prefix, _)| path.starts_with(prefix))
}

/// Every place where a word stands in the code, with its line and what comes after it.
fn words<'a>(source: &'a Source, word: &'a str) -> impl Iterator<Item = (usize, &'a str)> {
    source
        .code
        .match_indices(word)
        .filter_map(move |(place, _)| {
            let letter = |letter: char| letter.is_alphanumeric() || letter == '_';
            let rest = &source.code[place + word.len()..];
            let whole = !source.code[..place].ends_with(letter) && !rest.starts_with(letter);
            whole.then(|| (source.line_of(place), rest))
        })
}

fn lines_with(source: &Source, wrong: impl Fn(&str) -> Option<&'static str>) -> Vec<Finding> {
    source
        .text_lines()
        .filter_map(|(line, text)| Some((line, format!("`{}` has no place here", wrong(text)?))))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::found;
    use super::*;

    type Rule = fn(&Source) -> Vec<Finding>;

    #[test]
    fn each_rule_finds_a_source_that_breaks_it() {
        let long = "\n".repeat(LONGEST + 1);
        let cases: [(Rule, &str, &str); 24] = [
            (sled, "src/host/loop.rs", "use sled::Db;"),
            (sled, "tests/it/store.rs", "let db = sled::open(path);"),
            (
                generated,
                "src/host/loop.rs",
                "use crate::wire::proto::Signal;",
            ),
            (
                generated,
                "src/operators/rest.rs",
                "use crate::wire::{proto, Malformed};",
            ),
            (
                generated,
                "src/operators/rest.rs",
                "use crate::wire::{Malformed, proto::Signal};",
            ),
            (
                generated,
                "src/core/state.rs",
                "tonic::include_proto!(\"signalbox.engine.v1\");",
            ),
            (
                model,
                "tests/model/src/lib.rs",
                "use signalbox::core::State;",
            ),
            (model, "tests/model/src/runs.rs", "fn f(p: Permit) {}"),
            (model, "tests/model/src/runs.rs", "let r = Record::Started;"),
            (
                model,
                "tests/model/src/runs.rs",
                "// as the operations table has it",
            ),
            (size, "src/core/state.rs", &long),
            (machine_paths, "README.md", "see /home/me/signalbox"),
            (machine_paths, "src/cli.rs", "// \"/root/.cargo\""),
            (
                registry_hosts,
                "xtask/src/buf.rs",
                "// from https://pypi.org/simple",
            ),
            (registry_hosts, ".ci/run", "curl https://static.crates.io/x"),
            (mod_files, "src/core/mod.rs", ""),
            (notes, "src/core/state.rs", "// TODO: the rest"),
            (notes, "README.md", "FIXME"),
            (sleeps, "tests/it/drain.rs", "std::thread::sleep(SECOND);"),
            (
                sleeps,
                "tests/it/drain.rs",
                "tokio::time::sleep (SECOND).await;",
            ),
            (
                sleeps,
                "src/host/loop.rs",
                "#[cfg(test)]\nmod tests {\n    fn f() { sleep(SECOND) }\n}",
            ),
            (
                sleeps,
                "src/host/loop/tests.rs",
                "tokio::time::sleep_until(then).await;",
            ),
            (sleeps, "src/testkit/host.rs", "thread::sleep(SECOND);"),
            (
                sleeps,
                "tests/model/tests/model.rs",
                "thread::sleep(SECOND);",
            ),
        ];
        for (rule, path, text) in cases {
            assert_eq!(
                found(rule, path, text).len(),
                1,
                "{path}: {}",
                &text[..text.len().min(60)]
            );
        }
    }

    #[test]
    fn each_rule_lets_a_good_source_pass() {
        let cases: [(Rule, &str, &str); 14] = [
            (sled, "src/journal/sled.rs", "use sled::Db;"),
            (sled, "src/journal.rs", "mod sled;"),
            (sled, "src/host/loop.rs", "// sled::Db is not known here"),
            (
                generated,
                "src/wire/signal.rs",
                "use crate::wire::proto::Signal;",
            ),
            (generated, "src/host/loop.rs", "use crate::wire::Malformed;"),
            (
                model,
                "tests/model/src/lib.rs",
                "//! Knows nothing of the core.\nuse signalbox::contract::Op;",
            ),
            (
                model,
                "tests/model/tests/model.rs",
                "use signalbox::core::State;",
            ),
            (
                machine_paths,
                "README.md",
                "https://example.org/home/page, /var/home",
            ),
            (
                registry_hosts,
                "Cargo.lock",
                "source = \"registry+https://index.crates.io/\"",
            ),
            (
                registry_hosts,
                "README.md",
                "the crates come from crates.io",
            ),
            (notes, "src/core/state.rs", "let TODOS = 1;"),
            (
                sleeps,
                "tests/it/drain.rs",
                "let node = [\"sleep\", \"1\"]; // sleep(1)",
            ),
            (
                sleeps,
                "src/host/loop.rs",
                "tokio::time::sleep(SECOND).await;",
            ),
            (mod_files, "src/core.rs", "mod state;"),
        ];
        for (rule, path, text) in cases {
            assert_eq!(
                found(rule, path, text),
                Vec::<String>::new(),
                "{path}: {text}"
            );
        }
    }
}
