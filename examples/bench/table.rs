//! The rows, as people read them and as machines do.

use super::Outcome;
use super::machine::QUIET;
use super::rounds::Medians;
use serde_json::{Value, json};
use std::fmt::Write as _;

/// Which way is better.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Better {
    /// More is.
    Higher,
    /// Less is.
    Lower,
}

/// One measure of one goal.
pub struct Row {
    /// The goal's number.
    pub id: &'static str,
    /// The case, for machines.
    pub case: &'static str,
    /// What is measured, for people, with its unit.
    pub measure: &'static str,
    /// The medians.
    pub medians: Medians,
    /// What must be reached; absent where the row only informs. Of the ratio, or of ours where there is no baseline.
    pub must: Option<f64>,
    /// What is aimed at.
    pub aim: Option<f64>,
    /// Which way is better.
    pub better: Better,
}

impl Row {
    fn counts(&self) -> f64 {
        self.medians.ratio.unwrap_or(self.medians.ours)
    }

    /// Says whether the goal is reached; a row without one always is.
    fn ok(&self) -> bool {
        self.must.is_none_or(|must| match self.better {
            Better::Higher => self.counts() >= must,
            Better::Lower => self.counts() <= must,
        })
    }
}

const HEADS: [&str; 9] = [
    "goal", "measure", "ours", "baseline", "ratio", "must", "aim", "ok", "busy",
];

/// Prints the table; the ratio is the median of the rounds' ratios, not that of the medians.
pub fn print(rows: &[Row]) -> String {
    let mut lines: Vec<[String; 9]> = vec![HEADS.map(str::to_owned)];
    for row in rows {
        let Medians {
            ours,
            baseline,
            ratio,
            busy,
        } = &row.medians;
        let bound = |value: Option<f64>| {
            let sign = if row.better == Better::Higher {
                "≥"
            } else {
                "≤"
            };
            value.map_or_else(|| "–".to_owned(), |v| format!("{sign} {}", number(v)))
        };
        lines.push([
            format!("{} {}", row.id, row.case),
            row.measure.to_owned(),
            number(*ours),
            baseline.map_or_else(|| "–".to_owned(), number),
            ratio.map_or_else(|| "–".to_owned(), |r| format!("{r:.2}")),
            bound(row.must),
            bound(row.aim),
            if row.ok() { "ok" } else { "MISSED" }.to_owned(),
            format!("{:.0} %", busy * 100.0),
        ]);
    }
    let width = |column: usize| {
        lines
            .iter()
            .map(|l| l[column].chars().count())
            .max()
            .unwrap_or(0)
    };
    let widths: Vec<usize> = (0..HEADS.len()).map(width).collect();
    let mut out = String::new();
    for line in &lines {
        for (cell, width) in line.iter().zip(&widths) {
            // Writing to a string cannot fail.
            let _ = write!(out, "{cell:width$}  ");
        }
        out.truncate(out.trim_end().len());
        out.push('\n');
    }
    if rows.iter().any(|row| row.medians.busy > QUIET) {
        out.push_str(
            "The machine was not quiet: ratios hold within a few 10 %, other figures less.\n",
        );
    }
    out
}

/// Writes a number with 3 or more digits that count.
fn number(value: f64) -> String {
    if value >= 1_000.0 {
        let digits = format!("{value:.0}");
        let mut out = String::new();
        for (place, digit) in digits.chars().enumerate() {
            if place > 0 && (digits.len() - place).is_multiple_of(3) {
                out.push(',');
            }
            out.push(digit);
        }
        out
    } else {
        format!("{value:.2}")
    }
}

/// Makes the list that machines read.
pub fn json(rows: &[Row]) -> Outcome<String> {
    let list: Vec<Value> = rows
        .iter()
        .map(|row| {
            let Medians {
                ours,
                baseline,
                ratio,
                busy,
            } = &row.medians;
            let better = if row.better == Better::Higher {
                "higher"
            } else {
                "lower"
            };
            json!({
                "id": row.id, "case": row.case, "ours": ours, "baseline": baseline, "ratio": ratio,
                "must": row.must, "aim": row.aim, "better": better, "ok": row.ok(), "busy": busy,
            })
        })
        .collect();
    Ok(serde_json::to_string_pretty(&list)?)
}
