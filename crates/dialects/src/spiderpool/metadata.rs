//! The labels of these kinds.

use berth_core::addr::Cidr;

/// The label of a pool with its CIDR.
pub const POOL_CIDR: &str = "ipam.spidernet.io/ippool-cidr";
/// The label of a subnet with its CIDR.
pub const SUBNET_CIDR: &str = "ipam.spidernet.io/subnet-cidr";
/// The label of a pool with the subnet of the same CIDR.
pub const OWNER_SUBNET: &str = "ipam.spidernet.io/owner-spider-subnet";

/// The longest value of a label.
const LONGEST: usize = 63;

/// A CIDR as the value of a label: `10-0-0-0-24`, `fd00---64`.
#[must_use]
pub fn cidr_label(cidr: Cidr) -> String {
    cidr.to_string().replace(['.', ':', '/'], "-")
}

/// A text as the value of a label: what is too long is cut.
pub(super) fn label(text: &str) -> String {
    let cut: String = text.chars().take(LONGEST).collect();
    cut.trim_end_matches(['-', '_', '.']).to_owned()
}
