//! IPReservation: addresses that nobody gets.

use crate::field::{FieldError, decode};
use crate::object::Object;
use crate::text::Text;
use berth_core::addr::Range;
use berth_core::model::Reservation;
use serde::Deserialize;
use utoipa::ToSchema;

/// What an IPReservation is asked to keep.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ReservationSpec {
    /// The network the addresses are in; `default` if absent.
    network: Option<String>,
    /// The addresses: CIDRs, `FIRST-LAST`, single addresses.
    #[schema(value_type = Vec<String>, example = json!(["10.77.0.10-10.77.0.19"]))]
    addresses: Vec<Text<Range>>,
}

pub(crate) fn lower(object: &Object) -> Result<Reservation, FieldError> {
    let spec: ReservationSpec = decode(&object.spec, "spec")?;
    Ok(Reservation {
        name: object.metadata.name.clone(),
        network: super::network(spec.network)?,
        ranges: spec.addresses.into_iter().map(|Text(range)| range).collect(),
    })
}
