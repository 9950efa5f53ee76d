//! Who has an address.

use crate::error::Error;
use std::fmt;
use std::time::Duration;

/// What kind of thing holds an address; it decides how long the record lives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Kind {
    /// A container of this machine. Its record dies with the boot, as the container does.
    #[default]
    Container,
    /// A container of another machine, which asked over HTTP. Its record outlives our reboot.
    Remote,
    /// Anything with a name: a VM, a Service, a node, an outside host, a claim.
    Named,
}

impl Kind {
    /// The kind as users write it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Container => "container",
            Self::Remote => "remote",
            Self::Named => "named",
        }
    }
}

/// The identity of a holder that keeps its address while it is away.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Sticky {
    /// What comes back: `pod/NAMESPACE/NAME/IFNAME`, `machine/NAMESPACE/NAME/IFNAME`, `claim/NAMESPACE/NAME`.
    pub identity: String,
    /// How long the address is kept after a release; `None` is for ever.
    pub keep: Option<Duration>,
}

impl Sticky {
    /// The identity of an interface of a pod, which comes back under its own name.
    #[must_use]
    pub fn of_pod(namespace: &str, pod: &str, ifname: &str) -> String {
        format!("pod/{namespace}/{pod}/{ifname}")
    }

    /// The identity of an interface of a virtual machine, which comes back in a pod of whatever name.
    #[must_use]
    pub fn of_machine(namespace: &str, machine: &str, ifname: &str) -> String {
        format!("machine/{namespace}/{machine}/{ifname}")
    }
}

/// Who has a slot.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Holder {
    /// What kind of holder this is.
    pub kind: Kind,
    /// The CNI network of the attachment; empty for holders that are no attachment.
    pub network: String,
    /// Container ID, or the name of a named holder.
    pub id: String,
    /// Interface inside the container.
    pub ifname: String,
    /// Namespace of the pod.
    pub namespace: String,
    /// Name of the pod.
    pub pod: String,
    /// UID of the pod.
    pub uid: String,
    /// Node or host it runs on.
    pub node: String,
    /// Set if the address is kept for this holder after a release.
    pub sticky: Option<Sticky>,
    /// Set if it was given along with another interface of the container, and the interface's own ADD has not come yet:
    /// nobody has been told of the address. If the container goes before that, this one goes with it.
    pub awaited: bool,
}

impl Holder {
    /// Whether its names are of a length that a store can keep: a block of 64 holders must stay a small object.
    ///
    /// # Errors
    /// [`Error::Invalid`] names the field.
    pub fn validate(&self) -> Result<(), Error> {
        let identity = self.sticky.as_ref().map_or("", |sticky| &sticky.identity);
        for (field, text, longest) in [
            ("network", self.network.as_str(), 253),
            ("id", &self.id, 253),
            ("ifname", &self.ifname, 64),
            ("namespace", &self.namespace, 253),
            ("pod", &self.pod, 253),
            ("uid", &self.uid, 128),
            ("node", &self.node, 253),
            ("identity", identity, 640),
        ] {
            if text.len() > longest {
                let reason = format!("is {} bytes long; at most {longest} are kept", text.len());
                return Err(Error::Invalid { field: format!("holder.{field}"), reason });
            }
        }
        Ok(())
    }

    /// What stands for the container in the record of a pod of which no container is known.
    #[must_use]
    pub fn id_of_pod(uid: &str) -> String {
        format!("pod-{uid}")
    }

    /// Whether it is a pod that was promised an address, and no container of it has asked yet.
    #[must_use]
    pub fn is_promise(&self) -> bool {
        self.awaited && !self.uid.is_empty() && self.id.strip_prefix("pod-") == Some(&*self.uid)
    }

    /// The virtual machine that the address is kept for, if it is for one.
    #[must_use]
    pub fn machine(&self) -> Option<&str> {
        let (_, rest) = self.sticky.as_ref()?.identity.strip_prefix("machine/")?.split_once('/')?;
        rest.split('/').next()
    }

    /// The name that stays while pods come and go, under which there is a record of it: the virtual machine's, else the
    /// pod's.
    #[must_use]
    pub fn lasting_name(&self) -> &str {
        self.machine().unwrap_or(&self.pod)
    }

    /// What makes an ADD the same ADD: network, container and interface.
    #[must_use]
    pub fn attachment(&self) -> Attachment<'_> {
        Attachment { network: &self.network, id: &self.id, ifname: &self.ifname }
    }
}

/// `pod NS/NAME (container 0123456789ab, eth0)`: short enough for an error message.
impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let id: String = self.id.chars().take(if self.kind == Kind::Named { 64 } else { 12 }).collect();
        if self.pod.is_empty() {
            write!(f, "{} {id}", if self.kind == Kind::Named { "holder" } else { "container" })?;
        } else {
            write!(f, "pod {}/{} (container {id})", self.namespace, self.pod)?;
        }
        if !self.ifname.is_empty() {
            write!(f, " {}", self.ifname)?;
        }
        if !self.node.is_empty() {
            write!(f, " on {}", self.node)?;
        }
        Ok(())
    }
}

/// The key of an attachment: a container's interface in a network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Attachment<'a> {
    /// The CNI network.
    pub network: &'a str,
    /// Container ID, or the name of a named holder.
    pub id: &'a str,
    /// Interface inside the container.
    pub ifname: &'a str,
}
