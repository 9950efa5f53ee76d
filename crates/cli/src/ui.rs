//! The two streams: data on standard output, talk on standard error.

use crate::args::{Color, Format, Global};
use crate::{Error, Result};
use clap::builder::styling::{AnsiColor, Style};
use comfy_table::Table;
use jiff::Timestamp;
use serde_json::Value;
use std::io::{self, IsTerminal, Write};

const ERROR: Style = AnsiColor::Red.on_default().bold();
const HINT: Style = AnsiColor::Cyan.on_default().bold();

/// Where a command prints, and how.
pub struct Ui {
    out: Stream,
    err: Stream,
    quiet: bool,
    clock: fn() -> Timestamp,
}

/// One stream.
pub struct Stream {
    /// Where it goes.
    pub writer: Box<dyn Write>,
    /// Whether a person looks at it.
    pub terminal: bool,
    /// Whether colours are used on it.
    pub color: bool,
}

impl Ui {
    /// The streams of the process.
    #[must_use]
    pub fn of_process(global: &Global) -> Self {
        let out = Stream::new(Box::new(io::stdout()), io::stdout().is_terminal(), global.color);
        let err = Stream::new(Box::new(io::stderr()), io::stderr().is_terminal(), global.color);
        Self::new(out, err, global.quiet, Timestamp::now)
    }

    /// Any two streams and any clock.
    #[must_use]
    pub fn new(out: Stream, err: Stream, quiet: bool, clock: fn() -> Timestamp) -> Self {
        Self { out, err, quiet, clock }
    }

    /// What "ago" is reckoned from.
    pub(crate) fn now(&self) -> Timestamp {
        (self.clock)()
    }

    /// Whether a progress bar would be seen and is wanted.
    pub(crate) fn shows_progress(&self) -> bool {
        self.err.terminal && !self.quiet
    }

    /// Prints data.
    pub(crate) fn data(&mut self, text: &str) -> Result<()> {
        self.out.writer.write_all(text.as_bytes())?;
        Ok(self.out.writer.flush()?)
    }

    /// Prints a line of data.
    pub(crate) fn line(&mut self, text: &str) -> Result<()> {
        self.data(&format!("{text}\n"))
    }

    /// Prints a table.
    pub(crate) fn table(&mut self, table: &mut Table) -> Result<()> {
        table.force_no_tty();
        if self.out.color {
            table.enforce_styling().style_text_only();
        }
        self.line(&table.trim_fmt())
    }

    /// Prints an answer as it came, if that is what was asked for.
    pub(crate) fn raw(&mut self, format: Format, answer: &Value) -> Result<bool> {
        let text = match format {
            Format::Json => format!("{answer:#}\n"),
            Format::Yaml => serde_saphyr::to_string(answer).map_err(io::Error::other)?,
            Format::Table | Format::Wide | Format::Name => return Ok(false),
        };
        self.data(&text).map(|()| true)
    }

    /// Empties the screen before it is drawn again. What was printed on anything but a terminal stays.
    pub(crate) fn clear(&mut self) -> Result<()> {
        if self.out.terminal { self.data("\x1b[H\x1b[2J") } else { Ok(()) }
    }

    /// Says something to the person, if there is one who wants to hear it. That nobody can is not an error.
    pub fn note(&mut self, text: &str) {
        if !self.quiet {
            let _ = writeln!(self.err.writer, "{text}");
        }
    }

    /// Says what went wrong and what to do next.
    pub fn report(&mut self, error: &Error) {
        self.fail(&error.to_string(), error.hint());
    }

    /// Says what went wrong and what to do next.
    pub fn fail(&mut self, message: &str, hint: Option<&str>) {
        let _ = writeln!(self.err.writer, "{} {message}", self.err.paint("error:", ERROR));
        if let Some(hint) = hint.filter(|_| !self.quiet) {
            let _ = writeln!(self.err.writer, "{} {hint}", self.err.paint("hint:", HINT));
        }
    }
}

impl Stream {
    /// A stream with colours as the user wants them.
    #[must_use]
    pub fn new(writer: Box<dyn Write>, terminal: bool, color: Color) -> Self {
        let set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
        let dumb = || std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        let color = match color {
            Color::Always => true,
            Color::Never => false,
            Color::Auto => terminal && !set("NO_COLOR") && !dumb(),
        };
        Self { writer, terminal, color }
    }

    fn paint(&self, text: &str, style: Style) -> String {
        if self.color { format!("{style}{text}{style:#}") } else { text.to_owned() }
    }
}
