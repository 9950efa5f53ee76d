//! `berth --help`: the commands in groups, by what a person wants to do.

use crate::args::Cli;
use clap::builder::Styles;
use clap::builder::styling::AnsiColor;
use clap::{Command, CommandFactory};
use std::fmt::Write;

/// The commands that are shown, by purpose.
const GROUPS: [(&str, &[&str]); 5] = [
    ("Run it", &["serve", "agent", "controller", "status", "check", "reclaim", "import", "export"]),
    ("Describe pools", &["apply", "get", "delete"]),
    ("Work with addresses", &["allocate", "release", "show", "history", "quarantine", "explain", "leases"]),
    ("Prepare a cluster", &["crds", "install-cni", "uninstall"]),
    ("Around it", &["completions", "man", "version"]),
];

const EXAMPLES: &str = "  berth serve                          start the daemon
  berth apply -f pools.yaml            tell it what it may give out
  berth allocate --holder printer      take an address
  berth status --watch                 see how full the pools are";

const STYLES: Styles = Styles::styled()
    .header(AnsiColor::Green.on_default().bold())
    .usage(AnsiColor::Green.on_default().bold())
    .literal(AnsiColor::Cyan.on_default().bold())
    .placeholder(AnsiColor::Cyan.on_default());

/// The whole command line, with its help.
#[must_use]
pub fn command() -> Command {
    let command = Cli::command().styles(STYLES).max_term_width(100);
    let help = template(&command);
    command.help_template(help)
}

/// clap lists all commands under one heading; seventeen in a row are hard to read.
fn template(command: &Command) -> String {
    let (header, literal) = (STYLES.get_header(), STYLES.get_literal());
    let mut text = format!("{{about-with-newline}}\n{header}Usage:{header:#} {{usage}}\n");
    let about = |name: &str| {
        let found = command.find_subcommand(name).and_then(Command::get_about);
        found.map(ToString::to_string).unwrap_or_default()
    };
    for (title, names) in GROUPS {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "\n{header}{title}:{header:#}");
        for name in names {
            let _ = writeln!(text, "  {literal}{name:<12}{literal:#} {}", about(name));
        }
    }
    let _ = writeln!(text, "\n{header}Examples:{header:#}\n{EXAMPLES}\n");
    let _ = writeln!(text, "{header}Global options:{header:#}\n{{options}}\n");
    let _ = write!(text, "More about a command: {literal}berth COMMAND --help{literal:#}");
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_is_in_one_group() {
        let mut grouped: Vec<&str> = GROUPS.iter().flat_map(|(_, names)| names.iter().copied()).collect();
        let command = command();
        let mut shown: Vec<&str> =
            command.get_subcommands().filter(|c| !c.is_hide_set()).map(Command::get_name).collect();
        grouped.sort_unstable();
        shown.sort_unstable();
        assert_eq!(grouped, shown);
    }

    #[test]
    fn arguments_fit_together() {
        command().debug_assert();
    }
}
