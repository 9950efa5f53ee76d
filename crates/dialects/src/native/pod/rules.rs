//! The rules, in order: which one speaks of an interface, what it asks for, and how to say so.

use super::annotation::{self, of_namespace, of_pod};
use super::networks::Networks;
use super::wish::{ClaimRef, Wish};
use super::{
    ADDRESSES, Asked, Attached, CLAIM, FIRST_INTERFACE, NETWORKS, POOLS, Pod, SUBNETS, application, spiderpool,
};
use crate::field::FieldError;
use berth_core::addr::Range;
use berth_core::error::Error;

/// What decides where an interface's addresses come from, in order of precedence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rule {
    /// The pod's `berth.io/networks`.
    Networks,
    /// The pod's annotations for its first interface.
    Pod,
    /// The pod's annotations of Spiderpool.
    Spiderpool,
    /// The namespace's annotations.
    Namespace,
    /// The namespace's annotations of Spiderpool.
    SpiderpoolNamespace,
    /// The CNI configuration.
    Configuration,
    /// The default pools.
    Default,
}

const ORDER: [Rule; 7] = [
    Rule::Networks,
    Rule::Pod,
    Rule::Spiderpool,
    Rule::Namespace,
    Rule::SpiderpoolNamespace,
    Rule::Configuration,
    Rule::Default,
];

/// What came of the rules for one interface.
pub(super) struct Decision {
    pub(super) rule: Rule,
    pub(super) words: String,
    pub(super) wish: Wish,
}

/// Whether a rule has something to say about an interface.
enum Voice {
    /// It has; this is what speaks.
    Speaks(String),
    /// It has not, and this is worth telling.
    Silent(String),
    /// It is not there at all.
    Absent,
}

/// Finds the first rule that speaks of the interface and reads what it says. The rest is named but not read: what has no
/// effect cannot be in the way.
pub(super) fn decide(asked: &Asked<'_>, attached: &Attached, networks: &Networks) -> Result<Decision, Error> {
    let (mut winner, mut silent, mut overruled) = (None, Vec::new(), Vec::new());
    for rule in ORDER {
        match (voice(rule, asked, attached, networks), &winner) {
            (Voice::Speaks(what), None) => winner = Some((rule, what)),
            // The default pools are nobody's wish.
            (Voice::Speaks(_), Some(_)) if rule == Rule::Default => {}
            (Voice::Speaks(what), Some(_)) => overruled.push(what),
            (Voice::Silent(why), None) => silent.push(why),
            (Voice::Silent(_) | Voice::Absent, _) => {}
        }
    }
    let (rule, what) = winner.unwrap_or_else(|| (Rule::Default, String::new()));
    let mut wish = read(rule, asked, attached, networks)?;
    asked.applications.without_off(&mut wish.pools, &what)?;
    if !wish.subnets.is_empty() {
        application::terms(&asked.pod.annotations).map_err(|error| of_pod(error, asked.pod))?;
        let spider = spiderpool::speaks(asked.pod, &attached.ifname).filter(|_| rule == Rule::Spiderpool);
        let key = spider.unwrap_or(SUBNETS);
        wish.pools = asked.applications.pools(asked.pod, &attached.ifname, &wish.subnets, key)?;
    }
    let mut words = format!("{}: {what} asks for {wish}", attached.ifname);
    if rule == Rule::Default {
        words = format!("{}: nothing asks for anything else than {wish}", attached.ifname);
    }
    if let Some(domain) = &attached.domain {
        words.push_str(&format!(", in network {domain:?}"));
    }
    for (label, list) in [("silent", silent), ("overruled", overruled)] {
        if !list.is_empty() {
            words.push_str(&format!("; {label}: {}", list.join(", ")));
        }
    }
    Ok(Decision { rule, words, wish })
}

fn voice(rule: Rule, asked: &Asked<'_>, attached: &Attached, networks: &Networks) -> Voice {
    let ifname = &attached.ifname;
    match rule {
        Rule::Networks => match networks.entry(ifname) {
            Some(entry) if entry.is_wish() => Voice::Speaks(format!("pod annotation {}", entry.path)),
            Some(entry) => Voice::Silent(format!("pod annotation {} (routes only)", entry.path)),
            None if networks.interfaces().next().is_some() => {
                Voice::Silent(format!("pod annotation {NETWORKS} (does not list {ifname})"))
            }
            None => Voice::Absent,
        },
        Rule::Pod => {
            let there = |key: &&str| asked.pod.annotations.contains_key(*key);
            let keys: Vec<&str> = [POOLS, ADDRESSES, CLAIM, SUBNETS].into_iter().filter(there).collect();
            match &keys[..] {
                [] => Voice::Absent,
                keys if ifname == FIRST_INTERFACE => Voice::Speaks(format!("pod annotation {}", keys.join(" with "))),
                keys => Voice::Silent(format!("pod annotation {} (for {FIRST_INTERFACE} only)", keys.join(" with "))),
            }
        }
        Rule::Spiderpool => match spiderpool::speaks(asked.pod, ifname) {
            Some(key) => Voice::Speaks(format!("pod annotation {key}")),
            None => Voice::Absent,
        },
        Rule::SpiderpoolNamespace => match &spiderpool::namespace_speaks(asked.namespace)[..] {
            [] => Voice::Absent,
            keys => Voice::Speaks(format!("namespace annotation {}", keys.join(" with "))),
        },
        Rule::Namespace => match namespace_key(asked, ifname) {
            Some(key) => Voice::Speaks(format!("namespace annotation {key}")),
            None if asked.namespace.annotations.contains_key(POOLS) => {
                Voice::Silent(format!("namespace annotation {POOLS} (for {FIRST_INTERFACE} only)"))
            }
            None => Voice::Absent,
        },
        Rule::Configuration => {
            let keys = [
                ("claim", attached.claim.is_some()),
                ("addresses", !attached.addresses.is_empty()),
                ("ipRanges", !attached.ranges.is_empty()),
                ("pools", !attached.pools.is_empty()),
                ("families", !attached.families.is_empty()),
            ];
            let keys: Vec<&str> = keys.into_iter().filter(|(_, set)| *set).map(|(key, _)| key).collect();
            if keys.is_empty() {
                return Voice::Absent;
            }
            Voice::Speaks(format!("the CNI configuration of network {:?} ({})", attached.network, keys.join(", ")))
        }
        Rule::Default => Voice::Speaks("the default".to_owned()),
    }
}

/// The namespace's annotation for an interface. Without an interface in its name it is for the first one, as a pod's is:
/// another interface is on another wire, where the same pools are most likely wrong.
fn namespace_key(asked: &Asked<'_>, ifname: &str) -> Option<String> {
    let own = format!("{POOLS}.{ifname}");
    if asked.namespace.annotations.contains_key(&own) {
        return Some(own);
    }
    let first = ifname == FIRST_INTERFACE && asked.namespace.annotations.contains_key(POOLS);
    first.then(|| POOLS.to_owned())
}

fn read(rule: Rule, asked: &Asked<'_>, attached: &Attached, networks: &Networks) -> Result<Wish, Error> {
    let pod = asked.pod;
    match rule {
        Rule::Networks => {
            let wish = networks.entry(&attached.ifname).map(|entry| entry.wish(&pod.namespace)).transpose();
            wish.map(Option::unwrap_or_default).map_err(|error| of_pod(error, pod))
        }
        Rule::Pod => pod_wish(pod).map_err(|error| of_pod(error, pod)),
        Rule::Spiderpool => {
            spiderpool::wish(pod, &attached.ifname, &asked.applications.conf).map_err(|error| of_pod(error, pod))
        }
        Rule::SpiderpoolNamespace => {
            let wish = spiderpool::namespace_wish(asked.namespace, &asked.applications.conf);
            wish.map_err(|error| of_namespace(error, pod))
        }
        Rule::Namespace => namespace_wish(asked, attached).map_err(|error| of_namespace(error, pod)),
        Rule::Configuration => configured(attached, &pod.namespace).map_err(|error| {
            let field = format!("CNI network {:?}, {}", attached.network, error.path);
            Error::Invalid { field, reason: error.reason }
        }),
        Rule::Default => Ok(Wish::default()),
    }
}

fn pod_wish(pod: &Pod) -> Result<Wish, FieldError> {
    let list = |key| {
        let text = annotation::text(&pod.annotations, key)?;
        text.map(|text| annotation::list(text, key)).transpose()
    };
    let claim = annotation::text(&pod.annotations, CLAIM)?;
    if claim.is_some() {
        let other = [POOLS, ADDRESSES].into_iter().find(|key| pod.annotations.contains_key(*key));
        if let Some(other) = other {
            let reason = format!("remove it, or {CLAIM}: a claim says itself which addresses are wanted");
            return Err(FieldError::new(other, reason));
        }
    }
    if pod.annotations.contains_key(SUBNETS) {
        let other = [POOLS, ADDRESSES, CLAIM].into_iter().find(|key| pod.annotations.contains_key(*key));
        if let Some(other) = other {
            let reason = format!("remove it, or {SUBNETS}: that says which pools are wanted");
            return Err(FieldError::new(other, reason));
        }
    }
    Ok(Wish {
        subnets: list(SUBNETS)?.map(|names| application::subnets(names, SUBNETS)).transpose()?.unwrap_or_default(),
        pools: list(POOLS)?.map(|names| annotation::pools(names, POOLS)).transpose()?.unwrap_or_default(),
        addresses: list(ADDRESSES)?
            .map(|texts| annotation::addresses(&texts, ADDRESSES))
            .transpose()?
            .unwrap_or_default(),
        claim: claim.map(|text| ClaimRef::read(text, CLAIM, &pod.namespace)).transpose()?,
        ..Wish::default()
    })
}

fn namespace_wish(asked: &Asked<'_>, attached: &Attached) -> Result<Wish, FieldError> {
    let Some(key) = namespace_key(asked, &attached.ifname) else { return Ok(Wish::default()) };
    let Some(text) = annotation::text(&asked.namespace.annotations, &key)? else { return Ok(Wish::default()) };
    let pools = annotation::pools(annotation::list(text, &key)?, &key)?;
    Ok(Wish { pools, ..Wish::default() })
}

/// What the plugin was configured with. The plugin has checked the keys; where several are set, the narrowest counts, as
/// it does without a cluster.
fn configured(attached: &Attached, namespace: &str) -> Result<Wish, FieldError> {
    if let Some(claim) = &attached.claim {
        let claim = Some(ClaimRef::read(claim, "claim", namespace)?);
        return Ok(Wish { claim, ..Wish::default() });
    }
    let mut ranges = Vec::new();
    for (i, set) in attached.ranges.iter().enumerate().filter(|_| attached.addresses.is_empty()) {
        let at = || format!("ipRanges[{i}]");
        // Without ranges a set would mean any address at all.
        if set.is_empty() {
            return Err(FieldError::new(at(), "is empty; name at least one range, or leave the set out"));
        }
        let set: Result<Vec<Range>, _> = set.iter().map(|text| text.parse()).collect();
        ranges.push(set.map_err(|error| FieldError::new(at(), error.to_string()))?);
    }
    Ok(Wish {
        pools: attached.pools.clone(),
        addresses: attached.addresses.iter().map(std::net::IpAddr::to_canonical).collect(),
        ranges,
        families: attached.families.clone(),
        ..Wish::default()
    })
}
