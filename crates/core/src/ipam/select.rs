//! Which pools a request may use, and what rules the others out.

use super::{Group, Ipam, PoolState, Request, Trace};
use crate::addr::{Cidr, Family};
use crate::error::Error;
use crate::glob;
use crate::ipam::Considered;
use crate::model::{Audience, LEASE_TYPE, LOCAL_TYPE, Pool, Subject};
use crate::time::Time;

/// What rules a pool out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Rule {
    Disabled,
    NotAccepted(String),
    Network(String),
    Type(String),
    OtherType(String),
    Audience(String),
    Quota(u32),
    Exhausted,
}

impl Rule {
    pub(super) fn text(&self) -> String {
        match self {
            Self::Disabled => "it is disabled".to_owned(),
            Self::NotAccepted(why) => format!("it is not accepted: {why}"),
            Self::Network(asked) => format!("it is not in network {asked:?}"),
            Self::Type(kind) => format!("it has the type {kind:?}, which is not served here"),
            Self::OtherType(asked) => format!("it is not of the type {asked:?}"),
            Self::Audience(which) => which.clone(),
            Self::Quota(limit) => format!("the namespace has all {limit} addresses it may have"),
            Self::Exhausted => "no address is left".to_owned(),
        }
    }
}

impl Audience {
    /// What keeps the subject out of a pool with these subnets, in words.
    fn refuses(&self, subject: &Subject, subnets: &[Cidr]) -> Option<String> {
        let named = |patterns: &[String], name: &str| patterns.iter().any(|pattern| glob::matches(pattern, name));
        if !subject.anyone && !self.namespaces.is_empty() && !named(&self.namespaces, &subject.namespace) {
            return Some(format!("namespace {:?} is not among {}", subject.namespace, self.namespaces.join(", ")));
        }
        if !self.nodes.is_empty() && !named(&self.nodes, &subject.node) {
            return Some(format!("node {:?} is not among {}", subject.node, self.nodes.join(", ")));
        }
        for (what, selector, labels, of_asker) in [
            ("namespaceSelector", &self.namespace_selector, &subject.namespace_labels, true),
            ("podSelector", &self.pod_selector, &subject.pod_labels, true),
            ("nodeSelector", &self.node_selector, &subject.node_labels, false),
        ] {
            let applies = !of_asker || !subject.anyone;
            if applies && !selector.matches(labels) {
                return Some(format!("its {what} ({selector}) does not match"));
            }
        }
        if !self.attachments.is_empty() && !named(&self.attachments, &subject.attachment) {
            return Some(format!("attachment {:?} is not among {}", subject.attachment, self.attachments.join(", ")));
        }
        let node = &subject.node;
        if let Some(uplink) = &subject.uplink
            && let Some(missing) = beyond(subnets, &uplink.cidrs)
        {
            let who = match uplink.nics.join(", ") {
                nics if nics.is_empty() => format!("node {node:?}"),
                nics => format!("{nics} of node {node:?}"),
            };
            return Some(format!(
                "the interface is on {who}, which has no address in {missing}{}",
                only(&uplink.cidrs)
            ));
        }
        let missing = beyond(subnets, &subject.node_cidrs).filter(|_| self.reachable)?;
        Some(match &subject.node_cidrs[..] {
            [] => format!("it is for nodes with an address in {missing}, and no address of node {node:?} is known"),
            own => format!("node {node:?} has no address in {missing}{}", only(own)),
        })
    }
}

/// The first of a pool's subnets that has nothing in common with these networks. Which of its subnets a pool picks from is
/// not the node's to say, so the node must have all of them.
fn beyond<'a>(subnets: &'a [Cidr], networks: &[Cidr]) -> Option<&'a Cidr> {
    subnets.iter().find(|subnet| !networks.iter().any(|own| own.range().overlaps(subnet.range())))
}

fn only(networks: &[Cidr]) -> String {
    let all: Vec<String> = networks.iter().map(ToString::to_string).collect();
    if all.is_empty() { String::new() } else { format!(", only in {}", all.join(", ")) }
}

impl PoolState {
    /// The rule that keeps the request out of the pool whatever is free in it.
    pub(super) fn refuses(&self, request: &Request, group: &Group) -> Option<Rule> {
        let pool = &self.pool;
        if let Some(why) = &pool.refused {
            return Some(Rule::NotAccepted(why.clone()));
        }
        if pool.disabled {
            return Some(Rule::Disabled);
        }
        if let Some(network) = group.network().filter(|network| *network != &*pool.network) {
            return Some(Rule::Network(network.to_owned()));
        }
        if let Some(asked) = group.kind.as_ref().filter(|asked| **asked != pool.kind) {
            return Some(Rule::OtherType(asked.clone()));
        }
        if pool.kind != LOCAL_TYPE {
            return Some(Rule::Type(pool.kind.clone()));
        }
        let subject = &request.subject;
        if let Some(application) = pool.application.as_ref().filter(|_| !subject.anyone)
            && !application.has(&subject.namespace, &subject.controllers)
        {
            return Some(Rule::Audience(format!("it is for pods of {application} only")));
        }
        pool.audience.refuses(subject, &self.subnets).map(Rule::Audience)
    }

    /// The rule that keeps the namespace of a request from one more address.
    pub(super) fn over_quota(&self, request: &Request) -> Option<Rule> {
        if request.subject.anyone {
            return None;
        }
        let namespace = request.holder.namespace.as_str();
        let limit = self.pool.quota.limit(namespace)?;
        let used = self.namespaces.get(namespace).copied().unwrap_or(0);
        (used >= limit).then_some(Rule::Quota(limit))
    }
}

/// A pool to try, and whether the request named it or merely met it by a pattern or as a default.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Candidate {
    pub(super) pool: usize,
    pub(super) named: bool,
}

impl Ipam {
    /// The pools a group speaks of, in the user's order; nothing is ruled out yet.
    pub(super) fn candidates(&self, group: &Group) -> Result<Vec<Candidate>, Error> {
        let mut out: Vec<Candidate> = Vec::new();
        for pattern in &group.pools {
            if let Some(&pool) = self.names.get(pattern) {
                push_once(&mut out, Candidate { pool, named: true });
                continue;
            }
            let before = out.len();
            let meant = |state: &PoolState| state.pool.kind != LEASE_TYPE && glob::matches(pattern, &state.pool.name);
            for (pool, _) in (0..).zip(&self.pools).filter(|(_, state)| meant(state)) {
                push_once(&mut out, Candidate { pool, named: false });
            }
            let matched = self.pools.iter().any(meant);
            if out.len() == before && !matched {
                return Err(Error::UnknownPool(pattern.clone()));
            }
        }
        if group.pools.is_empty() {
            // Where no pool is marked as a default, every pool is one. An explicit address may come from any pool.
            let here = |pool: &Pool| group.network() == Some(&*pool.network);
            let marked = self.pools.iter().any(|state| here(&state.pool) && state.pool.default);
            // An application's pool is for those who ask for it.
            let open = |pool: &Pool| pool.default || (!marked && !pool.named_only && pool.application.is_none());
            let fit = |pool: &Pool| here(pool) && (open(pool) || !group.addresses.is_empty());
            let pools = (0..).zip(&self.pools).filter(|(_, state)| fit(&state.pool));
            out.extend(pools.map(|(pool, _)| Candidate { pool, named: false }));
        }
        Ok(out)
    }

    /// The families a group asks for: its own, or those of the pools it may use.
    pub(super) fn families(&self, request: &Request, group: &Group, candidates: &[Candidate]) -> Vec<Family> {
        if !group.families.is_empty() {
            return group.families.clone();
        }
        if !group.within.is_empty() {
            return group.within.first().map(|range| vec![range.family()]).unwrap_or_default();
        }
        // A pool that was named must serve; one met by a pattern or as a default may be for others only.
        let counts = |c: &&Candidate| c.named || self.pools[c.pool].refuses(request, group).is_none();
        let mut families: Vec<Family> =
            candidates.iter().filter(counts).map(|c| self.pools[c.pool].pool.family).collect();
        if families.is_empty() {
            families.extend(candidates.iter().map(|c| self.pools[c.pool].pool.family));
        }
        families.sort();
        families.dedup();
        families
    }

    /// The error that says best why none of the pools served.
    pub(super) fn refusal(&self, request: &Request, group: &Group, dropped: &[(usize, Rule)], now: Time) -> Error {
        let name = |&(pool, _): &(usize, Rule)| self.pools[pool].pool.name.clone();
        let exhausted: Vec<_> = dropped.iter().filter(|(_, rule)| *rule == Rule::Exhausted).collect();
        if !exhausted.is_empty() {
            let cooling = exhausted.iter().map(|(pool, _)| self.pools[*pool].index.cooling(now));
            let (counts, next): (Vec<usize>, Vec<Option<Time>>) = cooling.unzip();
            return Error::PoolExhausted {
                pools: exhausted.into_iter().map(name).collect(),
                cooling: counts.iter().sum(),
                next_free: next.into_iter().flatten().min(),
            };
        }
        for (pool, rule) in dropped {
            if let Rule::Quota(limit) = rule {
                let (pool, namespace) = (self.pools[*pool].pool.name.clone(), request.holder.namespace.clone());
                return Error::QuotaReached { pool, namespace, limit: *limit };
            }
        }
        if let [(pool, Rule::Type(kind)), rest @ ..] = dropped
            && rest.iter().all(|(_, rule)| matches!(rule, Rule::Type(_)))
        {
            return Error::UnknownPoolType { pool: self.pools[*pool].pool.name.clone(), kind: kind.clone() };
        }
        let reasons = match dropped {
            [] if self.pools.is_empty() => "there are no pools".to_owned(),
            [] if !self.pools.iter().any(|s| group.network().is_none_or(|asked| asked == &*s.pool.network)) => {
                format!("no pool is in network {:?}", group.network().unwrap_or_default())
            }
            [] => "no pool is of the family asked for".to_owned(),
            some => some.iter().map(|d| format!("{}: {}", name(d), d.1.text())).collect::<Vec<_>>().join("; "),
        };
        Error::NoQualifiedPool { reasons }
    }

    pub(super) fn note(&self, trace: Option<&mut Trace>, pool: usize, rule: Option<&Rule>) {
        let Some(trace) = trace else { return };
        let pool = &self.pools[pool].pool;
        let dropped = rule.map(Rule::text);
        trace.considered.push(Considered { pool: pool.name.clone(), family: pool.family, dropped });
    }
}

fn push_once(list: &mut Vec<Candidate>, candidate: Candidate) {
    if !list.iter().any(|known| known.pool == candidate.pool) {
        list.push(candidate);
    }
}
