//! The interfaces of a pod that ask too: an ADD is for one of them, and all are served or none.

use crate::agent::Agent;
use berth_core::holder::Attachment;
use berth_dialects::native::pod::{self, Attached, Pod, Selected};
use berth_door::door::before_waiting;
use berth_door::networks;
use std::sync::Arc;
use tracing::debug;

/// An interface that a pod selects a definition for, and what its ADD will say, or why that is not known.
pub(crate) struct Found {
    pub(crate) selected: Selected,
    pub(crate) attached: Result<Attached, String>,
}

/// The interfaces that a pod selects definitions for; `config` reads the configuration in one.
///
/// # Errors
/// Why nothing is known of them.
pub(crate) fn find(pod: &Pod, config: impl Fn(&Selected) -> Result<Arc<str>, String>) -> Result<Vec<Found>, String> {
    let found = |selected: Selected| {
        let attached = config(&selected).and_then(|config| selected.attached(&config));
        Found { selected, attached }
    };
    Ok(pod::selected(pod)?.into_iter().map(found).collect())
}

/// Tells the interface that asks from the others that are known. Pools know it by its definition only if that is the
/// definition of the network it says it is in: what a pod writes about itself opens no pool.
pub(crate) fn tell_apart(interface: &mut Attached, found: Vec<Found>) -> Vec<Attached> {
    let mut others: Vec<Attached> = found.into_iter().filter_map(|found| found.attached.ok()).collect();
    if let Some(own) = others.iter().position(|other| other.ifname == interface.ifname) {
        let own = others.remove(own);
        if own.network == interface.network {
            interface.attachment = own.attachment;
        }
    }
    others
}

impl Agent {
    /// The other interfaces of the pod that ask too. Who has addresses already asks again, and needs none.
    pub(crate) fn others(&self, pod: &Pod, container: &str, interface: &mut Attached) -> Vec<Attached> {
        let key = Attachment { network: &interface.network, id: container, ifname: &interface.ifname };
        if self.engine.read(|ipam| !ipam.of_attachment(key).is_empty()) {
            return Vec::new();
        }
        let found = find(pod, |selected| self.definition(selected)).unwrap_or_else(|error| {
            debug!(pod = pod.name, error, "the pod's other interfaces are left to their own ADD");
            Vec::new()
        });
        for Found { selected, attached } in &found {
            if let Err(reason) = attached {
                let definition = selected.definition();
                debug!(pod = pod.name, interface = selected.interface, definition, reason, "left to its own ADD");
            }
        }
        let mut others = tell_apart(interface, found);
        for uplink in others.iter_mut().filter_map(|other| other.uplink.as_mut()) {
            *uplink = networks::uplink(std::mem::take(&mut uplink.nics));
        }
        others
    }

    fn definition(&self, selected: &Selected) -> Result<Arc<str>, String> {
        let Selected { namespace, name, .. } = selected;
        self.definitions.known(namespace, name).map_or_else(
            || {
                before_waiting();
                self.definitions.read(namespace, name)
            },
            Ok,
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(networks: &str) -> Pod {
        let annotations = [("k8s.v1.cni.cncf.io/networks".to_owned(), networks.to_owned())].into();
        Pod { namespace: "shop".into(), name: "web".into(), annotations, ..Pod::default() }
    }

    fn config(selected: &Selected) -> Result<Arc<str>, String> {
        match selected.name.as_str() {
            "gone" => Err("there is no such definition".into()),
            name => {
                Ok(format!(r#"{{"name": "cni-{name}", "type": "macvlan", "ipam": {{"type": "berth-cni"}}}}"#).into())
            }
        }
    }

    fn nic(network: &str, ifname: &str) -> Attached {
        Attached { network: network.into(), attachment: network.into(), ifname: ifname.into(), ..Attached::default() }
    }

    #[test]
    fn an_interface_is_known_by_its_definition_only_if_it_is_in_that_network() {
        for (network, attachment) in [("cni-a", "shop/a"), ("pods", "pods")] {
            let found = find(&pod("a,gone,kube-system/b@x"), config).unwrap();
            let mut interface = nic(network, "net1");
            let others = tell_apart(&mut interface, found);
            assert_eq!(interface.attachment, attachment);
            let others: Vec<(&str, &str)> = others.iter().map(|it| (&*it.ifname, &*it.network)).collect();
            assert_eq!(others, [("x", "cni-b")], "neither itself nor what is not known");
        }
    }
}
