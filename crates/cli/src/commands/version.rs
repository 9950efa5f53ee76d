//! `berth version`.

use crate::Result;
use crate::ui::Ui;

pub(super) fn run(ui: &mut Ui) -> Result<()> {
    ui.line(concat!("berth ", env!("CARGO_PKG_VERSION")))
}
