//! Numbers and times as people read them.

use jiff::{SignedDuration, Timestamp};

/// Longest count that is written out in full; longer ones are not read digit by digit.
const FULL_DIGITS: usize = 12;

/// `65,534`, `1.84e19`: a count that came as decimal digits, of any size.
pub(crate) fn count(digits: &str) -> String {
    let is_count = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    if !is_count {
        return "-".to_owned();
    }
    if digits.len() > FULL_DIGITS {
        return format!("{}.{}e{}", &digits[..1], &digits[1..3], digits.len() - 1);
    }
    let mut text = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// `1 lease`, `3 leases`.
pub(crate) fn counted(count: usize, noun: &str) -> String {
    format!("{} {noun}{}", self::count(&count.to_string()), if count == 1 { "" } else { "s" })
}

/// `5m ago`, `in 55m`, `now`.
pub(crate) fn relative(time: Timestamp, now: Timestamp) -> String {
    let distance = now.duration_since(time);
    match distance.as_secs() {
        0 => "now".to_owned(),
        1.. => format!("{} ago", span(distance)),
        _ => format!("in {}", span(distance)),
    }
}

/// `5m`: how old something is.
pub(crate) fn age(time: Timestamp, now: Timestamp) -> String {
    span(now.duration_since(time).max(SignedDuration::ZERO))
}

/// As much as is told at a glance: minutes matter to a few hours, not to days.
fn span(distance: SignedDuration) -> String {
    let seconds = distance.as_secs().unsigned_abs();
    let (minutes, hours) = (seconds / 60 % 60, seconds / 3_600);
    match (hours, minutes) {
        (0, 0) => format!("{seconds}s"),
        (0, _) => format!("{minutes}m"),
        (1..10, 1..) => format!("{hours}h{minutes}m"),
        (..48, _) => format!("{hours}h"),
        _ => format!("{}d", hours / 24),
    }
}

/// A bar of `width` cells: `used` full, `away` shaded, the rest dotted. Both are parts of one, and each of them that is
/// not nothing has a cell at least.
pub(crate) fn bar(used: f64, away: f64, width: usize) -> String {
    let cells = |part: f64| (part.clamp(0.0, 1.0) * width as f64).round().max(f64::from(part > 0.0)) as usize;
    let shaded = cells(away);
    let full = cells(used).min(width - shaded);
    format!("{}{}{}", "█".repeat(full), "▒".repeat(shaded), "·".repeat(width - full - shaded))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_grouped_until_they_are_too_long_to_read() {
        for (digits, text) in [
            ("0", "0"),
            ("254", "254"),
            ("65534", "65,534"),
            ("4294967296", "4,294,967,296"),
            ("18446744073709551616", "1.84e19"),
            ("", "-"),
            ("many", "-"),
        ] {
            assert_eq!(count(digits), text);
        }
    }

    #[test]
    fn times_are_told_from_now() {
        let now: Timestamp = "2026-02-01T12:00:00Z".parse().unwrap();
        for (time, text) in [
            ("2026-02-01T12:00:00Z", "now"),
            ("2026-02-01T11:59:15Z", "45s ago"),
            ("2026-02-01T11:55:00Z", "5m ago"),
            ("2026-01-31T12:00:00Z", "24h ago"),
            ("2026-01-01T12:00:00Z", "31d ago"),
            ("2026-02-01T12:55:00Z", "in 55m"),
            ("2026-02-01T13:00:00Z", "in 1h"),
            ("2026-02-01T13:30:00Z", "in 1h30m"),
        ] {
            assert_eq!(relative(time.parse().unwrap(), now), text);
        }
        assert_eq!(age("2026-02-01T13:00:00Z".parse().unwrap(), now), "0s", "a clock that runs ahead");
    }

    #[test]
    fn a_bar_shows_the_least_use_and_never_overflows() {
        assert_eq!(bar(0.0, 0.0, 5), "·····");
        assert_eq!(bar(0.000_1, 0.0, 5), "█····");
        assert_eq!(bar(0.000_1, 0.000_1, 5), "█▒···");
        assert_eq!(bar(0.4, 0.2, 5), "██▒··");
        assert_eq!(bar(1.0, 0.0, 5), "█████");
        assert_eq!(bar(0.999, 0.001, 5), "████▒");
        assert_eq!(bar(0.0, 1.0, 5), "▒▒▒▒▒");
        assert_eq!(bar(f64::NAN, 0.0, 5), "·····");
    }
}
