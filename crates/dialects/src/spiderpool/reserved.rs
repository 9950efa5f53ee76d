//! SpiderReservedIP: addresses that nobody gets.

use super::plot::{Listed, version};
use crate::field::{FieldError, decode};
use crate::object::Object;
use crate::text::Text;
use berth_core::model::{DEFAULT_NETWORK, Reservation};
use serde::Deserialize;
use utoipa::ToSchema;

/// What a SpiderReservedIP is asked to keep.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReservedIpSpec {
    /// 4 or 6; that of the addresses if absent.
    ip_version: Option<i64>,
    /// The addresses: single ones, or `FIRST-LAST`.
    #[schema(value_type = Option<Vec<String>>)]
    ips: Option<Vec<Text<Listed>>>,
}

pub(crate) fn lower(object: &Object) -> Result<Reservation, FieldError> {
    let spec: ReservedIpSpec = decode(&object.spec, "spec")?;
    let ranges: Vec<_> = spec.ips.into_iter().flatten().map(|Text(Listed(range))| range).collect();
    let Some(first) = ranges.first() else {
        return Err(FieldError::new("spec.ips", "must name at least one address"));
    };
    version(spec.ip_version, first.family(), &format!("spec.ips[0] {first}"))?;
    if let Some(i) = ranges.iter().position(|range| range.family() != first.family()) {
        let reason = format!("{} is not {}; make a second object", ranges[i], first.family());
        return Err(FieldError::new(format!("spec.ips[{i}]"), reason));
    }
    // Nobody names a reservation; with this, none of another kind has its name.
    Ok(Reservation { name: name(&object.metadata.name), network: DEFAULT_NETWORK.into(), ranges })
}

/// What a reservation is called among those of all kinds.
fn name(own: &str) -> String {
    format!("{}/{own}", super::RESERVED)
}
