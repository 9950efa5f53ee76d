//! Every kind there is: how it is called, on the command line and in manifests, and what lowers it.

use crate::config::Lowered;
use crate::field::{FieldError, closest, hint};
use crate::object::Object;
use crate::{bcs, native, spiderpool};
use std::fmt;

/// Whose API a kind belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// Berth's own.
    Native,
    /// BCS netservice.
    Bcs,
    /// Spiderpool.
    Spiderpool,
}

/// One kind.
pub struct KindInfo {
    /// As in manifests, e.g. `IPPool`.
    pub kind: &'static str,
    /// As in URLs, e.g. `ippools`.
    pub plural: &'static str,
    /// One of them, e.g. `ippool`.
    pub singular: &'static str,
    /// Other names on the command line.
    pub short_names: &'static [&'static str],
    /// The API versions that are accepted; the first is the one to show.
    pub api_versions: &'static [&'static str],
    /// Whether its objects live in namespaces.
    pub namespaced: bool,
    /// Whether its objects are made by Berth out of state and cannot be applied.
    pub derived: bool,
    /// Whose API it belongs to.
    pub dialect: Dialect,
    pub(crate) lower: fn(&Object) -> Result<Lowered, FieldError>,
}

/// All kinds, in the order to show them.
#[rustfmt::skip]
pub static KINDS: &[KindInfo] = &[
    KindInfo { kind: "IPPool", plural: "ippools", singular: "ippool", short_names: &["pools", "pool", "ipp"],
        api_versions: native::API_VERSIONS, namespaced: false, derived: false, dialect: Dialect::Native,
        lower: |object| native::pool::lower(object).map(Lowered::Pool) },
    KindInfo { kind: "IPSubnet", plural: "ipsubnets", singular: "ipsubnet", short_names: &["subnets", "subnet", "ipsn"],
        api_versions: native::API_VERSIONS, namespaced: false, derived: false, dialect: Dialect::Native,
        lower: |object| native::subnet::lower(object).map(Lowered::Subnet) },
    KindInfo { kind: "IPReservation", plural: "ipreservations", singular: "ipreservation",
        short_names: &["reservations", "reservation", "ipr"],
        api_versions: native::API_VERSIONS, namespaced: false, derived: false, dialect: Dialect::Native,
        lower: |object| native::reservation::lower(object).map(Lowered::Reservation) },
    KindInfo { kind: "IPClaim", plural: "ipclaims", singular: "ipclaim", short_names: &["claims", "claim", "ipc"],
        api_versions: native::API_VERSIONS, namespaced: true, derived: false, dialect: Dialect::Native,
        lower: |object| native::claim::lower(object).map(Lowered::Claim) },
    KindInfo { kind: "IPEndpoint", plural: "ipendpoints", singular: "ipendpoint",
        short_names: &["endpoints", "endpoint", "ep", "ipep"],
        api_versions: native::API_VERSIONS, namespaced: true, derived: true, dialect: Dialect::Native,
        lower: |_| Err(FieldError::new("kind", "IPEndpoint objects are made from what pods hold; leave it out")) },
    KindInfo { kind: "IPBlock", plural: "ipblocks", singular: "ipblock", short_names: &["blocks", "block", "ipb"],
        api_versions: native::API_VERSIONS, namespaced: false, derived: true, dialect: Dialect::Native,
        lower: |_| Err(FieldError::new("kind", "IPBlock objects are Berth's own record; leave it out")) },
    KindInfo { kind: "BCSNetPool", plural: "bcsnetpools", singular: "bcsnetpool", short_names: &["netpools", "netpool"],
        api_versions: bcs::API_VERSIONS, namespaced: false, derived: false, dialect: Dialect::Bcs,
        lower: |object| bcs::NetPool::decode(object).map(|pool| Lowered::Pool(pool.lower())) },
    KindInfo { kind: "BCSNetIP", plural: "bcsnetips", singular: "bcsnetip", short_names: &["netips", "netip"],
        api_versions: bcs::API_VERSIONS, namespaced: false, derived: true, dialect: Dialect::Bcs,
        lower: |_| Err(FieldError::new("kind", "BCSNetIP objects are made from BCSNetPools; apply the BCSNetPool")) },
    KindInfo { kind: spiderpool::POOL, plural: "spiderippools", singular: "spiderippool", short_names: &["sp"],
        api_versions: spiderpool::API_VERSIONS, namespaced: false, derived: false, dialect: Dialect::Spiderpool,
        lower: |object| spiderpool::pool::lower(object).map(Lowered::Pool) },
    KindInfo { kind: spiderpool::SUBNET, plural: "spidersubnets", singular: "spidersubnet", short_names: &["ss"],
        api_versions: spiderpool::API_VERSIONS, namespaced: false, derived: false, dialect: Dialect::Spiderpool,
        lower: |object| spiderpool::subnet::lower(object).map(Lowered::Subnet) },
    KindInfo { kind: spiderpool::RESERVED, plural: "spiderreservedips", singular: "spiderreservedip",
        short_names: &["sr"],
        api_versions: spiderpool::API_VERSIONS, namespaced: false, derived: false, dialect: Dialect::Spiderpool,
        lower: |object| spiderpool::reserved::lower(object).map(Lowered::Reservation) },
    KindInfo { kind: spiderpool::ENDPOINT, plural: "spiderendpoints", singular: "spiderendpoint", short_names: &["se"],
        api_versions: spiderpool::API_VERSIONS, namespaced: true, derived: true, dialect: Dialect::Spiderpool,
        lower: |_| Err(FieldError::new("kind", "SpiderEndpoint objects are made from what pods hold; leave it out")) },
];

/// The kind that a user means by `pool`, `ippools`, `IPPool`, `ipp` or `ippools.berth.io`.
#[must_use]
pub fn find(typed: &str) -> Option<&'static KindInfo> {
    let typed = typed.to_lowercase();
    let (name, group) = typed.split_once('.').unwrap_or((&typed, ""));
    KINDS.iter().find(|info| info.names().any(|known| known == name) && (group.is_empty() || info.has_group(group)))
}

/// The kind that was probably meant by a word that [`find`] does not know.
#[must_use]
pub fn suggest(typed: &str) -> Option<&'static str> {
    closest(typed, KINDS.iter().flat_map(KindInfo::names))
}

/// The kind of an object.
#[must_use]
pub fn of(api_version: &str, kind: &str) -> Option<&'static KindInfo> {
    KINDS.iter().find(|info| info.kind == kind && info.api_versions.contains(&api_version))
}

/// The kind of an object, or what is wrong with its two fields.
pub(crate) fn expect(api_version: &str, kind: &str) -> Result<&'static KindInfo, FieldError> {
    let Some(info) = KINDS.iter().find(|info| info.kind == kind) else {
        let known: Vec<&str> = KINDS.iter().map(|info| info.kind).collect();
        return Err(FieldError::new("kind", format!("unknown kind {kind:?}{}", hint(kind, &known))));
    };
    if info.api_versions.contains(&api_version) {
        return Ok(info);
    }
    let reason = format!("{kind} has no version {api_version:?}; write {}", info.api_versions.join(" or "));
    Err(FieldError::new("apiVersion", reason))
}

impl KindInfo {
    /// The API version to show.
    #[must_use]
    pub fn api_version(&self) -> &'static str {
        self.api_versions.first().copied().unwrap_or_default()
    }

    /// Every name it goes by on the command line, the plural first.
    pub fn names(&self) -> impl Iterator<Item = &'static str> + use<> {
        [self.plural, self.singular].into_iter().chain(self.short_names.iter().copied())
    }

    fn has_group(&self, group: &str) -> bool {
        self.api_versions.iter().any(|version| version.split('/').next() == Some(group))
    }
}

impl fmt::Debug for KindInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.kind)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_is_found_by_what_a_user_types() {
        for (typed, kind) in [
            ("pools", "IPPool"),
            ("pool", "IPPool"),
            ("ippool", "IPPool"),
            ("ippools", "IPPool"),
            ("ipp", "IPPool"),
            ("IPPool", "IPPool"),
            ("ippools.berth.io", "IPPool"),
            ("subnets", "IPSubnet"),
            ("reservation", "IPReservation"),
            ("claims", "IPClaim"),
            ("endpoints", "IPEndpoint"),
            ("ipb", "IPBlock"),
            ("sp", "SpiderIPPool"),
            ("spidersubnets", "SpiderSubnet"),
            ("sr.spiderpool.spidernet.io", "SpiderReservedIP"),
            ("bcsnetpool", "BCSNetPool"),
            ("bcsnetip", "BCSNetIP"),
            ("bcsnetips.netservice.bkbcs.tencent.com", "BCSNetIP"),
        ] {
            assert_eq!(find(typed).map(|info| info.kind), Some(kind), "{typed}");
        }
        assert!(find("ippools.example.com").is_none());
        assert!(find("pods").is_none());
        assert_eq!(suggest("poools"), Some("pools"));
        assert_eq!(suggest("bcsnetpol"), Some("bcsnetpool"));
    }

    #[test]
    fn no_name_means_two_kinds() {
        let mut names: Vec<&str> = KINDS.iter().flat_map(KindInfo::names).collect();
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
    }
}
