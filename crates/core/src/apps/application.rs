//! Which application a pool is for, and which pods are its pods.

use std::fmt;

/// What makes an application the same one again: not its UID, which is another one when it is made anew.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Identity {
    /// API group, e.g. `apps`; empty for the core's. The version is left out: an object is the same in all of them.
    pub group: String,
    /// Kind, e.g. `Deployment`.
    pub kind: String,
    /// Namespace.
    pub namespace: String,
    /// Name.
    pub name: String,
}

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}/{}", self.kind, self.namespace, self.name)
    }
}

/// The application that a pool is for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Application {
    /// Group and version, e.g. `apps/v1`.
    pub api_version: String,
    /// Kind, e.g. `Deployment`.
    pub kind: String,
    /// Namespace.
    pub namespace: String,
    /// Name.
    pub name: String,
    /// UID. One with another UID under the same name is the same application, made anew.
    pub uid: String,
    /// The interface that the pool is for.
    pub interface: String,
    /// UIDs of controllers in between, whose pods are its pods: ReplicaSets, Jobs.
    pub controllers: Vec<String>,
    /// Whether the pool stays when the application is gone.
    pub keep: bool,
}

/// A controller that a pod is of, directly or, as far as names tell, further up.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Controller {
    /// API group.
    pub group: String,
    /// Kind.
    pub kind: String,
    /// Name.
    pub name: String,
    /// UID; empty if only the name is known.
    pub uid: String,
}

impl Application {
    /// What makes it the same one again.
    #[must_use]
    pub fn identity(&self) -> Identity {
        Identity {
            group: group(&self.api_version).to_owned(),
            kind: self.kind.clone(),
            namespace: self.namespace.clone(),
            name: self.name.clone(),
        }
    }

    /// Whether a pod of this namespace with these controllers is a pod of it.
    ///
    /// The name of a controller is enough, since a name has one object: an application that was made anew need not wait
    /// until its new UID is in the pool.
    #[must_use]
    pub fn has(&self, namespace: &str, controllers: &[Controller]) -> bool {
        let own = |controller: &Controller| {
            let known = !controller.uid.is_empty()
                && (controller.uid == self.uid || self.controllers.contains(&controller.uid));
            let named = controller.kind == self.kind
                && controller.name == self.name
                && controller.group == group(&self.api_version);
            known || named
        };
        self.namespace == namespace && controllers.iter().any(own)
    }
}

impl fmt::Display for Application {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}/{}", self.kind, self.namespace, self.name)
    }
}

/// The group of an API version: `apps` of `apps/v1`, nothing of `v1`.
#[must_use]
pub fn group(api_version: &str) -> &str {
    api_version.split_once('/').map_or("", |(group, _)| group)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn web() -> Application {
        Application {
            api_version: "apps/v1".into(),
            kind: "Deployment".into(),
            namespace: "shop".into(),
            name: "web".into(),
            uid: "u1".into(),
            interface: "eth0".into(),
            controllers: vec!["rs1".into()],
            keep: false,
        }
    }

    fn controller(group: &str, kind: &str, name: &str, uid: &str) -> [Controller; 1] {
        [Controller { group: group.into(), kind: kind.into(), name: name.into(), uid: uid.into() }]
    }

    #[test]
    fn a_pod_is_told_by_uid_by_a_controller_in_between_or_by_name() {
        let is_own = |controllers: &[Controller]| web().has("shop", controllers);
        assert!(is_own(&controller("apps", "ReplicaSet", "web-1", "rs1")), "a controller in between");
        assert!(is_own(&controller("apps", "Deployment", "web", "")), "by name");
        assert!(is_own(&controller("apps", "Deployment", "web", "u2")), "made anew");
        assert!(!is_own(&controller("apps", "StatefulSet", "web", "")), "another kind");
        assert!(!is_own(&controller("apps.kruise.io", "Deployment", "web", "")), "another group");
        assert!(!is_own(&controller("apps", "ReplicaSet", "web-2", "rs2")));
        assert!(!is_own(&[]));
        assert!(!web().has("other", &controller("apps", "Deployment", "web", "u1")), "another namespace");
        let unknown = Application { uid: String::new(), controllers: vec![], ..web() };
        assert!(!unknown.has("shop", &controller("apps", "ReplicaSet", "x", "")), "nothing known equals nothing known");
    }
}
