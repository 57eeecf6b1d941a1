//! How results are printed.

use std::fmt::Write as _;
use std::io::{IsTerminal as _, Write as _};

use comfy_table::{ContentArrangement, Table, presets};
use serde::Serialize;

use super::Failure;
use super::args::Format;

/// Where results go.
pub(super) struct Output {
    format: Format,
}

impl Output {
    pub fn new(format: Format) -> Self {
        Self { format }
    }

    /// Says whether results are for programs.
    pub fn is_json(&self) -> bool {
        self.format == Format::Json
    }

    /// Prints a result: as JSON, or as the lines that `people` makes of it.
    pub fn print<T: Serialize>(
        &self,
        value: &T,
        people: impl FnOnce(&T) -> String,
    ) -> Result<(), Failure> {
        let text = match self.format {
            Format::Json => {
                let json = serde_json::to_string_pretty(value);
                json.map_err(|e| {
                    Failure::new(
                        1,
                        format!("the answer cannot be printed ({e}); please report it"),
                    )
                })?
            }
            Format::Table => people(value),
        };
        self.write(&format!("{}\n", text.trim_end()))
    }

    /// Prints one line of a stream: compact JSON, or what `people` makes of it.
    pub fn line<T: Serialize>(
        &self,
        value: &T,
        people: impl FnOnce(&T) -> String,
    ) -> Result<(), Failure> {
        let text = match self.format {
            Format::Json => serde_json::to_string(value).map_err(|e| {
                Failure::new(
                    1,
                    format!("the event cannot be printed ({e}); please report it"),
                )
            })?,
            Format::Table => people(value),
        };
        self.write(&format!("{text}\n"))
    }

    /// Prints text as it is.
    pub fn write(&self, text: &str) -> Result<(), Failure> {
        let mut out = std::io::stdout().lock();
        match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
            Ok(()) => Ok(()),
            Err(e) if e.kind() == std::io::ErrorKind::BrokenPipe => {
                // Whoever read has seen enough.
                Err(Failure::new(0, "the reader of the output has gone"))
            }
            Err(e) => Err(Failure::new(
                1,
                format!(
                    "the output cannot be written ({e}): check the disk or the pipe that it goes to"
                ),
            )),
        }
    }

    /// Prints a program's output: as it is to a pipe, with control characters shown to a terminal.
    pub fn program(&self, text: &str) -> Result<(), Failure> {
        if std::io::stdout().is_terminal() {
            self.write(&safe_lines(text))
        } else {
            self.write(text)
        }
    }
}

/// Makes a table without frames.
pub(super) fn table<R: IntoIterator<Item = String>>(
    header: &[&str],
    rows: impl IntoIterator<Item = R>,
) -> String {
    let mut table = Table::new();
    table
        .load_style(presets::NOTHING)
        .set_content_arrangement(ContentArrangement::Disabled);
    table.set_header(header.iter().map(|name| name.to_uppercase()));
    let mut count = 0;
    for row in rows {
        count += 1;
        table.add_row(row.into_iter().map(|cell| safe(&cell)));
    }
    if count == 0 {
        return "nothing\n".to_owned();
    }
    for column in table.column_iter_mut() {
        column.set_padding((0, 2));
    }
    let mut out = String::new();
    for line in table.lines() {
        let _ = writeln!(out, "{}", line.trim_end());
    }
    out
}

/// Shows characters that would control a terminal, or turn the text around, instead of sending them.
#[must_use]
pub(super) fn safe(text: &str) -> String {
    shown(text, |_| false)
}

/// As [`safe`], with line ends and tabs left alone.
#[must_use]
pub(super) fn safe_lines(text: &str) -> String {
    shown(text, |c| matches!(c, '\n' | '\t'))
}

fn shown(text: &str, keep: impl Fn(char) -> bool) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        let turns = matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
        if (c.is_control() || turns) && !keep(c) {
            let _ = write!(out, "{}", c.escape_default());
        } else {
            out.push(c);
        }
    }
    out
}

/// Prints a time of the wall clock, unix milliseconds, in UTC.
#[must_use]
pub(super) fn time(unix_ms: u64) -> String {
    let seconds = unix_ms / 1_000;
    let (days, of_day) = (seconds / 86_400, seconds % 86_400);
    // Days since 1 March of year 0, in eras of 400 years.
    let shifted = days + 719_468;
    let (era, of_era) = (shifted / 146_097, shifted % 146_097);
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 {
        shifted_month + 3
    } else {
        shifted_month - 9
    };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    let (hour, minute, second) = (of_day / 3_600, of_day / 60 % 60, of_day % 60);
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}Z")
}

/// Returns the text of an option, or a dash.
pub(super) fn or_dash<T: ToString>(value: Option<T>) -> String {
    value.map_or_else(|| "-".to_owned(), |v| v.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_would_control_the_terminal_is_shown() {
        assert_eq!(
            safe("a\u{1b}[31mred\u{7}\r\n\u{9b}2J"),
            "a\\u{1b}[31mred\\u{7}\\r\\n\\u{9b}2J"
        );
        assert_eq!(safe("user\u{202e}gpj.exe"), "user\\u{202e}gpj.exe");
        assert_eq!(safe("naïve — 漢字 😀"), "naïve — 漢字 😀");
        assert_eq!(safe_lines("a\tb\nc\u{1b}c"), "a\tb\nc\\u{1b}c");
        assert!(!table(&["id"], [["x\u{1b}[2J".to_owned()]]).contains('\u{1b}'));
    }

    #[test]
    fn times_are_those_of_the_calendar() {
        assert_eq!(time(0), "1970-01-01 00:00:00Z");
        assert_eq!(time(951_782_400_000), "2000-02-29 00:00:00Z");
        assert_eq!(time(1_709_251_199_999), "2024-02-29 23:59:59Z");
        assert_eq!(time(1_796_071_994_000), "2026-11-30 20:53:14Z");
        assert_eq!(time(4_107_542_400_000), "2100-03-01 00:00:00Z");
    }

    #[test]
    fn a_table_has_a_line_for_each_row() {
        let text = table(
            &["id", "status"],
            [
                ["x1".to_owned(), "RUNNING".to_owned()],
                ["x20".to_owned(), "-".to_owned()],
            ],
        );
        assert_eq!(text, "ID   STATUS\nx1   RUNNING\nx20  -\n");
        assert_eq!(table(&["id"], Vec::<Vec<String>>::new()), "nothing\n");
    }
}
