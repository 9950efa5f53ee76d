//! Tables without borders, and the cells in them.

use crate::api::Usage;
use crate::human;
use comfy_table::presets::NOTHING;
use comfy_table::{Cell, CellAlignment, Color, Table};
use jiff::Timestamp;

/// A table with these headers. A `>` before a header aligns its column to the right, as numbers are.
pub(crate) fn table<'a>(headers: impl IntoIterator<Item = &'a str>) -> Table {
    let headers: Vec<&str> = headers.into_iter().collect();
    let mut table = Table::new();
    table
        .load_style(NOTHING)
        .set_header(headers.iter().map(|header| header.trim_start_matches('>')).collect::<Vec<_>>());
    for (column, header) in table.column_iter_mut().zip(&headers) {
        column.set_padding((0, 3));
        if header.starts_with('>') {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table
}

/// Text, or a dash.
pub(crate) fn text(text: impl Into<String>) -> Cell {
    let text = text.into();
    Cell::new(if text.is_empty() { "-".to_owned() } else { text })
}

/// A count.
pub(crate) fn count(digits: &str) -> Cell {
    Cell::new(human::count(digits))
}

/// A time, from now.
pub(crate) fn relative(time: Option<Timestamp>, now: Timestamp) -> Cell {
    text(time.map(|time| human::relative(time, now)).unwrap_or_default())
}

/// What became of an address, a pool or a claim, in its colour.
pub(crate) fn state(state: &str) -> Cell {
    let cell = text(state);
    match state {
        "Active" | "Ready" | "Bound" => cell.fg(Color::DarkGreen),
        "Held" | "Cooling" | "Pending" | "Disabled" => cell.fg(Color::DarkYellow),
        "Quarantined" | "Full" => cell.fg(Color::DarkRed),
        _ => cell,
    }
}

/// A bar and what is not free, in the colour of how near the end is.
pub(crate) fn fullness(usage: &Usage) -> Cell {
    const WIDTH: usize = 20;
    let (used, away) = usage.parts();
    let taken = used + away;
    let color = match taken {
        0.9.. => Color::DarkRed,
        0.75.. => Color::DarkYellow,
        _ => Color::DarkGreen,
    };
    let percent = if taken > 0.0 && taken < 0.001 { "<0.1".to_owned() } else { format!("{:.1}", taken * 100.0) };
    Cell::new(format!("{} {percent:>5}%", human::bar(used, away, WIDTH))).fg(color)
}
