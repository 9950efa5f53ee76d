//! Every verb, through a daemon.

use crate::harness::{Host, Plugin};
use berth_wire::cni::{AddResult, Dns, Error, Ip, Route};
use berth_wire::protocol::{AddRequest, Attachment, Family, Live, Op, Pod, Response};
use serde_json::json;

fn attachment() -> Attachment {
    Attachment { network: "net1".into(), container: "c1".into(), ifname: "eth0".into() }
}

fn dual() -> AddResult {
    let ip = |address: &str, prefix_len, gateway: &str| Ip {
        address: address.parse().unwrap(),
        prefix_len,
        gateway: Some(gateway.parse().unwrap()),
    };
    AddResult {
        ips: vec![ip("10.1.2.2", 24, "10.1.2.1"), ip("2001:db8::2", 64, "2001:db8::1")],
        routes: vec![Route { dst: "0.0.0.0/0".into(), ..Route::default() }],
        dns: Dns::default(),
    }
}

#[test]
fn add_answers_in_the_version_of_the_configuration() {
    for version in ["0.1.0", "0.2.0", "0.3.0", "0.3.1", "0.4.0", "1.0.0", "1.1.0"] {
        let host = Host::new();
        let daemon = host.daemon(vec![Some(Response::Ok(dual()))]);
        let ran = Plugin::new("ADD").run(host.config(version, "", ""));
        assert_eq!(ran.code, 0, "{}", ran.stdout);
        let expected = match version {
            "0.1.0" | "0.2.0" => json!({
                "cniVersion": version,
                "ip4": {"ip": "10.1.2.2/24", "gateway": "10.1.2.1", "routes": [{"dst": "0.0.0.0/0"}]},
                "ip6": {"ip": "2001:db8::2/64", "gateway": "2001:db8::1"},
                "dns": {},
            }),
            "0.3.0" | "0.3.1" | "0.4.0" => json!({
                "cniVersion": version,
                "ips": [
                    {"version": "4", "address": "10.1.2.2/24", "gateway": "10.1.2.1"},
                    {"version": "6", "address": "2001:db8::2/64", "gateway": "2001:db8::1"},
                ],
                "routes": [{"dst": "0.0.0.0/0"}],
                "dns": {},
            }),
            _ => json!({
                "cniVersion": version,
                "ips": [
                    {"address": "10.1.2.2/24", "gateway": "10.1.2.1"},
                    {"address": "2001:db8::2/64", "gateway": "2001:db8::1"},
                ],
                "routes": [{"dst": "0.0.0.0/0"}],
            }),
        };
        assert_eq!(ran.json(), expected);
        let requests = daemon.join().unwrap();
        assert!(requests[0].v == 1 && requests[0].stamp > 0);
    }
}

#[test]
fn add_sends_all_that_was_asked_for() {
    let host = Host::new();
    let daemon = host.daemon(vec![Some(Response::Ok(dual()))]);
    let config = host.config(
        "1.1.0",
        r#","pools":["a","b-*"],"network":"blue","claim":"db","families":["IPv4","IPv6"]"#,
        r#","RuntimeConfig":{"ips":["10.1.2.9/24"],"ipRanges":[[{"subnet":"10.1.2.0/24"}]]}"#,
    );
    let args = "IgnoreUnknown=true;K8S_POD_NAMESPACE=shop;K8S_POD_NAME=web-0;K8S_POD_UID=u1;IP=10.1.2.8;X=Y";
    assert_eq!(Plugin::new("ADD").env("CNI_ARGS", args).run(config).code, 0);
    let expected = AddRequest {
        attachment: attachment(),
        pod: Some(Pod { namespace: "shop".into(), name: "web-0".into(), uid: Some("u1".into()) }),
        domain: Some("blue".into()),
        pools: vec!["a".into(), "b-*".into()],
        addresses: vec![[10, 1, 2, 8].into(), [10, 1, 2, 9].into()],
        ranges: vec![vec!["10.1.2.1-10.1.2.254".into()]],
        families: vec![Family::V4, Family::V6],
        claim: Some("db".into()),
        uplink: None,
    };
    assert_eq!(daemon.join().unwrap()[0].op, Op::Add(expected));
}

#[test]
fn newer_ways_to_ask_for_an_address_make_the_oldest_void() {
    let host = Host::new();
    let daemon = host.daemon(vec![Some(Response::Ok(dual()))]);
    let config = host.config("1.1.0", "", r#","args":{"cni":{"ips":["10.1.2.7"]}}"#);
    assert_eq!(Plugin::new("ADD").env("CNI_ARGS", "IP=10.1.2.8").run(config).code, 0);
    match &daemon.join().unwrap()[0].op {
        Op::Add(add) => assert_eq!(add.addresses, [std::net::IpAddr::from([10, 1, 2, 7])]),
        other => panic!("{other:?}"),
    }
}

#[test]
fn add_completes_the_answer_from_the_configuration() {
    let host = Host::new();
    std::fs::write(host.path("resolv.conf"), "nameserver 192.0.2.53\nsearch a b\n").unwrap();
    let daemon = host.daemon(vec![Some(Response::Ok(dual())), Some(Response::Ok(dual()))]);
    let ipam = format!(
        r#","routes":[{{"dst":"10.9.0.0/16","gw":"10.1.2.3","mtu":1400}},{{"dst":"0.0.0.0/0"}}],"resolvConf":{:?}"#,
        host.path("resolv.conf")
    );
    let json = Plugin::new("ADD").run(host.config("1.1.0", &ipam, "")).json();
    assert_eq!(json["routes"], json!([{"dst": "0.0.0.0/0"}, {"dst": "10.9.0.0/16", "gw": "10.1.2.3", "mtu": 1400}]));
    assert_eq!(json["dns"], json!({"nameservers": ["192.0.2.53"], "search": ["a", "b"]}));
    let ipam = format!(r#"{ipam},"dns":{{"domain":"x"}}"#);
    let json = Plugin::new("ADD").run(host.config("1.1.0", &ipam, "")).json();
    assert_eq!(json["dns"], json!({"domain": "x"}));
    daemon.join().unwrap();
}

#[test]
fn errors_of_the_daemon_are_passed_on() {
    let error = Error::new(150, "pool a is exhausted").hint("add a range");
    for verb in ["ADD", "DEL", "CHECK", "GC", "STATUS"] {
        let host = Host::new();
        let daemon = host.daemon(vec![Some(Response::Error(error.clone()))]);
        let more = r#","prevResult":{"ips":[]},"cni.dev/attachments":[]"#;
        let (msg, details) = Plugin::new(verb).run(host.config("1.1.0", "", more)).failed(150);
        assert_eq!((msg.as_str(), details.as_str()), ("pool a is exhausted", "add a range"), "{verb}");
        daemon.join().unwrap();
        assert!(host.queued().is_empty(), "a daemon that answers needs no queue");
    }
}

#[test]
fn an_answer_to_another_question_is_an_error() {
    for (verb, response) in [("ADD", Response::Done), ("DEL", Response::Ok(dual())), ("GC", Response::Ok(dual()))] {
        let host = Host::new();
        let daemon = host.daemon(vec![Some(response)]);
        Plugin::new(verb).run(host.config("1.1.0", "", r#","cni.dev/attachments":[]"#)).failed(999);
        daemon.join().unwrap();
    }
}

#[test]
fn a_result_that_does_not_fit_the_version_is_an_error() {
    let host = Host::new();
    let mut result = dual();
    result.ips[1] = result.ips[0].clone();
    let daemon = host.daemon(vec![Some(Response::Ok(result))]);
    let (msg, _) = Plugin::new("ADD").run(host.config("0.2.0", "", "")).failed(7);
    assert_eq!(msg, "CNI version 0.2.0 does not support more than 1 address per family");
    assert_eq!(daemon.join().unwrap().len(), 1);
}

#[test]
fn del_needs_only_the_name_and_the_socket() {
    let host = Host::new();
    let daemon = host.daemon(vec![Some(Response::Done)]);
    let broken = r#","pool":"typo","routes":"x","dns":5"#;
    let config = host.config("0.4.0", broken, r#","runtimeConfig":{"ips":[null]},"prevResult":5"#);
    Plugin::new("DEL").env("CNI_NETNS", "").env("CNI_ARGS", "===").run(config).silent();
    assert_eq!(daemon.join().unwrap()[0].op, Op::Del(attachment()));
}

#[test]
fn check_sends_the_addresses_of_the_previous_result() {
    for (version, prev) in [
        ("0.4.0", r#"{"ips":[{"version":"4","address":"10.1.2.2/24"},{"version":"6","address":"2001:db8::2/64"}]}"#),
        (
            "1.1.0",
            r#"{"interfaces":[{"name":"eth0"}],"ips":[{"address":"10.1.2.2/24","interface":0},{"address":"2001:db8::2/64"}]}"#,
        ),
        ("1.0.0", r#"{"cniVersion":"0.2.0","ip4":{"ip":"10.1.2.2/24"},"ip6":{"ip":"2001:db8::2/64"}}"#),
    ] {
        let host = Host::new();
        let daemon = host.daemon(vec![Some(Response::Done)]);
        Plugin::new("CHECK").run(host.config(version, "", &format!(r#","prevResult":{prev}"#))).silent();
        let addresses = dual().ips.iter().map(|ip| ip.address).collect();
        assert_eq!(daemon.join().unwrap()[0].op, Op::Check { attachment: attachment(), addresses });
    }
    let (msg, _) = Plugin::new("CHECK").run(Host::new().config("1.0.0", "", "")).failed(7);
    assert_eq!(msg, "Required prevResult missing");
}

#[test]
fn gc_frees_only_what_it_is_told() {
    let host = Host::new();
    for more in
        ["", r#","cni.dev/attachments":null"#, r#","cni.dev/valid-attachments":null,"cni.dev/attachments":null"#]
    {
        Plugin::new("GC").run(host.config("1.1.0", "", more)).silent();
    }
    assert!(!host.socket().exists(), "nobody was there to be asked, and nobody was missed");
    let daemon = host.daemon(vec![Some(Response::Done), Some(Response::Done)]);
    let list = r#"[{"containerID":"a","ifname":"eth0"},{"containerID":"b","ifname":"net1"}]"#;
    Plugin::new("GC").run(host.config("1.1.0", "", &format!(r#","cni.dev/valid-attachments":{list}"#))).silent();
    Plugin::new("GC").run(host.config("1.1.0", "", r#","cni.dev/attachments":[]"#)).silent();
    let live = |container: &str, ifname: &str| Live { container: container.into(), ifname: ifname.into() };
    let ops: Vec<Op> = daemon.join().unwrap().into_iter().map(|request| request.op).collect();
    let gc = |valid| Op::Gc { network: "net1".into(), valid };
    assert_eq!(ops, [gc(vec![live("a", "eth0"), live("b", "net1")]), gc(vec![])]);
}

#[test]
fn under_the_name_host_local_no_daemon_is_asked() {
    let host = Host::new();
    let name = host.path("host-local");
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_berth-cni"), &name).unwrap();
    let config = format!(
        r#"{{"cniVersion":"1.0.0","name":"net1","ipam":{{"type":"host-local","dataDir":{:?},"subnet":"10.1.2.0/24"}}}}"#,
        host.path("data")
    );
    let expected = json!({"cniVersion": "1.0.0", "ips": [{"address": "10.1.2.2/24", "gateway": "10.1.2.1"}]});
    assert_eq!(Plugin::new("ADD").under(&name).run(&config).json(), expected);
    assert_eq!(Plugin::new("ADD").run(&config).json(), expected, "by type, and again the same");
    assert!(host.path("data/net1/10.1.2.2").exists());
    Plugin::new("DEL").run(&config).silent();
    assert!(!host.path("data/net1/10.1.2.2").exists());
}
