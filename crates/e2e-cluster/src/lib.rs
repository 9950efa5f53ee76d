//! What the tests of the agent stand on: an API server of their own, nodes and pods as real objects, an agent process
//! per node, and the real plugin called as a runtime calls it.
//!
//! | module | what it is |
//! |---|---|
//! | [`world`] | the API server with Berth's kinds, its nodes and pods |
//! | [`corner`] | a part of a shared world, for one test: its own nodes, pools and addresses |
//! | [`proxy`] | a way to the API server that fails when it is told to |
//! | [`agent`] | `berth agent` as a process: started, stopped, killed |
//! | [`controller`] | `berth controller` likewise |
//! | [`kubelets`] | kubelets without containers: workloads run as in a cluster |
//! | [`sandbox`] | one pod, as its kubelet sees it |
//! | [`stage`] | a world with all of it, which cases of a catalogue share |
//! | [`case`] | one case on it: its own namespace, nodes, pools and addresses |
//! | [`third_party`] | kinds of workloads that are not Kubernetes' own |
//! | [`resolver`] | a name server that answers nobody |
//! | [`machines`] | virtual machines as KubeVirt has them |
//! | [`random`] | chance that can be repeated |
//! | [`workloads`], [`sanity`] | what runs in a case, and whether all of it makes sense together |
//!
//! A test fails by panicking, and so does everything here.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

pub mod agent;
pub mod case;
pub mod controller;
pub mod corner;
pub mod kubelets;
pub mod machines;
pub mod proxy;
pub mod random;
pub mod resolver;
pub mod sandbox;
pub mod sanity;
pub mod stage;
pub mod third_party;
pub mod workloads;
pub mod world;

pub use agent::Agent;
pub use case::Case;
pub use controller::Controller;
pub use corner::{Corner, Live};
pub use kubelets::Kubelets;
pub use proxy::{Fault, Proxy, Seen};
pub use random::Random;
pub use resolver::Resolver;
pub use stage::Stage;
pub use world::{Pod, World};
