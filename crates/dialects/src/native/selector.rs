//! Label selectors, as Kubernetes writes them.

use crate::field::FieldError;
use crate::object::check_name;
use berth_core::labels::{Operator, Selector};
use serde::Deserialize;
use std::collections::BTreeMap;
use utoipa::ToSchema;

/// Selects objects by label; empty selects everything.
#[derive(Clone, Debug, Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct LabelSelector {
    /// Labels with exactly these values.
    #[serde(default)]
    match_labels: BTreeMap<String, String>,
    /// Further conditions; all must hold.
    #[serde(default)]
    match_expressions: Vec<Expression>,
}

/// One condition on a label.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Expression {
    /// The label.
    key: String,
    /// How it is compared.
    operator: WrittenOperator,
    /// With what; only for In and NotIn.
    #[serde(default)]
    values: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, ToSchema)]
enum WrittenOperator {
    In,
    NotIn,
    Exists,
    DoesNotExist,
}

impl LabelSelector {
    /// Labels with exactly these values.
    pub(crate) const fn labels(&self) -> &BTreeMap<String, String> {
        &self.match_labels
    }

    /// Whether there are further conditions.
    pub(crate) const fn has_expressions(&self) -> bool {
        !self.match_expressions.is_empty()
    }

    /// The selector of the core; `path` is where this one stands.
    pub(crate) fn lower(self, path: &str) -> Result<Selector, FieldError> {
        for (key, value) in &self.match_labels {
            check_key(key, &format!("{path}.matchLabels"))?;
            check_value(value, &format!("{path}.matchLabels.{key}"))?;
        }
        let equal = self.match_labels.into_iter().map(|(key, value)| (key, Operator::In(vec![value])));
        let mut expressions: Vec<(String, Operator)> = equal.collect();
        for (i, Expression { key, operator, values }) in self.match_expressions.into_iter().enumerate() {
            check_key(&key, &format!("{path}.matchExpressions[{i}].key"))?;
            for (j, value) in values.iter().enumerate() {
                check_value(value, &format!("{path}.matchExpressions[{i}].values[{j}]"))?;
            }
            let takes_values = matches!(operator, WrittenOperator::In | WrittenOperator::NotIn);
            if values.is_empty() == takes_values {
                let reason = if takes_values { "must name at least one value" } else { "must be left out" };
                let reason = format!("{reason} with the operator {operator:?}");
                return Err(FieldError::new(format!("{path}.matchExpressions[{i}].values"), reason));
            }
            expressions.push((
                key,
                match operator {
                    WrittenOperator::In => Operator::In(values),
                    WrittenOperator::NotIn => Operator::NotIn(values),
                    WrittenOperator::Exists => Operator::Exists,
                    WrittenOperator::DoesNotExist => Operator::DoesNotExist,
                },
            ));
        }
        Ok(Selector { expressions })
    }
}

/// `NAME` or `PREFIX/NAME`, as Kubernetes has it: a selector with another key selects nothing, ever.
fn check_key(key: &str, path: &str) -> Result<(), FieldError> {
    let (prefix, name) = key.rsplit_once('/').map_or((None, key), |(prefix, name)| (Some(prefix), name));
    if prefix.is_none_or(|prefix| check_name(path, prefix, 253, true).is_ok()) && !name.is_empty() && is_label(name) {
        return Ok(());
    }
    let reason = format!("{key:?} is not the key of a label; write NAME or PREFIX/NAME, e.g. \"team\"");
    Err(FieldError::new(path, reason))
}

fn check_value(value: &str, path: &str) -> Result<(), FieldError> {
    if is_label(value) {
        return Ok(());
    }
    let reason = format!(
        "{value:?} is not the value of a label; use letters, digits, '-', '_' and '.', begin and end with a letter or \
         digit, at most 63 characters"
    );
    Err(FieldError::new(path, reason))
}

fn is_label(text: &str) -> bool {
    let inner = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let edge = |c: Option<char>| c.is_none_or(|c| c.is_ascii_alphanumeric());
    text.len() <= 63 && text.chars().all(inner) && edge(text.chars().next()) && edge(text.chars().next_back())
}
