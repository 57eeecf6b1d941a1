//! Logs of the process: to standard error, filtered by `SIGNALBOX_LOG`, as plain lines or as JSON.
//!
//! Absent on purpose: files and rotation, which belong to whatever started the process, and metrics.

use tracing_subscriber::EnvFilter;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

/// The variable with the filter, for instance `info,signalbox::engine=debug`.
pub const FILTER: &str = "SIGNALBOX_LOG";
/// The variable with the form: `plain` (default) or `json`.
pub const FORM: &str = "SIGNALBOX_LOG_FORMAT";

/// Why there are no logs.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The filter cannot be read.
    #[error(
        "{FILTER}=`{0}` is not a filter ({1}): write for instance `info` or `info,signalbox::engine=debug`"
    )]
    Filter(String, String),
    /// The form is not known.
    #[error("{FORM}=`{0}` is not known: write `plain` or `json`")]
    Form(String),
    /// Somebody else set logging up before.
    #[error("logging is set up already: call this once, at the start of the process")]
    Twice,
}

/// Sets logging up for the whole process.
///
/// # Errors
/// A filter or a form that cannot be read, or a second call.
pub fn init(default_filter: &str) -> Result<(), Error> {
    let read = |name| std::env::var(name).ok().filter(|text| !text.is_empty());
    let filter = filter(&read(FILTER).unwrap_or_else(|| default_filter.to_owned()))?;
    let lines = tracing_subscriber::fmt::layer().with_writer(std::io::stderr);
    let registry = tracing_subscriber::registry().with(filter);
    match read(FORM).as_deref() {
        None | Some("plain") => {
            let colours = std::io::IsTerminal::is_terminal(&std::io::stderr());
            registry.with(lines.with_ansi(colours)).try_init()
        }
        Some("json") => registry.with(lines.json().flatten_event(true)).try_init(),
        Some(other) => return Err(Error::Form(other.to_owned())),
    }
    .map_err(|_| Error::Twice)
}

fn filter(text: &str) -> Result<EnvFilter, Error> {
    EnvFilter::try_new(text).map_err(|e| Error::Filter(text.to_owned(), e.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_that_cannot_be_read_is_refused_with_an_example() {
        assert!(filter("info,signalbox::engine=debug").is_ok());
        let error = filter("info,signalbox=loud")
            .expect_err("refused")
            .to_string();
        assert!(
            error.contains("signalbox=loud") && error.contains("for instance"),
            "{error}"
        );
    }
}
