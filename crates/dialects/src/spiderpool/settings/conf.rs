//! The file of Spiderpool's ConfigMap `spiderpool-conf`, under the key `conf.yml`.
//!
//! Its switches are for Spiderpool's kinds and annotations; what is said in Berth's own words does as it says.

use crate::config::{Lowered, lower};
use crate::field::FieldError;
use crate::object::Object;
use crate::spiderpool::{self, POOL};
use crate::verdicts::Refusal;
use berth_core::addr::Family;
use berth_core::apps::Size;
use berth_core::detect::{Conflicts, Detection, GatewayCheck};
use berth_core::error::Error;
use berth_core::ipam::Config;
use berth_core::model::{StickyPolicy, Whom};
use serde_json::{Map, Value};

/// Keys that have an effect, or ask for what is done anyway.
const KNOWN: [&str; 12] = [
    "enableIPv4",
    "enableIPv6",
    "enableIPConflictDetection",
    "enableGatewayDetection",
    "enableStatefulSet",
    "enableKubevirtStaticIP",
    "enableSpiderSubnet",
    "enableAutoPoolForApplication",
    "enableCleanOutdatedEndpoint",
    // What is in use is never deleted, whatever this says.
    "enableValidatingResourcesDeletedWebhook",
    SPARE[0],
    SPARE[1],
];

/// Both spellings of how many addresses an application has to spare that does not say; the later goes before.
const SPARE: [&str; 2] = ["clusterSubnetAutoPoolDefaultRedundantIPNumber", "clusterSubnetDefaultFlexibleIPNumber"];

/// Keys that say how interfaces are made, or where Spiderpool's own parts meet.
const NOT_OURS: [&str; 6] =
    ["ipamUnixSocketPath", "tuneSysctlConfig", "podResourceInject", "agent", "iaasNetworkProvider", "clusterNetwork"];

/// What the file comes to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Conf {
    /// What is found out on the wire before addresses of SpiderIPPools are used.
    detect: Option<Detection>,
    /// Families of which nobody gets anything.
    off: Vec<Family>,
    /// The key by which applications have no pools of their own, if they have none.
    no_pools: Option<&'static str>,
    /// How many addresses more than replicas the pool of an application has that does not say.
    spare: Option<u32>,
    /// Whether addresses of a StatefulSet's pods come back as those of any other.
    forgets_sets: bool,
    /// The same of pods of virtual machines.
    forgets_machines: bool,
    /// Whether SpiderEndpoints go that nothing stands behind, whoever made them.
    pub clean_endpoints: bool,
}

impl Conf {
    /// Reads the file; what has no effect is added to `warnings`.
    pub(super) fn read(text: &str, warnings: &mut Vec<String>) -> Result<Self, FieldError> {
        let value: Value =
            serde_saphyr::from_str(text).map_err(|error| FieldError::new("spiderpool-conf", error.to_string()))?;
        let Some(keys) = value.as_object() else {
            return Err(FieldError::new("spiderpool-conf", "is no mapping; it is the text under the key conf.yml"));
        };
        let switch = |key: &str, usual: bool| switch(keys, key, usual);
        let (conflicts, gateway) =
            (switch("enableIPConflictDetection", false)?, switch("enableGatewayDetection", false)?);
        let detect = (conflicts || gateway).then_some(Detection {
            conflicts: if conflicts { Conflicts::Fast } else { Conflicts::Ignore },
            // As there, a pod whose gateway does not answer does not start.
            gateway: if gateway { GatewayCheck::Require } else { GatewayCheck::Ignore },
        });
        let mut off = Vec::new();
        for family in [Family::V4, Family::V6] {
            if !switch(key_of(family), true)? {
                off.push(family);
            }
        }
        if off.len() == 2 {
            return Err(FieldError::new("enableIPv4", "is false, and so is enableIPv6; one of the two must be left"));
        }
        let mut no_pools = None;
        for key in ["enableAutoPoolForApplication", "enableSpiderSubnet"] {
            no_pools = no_pools.or((!switch(key, true)?).then_some(key));
        }
        switch("enableValidatingResourcesDeletedWebhook", false)?;
        let known = |key: &&String| KNOWN.contains(&key.as_str()) || NOT_OURS.contains(&key.as_str());
        for key in keys.keys().filter(|key| !known(key)) {
            warnings.push(format!("spiderpool-conf: {key} is not known and has no effect"));
        }
        Ok(Self {
            detect,
            off,
            no_pools,
            spare: spare(keys)?,
            forgets_sets: !switch("enableStatefulSet", true)?,
            forgets_machines: !switch("enableKubevirtStaticIP", true)?,
            clean_endpoints: switch("enableCleanOutdatedEndpoint", false)?,
        })
    }

    /// Changes what Spiderpool's objects were lowered to accordingly.
    pub fn apply(&self, config: &mut Config) {
        for pool in config.pools.values_mut().filter(|pool| pool.object == POOL) {
            pool.detect = pool.detect.or(self.detect);
            pool.sticky = pool.sticky.and_then(|sticky| Some(StickyPolicy { whom: self.whom()?, ..sticky }));
            pool.refused = pool.refused.take().or_else(|| self.why_off(pool.family));
        }
    }

    /// Whom SpiderIPPools keep addresses for, if for anybody.
    const fn whom(&self) -> Option<Whom> {
        match (self.forgets_sets, self.forgets_machines) {
            (false, false) => Some(Whom::SetsAndMachines),
            (false, true) => Some(Whom::Sets),
            (true, false) => Some(Whom::Machines),
            (true, true) => None,
        }
    }

    /// That a family is switched off, in words.
    pub(crate) fn why_off(&self, family: Family) -> Option<String> {
        let key = key_of(family);
        self.off.contains(&family).then(|| format!("{family} is disabled: {key} is false in spiderpool-conf"))
    }

    /// Why applications have no pools of their own, if they ask for them in Spiderpool's words.
    pub(crate) fn why_no_pools(&self) -> Option<String> {
        let key = self.no_pools?;
        Some(format!(
            "applications have no pools of their own: {key} is false in spiderpool-conf; name pools instead of subnets"
        ))
    }

    /// The size of an application's pool that asks in Spiderpool's words and does not say which.
    pub(crate) fn usual_size(&self) -> Option<Size> {
        self.spare.map(Size::Spare)
    }

    /// Whether an object may be made, as far as it goes by the switches.
    ///
    /// # Errors
    /// [`Error::Invalid`] if it is of a family that is switched off.
    pub fn admits(&self, object: &Object, lowered: &Lowered) -> Result<(), Error> {
        if !object.api_version.starts_with(spiderpool::GROUP) {
            return Ok(());
        }
        let (field, family) = match lowered {
            Lowered::Pool(pool) => ("subnet", Some(pool.family)),
            Lowered::Subnet(subnet) => ("subnet", Some(subnet.cidr.family())),
            Lowered::Reservation(own) => ("ips", own.ranges.first().map(|range| range.family())),
            Lowered::Claim(_) => return Ok(()),
        };
        match family.and_then(|family| self.why_off(family)) {
            Some(reason) => Err(Error::Invalid { field: format!("{}, spec.{field}", object.title()), reason }),
            None => Ok(()),
        }
    }

    /// Why an object that is there gives out nothing, if it is for the switches.
    #[must_use]
    pub fn refusal(&self, object: &Object) -> Option<Refusal> {
        let refused = self.admits(object, &lower(object).ok()?).err()?;
        Some(Refusal { reason: "FamilyDisabled", message: refused.to_string() })
    }
}

const fn key_of(family: Family) -> &'static str {
    match family {
        Family::V4 => "enableIPv4",
        Family::V6 => "enableIPv6",
    }
}

fn switch(keys: &Map<String, Value>, key: &str, usual: bool) -> Result<bool, FieldError> {
    match keys.get(key) {
        None | Some(Value::Null) => Ok(usual),
        Some(Value::Bool(on)) => Ok(*on),
        Some(other) => Err(FieldError::new(key, format!("{other} is neither true nor false"))),
    }
}

fn spare(keys: &Map<String, Value>) -> Result<Option<u32>, FieldError> {
    let mut found = None;
    for key in SPARE {
        let number = match keys.get(key) {
            None | Some(Value::Null) => None,
            Some(value) => {
                let number = value.as_u64().and_then(|number| u32::try_from(number).ok());
                let wrong = || FieldError::new(key, format!("{value} is no number of addresses; write 0 or more"));
                Some(number.ok_or_else(wrong)?)
            }
        };
        found = found.or(number);
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lower_all;
    use serde_json::json;

    fn read(text: &str) -> Result<Conf, FieldError> {
        Conf::read(text, &mut Vec::new())
    }

    fn object(version: &str, kind: &str, name: &str, spec: &Value) -> Object {
        serde_json::from_value(json!({"apiVersion": version, "kind": kind, "metadata": {"name": name}, "spec": spec}))
            .unwrap()
    }

    fn spider(kind: &str, name: &str, spec: &Value) -> Object {
        object(spiderpool::API_VERSIONS[0], kind, name, spec)
    }

    fn config(conf: &str) -> Config {
        let objects = [
            object("berth.io/v1alpha1", "IPPool", "own", &json!({"ranges": ["fd01::/64"], "sticky": {}})),
            spider("SpiderIPPool", "four", &json!({"subnet": "10.0.0.0/24", "ips": ["10.0.0.5"]})),
            spider("SpiderIPPool", "six", &json!({"subnet": "fd00::/64", "ips": ["fd00::5"]})),
        ];
        let mut config = lower_all(&objects).unwrap();
        read(conf).unwrap().apply(&mut config);
        config
    }

    #[test]
    fn detection_is_for_its_own_pools() {
        let config = config("enableIPConflictDetection: true");
        let wanted = Detection { conflicts: Conflicts::Fast, gateway: GatewayCheck::Ignore };
        assert_eq!((config.pools["own"].detect, config.pools["four"].detect), (None, Some(wanted)));
    }

    #[test]
    fn whom_its_own_pools_keep_addresses_for() {
        for (conf, whom) in [
            ("enableStatefulSet: true", Some(Whom::SetsAndMachines)),
            ("enableKubevirtStaticIP: true", Some(Whom::SetsAndMachines)),
            ("enableKubevirtStaticIP: false", Some(Whom::Sets)),
            ("enableStatefulSet: false", Some(Whom::Machines)),
            ("enableStatefulSet: false\nenableKubevirtStaticIP: false", None),
        ] {
            let kept = |pool: &str| config(conf).pools[pool].sticky.map(|sticky| sticky.whom);
            assert_eq!((kept("four"), kept("own")), (whom, Some(Whom::Everyone)), "{conf}");
        }
    }

    #[test]
    fn of_a_family_that_is_off_its_own_pools_give_nothing_and_none_is_made() {
        let text = "enableIPv6: false";
        let off = config(text);
        let reason = off.pools["six"].refused.clone().expect("a reason");
        assert!(reason.starts_with("IPv6 is disabled: enableIPv6 is false"), "{reason}");
        assert!(off.pools["four"].refused.is_none() && off.pools["own"].refused.is_none());
        let conf = read(text).unwrap();
        for (kind, spec, part) in [
            ("SpiderIPPool", json!({"subnet": "fd00::/64"}), Some("SpiderIPPool \"x\", spec.subnet: IPv6 is disabled")),
            ("SpiderSubnet", json!({"subnet": "fd00::/64"}), Some("SpiderSubnet \"x\", spec.subnet: IPv6 is disabled")),
            (
                "SpiderReservedIP",
                json!({"ips": ["fd00::9"]}),
                Some("SpiderReservedIP \"x\", spec.ips: IPv6 is disabled"),
            ),
            ("SpiderReservedIP", json!({"ips": ["10.0.0.9"]}), None),
        ] {
            let object = spider(kind, "x", &spec);
            let admitted = conf.admits(&object, &lower(&object).unwrap()).map_err(|error| error.to_string());
            assert_eq!(admitted.is_err(), part.is_some(), "{kind}");
            assert!(part.is_none_or(|part| admitted.as_ref().is_err_and(|error| error.contains(part))), "{admitted:?}");
        }
        let native = object("berth.io/v1alpha1", "IPPool", "x", &json!({"ranges": ["fd02::/64"]}));
        assert!(conf.admits(&native, &lower(&native).unwrap()).is_ok());
    }

    #[test]
    fn the_spare_is_read_in_both_spellings() {
        let size = |text: &str| read(text).map(|conf| conf.usual_size().map(|size| size.to_string()));
        assert_eq!(size("enableIPv4: true").unwrap(), None);
        assert_eq!(size("clusterSubnetDefaultFlexibleIPNumber: 2").unwrap().as_deref(), Some("+2"));
        assert_eq!(size("clusterSubnetAutoPoolDefaultRedundantIPNumber: 0").unwrap().as_deref(), Some("+0"));
        let both = "clusterSubnetDefaultFlexibleIPNumber: 2\nclusterSubnetAutoPoolDefaultRedundantIPNumber: 3";
        assert_eq!(size(both).unwrap().as_deref(), Some("+3"), "the one that later releases read");
        for wrong in ["-1", "\"+1\"", "1.5", "4294967296"] {
            let error = size(&format!("clusterSubnetDefaultFlexibleIPNumber: {wrong}")).unwrap_err().to_string();
            assert!(error.contains("clusterSubnetDefaultFlexibleIPNumber"), "{error}");
        }
    }

    #[test]
    fn mistakes_name_the_key() {
        for (text, part) in [
            ("enableStatefulSet: maybe", "enableStatefulSet"),
            ("enableCleanOutdatedEndpoint: 1", "enableCleanOutdatedEndpoint"),
            ("enableIPv4: false\nenableIPv6: false", "one of the two must be left"),
            ("- a", "is no mapping"),
        ] {
            let error = read(text).unwrap_err().to_string();
            assert!(error.contains(part), "{text}: {error}");
        }
    }
}
