//! `berth install-cni`: puts the plugin where the container runtime looks for it.
//!
//! The runtime may execute the plugin at any moment, also the one that is replaced. So the new one is written beside it
//! and takes its name by a rename: whoever executes it gets the old one or the new one, whole.

use crate::args::InstallCniArgs;
use crate::ui::Ui;
use crate::{Error, Result};
use std::fs::{self, File, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// The plugin's file name.
const PLUGIN: &str = "berth-cni";
const MODE: u32 = 0o755;

pub(super) fn run(args: &InstallCniArgs, ui: &mut Ui) -> Result<()> {
    let from = match &args.from {
        Some(from) => from.clone(),
        None => sibling()?,
    };
    fs::create_dir_all(&args.to).map_err(|error| Error::file(&args.to, &error))?;
    for name in [PLUGIN].into_iter().chain(args.also_as.iter().map(String::as_str)) {
        let to = args.to.join(name);
        let beside = args.to.join(format!(".{name}.{}", std::process::id()));
        let source = File::open(&from).map_err(|error| Error::file(&from, &error))?;
        let placed = place(source, &beside, &to);
        if placed.is_err() {
            // Best effort: what counts is why it failed.
            let _ = fs::remove_file(&beside);
        }
        placed.map_err(|error| Error::file(&to, &error))?;
        ui.note(&format!("{} is installed.", to.display()));
    }
    Ok(())
}

/// The plugin lies beside the binary that runs.
fn sibling() -> Result<PathBuf> {
    let own = std::env::current_exe().map_err(|error| Error::file(Path::new("/proc/self/exe"), &error))?;
    Ok(own.with_file_name(PLUGIN))
}

fn place(mut source: File, beside: &Path, to: &Path) -> io::Result<()> {
    let mut copy = OpenOptions::new().write(true).create(true).truncate(true).mode(MODE).open(beside)?;
    io::copy(&mut source, &mut copy)?;
    // The mode at creation is subject to the umask.
    copy.set_permissions(Permissions::from_mode(MODE))?;
    // A power failure after the rename must not leave an empty plugin.
    copy.sync_all()?;
    drop(copy);
    fs::rename(beside, to)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{Color, Global};

    fn install_as(from: &Path, to: &Path, names: &[&str]) -> Result<()> {
        let global = Global { server: String::new(), color: Color::Never, quiet: true };
        let also_as = names.iter().map(|&name| name.to_owned()).collect();
        let args = InstallCniArgs { to: to.to_owned(), from: Some(from.to_owned()), also_as };
        run(&args, &mut Ui::of_process(&global))
    }

    fn install(from: &Path, to: &Path) -> Result<()> {
        install_as(from, to, &[])
    }

    #[test]
    fn it_goes_by_other_names_too() {
        let dir = tempfile::tempdir().expect("a directory");
        let (from, to) = (dir.path().join("new"), dir.path().join("bin"));
        fs::write(&from, "plugin").expect("written");
        install_as(&from, &to, &["spiderpool"]).expect("installed");
        for name in [PLUGIN, "spiderpool"] {
            assert_eq!(fs::read_to_string(to.join(name)).expect("read"), "plugin");
        }
        assert_eq!(fs::read_dir(&to).expect("listed").count(), 2);
    }

    #[test]
    fn the_plugin_is_replaced_whole_and_may_be_executed() {
        let dir = tempfile::tempdir().expect("a directory");
        let (from, to) = (dir.path().join("new"), dir.path().join("opt/cni/bin"));
        for content in ["one", "a second one"] {
            fs::write(&from, content).expect("written");
            let before = File::open(to.join(PLUGIN)).ok();
            install(&from, &to).expect("installed");
            assert_eq!(fs::read_to_string(to.join(PLUGIN)).expect("read"), content);
            let mode = fs::metadata(to.join(PLUGIN)).expect("metadata").permissions().mode();
            assert_eq!(mode & 0o777, MODE);
            // Whoever has the old one open still has all of it.
            if let Some(before) = before {
                assert_eq!(io::read_to_string(before).expect("read"), "one");
            }
        }
        assert_eq!(fs::read_dir(&to).expect("listed").count(), 1, "nothing is left beside it");
    }

    #[test]
    fn what_fails_leaves_the_old_one() {
        let dir = tempfile::tempdir().expect("a directory");
        let to = dir.path().join("bin");
        fs::create_dir_all(to.join(PLUGIN).join("in the way")).expect("made");
        let from = dir.path().join("new");
        fs::write(&from, "new").expect("written");
        assert!(install(&from, &to).is_err_and(|error| error.to_string().contains("bin/berth-cni")));
        assert_eq!(fs::read_dir(&to).expect("listed").count(), 1, "nothing is left beside it");
        let missing = install(&dir.path().join("none"), &to).expect_err("no source");
        assert!(missing.to_string().contains("/none: "), "{missing}");
    }
}
