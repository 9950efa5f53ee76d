//! How etcd and the API server are started, and where.

use crate::certificates::{Authority, Pair};
use crate::control_plane::Options;
use crate::error::{Context, Result};
use crate::process::{Process, mortal};
use std::fs::File;
use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;

/// Where Services get their addresses; nothing routes there.
const SERVICES: &str = "10.96.0.0/16";
/// The first of them is that of the API server.
const KUBERNETES_SERVICE: Ipv4Addr = Ipv4Addr::new(10, 96, 0, 1);

/// Starts etcd, which is ready when the API server is.
pub(crate) fn start_etcd(program: &Path, url: &str, peers: &str, dir: &Path) -> Result<Process> {
    let mut command = mortal(program);
    command.arg("--data-dir").arg(dir.join("etcd")).args(["--log-level", "warn"]);
    command.args(["--listen-client-urls", url, "--advertise-client-urls", url]);
    command.args(["--listen-peer-urls", peers, "--initial-advertise-peer-urls", peers]);
    // The data is gone with the cluster: it need not survive the power.
    command.args(["--initial-cluster", &format!("default={peers}"), "--unsafe-no-fsync"]);
    Process::start("etcd", command, &dir.join("etcd.log"))
}

/// The API server and its flags.
pub(crate) fn apiserver_command(
    program: &Path,
    options: &Options,
    authority: &Authority,
    dir: &Path,
    address: IpAddr,
    port: u16,
    etcd: &str,
) -> Result<Vec<String>> {
    let localhost = IpAddr::V4(Ipv4Addr::LOCALHOST);
    let serving = authority.server(&[address, localhost, IpAddr::V4(KUBERNETES_SERVICE)])?;
    let kubelet_client = authority.client("kubelet-client", "kube-apiserver", Some("system:masters"))?;
    let tokens: Pair = authority.signing_key()?;
    let file = |path: &Path| path.to_string_lossy().into_owned();
    let mut command = vec![file(program)];
    let mut flag = |name: &str, value: &str| command.push(format!("--{name}={value}"));
    flag("etcd-servers", etcd);
    flag("bind-address", &address.to_string());
    flag("secure-port", &port.to_string());
    flag("tls-cert-file", &file(&serving.certificate));
    flag("tls-private-key-file", &file(&serving.key));
    flag("client-ca-file", &file(&authority.file()));
    flag("token-auth-file", &file(&dir.join("tokens.csv")));
    flag("service-account-issuer", "https://kubernetes.default.svc");
    flag("service-account-key-file", &file(&tokens.certificate));
    flag("service-account-signing-key-file", &file(&tokens.key));
    flag("service-cluster-ip-range", SERVICES);
    flag("authorization-mode", "Node,RBAC");
    flag("enable-admission-plugins", "NodeRestriction");
    flag("allow-privileged", "true");
    // There is no kube-proxy: the API server dials the endpoints of a webhook's Service itself.
    flag("enable-aggregator-routing", "true");
    // Else `kubectl exec` and `logs` look the node's name up.
    flag("kubelet-preferred-address-types", "InternalIP");
    flag("kubelet-client-certificate", &file(&kubelet_client.certificate));
    flag("kubelet-client-key", &file(&kubelet_client.key));
    if address.is_loopback() {
        // An endpoint of the Service `kubernetes` must not be in loopback.
        flag("endpoint-reconciler-type", "none");
    } else {
        flag("advertise-address", &address.to_string());
    }
    if !options.controllers {
        // Nobody would make the service account that this asks of every pod.
        flag("disable-admission-plugins", "ServiceAccount");
    }
    command.extend(options.apiserver_flags.iter().cloned());
    Ok(command)
}

/// An address that no other process uses: process IDs have 22 bits, and loopback has 24.
pub(crate) fn own_loopback() -> IpAddr {
    let [_, a, b, c] = std::process::id().to_be_bytes();
    Ipv4Addr::new(127, 128 | a, b, c).into()
}

/// A token that cannot be guessed: other users of the machine can reach its loopback.
pub(crate) fn secret_token() -> Result<String> {
    let mut bytes = [0; 16];
    let random = File::open("/dev/urandom").and_then(|mut file| std::io::Read::read_exact(&mut file, &mut bytes));
    random.context(|| "cannot read /dev/urandom".to_owned())?;
    Ok(bytes.map(|byte| format!("{byte:02x}")).concat())
}
