//! Holders as they come in practice.

use berth_core::holder::Holder;
use berth_core::ipam::{Entropy, Group, Request};
use berth_core::model::Subject;

/// A container of a runtime without Kubernetes: 64 digits of hexadecimal on a network called "podman".
pub(crate) fn container(n: u64) -> Holder {
    let mut digits = Entropy(n);
    let id = (0..4).map(|_| format!("{:016x}", digits.next())).collect();
    Holder { network: "podman".to_owned(), id, ifname: "eth0".to_owned(), ..Holder::default() }
}

/// A container of a pod, with all that Kubernetes tells: one of 50 namespaces, on one of 1,000 nodes.
pub(crate) fn pod(n: u64) -> Holder {
    let (a, b) = (Entropy(n).next(), Entropy(!n).next());
    let hex = format!("{a:016x}{b:016x}");
    Holder {
        network: "k8s-pod-network".to_owned(),
        namespace: format!("team-{:02}", n % 50),
        pod: format!("checkout-service-{:08x}-{:05x}", n / 10, a & 0xf_ffff),
        uid: format!("{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]),
        node: format!("worker-{:04}", n / 1000 % 1000),
        ..container(n)
    }
}

/// A request of that holder for one address of the only pool.
pub(crate) fn request(holder: Holder) -> Request {
    let subject = Subject { namespace: holder.namespace.clone(), node: holder.node.clone(), ..Subject::default() };
    Request { holder, subject, groups: vec![Group { pools: vec!["pool".to_owned()], ..Group::default() }] }
}
