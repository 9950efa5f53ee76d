//! Labels and selectors, as Kubernetes has them.

use std::collections::BTreeMap;
use std::fmt;

/// Labels of an object.
pub type Labels = BTreeMap<String, String>;

/// What one expression asks of a label.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operator {
    /// Its value is one of these.
    In(Vec<String>),
    /// It is absent, or its value is none of these.
    NotIn(Vec<String>),
    /// It is there.
    Exists,
    /// It is absent.
    DoesNotExist,
}

/// All of its expressions must hold; an empty selector selects everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selector {
    /// The expressions: a label's key and what is asked of it.
    pub expressions: Vec<(String, Operator)>,
}

impl Selector {
    /// Whether the selector selects everything.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.expressions.is_empty()
    }

    /// Whether all expressions hold.
    #[must_use]
    pub fn matches(&self, labels: &Labels) -> bool {
        self.expressions.iter().all(|(key, operator)| {
            let value = labels.get(key);
            match operator {
                Operator::In(values) => value.is_some_and(|v| values.contains(v)),
                Operator::NotIn(values) => value.is_none_or(|v| !values.contains(v)),
                Operator::Exists => value.is_some(),
                Operator::DoesNotExist => value.is_none(),
            }
        })
    }
}

impl fmt::Display for Selector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, (key, operator)) in self.expressions.iter().enumerate() {
            f.write_str(if i == 0 { "" } else { "," })?;
            match operator {
                Operator::In(values) if values.len() == 1 => write!(f, "{key}={}", values[0])?,
                Operator::In(values) => write!(f, "{key} in ({})", values.join(","))?,
                Operator::NotIn(values) => write!(f, "{key} notin ({})", values.join(","))?,
                Operator::Exists => f.write_str(key)?,
                Operator::DoesNotExist => write!(f, "!{key}")?,
            }
        }
        Ok(())
    }
}
