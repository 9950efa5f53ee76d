//! Berth on real nodes as Helm installs it: agents and controllers as pods under their own accounts, upgraded, and
//! uninstalled without a trace that would be in anybody's way.

use berth_cluster::{Cluster, ClusterOptions, PodNetwork, berth, or_skip};
use berth_e2e_nodes::helm::{chart, helm, rolled_out, values};
use berth_e2e_nodes::{Lab, Workload};
use serde_json::json;

#[test]
fn the_chart_installs_upgrades_and_uninstalls() {
    let image = berth::image().unwrap();
    let options = ClusterOptions { nodes: 2, network: PodNetwork::None, ..ClusterOptions::default() };
    let Some(cluster) = or_skip(Cluster::start_with(&options)) else { return };
    let mut lab = Lab { cluster };
    lab.cluster.load_image(&image).unwrap();
    let (chart, values) = (chart(), values(&lab));
    let values: Vec<&str> = values.iter().map(String::as_str).collect();
    helm(&lab, &["lint", "--strict", &chart]);
    helm(&lab, &[&["install", "berth", &chart, "--create-namespace"], &values[..]].concat());
    berth::wait_for_agents(&lab.cluster).unwrap();
    lab.kubectl("wait --for=condition=Established --timeout=30s crd --all");
    lab.pool("all", 3, 10, 60, &json!({"default": true}));
    berth::configure_nodes(&mut lab.cluster).unwrap();
    rolled_out(&lab);

    eprintln!("-- a Deployment gets addresses, and the pool says so");
    let web = Workload::deployment(&lab, "web", 6, "all");
    web.wait(&lab);
    assert_eq!(lab.holders(&web.pods(&lab)).len(), 6);
    lab.until("the pool's status", || {
        let in_use = lab.kubectl("get ippool all -o jsonpath={.status.usage.inUse}");
        if in_use == "8" { Ok(()) } else { Err(format!("in use: {in_use}, not 6 and the two controllers'")) }
    });

    eprintln!("-- the webhook is asked, through its Service and with its own authority");
    let twin = json!({"apiVersion": "berth.io/v1alpha1", "kind": "IPPool", "metadata": {"name": "twin"},
        "spec": {"ranges": [format!("10.{}.3.20-10.{0}.3.30", lab.cluster.underlay().number())], "prefixLength": 16}});
    lab.until("the twin to be refused", || {
        let refused = lab.cluster.control_plane().apply(&twin.to_string());
        let _ =
            lab.cluster.control_plane().kubectl(&["delete", "ippool", "twin", "--ignore-not-found", "--wait=false"]);
        match refused {
            Err(error) if error.to_string().contains("overlaps") => Ok(()),
            other => Err(format!("{other:?}")),
        }
    });

    eprintln!("-- the controller meets the restricted standard");
    let label = "pod-security.kubernetes.io/enforce=restricted";
    let dry = ["label", "--dry-run=server", "--overwrite", "namespace", berth::NAMESPACE, label];
    let warned = lab.cluster.control_plane().kubectl(&dry).unwrap();
    let warned = String::from_utf8_lossy(&warned.stderr).into_owned();
    assert!(warned.contains("berth-agent") && !warned.contains("berth-controller"), "{warned}");

    eprintln!("-- upgraded");
    let more = ["--set", "controller.reclaim.pod-gone=1m", "--set", "agent.podAnnotations.example=new"];
    helm(&lab, &[&["upgrade", "berth", &chart], &values[..], &more].concat());
    rolled_out(&lab);
    web.scale(&lab, 10);
    web.wait(&lab);
    assert_eq!(lab.holders(&web.pods(&lab)).len(), 10);
    let args = lab.kubectl(&format!("get deployment berth-controller -n {} -o yaml", berth::NAMESPACE));
    assert!(args.contains("--reclaim=pod-gone=1m"), "{args}");

    eprintln!("-- uninstalled");
    web.delete(&lab);
    helm(&lab, &["uninstall", "berth", "--wait", "--timeout", "120s"]);
    let left = lab.kubectl("get ippools,ipsubnets,ipreservations -o jsonpath={.items[*].metadata.finalizers}");
    assert_eq!(left, "", "no finalizer is left");
    lab.kubectl("delete ippools --all --timeout 20s");
    let kinds = "clusterroles,clusterrolebindings,validatingwebhookconfigurations,mutatingwebhookconfigurations,\
        validatingadmissionpolicies";
    let names = format!("get {kinds} -o name");
    let left: Vec<String> = lab.kubectl(&names).lines().filter(|l| l.contains("berth")).map(str::to_owned).collect();
    assert!(left.is_empty(), "{left:?}");
}
