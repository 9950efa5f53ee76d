//! What the types cannot say: limits, and rules in CEL. The limits are what a person might want at the most; together
//! they keep every object below 256 KiB and every rule within the cost that an API server allows.
//!
//! Messages are those of the daemon where both can say the same.

use super::MAX_SLOTS;
use serde_json::{Value, json};

/// The keyword of CEL rules.
pub(super) const RULES: &str = "x-kubernetes-validations";

/// `FIRST - LAST`, both IPv6 in full.
const RANGE_LENGTH: u32 = 84;
const CIDR_LENGTH: u32 = 49;
const ADDRESS_LENGTH: u32 = 45;
const LABEL_VALUE: &str = "^([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?$";
const LABEL_KEY: &str = "^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$";
/// Go's notation, as `GoDuration` reads it.
const DURATION: &str = r"^(0|(([0-9]+\.?[0-9]*|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h))+)$";

/// Where in the spec of a kind which keywords are added.
pub(super) fn of(kind: &str) -> Vec<(&'static str, Value)> {
    match kind {
        "IPPool" => pool(),
        "IPSubnet" => subnet(),
        "IPReservation" => {
            vec![
                ("network", network()),
                ("addresses", json!({ "minItems": 1, "maxItems": 1024 })),
                ("addresses[]", range()),
            ]
        }
        "IPClaim" => claim(),
        "IPEndpoint" => endpoint(),
        "IPBlock" => block(),
        _ => Vec::new(),
    }
}

fn pool() -> Vec<(&'static str, Value)> {
    let prefix_length = || json!({ "minimum": 0, "maximum": 128, "format": "int32" });
    let quota = || json!({ "minimum": 0, "maximum": u32::MAX });
    let mut all = vec![
        (
            "",
            rules(&[
                (
                    "self.ranges.all(r, r.contains(':') == self.ranges[0].contains(':'))",
                    "ranges must be of one address family; make a second pool",
                ),
                (
                    "!has(self.exclude) || self.exclude.all(r, r.contains(':') == self.ranges[0].contains(':'))",
                    "exclude must be of the address family of ranges",
                ),
                (
                    "!has(self.gateway) || self.gateway == 'none' || self.gateway.contains(':') == self.ranges[0].contains(':')",
                    "gateway must be of the address family of ranges",
                ),
                (
                    "!has(self.prefixLength) || self.prefixLength <= 32 || self.ranges[0].contains(':')",
                    "prefixLength is longer than an IPv4 address (32)",
                ),
                (
                    "!has(self.unitPrefixLength) || self.unitPrefixLength <= 32 || self.ranges[0].contains(':')",
                    "unitPrefixLength is longer than an IPv4 address (32)",
                ),
                (
                    "!has(self.blockSize) || self.blockSize <= 32 || self.ranges[0].contains(':')",
                    "blockSize is longer than an IPv4 address (32)",
                ),
                (
                    "!has(self.blockSize) || !has(self.unitPrefixLength) || self.blockSize <= self.unitPrefixLength",
                    "blockSize must not be longer than unitPrefixLength: a lease holds at least one unit",
                ),
                (
                    "self.?unitPrefixLength == oldSelf.?unitPrefixLength",
                    "unitPrefixLength cannot be changed; make another pool",
                ),
                (
                    "has(self.application) == has(oldSelf.application)",
                    "application cannot be added or removed; make another pool",
                ),
                ("self.?blockSize == oldSelf.?blockSize", "blockSize cannot be changed; make another pool"),
                (
                    "self.ranges[0].contains(':') == oldSelf.ranges[0].contains(':')",
                    "the address family cannot be changed; make another pool",
                ),
            ]),
        ),
        ("network", fixed_network()),
        ("ranges", json!({ "minItems": 1, "maxItems": 1024 })),
        ("ranges[]", range()),
        ("exclude", json!({ "maxItems": 512 })),
        ("exclude[]", range()),
        ("prefixLength", prefix_length()),
        ("gateway", gateway()),
        ("unitPrefixLength", prefix_length()),
        ("coolDown", duration()),
        ("blockSize", prefix_length()),
        ("allow.namespaces", json!({ "maxItems": 256 })),
        ("allow.namespaces[]", label()),
        ("allow.nodes", json!({ "maxItems": 64 })),
        ("quota.perNamespace", quota()),
        (
            "quota.namespaces",
            with(
                json!({ "maxProperties": 64 }),
                &[(
                    "self.all(name, name.size() <= 63 && name.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$'))",
                    "must be names of namespaces, without wildcards",
                )],
            ),
        ),
        ("quota.namespaces{}", quota()),
        ("sticky.keep", duration()),
        ("application.kind", fixed(json!({ "minLength": 1, "maxLength": 63 }))),
        ("application.namespace", fixed(json!({ "minLength": 1, "maxLength": 63 }))),
        ("application.apiVersion", fixed(json!({ "minLength": 1, "maxLength": 253 }))),
        ("application.name", fixed(json!({ "minLength": 1, "maxLength": 253 }))),
        ("application.uid", json!({ "maxLength": 64 })),
        ("application.interface", fixed(json!({ "default": "eth0", "minLength": 1, "maxLength": 15 }))),
        ("application.controllers", json!({ "maxItems": 64, "items": { "type": "string", "maxLength": 64 } })),
    ];
    for (list, item, values) in [
        (
            "allow.namespaceSelector.matchExpressions",
            "allow.namespaceSelector.matchExpressions[]",
            "allow.namespaceSelector.matchExpressions[].values",
        ),
        (
            "allow.podSelector.matchExpressions",
            "allow.podSelector.matchExpressions[]",
            "allow.podSelector.matchExpressions[].values",
        ),
        (
            "allow.nodeSelector.matchExpressions",
            "allow.nodeSelector.matchExpressions[]",
            "allow.nodeSelector.matchExpressions[].values",
        ),
    ] {
        all.extend([
            (list, json!({ "maxItems": 8 })),
            (values, json!({ "maxItems": 8, "items": { "type": "string", "maxLength": 63, "pattern": LABEL_VALUE } })),
            (item, expression()),
        ]);
    }
    all.extend([
        ("allow.namespaceSelector.matchLabels", labels()),
        ("allow.podSelector.matchLabels", labels()),
        ("allow.nodeSelector.matchLabels", labels()),
    ]);
    all.extend(routes_and_dns());
    all
}

fn subnet() -> Vec<(&'static str, Value)> {
    let mut all = vec![
        (
            "",
            rules(&[
                (
                    "!has(self.gateway) || self.gateway == 'none' || self.gateway.contains(':') == self.cidr.contains(':')",
                    "gateway must be of the address family of cidr",
                ),
                (
                    "!has(self.gateway) || !isIP(self.gateway) || !isCIDR(self.cidr) \
                     || ip(self.gateway).isLinkLocalUnicast() || cidr(self.cidr).containsIP(self.gateway) \
                     || cidr(self.cidr).prefixLength() == (self.cidr.contains(':') ? 128 : 32)",
                    "gateway must be inside cidr",
                ),
                ("self.cidr == oldSelf.cidr", "cidr cannot be changed; make another subnet"),
            ]),
        ),
        ("network", fixed_network()),
        ("cidr", cidr()),
        ("gateway", gateway()),
    ];
    all.extend(routes_and_dns());
    all
}

fn claim() -> Vec<(&'static str, Value)> {
    let given = "!has(self.addresses) || self.addresses.size() == 0 || ";
    let leave_out = "leave it out: spec.addresses says which addresses are wanted";
    vec![
        (
            "",
            rules(&[
                (&format!("{given}!has(self.count)"), &format!("count: {leave_out}")),
                (
                    &format!("{given}!has(self.families) || self.families.size() == 0"),
                    &format!("families: {leave_out}"),
                ),
            ]),
        ),
        ("network", json!({ "minLength": 1 })),
        ("addresses", json!({ "maxItems": 1024 })),
        ("addresses[]", address()),
        ("families", json!({ "maxItems": 2 })),
        ("count", json!({ "minimum": 1, "maximum": 1024, "format": "int32" })),
        ("keep", duration()),
    ]
}

/// What a whole object is held against, its status included.
pub(super) fn of_object(kind: &str) -> Option<Value> {
    let fixed = ["network", "pools", "addresses", "families", "count"];
    let same = |f: &&str| {
        let (new, old) = (format!("self.spec.{f}"), format!("oldSelf.spec.{f}"));
        format!("has({new}) == has({old}) && (!has({new}) || {new} == {old})")
    };
    let same: Vec<String> = fixed.iter().map(same).collect();
    let rule = format!(
        "!has(oldSelf.status) || !has(oldSelf.status.phase) || oldSelf.status.phase != 'Bound' \
         || (has(self.spec) == has(oldSelf.spec) && (!has(self.spec) || ({})))",
        same.join(" && ")
    );
    let message = "the claim is bound to its addresses; only keep can be changed. Delete it and make another";
    (kind == "IPClaim").then(|| rules(&[(&rule, message)]))
}

fn endpoint() -> Vec<(&'static str, Value)> {
    vec![
        ("uid", json!({ "maxLength": 128 })),
        ("interfaces", json!({ "maxItems": 12 })),
        ("interfaces[].name", json!({ "maxLength": 64 })),
        ("interfaces[].addresses", json!({ "maxItems": 8 })),
        (
            "interfaces[].addresses[].address",
            with(
                json!({ "maxLength": CIDR_LENGTH }),
                &[("isCIDR(self)", "must be an address with a prefix length, e.g. 10.0.0.5/24")],
            ),
        ),
        ("interfaces[].addresses[].gateway", address()),
        // Two families, each with all that a pool may bring along.
        ("interfaces[].routes", json!({ "maxItems": 32 })),
        ("interfaces[].routes[].dst", json!({ "maxLength": CIDR_LENGTH })),
        ("interfaces[].routes[].gw", address()),
        ("interfaces[].dns.nameservers", json!({ "maxItems": 16, "items": { "type": "string", "maxLength": 64 } })),
        ("interfaces[].dns.search", json!({ "maxItems": 16 })),
        ("interfaces[].dns.options", json!({ "maxItems": 32, "items": { "type": "string", "maxLength": 64 } })),
    ]
}

fn block() -> Vec<(&'static str, Value)> {
    let never = |field: &str| (format!("self.{field} == oldSelf.{field}"), format!("{field} cannot be changed"));
    let never: Vec<_> = ["network", "unit", "cidr"].into_iter().map(never).collect();
    let never: Vec<_> = never.iter().map(|(rule, message)| (rule.as_str(), message.as_str())).collect();
    vec![
        ("", rules(&never)),
        // The leases of a network are blocks of NETWORK/leases, the tickets of a quota of quota/POOL/NAMESPACE.
        ("network", json!({ "maxLength": 330 })),
        ("unit", json!({ "minimum": 0, "maximum": 128, "format": "int32" })),
        ("cidr", cidr()),
        ("used", json!({ "minimum": 0, "maximum": 64, "format": "int32" })),
        ("slots", json!({ "maxLength": MAX_SLOTS, "pattern": "^[A-Za-z0-9+/]*={0,2}$" })),
        ("writer", json!({ "minLength": 1 })),
        ("lessee", json!({ "minLength": 1 })),
    ]
}

fn routes_and_dns() -> Vec<(&'static str, Value)> {
    vec![
        (
            "routes",
            with(
                json!({ "maxItems": 16 }),
                &[(
                    "self.all(a, self.exists_one(b, \
                     a.dst == b.dst && a.?table == b.?table && a.?priority == b.?priority))",
                    "a destination is there twice; leave one out, or give each a priority of its own",
                )],
            ),
        ),
        (
            "routes[]",
            rules(&[(
                "!has(self.gw) || self.gw.contains(':') == self.dst.contains(':')",
                "gw must be of the address family of dst",
            )]),
        ),
        ("routes[].dst", cidr()),
        ("routes[].gw", address()),
        ("dns.nameservers", json!({ "maxItems": 8, "items": { "type": "string", "maxLength": 64 } })),
        ("dns.search", json!({ "maxItems": 8 })),
        ("dns.options", json!({ "maxItems": 16, "items": { "type": "string", "maxLength": 64 } })),
    ]
}

/// A label's value, or a namespace or a pattern of some.
fn label() -> Value {
    json!({ "maxLength": 63 })
}

fn labels() -> Value {
    let values = json!({ "type": "string", "maxLength": 63, "pattern": LABEL_VALUE });
    with(
        json!({ "maxProperties": 16, "additionalProperties": values }),
        &[(&format!("self.all(key, key.matches('{LABEL_KEY}'))"), "keys must be NAME or PREFIX/NAME, e.g. \"team\"")],
    )
}

/// A network by name. A slash would lead into the leases of another one.
fn network() -> Value {
    json!({ "default": berth_core::model::DEFAULT_NETWORK, "minLength": 1, "pattern": "^[^/]+$" })
}

/// The same, of an object whose addresses lie there: in another network they would be other addresses.
fn fixed_network() -> Value {
    with(
        network(),
        &[("self == oldSelf", "cannot be changed: addresses of another network are others; make another object")],
    )
}

/// An application may be made anew, make other controllers and change its mind about keeping the pool; another one it is
/// not.
/// A part of what says whose a pool is: another application, or another interface, has another pool.
fn fixed(limits: Value) -> Value {
    with(limits, &[("self == oldSelf", "cannot be changed; make another pool for another application or interface")])
}

fn address() -> Value {
    with(json!({ "maxLength": ADDRESS_LENGTH }), &[("isIP(self)", "is not an IP address")])
}

fn gateway() -> Value {
    let rule = "self == 'none' || isIP(self)";
    with(json!({ "maxLength": ADDRESS_LENGTH }), &[(rule, "is not an IP address; write one, or \"none\"")])
}

fn cidr() -> Value {
    let mut cidr = with(json!({ "maxLength": CIDR_LENGTH }), &[("isCIDR(self)", "is not a CIDR (ADDRESS/LENGTH)")]);
    no_host_bits(&mut cidr);
    cidr
}

fn range() -> Value {
    // Cut at the dash, and not split: the server reckons with as many parts as there are characters.
    let rule = "isIP(self) || isCIDR(self) || (self.contains('-') \
                && isIP(self.substring(0, self.indexOf('-')).trim()) \
                && isIP(self.substring(self.indexOf('-') + 1).trim()))";
    let mut range =
        with(json!({ "maxLength": RANGE_LENGTH }), &[(rule, "must be a CIDR, FIRST-LAST or a single address")]);
    no_host_bits(&mut range);
    range
}

fn no_host_bits(schema: &mut Value) {
    let rule = json!({
        "rule": "!isCIDR(self) || cidr(self) == cidr(self).masked()",
        "message": "has host bits set",
        // What it is instead cannot be told: the server takes the text of a CIDR to be of any length.
        "messageExpression": "self + ' has host bits set; write the first address of the network before the slash'",
    });
    if let Some(rules) = schema[RULES].as_array_mut() {
        rules.push(rule);
    }
}

fn duration() -> Value {
    json!({ "maxLength": 64, "pattern": DURATION })
}

fn expression() -> Value {
    rules(&[(
        "(self.operator in ['In', 'NotIn']) == (has(self.values) && self.values.size() > 0)",
        "values must name at least one value with the operators In and NotIn, and be left out with the others",
    )])
}

fn rules(rules: &[(&str, &str)]) -> Value {
    with(json!({}), rules)
}

fn with(mut keywords: Value, rules: &[(&str, &str)]) -> Value {
    let rules: Vec<_> = rules.iter().map(|(rule, message)| json!({ "rule": rule, "message": message })).collect();
    keywords[RULES] = json!(rules);
    keywords
}
