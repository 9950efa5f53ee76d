//! A table of measurements, printed as they come.

/// Prints rows under a heading, columns aligned.
#[derive(Debug)]
pub struct Rows {
    widths: Vec<usize>,
}

impl Rows {
    /// Prints the title and the names of the columns, each with the width its values need.
    #[must_use]
    pub fn begin(title: &str, columns: &[(&str, usize)]) -> Self {
        let widths: Vec<usize> = columns.iter().map(|(name, width)| name.len().max(*width)).collect();
        println!("\n{title}");
        let rows = Self { widths };
        rows.print(&columns.iter().map(|(name, _)| (*name).to_owned()).collect::<Vec<_>>());
        rows
    }

    /// Prints one row: the first column to the left, the others to the right.
    pub fn print(&self, values: &[String]) {
        let mut line = String::new();
        for (i, (value, &width)) in values.iter().zip(&self.widths).enumerate() {
            line.push_str(&if i == 0 { format!("{value:<width$}") } else { format!("  {value:>width$}") });
        }
        println!("{}", line.trim_end());
    }
}

/// The value at a share of the way through sorted numbers; zero if there are none.
#[must_use]
pub fn quantile(sorted: &[u64], share: f64) -> u64 {
    let last = sorted.len().saturating_sub(1);
    sorted.get((last as f64 * share).round() as usize).copied().unwrap_or(0)
}

/// The middle one.
#[must_use]
pub fn median(mut values: Vec<u64>) -> u64 {
    values.sort_unstable();
    quantile(&values, 0.5)
}
