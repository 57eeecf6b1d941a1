//! Plays one sequence on both and compares what is seen, step by step, and how everything stands at the end.

use std::fmt::Write as _;

use signalbox_model::coverage::Coverage;
use signalbox_model::generate::Generator;
use signalbox_model::reference::{Reference, RunSummary, Summary};
use signalbox_model::seen::{Seen, by_place};

use super::real::Real;

/// How a sequence went.
pub enum Played {
    /// Both did the same.
    Same { steps: u64, trace: u64 },
    /// They did not; the story tells where.
    Differs(String),
}

/// Plays the sequence of a seed.
pub fn play(seed: u64, coverage: &mut Coverage) -> Played {
    let mut generator = Generator::new(seed);
    let settings = generator.settings();
    let mut reference = Reference::new(settings.clone());
    let mut real = Real::new(&settings);
    let mut story = Vec::new();
    coverage.begin();
    while let Some(timed) = generator.next(&reference) {
        let expected = by_place(reference.step(&timed));
        let actual = by_place(real.step(&timed));
        coverage.count(&timed, &expected, &reference.take_notes());
        generator.learn(&expected);
        story.push(timed.to_string());
        if expected != actual {
            return Played::Differs(tell(seed, &story, &expected, &actual));
        }
    }
    let (expected, actual) = (reference.state(), summary(&real));
    if expected != actual {
        let end =
            format!("at the end the reference stands so:\n{expected}\nand the core so:\n{actual}");
        return Played::Differs(format!("seed {seed}: {}\n{end}", story.join("\n")));
    }
    Played::Same {
        steps: story.len() as u64,
        trace: real.trace(),
    }
}

fn tell(seed: u64, story: &[String], expected: &[Seen], actual: &[Seen]) -> String {
    let mut out = format!("seed {seed}, step {}:\n", story.len() - 1);
    for (i, line) in story
        .iter()
        .enumerate()
        .skip(story.len().saturating_sub(40))
    {
        let _ = writeln!(out, "{i:>4} {line}");
    }
    for (name, list) in [("reference", expected), ("core", actual)] {
        let _ = writeln!(out, "seen by the {name}:");
        for seen in list {
            let mark = if expected.contains(seen) && actual.contains(seen) {
                ' '
            } else {
                '!'
            };
            let _ = writeln!(out, "  {mark} {seen}");
        }
    }
    out
}

/// Sums up how everything stands in the core, in the reference's words.
fn summary(real: &Real) -> Summary {
    let durable = real.durable();
    let run = |r: &std::sync::Arc<signalbox::core::state::run::Run>| RunSummary {
        id: r.id.0,
        workflow: r.workflow.to_string(),
        status: r.status.to_string(),
        priority: r.priority,
        order: r.order,
        holds: r.holds.iter().map(|h| h.holder.to_string()).collect(),
        nodes: r
            .named_nodes()
            .map(|(id, n)| {
                let why = n.why.map_or("", |w| w.as_str());
                (
                    id.to_string(),
                    format!("{} {why} {}", n.status, n.attempt).replace("  ", " "),
                )
            })
            .collect(),
    };
    let cursors = durable
        .supervisors
        .values()
        .map(|s| (s.def.id.to_string(), s.last_cursor));
    Summary {
        runs: durable.runs.values().map(run).collect(),
        cursors: cursors.filter(|(_, n)| *n > 0).collect(),
        open_reviews: durable
            .reviews
            .values()
            .filter(|r| r.end.is_none())
            .map(|r| r.id.0)
            .collect(),
    }
}
