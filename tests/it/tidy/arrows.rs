//! The arrows between the rooms of the library, as data, and the check that reads `crate::` and `super::` paths.

use super::Finding;
use super::source::{Source, block_end};

/// A room below `src/`, and the other rooms that it may name. What a room may use is written out in full, so that a
/// new arrow is a change that somebody sees here.
const ROOMS: &[(&str, &[&str])] = &[
    ("contract", &[]),
    ("core", &["contract"]),
    ("wire", &["contract"]),
    // Leaves: used by the host and outward.
    ("clock", &["contract"]),
    ("telemetry", &[]),
    ("config", &["contract"]),
    ("definitions", &["contract"]),
    ("journal", &["contract", "core", "clock"]),
    (
        "host",
        &[
            "contract",
            "core",
            "journal",
            "clock",
            "telemetry",
            "config",
            "definitions",
        ],
    ),
    // The three that meet in the host and never see each other.
    (
        "engine",
        &[
            "contract",
            "core",
            "journal",
            "host",
            "wire",
            "clock",
            "telemetry",
            "config",
            "definitions",
        ],
    ),
    (
        "runtime",
        &[
            "contract",
            "core",
            "journal",
            "host",
            "clock",
            "telemetry",
            "config",
            "definitions",
        ],
    ),
    (
        "operators",
        &[
            "contract",
            "core",
            "journal",
            "host",
            "wire",
            "clock",
            "telemetry",
            "config",
            "definitions",
        ],
    ),
    ("testkit", OUTERMOST),
    (
        "server",
        &[
            "contract",
            "core",
            "journal",
            "host",
            "engine",
            "runtime",
            "operators",
            "wire",
            "clock",
            "telemetry",
            "config",
            "definitions",
        ],
    ),
    (
        "demo",
        &[
            "contract",
            "core",
            "journal",
            "host",
            "engine",
            "runtime",
            "operators",
            "wire",
            "clock",
            "telemetry",
            "config",
            "definitions",
            "server",
        ],
    ),
    ("cli", OUTERMOST),
    ("main", OUTERMOST),
];

/// What the outermost rooms may name.
const OUTERMOST: &[&str] = &[
    "contract",
    "core",
    "journal",
    "host",
    "engine",
    "runtime",
    "operators",
    "wire",
    "clock",
    "telemetry",
    "config",
    "definitions",
    "cli",
    "demo",
    "server",
];

/// Tests beside the code may use the fakes.
const FOR_TESTS: &str = "testkit";

/// Finds every path that leads into a room where no arrow leads, and every room that the table does not know.
pub fn check(source: &Source) -> Vec<Finding> {
    let Some(module) = module_of(&source.path) else {
        return Vec::new();
    };
    let Some(room) = module.first() else {
        return Vec::new();
    };
    let Some((_, allowed)) = ROOMS.iter().find(|(name, _)| name == room) else {
        return vec![(
            1,
            format!("the room `{room}` is not in the table of arrows"),
        )];
    };
    paths(source, &module)
        .into_iter()
        .filter(|(_, used)| used != room && !allowed.contains(&used.as_str()))
        .filter(|(line, used)| !(source.is_test(*line) && used == FOR_TESTS))
        .map(|(line, used)| (line, format!("no arrow leads from `{room}` to `{used}`")))
        .collect()
}

/// The path of the module in a file of the library or of the program; the root of the library has none.
fn module_of(path: &str) -> Option<Vec<String>> {
    let below = path.strip_prefix("src/")?.strip_suffix(".rs")?;
    if below == "lib" {
        return None;
    }
    Some(below.split('/').map(str::to_owned).collect())
}

/// Every name that stands right below the root of the library in a path, with its line.
fn paths(source: &Source, module: &[String]) -> Vec<(usize, String)> {
    let code = &source.code;
    let mut found = Vec::new();
    for root in ["crate::", "signalbox::"] {
        for (place, _) in code
            .match_indices(root)
            .filter(|(place, _)| begins_word(code, *place))
        {
            found.extend(names(source, place + root.len()));
        }
    }
    let mut from = 0;
    while let Some(place) = code[from..].find("super::").map(|place| place + from) {
        let steps = code.as_bytes()[place..]
            .chunks(7)
            .take_while(|chunk| *chunk == b"super::")
            .count();
        from = place + steps * 7;
        // A path that climbs as far as the module is deep stands at the root.
        if begins_word(code, place) && steps == module.len() + nesting(code, place) {
            found.extend(names(source, from));
        }
    }
    found
}

/// The name at a place, or the first names of a group `{a::b, c}`.
fn names(source: &Source, place: usize) -> Vec<(usize, String)> {
    let rest = &source.code[place..];
    let line = source.line_of(place);
    if !rest.starts_with('{') {
        return word(rest)
            .map(|name| vec![(line, name)])
            .unwrap_or_default();
    }
    let group = &rest[1..block_end(rest, 0) - 1];
    let mut depth = 0;
    let mut at_start = true;
    let mut found = Vec::new();
    for (offset, letter) in group.char_indices() {
        match letter {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => at_start = true,
            _ if letter.is_whitespace() => {}
            _ if at_start => {
                at_start = false;
                found.extend(
                    word(&group[offset..]).map(|name| (source.line_of(place + 1 + offset), name)),
                );
            }
            _ => {}
        }
    }
    found
}

fn word(text: &str) -> Option<String> {
    let name: String = text
        .chars()
        .take_while(|letter| letter.is_alphanumeric() || *letter == '_')
        .collect();
    (!name.is_empty()).then_some(name)
}

fn begins_word(code: &str, place: usize) -> bool {
    !code[..place].ends_with(|letter: char| letter.is_alphanumeric() || matches!(letter, '_' | ':'))
}

/// How many inline modules are open at a place.
fn nesting(code: &str, place: usize) -> usize {
    let mut count = 0;
    for (start, _) in code
        .match_indices("mod ")
        .filter(|(start, _)| *start < place && begins_word(code, *start))
    {
        let head = &code[start..];
        if let Some(open) = head
            .find(['{', ';'])
            .filter(|open| head[*open..].starts_with('{'))
        {
            count += usize::from(start + open < place && place < block_end(code, start + open));
        }
    }
    count
}

#[test]
fn a_wrong_arrow_is_found_in_every_spelling() {
    for (path, text) in [
        ("src/core/state.rs", "use crate::journal::Cursor;"),
        ("src/core.rs", "fn f() { crate::host::stop() }"),
        (
            "src/core/state.rs",
            "use crate::{contract::{Op, Unit}, host::Host};",
        ),
        (
            "src/core/state.rs",
            "use crate::{\n    contract::Op,\n    wire,\n};",
        ),
        ("src/core.rs", "use super::wire::Frame;"),
        (
            "src/core/runs/node.rs",
            "use super::super::super::journal::Cursor;",
        ),
        (
            "src/core/state.rs",
            "mod inner { use super::super::super::journal::Cursor; }",
        ),
        ("src/engine/session.rs", "use crate::runtime::Local;"),
        (
            "src/journal/sled.rs",
            "macro_rules! m { () => { $crate::host::stop() } }",
        ),
        ("src/contract.rs", "use crate::core::State;"),
        ("src/host.rs", "use crate::testkit::Fake;"),
        ("src/main.rs", "use signalbox::testkit::Fake;"),
        ("src/attic.rs", ""),
        ("src/host/loop.rs", "use crate::attic::Old;"),
    ] {
        assert_eq!(super::found(check, path, text).len(), 1, "{path}: {text}");
    }
    let found = super::found(
        check,
        "src/core/state.rs",
        "use crate::contract::Op;\nuse crate::journal::Cursor;",
    );
    assert_eq!(found, ["2: no arrow leads from `core` to `journal`"]);
}

#[test]
fn a_right_arrow_passes() {
    for (path, text) in [
        (
            "src/core/state.rs",
            "use crate::contract::Op;\nuse super::record::Record;\nuse crate::core::input::Input;",
        ),
        ("src/core/runs/node.rs", "use super::super::state::State;"),
        (
            "src/core/state.rs",
            "// use crate::journal::Cursor;\nconst A: &str = \"crate::journal\";",
        ),
        (
            "src/core/state.rs",
            "mod inner { use super::super::record::Record; }",
        ),
        (
            "src/host/loop.rs",
            "#[cfg(test)]\nmod tests {\n    use crate::testkit::Fake;\n}",
        ),
        ("src/host/loop/tests.rs", "use crate::testkit::Fake;"),
        ("src/lib.rs", "pub mod core;"),
        ("src/main.rs", "use signalbox::cli::run;"),
        ("xtask/src/main.rs", "use crate::journal::Cursor;"),
    ] {
        assert_eq!(
            super::found(check, path, text),
            Vec::<String>::new(),
            "{path}: {text}"
        );
    }
}

#[test]
fn the_table_has_no_circle() {
    fn reaches(from: &str, to: &str, depth: usize) -> bool {
        let row = ROOMS.iter().find(|(name, _)| *name == from);
        depth > 0
            && row.is_some_and(|(_, used)| {
                used.iter()
                    .any(|next| *next == to || reaches(next, to, depth - 1))
            })
    }
    let inner = ROOMS.iter().filter(|(_, used)| *used != OUTERMOST);
    for (room, _) in inner {
        assert!(!reaches(room, room, 6), "`{room}` leads back to itself");
    }
}
