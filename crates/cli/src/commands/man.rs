//! `berth man`: manual pages, made from the same definitions as `--help`.

use crate::args::ManArgs;
use crate::ui::Ui;
use crate::{Error, Result};
use std::fs;

pub(super) fn run(args: &ManArgs, ui: &mut Ui) -> Result<()> {
    let Some(dir) = &args.out else {
        let mut page = Vec::new();
        clap_mangen::Man::new(crate::command()).render(&mut page)?;
        return ui.data(&String::from_utf8_lossy(&page));
    };
    let written = fs::create_dir_all(dir).and_then(|()| clap_mangen::generate_to(crate::command(), dir));
    written.map_err(|error| Error::file(dir, &error))?;
    ui.note(&format!("The manual pages are in {}.", dir.display()));
    Ok(())
}
