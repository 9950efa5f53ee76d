//! The files of the repository.

use crate::sh;
use anyhow::Result;
use std::fs;
use std::path::PathBuf;

/// Every text file that is, or is about to be, under version control, with its contents.
pub(crate) fn text_files() -> Result<Vec<(PathBuf, String)>> {
    let list = sh::output(&mut sh::command("git", &["ls-files", "--cached", "--others", "--exclude-standard"]))?;
    let files = list.lines().map(PathBuf::from);
    // A file that is listed but gone, or not text, has nothing to check.
    Ok(files.filter_map(|path| fs::read_to_string(sh::root().join(&path)).ok().map(|text| (path, text))).collect())
}
