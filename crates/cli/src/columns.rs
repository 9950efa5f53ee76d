//! Which fields of an object people see: the printer columns of each kind.

use crate::human;
use crate::table;
use comfy_table::{Cell, Table};
use jiff::Timestamp;
use serde_json::Value;

/// One column of a kind.
struct Column {
    header: &'static str,
    /// JSON pointer to the field.
    field: &'static str,
    show: Show,
    /// Whether it is shown only with `-o wide`.
    wide: bool,
}

/// How a field is shown.
#[derive(Clone, Copy)]
enum Show {
    /// As it is; lists with commas.
    Plain,
    /// A network; an object that names none is in `default`.
    Network,
    /// A count as decimal digits.
    Count,
    /// A word with a colour.
    State,
    /// A time, as how long ago.
    Age,
}

const fn column(header: &'static str, field: &'static str, show: Show) -> Column {
    Column { header, field, show, wide: false }
}

const fn wide(header: &'static str, field: &'static str, show: Show) -> Column {
    Column { header, field, show, wide: true }
}

const NAMESPACE: Column = column("NAMESPACE", "/metadata/namespace", Show::Plain);
const NAME: Column = column("NAME", "/metadata/name", Show::Plain);
const AGE: Column = column("AGE", "/metadata/creationTimestamp", Show::Age);

const POOL: &[Column] = &[
    column("PHASE", "/status/phase", Show::State),
    column("NETWORK", "/spec/network", Show::Network),
    column("RANGES", "/spec/ranges", Show::Plain),
    column(">IN USE", "/status/usage/inUse", Show::Count),
    column(">FREE", "/status/usage/free", Show::Count),
    column(">CAPACITY", "/status/usage/capacity", Show::Count),
    wide(">HELD", "/status/usage/held", Show::Count),
    wide(">COOLING", "/status/usage/cooling", Show::Count),
    wide(">QUARANTINED", "/status/usage/quarantined", Show::Count),
    wide(">RESERVED", "/status/usage/reserved", Show::Count),
    wide("EXCLUDE", "/spec/exclude", Show::Plain),
    wide("SUBNET", "/spec/subnet", Show::Plain),
    wide("GATEWAY", "/spec/gateway", Show::Plain),
    wide("UNIT", "/spec/unitPrefixLength", Show::Plain),
    wide("PICK", "/spec/pick", Show::Plain),
    wide("COOL-DOWN", "/spec/coolDown", Show::Plain),
];

const SUBNET: &[Column] = &[
    column("NETWORK", "/spec/network", Show::Network),
    column("CIDR", "/spec/cidr", Show::Plain),
    column("GATEWAY", "/spec/gateway", Show::Plain),
    column(">IN USE", "/status/usage/inUse", Show::Count),
    column(">FREE", "/status/usage/free", Show::Count),
    wide(">CAPACITY", "/status/usage/capacity", Show::Count),
    wide("DNS", "/spec/dns/nameservers", Show::Plain),
];

const RESERVATION: &[Column] =
    &[column("NETWORK", "/spec/network", Show::Network), column("ADDRESSES", "/spec/addresses", Show::Plain)];

const CLAIM: &[Column] = &[
    column("PHASE", "/status/phase", Show::State),
    column("ADDRESSES", "/status/addresses", Show::Plain),
    column("POOLS", "/spec/pools", Show::Plain),
    wide("NETWORK", "/spec/network", Show::Network),
    wide("KEEP", "/spec/keep", Show::Plain),
];

const SPIDER_POOL: &[Column] = &[
    column("VERSION", "/spec/ipVersion", Show::Plain),
    column("SUBNET", "/spec/subnet", Show::Plain),
    column("IPS", "/spec/ips", Show::Plain),
];

const NET_POOL: &[Column] = &[
    column("NET", "/spec/net", Show::Plain),
    column("MASK", "/spec/mask", Show::Plain),
    column("GATEWAY", "/spec/gateway", Show::Plain),
    column("STATUS", "/status/status", Show::State),
    column(">ACTIVE", "/status/activeIPs", Show::Count),
    column(">AVAILABLE", "/status/availableIPs", Show::Count),
    column(">RESERVED", "/status/reservedIPs", Show::Count),
    wide("HOSTS", "/spec/hosts", Show::Plain),
    wide("ADDRESSES", "/spec/availableIPs", Show::Plain),
];

const NET_IP: &[Column] = &[
    column("POOL", "/spec/pool", Show::Plain),
    column("STATUS", "/status/status", Show::State),
    column("HOST", "/status/host", Show::Plain),
    column("POD", "/status/podPrimaryKey", Show::Plain),
    column("FIXED", "/status/fixed", Show::Plain),
    wide("CONTAINER", "/status/containerID", Show::Plain),
    wide("EXPIRES", "/status/fixedIPExpiredTime", Show::Plain),
    wide("MASK", "/spec/mask", Show::Plain),
    wide("GATEWAY", "/spec/gateway", Show::Plain),
];

/// A kind that is not known here, because the daemon is newer, has at least a name and an age.
fn columns_of(kind: &str) -> &'static [Column] {
    match kind {
        "IPPool" => POOL,
        "IPSubnet" => SUBNET,
        "IPReservation" => RESERVATION,
        "IPClaim" => CLAIM,
        "BCSNetPool" => NET_POOL,
        "SpiderIPPool" | "SpiderSubnet" => SPIDER_POOL,
        "BCSNetIP" => NET_IP,
        _ => &[],
    }
}

/// The table of some objects of one kind.
pub(crate) fn table(objects: &[Value], all: bool, now: Timestamp) -> Table {
    let kind = objects.first().and_then(|object| object["kind"].as_str()).unwrap_or_default();
    let has = |column: &Column| objects.iter().any(|object| field(object, column.field).is_some());
    let mut columns: Vec<&Column> = Vec::from([&NAMESPACE, &NAME]);
    columns.extend(columns_of(kind).iter().filter(|column| all || !column.wide));
    columns.push(&AGE);
    // Only some kinds have namespaces, and derived objects have no birthday.
    columns.retain(|column| ![NAMESPACE.header, AGE.header].contains(&column.header) || has(column));
    let mut table = table::table(columns.iter().map(|column| column.header));
    for object in objects {
        table.add_row(columns.iter().map(|column| column.cell(object, now)).collect::<Vec<_>>());
    }
    table
}

impl Column {
    fn cell(&self, object: &Value, now: Timestamp) -> Cell {
        let shown = field(object, self.field).map(plain).unwrap_or_default();
        match self.show {
            Show::Plain => table::text(shown),
            Show::Network if shown.is_empty() => table::text("default"),
            Show::Network => table::text(shown),
            Show::Count => table::count(&shown),
            Show::State => table::state(&shown),
            Show::Age => table::text(shown.parse().map_or(shown, |time| human::age(time, now))),
        }
    }
}

fn field<'a>(object: &'a Value, pointer: &str) -> Option<&'a Value> {
    object.pointer(pointer).filter(|value| !value.is_null())
}

fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(items) => items.iter().map(plain).collect::<Vec<_>>().join(","),
        other => other.to_string(),
    }
}

/// `ippool/blue`, as `-o name` has it.
pub(crate) fn name(object: &Value) -> String {
    let part = |pointer| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    format!("{}/{}", part("/kind").to_lowercase(), part("/metadata/name"))
}
