//! Rounds: ours and the baseline in turn, each after a wait for a quiet machine; medians over the rounds.

use super::Outcome;
use super::args::Args;
use super::machine::{self, Moment};

/// The medians of all rounds.
pub struct Medians {
    /// Ours.
    pub ours: f64,
    /// The baseline; absent where there is none.
    pub baseline: Option<f64>,
    /// The median of the rounds' own ratios, so that a drift of the machine over the rounds falls out.
    pub ratio: Option<f64>,
    /// The share of the processors that others took while it was measured.
    pub busy: f64,
}

/// Measures several figures at once, each with its baseline: `ours` and `baseline` return them in the same order.
pub fn several(
    args: &Args,
    figures: usize,
    mut ours: impl FnMut() -> Outcome<Vec<f64>>,
    mut baseline: impl FnMut() -> Outcome<Vec<f64>>,
) -> Outcome<Vec<Medians>> {
    let (mut mine, mut theirs) = (vec![Vec::new(); figures], vec![Vec::new(); figures]);
    let mut busy = Vec::new();
    for round in 1..=args.rounds {
        for (side, name, kept) in [
            (&mut ours as &mut dyn FnMut() -> _, "ours", &mut mine),
            (&mut baseline, "baseline", &mut theirs),
        ] {
            let quiet = machine::wait_for_quiet(args.patience)?;
            let before = Moment::now()?;
            let values: Vec<f64> = side()?;
            let share = Moment::now()?.others_since(&before);
            busy.push(share);
            let shown: Vec<String> = values.iter().map(|v| format!("{v:.3}")).collect();
            let note = if quiet { "" } else { " (never quiet)" };
            eprintln!(
                "  round {round} {name:8} {} busy {share:.2}{note}",
                shown.join(" ")
            );
            kept.iter_mut().zip(values).for_each(|(k, v)| k.push(v));
        }
    }
    let busy = median(&busy);
    Ok(mine
        .iter()
        .zip(&theirs)
        .map(|(mine, theirs)| {
            let ratios: Vec<f64> = mine.iter().zip(theirs).map(|(a, b)| a / b).collect();
            Medians {
                ours: median(mine),
                baseline: Some(median(theirs)),
                ratio: Some(median(&ratios)),
                busy,
            }
        })
        .collect())
}

/// Measures one figure with its baseline.
pub fn pair(
    args: &Args,
    mut ours: impl FnMut() -> Outcome<f64>,
    mut baseline: impl FnMut() -> Outcome<f64>,
) -> Outcome<Medians> {
    let all = several(args, 1, || Ok(vec![ours()?]), || Ok(vec![baseline()?]))?;
    all.into_iter()
        .next()
        .ok_or_else(|| "nothing was measured".into())
}

/// Measures a figure that has no baseline.
pub fn alone(args: &Args, mut ours: impl FnMut() -> Outcome<f64>) -> Outcome<Medians> {
    let (mut values, mut busy) = (Vec::new(), Vec::new());
    for round in 1..=args.rounds {
        machine::wait_for_quiet(args.patience)?;
        let before = Moment::now()?;
        let value = ours()?;
        let share = Moment::now()?.others_since(&before);
        eprintln!("  round {round} {value:.3} busy {share:.2}");
        values.push(value);
        busy.push(share);
    }
    Ok(Medians {
        ours: median(&values),
        baseline: None,
        ratio: None,
        busy: median(&busy),
    })
}

/// Returns the middle value; of an even number the mean of the two in the middle.
pub fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => f64::NAN,
        n if n % 2 == 1 => sorted[middle],
        _ => f64::midpoint(sorted[middle - 1], sorted[middle]),
    }
}
