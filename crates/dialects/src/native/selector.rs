//! Label selectors, as Kubernetes writes them.

use crate::field::FieldError;
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
    /// The selector of the core; `path` is where this one stands.
    pub(super) fn lower(self, path: &str) -> Result<Selector, FieldError> {
        let equal = self.match_labels.into_iter().map(|(key, value)| (key, Operator::In(vec![value])));
        let mut expressions: Vec<(String, Operator)> = equal.collect();
        for (i, Expression { key, operator, values }) in self.match_expressions.into_iter().enumerate() {
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
