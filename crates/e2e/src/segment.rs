//! One Ethernet segment: a bridge in a namespace of its own, and whoever is plugged in.

use crate::netns::Netns;
use crate::until;

/// A host with the bridge `br0`.
#[derive(Debug, Default)]
pub struct Segment {
    /// The host.
    pub host: Netns,
}

impl Segment {
    /// A bridge with nobody on it.
    #[must_use]
    pub fn new() -> Self {
        let host = Netns::new();
        host.ip("link add br0 type bridge");
        host.ip("link set br0 up");
        Self { host }
    }

    /// Somebody on the bridge, with these addresses and their prefix lengths on `eth0`.
    #[must_use]
    pub fn stranger(&self, addresses: &[&str]) -> Netns {
        let netns = self.container();
        netns.ip("link set eth0 up");
        for address in addresses {
            netns.ip(&format!("addr add {address} dev eth0"));
        }
        // The bridge hears of the carrier a while later, on a busy machine a long while, and lets nothing through before.
        let port = port(&netns);
        until("the bridge to let the stranger speak", || {
            self.host.ip(&format!("-d -o link show dev {port}")).contains("state forwarding").then_some(())
        });
        netns
    }

    /// A container whose `eth0` is plugged in but down, as main plugins leave it when they ask for addresses.
    ///
    /// # Panics
    /// Never: a namespace has a name.
    #[must_use]
    pub fn container(&self) -> Netns {
        let netns = Netns::new();
        let path = netns.path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap();
        let port = port(&netns);
        self.host.ip(&format!("link add {port} type veth peer name eth0 netns {name}"));
        self.host.ip(&format!("link set {port} master br0 up"));
        netns
    }
}

/// The other end of a container's `eth0`, on the bridge.
fn port(netns: &Netns) -> String {
    let path = netns.path();
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    format!("port{}", name.rsplit('-').next().unwrap_or_default())
}

/// The hardware address of `eth0`.
///
/// # Panics
/// If there is none.
#[must_use]
pub fn hardware(netns: &Netns) -> String {
    let text = netns.ip("-o link show dev eth0");
    text.split_whitespace().skip_while(|word| *word != "link/ether").nth(1).unwrap().to_owned()
}
