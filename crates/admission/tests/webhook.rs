//! The webhook beside a real API server: its words, its certificates as they change, and its absence.
#![expect(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

use berth_admission::certificates::{Certificates, Terms};
use berth_admission::keeper::{Keeper, Vault};
use berth_admission::registration::Registration;
use berth_admission::review::{Cluster, Options, View};
use berth_admission::serve::{Resolver, serve};
use berth_cluster::{ControlPlane, Options as PlaneOptions, or_skip};
use berth_core::holder::Holder;
use berth_core::ipam::{Entropy, Group, Ipam, Request};
use berth_core::model::Subject;
use berth_core::time::Time;
use berth_dialects::kinds::Dialect;
use berth_dialects::native::lower_claim;
use berth_dialects::{crd, judge};
use berth_kube::Connect;
use berth_kube::objects::Objects;
use k8s_openapi::api::core::v1::{Pod, Secret};
use kube::api::{Api, ApiResource, DynamicObject, GroupVersionKind, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// What is known: the objects as they are watched, and blocks that the test fills.
#[derive(Clone)]
struct Known {
    objects: Objects,
    ipam: Arc<Mutex<Ipam>>,
}

impl Cluster for Known {
    fn with<R>(&self, look: impl FnOnce(&View<'_>) -> R) -> R {
        // A controller may have to ask the server before it knows, and waits for the answer.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.block_on(tokio::task::yield_now());
        }
        let mut ipam = self.ipam.lock().unwrap();
        let claims = self.objects.all().iter().filter_map(|object| lower_claim(object).ok()).collect::<Vec<_>>();
        ipam.configure(self.objects.config().0);
        look(&View { ipam: &ipam, claims: &claims })
    }

    fn subnet_uid(&self, name: &str) -> Option<String> {
        self.objects.get("SpiderSubnet", "", name).ok()?.metadata.uid.clone()
    }
}

impl Known {
    fn give(&self, address: &str, pod: &str) {
        let holder = Holder {
            id: format!("c-{pod}"),
            namespace: "default".into(),
            pod: pod.into(),
            ifname: "eth0".into(),
            ..Holder::default()
        };
        let groups = vec![Group { addresses: vec![address.parse().unwrap()], ..Group::default() }];
        let request = Request { holder, subject: Subject::default(), groups };
        self.with(|_| ());
        self.ipam.lock().unwrap().allocate(&request, Time::from_secs(1), &mut Entropy(1)).unwrap();
    }

    /// Waits until an object is known.
    fn wait_for(&self, kind: &str, namespace: &str, name: &str) {
        loop {
            let version = self.objects.config().1;
            if self.objects.get(kind, namespace, name).is_ok() {
                return;
            }
            let _ = self.objects.wait(version, Duration::from_secs(1));
        }
    }
}

struct World {
    known: Known,
    client: kube::Client,
    runtime: tokio::runtime::Runtime,
    address: std::net::SocketAddr,
    resolver: Arc<Resolver>,
    // What the client runs on.
    _cluster: berth_kube::Cluster,
    // Dropped last.
    plane: ControlPlane,
}

struct Running {
    end: oneshot::Sender<()>,
    task: JoinHandle<()>,
}

impl World {
    fn start() -> Option<Self> {
        let plane = or_skip(ControlPlane::start(&PlaneOptions::default()))?;
        for dialect in [Dialect::Native, Dialect::Spiderpool] {
            plane.apply(&crd::yaml(crd::kinds_of(dialect)).unwrap()).unwrap();
        }
        plane.kubectl_ok(&["wait", "--for=condition=Established", "--timeout=60s", "crd", "--all"]).unwrap();
        plane.apply("{apiVersion: v1, kind: Namespace, metadata: {name: berth-system}}").unwrap();
        plane.apply("{apiVersion: v1, kind: ServiceAccount, metadata: {name: default, namespace: default}}").unwrap();
        let connect = Connect { kubeconfig: Some(plane.kubeconfig()), ..Connect::default() };
        let cluster = berth_kube::Cluster::connect(&connect).unwrap();
        let known = Known { objects: Objects::open(&cluster).unwrap(), ipam: Arc::default() };
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        // The address of this control plane, which is this process' own, so that the port can be had again.
        let host: std::net::IpAddr =
            plane.url().trim_start_matches("https://").split(':').next().unwrap().parse().unwrap();
        let address = std::net::TcpListener::bind((host, 0)).unwrap().local_addr().unwrap();
        let client = cluster.client().clone();
        Some(Self { known, client, runtime, address, resolver: Arc::default(), _cluster: cluster, plane })
    }

    fn register(&self, failure_policy: &str) {
        for mut webhook in crd::webhooks() {
            let hook = &mut webhook["webhooks"][0];
            let path = hook["clientConfig"]["service"]["path"].as_str().unwrap().to_owned();
            hook["clientConfig"] = json!({ "url": format!("https://{}{path}", self.address) });
            hook["failurePolicy"] = json!(failure_policy);
            // A machine that is busy with other things is not what is tested.
            hook["timeoutSeconds"] = json!(30);
            self.plane.apply(&webhook.to_string()).unwrap();
        }
    }

    /// The API server hears of the registration and of its bundle by its watch: waits until it asks and believes.
    fn ready(&self) {
        let mut wrong = new_pool("probe", "10.2.0.0/24");
        wrong.data["spec"]["gateway"] = json!("10.3.0.1");
        let dry_run = PostParams { dry_run: true, ..PostParams::default() };
        for _ in 0..1_000 {
            match self.runtime.block_on(self.pools().create(&dry_run, &wrong)) {
                Err(error) if error.to_string().contains("10.3.0.1 is not inside") => return,
                Err(error) => assert!(error.to_string().contains("x509"), "{error}"),
                Ok(_) => {}
            }
        }
        panic!("the API server never asks");
    }

    fn keeper(&self, terms: Terms) -> Keeper {
        Keeper {
            vault: Vault::new(self.client.clone(), "berth-system", "berth-webhook"),
            registration: Registration::new(&self.client, crd::WEBHOOK),
            resolver: self.resolver.clone(),
            names: vec![self.address.ip().to_string()],
            terms,
        }
    }

    fn serve(&self) -> Running {
        let (end, ended) = oneshot::channel();
        let (known, resolver, address) = (self.known.clone(), self.resolver.clone(), self.address);
        let (listening, listens) = oneshot::channel();
        let task = self.runtime.spawn(async move {
            let socket = tokio::net::TcpSocket::new_v4().unwrap();
            socket.set_reuseaddr(true).unwrap();
            socket.bind(address).unwrap();
            let listener = socket.listen(64).unwrap();
            listening.send(()).unwrap();
            let end = async { drop(ended.await) };
            serve(listener, resolver, known, Options::default(), end).await.unwrap();
        });
        self.runtime.block_on(listens).unwrap();
        Running { end, task }
    }

    fn stop(&self, running: Running) {
        let _ = running.end.send(());
        self.runtime.block_on(running.task).unwrap();
    }

    fn apply(&self, kind: &str, name: &str, spec: &Value) -> Result<(), String> {
        let object = json!({"apiVersion": "berth.io/v1alpha1", "kind": kind, "metadata": {"name": name}, "spec": spec});
        self.plane.apply(&object.to_string()).map_err(|error| error.to_string())
    }

    #[track_caller]
    fn refused(&self, kind: &str, name: &str, spec: &Value, words: &str) {
        let error = self.apply(kind, name, spec).expect_err(words);
        assert!(error.contains("validate.berth.io") && error.contains(words), "{words:?} is not in {error}");
    }

    #[track_caller]
    fn not_deleted(&self, kind: &str, name: &str, words: &str) {
        let output = self.plane.kubectl(&["delete", kind, name, "--wait=false"]).unwrap();
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && error.contains(words), "{words:?} is not in {error}");
    }

    fn pools(&self) -> Api<DynamicObject> {
        let kind = GroupVersionKind::gvk("berth.io", "v1alpha1", "IPPool");
        Api::all_with(self.client.clone(), &ApiResource::from_gvk_with_plural(&kind, "ippools"))
    }

    fn certificates(&self) -> Certificates {
        let api: Api<Secret> = Api::namespaced(self.client.clone(), "berth-system");
        let secret = self.runtime.block_on(api.get("berth-webhook")).unwrap();
        serde_json::from_slice(&secret.data.unwrap()["certificates.json"].0).unwrap()
    }
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs()
}

fn new_pool(name: &str, range: &str) -> DynamicObject {
    let object = json!({
        "apiVersion": "berth.io/v1alpha1", "kind": "IPPool", "metadata": {"name": name}, "spec": {"ranges": [range]},
    });
    serde_json::from_value(object).unwrap()
}

#[test]
fn every_rule_says_what_is_wrong() {
    let Some(world) = World::start() else { return };
    let running = world.serve();
    // Whatever goes wrong between the server and the webhook is seen.
    world.register("Fail");
    world.runtime.block_on(world.keeper(Terms::default()).turn(now())).unwrap();
    world.ready();
    world.apply("IPSubnet", "net", &json!({"cidr": "10.0.0.0/16", "gateway": "10.0.0.1"})).unwrap();
    world.apply("IPPool", "blue", &json!({"ranges": ["10.0.1.0/24"], "subnet": "net"})).unwrap();
    world.apply("IPReservation", "printers", &json!({"addresses": ["10.0.1.32/28"]})).unwrap();
    world.apply("IPClaim", "vip", &json!({"addresses": ["10.0.1.77"]})).unwrap();
    for (kind, name) in [("IPSubnet", "net"), ("IPPool", "blue"), ("IPReservation", "printers")] {
        world.known.wait_for(kind, "", name);
    }
    world.known.wait_for("IPClaim", "default", "vip");
    world.known.give("10.0.1.9", "web-0");
    for (spec, words) in [
        (json!({"ranges": ["10.0.1.128/25"]}), "overlaps IPPool \"blue\" (10.0.1.0/24)"),
        (json!({"ranges": ["10.1.0.0/24"], "subnet": "net"}), "is not inside IPSubnet \"net\" (10.0.0.0/16)"),
        (json!({"ranges": ["10.2.0.0/24"], "gateway": "10.3.0.1"}), "10.3.0.1 is not inside 10.2.0.0/24"),
        (
            json!({"ranges": ["10.2.0.0/24"], "gateway": "none", "routes": [{"dst": "0.0.0.0/0"}]}),
            "no gateway to go through",
        ),
        (
            json!({"ranges": ["10.2.0.0/24"], "routes": [{"dst": "10.5.0.0/16", "gw": "10.3.0.1"}]}),
            "10.3.0.1 is not inside",
        ),
    ] {
        world.refused("IPPool", "p", &spec, words);
    }
    world.refused("IPSubnet", "s", &json!({"cidr": "10.0.7.0/24"}), "overlaps IPSubnet \"net\"");
    world.refused("IPClaim", "other", &json!({"addresses": ["10.0.1.77"]}), "is claimed by IPClaim \"default/vip\"");
    world.refused(
        "IPPool",
        "blue",
        &json!({"ranges": ["10.0.1.128/25"], "subnet": "net"}),
        "would lose is in use: 10.0.1.9 by pod default/web-0",
    );
    world.refused(
        "IPPool",
        "blue",
        &json!({"ranges": ["10.0.1.0/24"], "exclude": ["10.0.1.9"], "subnet": "net"}),
        "10.0.1.9 by",
    );
    world.refused("IPSubnet", "net", &json!({"cidr": "10.0.0.0/16", "gateway": "10.0.1.9"}), "10.0.1.9 by");
    world.not_deleted("ippool.berth.io", "blue", "IPPool \"blue\" is in use: 10.0.1.9 by pod default/web-0");
    world.not_deleted("ipsubnet", "net", "IPSubnet \"net\" is in use: IPPool \"blue\"");
    // What the schema says by itself.
    for (kind, name, spec, words) in [
        ("IPSubnet", "net", json!({"cidr": "10.0.0.0/15"}), "cidr cannot be changed"),
        (
            "IPPool",
            "blue",
            json!({"ranges": ["10.0.1.0/24"], "subnet": "net", "blockSize": 28}),
            "blockSize cannot be changed",
        ),
        ("IPPool", "blue", json!({"ranges": ["fd00::/64"]}), "the address family cannot be changed"),
        (
            "IPPool",
            "p",
            json!({"ranges": ["10.3.0.0/24", "10.2.0.9/24"]}),
            "10.2.0.9/24 has host bits set; write the first address of the network",
        ),
        (
            "IPSubnet",
            "s",
            json!({"cidr": "10.2.0.9/24"}),
            "10.2.0.9/24 has host bits set; write the first address of the network",
        ),
    ] {
        let error = world.apply(kind, name, &spec).expect_err(words);
        assert!(error.contains(words), "{words:?} is not in {error}");
    }
    let bound = r#"{"status": {"phase": "Bound", "addresses": ["10.0.1.77"]}}"#;
    world.plane.kubectl_ok(&["patch", "ipclaim", "vip", "--subresource=status", "--type=merge", "-p", bound]).unwrap();
    let error = world.apply("IPClaim", "vip", &json!({"addresses": ["10.0.1.78"]})).unwrap_err();
    assert!(error.contains("the claim is bound to its addresses"), "{error}");
    world.apply("IPClaim", "vip", &json!({"addresses": ["10.0.1.77"], "keep": "1h"})).unwrap();
    world.plane.kubectl_ok(&["label", "ippool.berth.io", "blue", "a=b"]).unwrap();

    // Two dozen at the same moment: some may pass, and exactly one of them is accepted.
    let pools = world.pools();
    let made = world.runtime.block_on(async {
        let post = PostParams::default();
        let all: Vec<DynamicObject> = (0..24).map(|i| new_pool(&format!("twin-{i}"), "10.4.0.0/24")).collect();
        futures::future::join_all(all.iter().map(|pool| pools.create(&post, pool))).await
    });
    let passed = made.iter().filter(|result| result.is_ok()).count();
    assert!(passed >= 1);
    for result in made.iter().filter_map(|result| result.as_ref().err()) {
        assert!(result.to_string().contains("overlaps IPPool \"twin-"), "{result}");
    }
    for (i, _) in made.iter().enumerate().filter(|(_, result)| result.is_ok()) {
        world.known.wait_for("IPPool", "", &format!("twin-{i}"));
    }
    let giving = world.known.objects.config().0.pools.into_values().filter(|pool| pool.name.starts_with("twin-"));
    assert_eq!(giving.filter(|pool| pool.refused.is_none()).count(), 1, "of {passed}");
    let objects = world.known.objects.all();
    let twins = judge(objects.iter().map(AsRef::as_ref)).refused().count();
    assert_eq!(twins, passed - 1);
    world.stop(running);
}

fn spider(kind: &str, name: &str, spec: &Value) -> DynamicObject {
    let object = json!({
        "apiVersion": "spiderpool.spidernet.io/v2beta1", "kind": kind, "metadata": {"name": name}, "spec": spec,
    });
    serde_json::from_value(object).unwrap()
}

impl World {
    fn spiders(&self, plural: &str, kind: &str) -> Api<DynamicObject> {
        let kind = GroupVersionKind::gvk("spiderpool.spidernet.io", "v2beta1", kind);
        Api::all_with(self.client.clone(), &ApiResource::from_gvk_with_plural(&kind, plural))
    }
}

/// The object that a maker is answered is complete already; without the webhook it is accepted as it is.
#[test]
fn what_is_made_in_spiderpools_words_is_complete_at_once() {
    let Some(world) = World::start() else { return };
    let running = world.serve();
    world.register("Fail");
    world.runtime.block_on(world.keeper(Terms::default()).turn(now())).unwrap();
    world.ready();
    let (pools, subnets, reserved) = (
        world.spiders("spiderippools", "SpiderIPPool"),
        world.spiders("spidersubnets", "SpiderSubnet"),
        world.spiders("spiderreservedips", "SpiderReservedIP"),
    );
    let create = |api: &Api<DynamicObject>, object: DynamicObject| {
        world.runtime.block_on(api.create(&PostParams::default(), &object)).unwrap()
    };
    // Of the two registrations the server may hear at different moments.
    let probe = PostParams { dry_run: true, ..PostParams::default() };
    for attempt in 0.. {
        let made = world
            .runtime
            .block_on(reserved.create(&probe, &spider("SpiderReservedIP", "probe", &json!({"ips": ["10.9.0.1"]}))));
        if made.is_ok_and(|made| made.data["spec"]["ipVersion"] == 4) {
            break;
        }
        assert!(attempt < 1_000, "the API server never asks");
    }
    let subnet = create(
        &subnets,
        spider("SpiderSubnet", "s", &json!({"subnet": "10.0.0.0/24", "ips": ["10.0.0.10-10.0.0.99"]})),
    );
    assert_eq!(subnet.data["spec"]["ipVersion"], 4);
    assert_eq!(subnet.metadata.finalizers, Some(vec!["spiderpool.spidernet.io".to_owned()]));
    assert_eq!(subnet.metadata.labels.unwrap()["ipam.spidernet.io/subnet-cidr"], "10-0-0-0-24");
    world.known.wait_for("SpiderSubnet", "", "s");
    let spec = json!({"subnet": "10.0.0.0/24", "ips": ["10.0.0.21", "10.0.0.10-10.0.0.20"]});
    let pool = create(&pools, spider("SpiderIPPool", "p", &spec));
    assert_eq!(pool.data["spec"]["ipVersion"], 4);
    assert_eq!(pool.data["spec"]["ips"], json!(["10.0.0.10-10.0.0.21"]));
    assert_eq!(pool.metadata.finalizers, Some(vec!["spiderpool.spidernet.io".to_owned()]));
    let labels = pool.metadata.labels.clone().unwrap();
    assert_eq!(labels["ipam.spidernet.io/ippool-cidr"], "10-0-0-0-24");
    assert_eq!(labels["ipam.spidernet.io/owner-spider-subnet"], "s");
    assert_eq!(pool.metadata.owner_references.unwrap()[0].uid, subnet.metadata.uid.unwrap());
    // An edit is completed too; what leaves the spec alone is not looked at, so that finalizers can be taken off.
    let edited = world.runtime.block_on(async {
        let more = json!({"spec": {"ips": ["10.0.0.31", "10.0.0.10-10.0.0.30"]}});
        pools.patch("p", &PatchParams::default(), &Patch::Merge(more)).await.unwrap()
    });
    assert_eq!(edited.data["spec"]["ips"], json!(["10.0.0.10-10.0.0.31"]));
    let freed = world.runtime.block_on(async {
        let none = json!({"metadata": {"finalizers": null}});
        pools.patch("p", &PatchParams::default(), &Patch::Merge(none)).await.unwrap()
    });
    assert_eq!(freed.metadata.finalizers.unwrap_or_default(), Vec::<String>::new());
    // Spiderpool's #868 and #1203: of some that are made at the same moment one is accepted, and all can be edited and
    // deleted.
    let twins = world.runtime.block_on(async {
        let post = PostParams::default();
        let twin =
            |i| spider("SpiderIPPool", &format!("twin-{i}"), &json!({"subnet": "10.4.0.0/24", "ips": ["10.4.0.9"]}));
        let all: Vec<DynamicObject> = (0..12).map(twin).collect();
        let made = futures::future::join_all(all.iter().map(|pool| pools.create(&post, pool))).await;
        made.into_iter().filter_map(Result::ok).map(|pool| pool.metadata.name.unwrap()).collect::<Vec<String>>()
    });
    assert!(!twins.is_empty());
    twins.iter().for_each(|name| world.known.wait_for("SpiderIPPool", "", name));
    let accepted = || {
        let config = world.known.objects.config().0;
        config.pools.values().filter(|pool| pool.name.starts_with("twin-") && pool.refused.is_none()).count()
    };
    assert_eq!(accepted(), 1, "of {}", twins.len());
    for name in &twins {
        let spec = |spec: Value| Patch::Merge(json!({"metadata": {"finalizers": null}, "spec": spec}));
        let edit = spec(json!({"disable": true, "ips": []}));
        world.runtime.block_on(pools.patch(name, &PatchParams::default(), &edit)).unwrap();
        world
            .plane
            .kubectl_ok(&["patch", "sp", name, "--type=merge", "-p", r#"{"metadata": {"finalizers": null}}"#])
            .unwrap();
        world.plane.kubectl_ok(&["delete", "sp", name]).unwrap();
    }
    // What makes no sense passes on to who refuses it, and in whose words.
    let wrong = spider("SpiderIPPool", "wrong", &json!({"subnet": "10.0.0.9/24"}));
    let error = world.runtime.block_on(pools.create(&PostParams::default(), &wrong)).unwrap_err().to_string();
    assert!(error.contains("validate.berth.io") && error.contains("write 10.0.0.0/24"), "{error}");
    let error = world.runtime.block_on(
        pools.create(&PostParams::default(), &spider("SpiderIPPool", "askew", &json!({"subnet": "10.0.0.0/25"}))),
    );
    assert!(error.unwrap_err().to_string().contains("10.0.0.0/25 overlaps 10.0.0.0/24"));
    // With nobody there, objects are made all the same.
    world.register("Ignore");
    world.runtime.block_on(world.keeper(Terms::default()).turn(now())).unwrap();
    world.stop(running);
    let made = create(&pools, spider("SpiderIPPool", "while-down", &json!({"subnet": "10.7.0.0/24"})));
    assert_eq!((made.metadata.finalizers, &made.data["spec"]["ipVersion"]), (None, &Value::Null));
    // Whoever leaves takes both registrations along.
    world.runtime.block_on(Registration::new(&world.client, crd::WEBHOOK).remove()).unwrap();
    let kinds = "validatingwebhookconfigurations,mutatingwebhookconfigurations";
    assert_eq!(world.plane.kubectl_ok(&["get", kinds, "-o", "name"]).unwrap(), "");
    world.runtime.block_on(Registration::new(&world.client, crd::WEBHOOK).remove()).unwrap();
}

#[test]
fn a_thousand_pods_start_while_certificates_rotate_and_the_webhook_is_gone() {
    let Some(world) = World::start() else { return };
    let running = world.serve();
    world.register("Fail");
    let keeper = Arc::new(world.keeper(Terms { authority: 60, serving: 36, overlap: 10, skew: 0 }));
    world.runtime.block_on(keeper.turn(now())).unwrap();
    // Two replicas keep one set of certificates.
    let stop = Arc::new(AtomicBool::new(false));
    let keeping: Vec<JoinHandle<()>> = (0..2)
        .map(|_| {
            let (keeper, stop) = (keeper.clone(), stop.clone());
            world.runtime.spawn(async move {
                while !stop.load(Ordering::SeqCst) {
                    if let Err(error) = keeper.turn(now()).await {
                        eprintln!("a turn: {error}");
                    }
                    tokio::time::sleep(Duration::from_millis(400)).await;
                }
            })
        })
        .collect();
    let pods: Api<Pod> = Api::namespaced(world.client.clone(), "default");
    let count = Arc::new(AtomicUsize::new(0));
    let start_pods = |how_many: usize| {
        let first = count.fetch_add(how_many, Ordering::SeqCst);
        let pods = &pods;
        async move {
            for n in first..first + how_many {
                let pod = json!({
                    "metadata": {"name": format!("pod-{n}")}, "spec": {"containers": [{"name": "c", "image": "none"}]},
                });
                let pod: Pod = serde_json::from_value(pod).unwrap();
                pods.create(&PostParams::default(), &pod).await.unwrap_or_else(|error| panic!("pod {n}: {error}"));
            }
        }
    };
    world.ready();
    let pools = world.pools();
    let mut n = 0;
    let create = |n: usize| {
        let pool = new_pool(&format!("pool-{n}"), &format!("10.{}.{}.0/24", n / 250, n % 250));
        let pools = pools.clone();
        async move { pools.create(&PostParams::default(), &pool).await.map(drop) }
    };
    // A stream of pools, each of which the webhook is asked about, until the first authority is gone and
    // all that it signed.
    while world.certificates().authorities.first().is_some_and(|oldest| oldest.number < 2) {
        for _ in 0..5 {
            n += 1;
            world
                .runtime
                .block_on(create(n))
                .unwrap_or_else(|error| panic!("pool {n}: {error}: {:?}", world.certificates()));
        }
        world.runtime.block_on(start_pods(5));
        // So many, and not as many as there is time for.
        world.runtime.block_on(async { tokio::time::sleep(Duration::from_millis(200)).await });
        assert!(n < 6_000, "the certificates never changed: {:?}", world.certificates());
    }
    // It was asked all along.
    let overlapping = world.runtime.block_on(pools.create(&PostParams::default(), &new_pool("twin", "10.0.0.0/8")));
    assert!(overlapping.unwrap_err().to_string().contains("overlaps IPPool"));
    stop.store(true, Ordering::SeqCst);
    for task in keeping {
        world.runtime.block_on(task).unwrap();
    }

    // An upgrade: the webhook goes and comes back, as it is registered when it is installed.
    world.register("Ignore");
    world.runtime.block_on(keeper.turn(now())).unwrap();
    world.stop(running);
    world.runtime.block_on(start_pods(200));
    world.apply("IPPool", "while-down", &json!({"ranges": ["10.0.0.0/8"]})).unwrap();
    let again = world.serve();
    let left = 1_000usize.saturating_sub(count.load(Ordering::SeqCst));
    world.runtime.block_on(start_pods(left));
    // What was made while it was away is not accepted, and can be mended or deleted.
    world.known.wait_for("IPPool", "", "while-down");
    let (config, _) = world.known.objects.config();
    assert!(config.pools["while-down"].refused.as_ref().unwrap().contains("overlaps IPPool"));
    world.plane.kubectl_ok(&["delete", "ippool.berth.io", "while-down"]).unwrap();
    world.stop(again);
}
