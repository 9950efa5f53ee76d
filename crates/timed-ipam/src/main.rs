//! Installed as `timed-NAME`, and named so in a CNI configuration, it runs the plugin `NAME` beside it and writes a line
//! about the call.

use std::env;
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::{Instant, SystemTime, UNIX_EPOCH};
use timed_ipam::{Call, LOG, PREFIX, first_address};

fn main() -> ExitCode {
    run().unwrap_or_else(|error| {
        eprintln!("timed-ipam: {error}");
        ExitCode::FAILURE
    })
}

fn run() -> io::Result<ExitCode> {
    let (real, plugin) = real_plugin(&PathBuf::from(env::args_os().next().unwrap_or_default()))?;
    let said = |key: &str| env::var(key).ok().filter(|value| !value.is_empty()).unwrap_or_else(|| "-".to_owned());
    let (began, clock) = (SystemTime::now(), Instant::now());
    // What it answers goes through here for the address in it; nothing else is touched.
    let output = Command::new(real).stdin(Stdio::inherit()).stderr(Stdio::inherit()).output()?;
    let call = Call {
        plugin,
        verb: said("CNI_COMMAND"),
        container: said("CNI_CONTAINERID"),
        took: clock.elapsed(),
        began: began.duration_since(UNIX_EPOCH).unwrap_or_default(),
        ok: output.status.success(),
        address: first_address(&String::from_utf8_lossy(&output.stdout)),
    };
    // In one write: others append too.
    File::options().create(true).append(true).open(LOG)?.write_all(format!("{call}\n").as_bytes())?;
    io::stdout().write_all(&output.stdout)?;
    Ok(if call.ok { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The plugin that this one stands in for, and its name.
fn real_plugin(own: &Path) -> io::Result<(PathBuf, String)> {
    let name = own.file_name().and_then(|name| name.to_str()).and_then(|name| name.strip_prefix(PREFIX));
    let name = name.ok_or_else(|| io::Error::other(format!("{} does not begin with {PREFIX}", own.display())))?;
    Ok((own.with_file_name(name), name.to_owned()))
}
