//! Wildcards in pool names: `*`, `?`, `[abc]`, `[a-z]`, `[!a-z]`.

/// Whether `name` matches `pattern`. An unclosed bracket stands for itself.
#[must_use]
pub fn matches(pattern: &str, name: &str) -> bool {
    let (pattern, name) = (pattern.as_bytes(), name.as_bytes());
    let (mut p, mut n) = (0, 0);
    // Where to go on if what follows the last star does not fit: one more byte into the star.
    let mut retry: Option<(usize, usize)> = None;
    loop {
        let step = match pattern.get(p) {
            None if n == name.len() => return true,
            Some(b'*') => {
                retry = Some((p + 1, n));
                p += 1;
                continue;
            }
            Some(_) if n < name.len() => match_one(&pattern[p..], name[n]),
            _ => None,
        };
        match (step, retry) {
            (Some(width), _) => {
                p += width;
                n += 1;
            }
            (None, Some((after_star, from))) if from < name.len() => {
                retry = Some((after_star, from + 1));
                (p, n) = (after_star, from + 1);
            }
            _ => return false,
        }
    }
}

/// How much of the pattern stands for this byte, if it does.
fn match_one(pattern: &[u8], byte: u8) -> Option<usize> {
    match pattern[0] {
        b'?' => Some(1),
        b'[' => match_class(pattern, byte),
        literal => (literal == byte).then_some(1),
    }
}

fn match_class(pattern: &[u8], byte: u8) -> Option<usize> {
    let negated = matches!(pattern.get(1), Some(b'!' | b'^'));
    let start = if negated { 2 } else { 1 };
    // A bracket right after the opening one is a member, not the end.
    let Some(len) = pattern.get(start + 1..).and_then(|rest| rest.iter().position(|&b| b == b']')) else {
        return (pattern[0] == byte).then_some(1);
    };
    let members = &pattern[start..=start + len];
    let mut found = false;
    let mut i = 0;
    while i < members.len() {
        if i + 2 < members.len() && members[i + 1] == b'-' {
            found |= (members[i]..=members[i + 2]).contains(&byte);
            i += 3;
        } else {
            found |= members[i] == byte;
            i += 1;
        }
    }
    (found != negated).then_some(start + len + 2)
}

#[cfg(test)]
mod tests {
    use super::matches;

    #[test]
    fn wildcards() {
        for (pattern, name, expected) in [
            ("blue", "blue", true),
            ("blue", "blues", false),
            ("*", "", true),
            ("b*e", "blue", true),
            ("b*e", "blues", false),
            ("*-v?", "blue-v4", true),
            ("*-v?", "blue-v10", false),
            ("rack[0-9]", "rack7", true),
            ("rack[!0-9]", "rack7", false),
            ("rack[!0-9]", "rackb", true),
            ("[]x]", "]", true),
            ("[abc", "[abc", true),
            ("a*b*c", "aXbYbZc", true),
            ("", "", true),
            ("", "x", false),
        ] {
            assert_eq!(matches(pattern, name), expected, "{pattern} ~ {name}");
        }
    }
}
