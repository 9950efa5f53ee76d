//! A controller that dies at one of its writes, and another that goes on.

use super::super::{SOON, deaths, proxy, scale, work_off};
use super::{
    FINALIZER, Picture, application, auto_pool, differences, of_pool, of_subnet, picture, pool, record, subnet, told,
};
use crate::spiderpool::{apply, start};
use berth_e2e::until;
use berth_e2e_cluster::{Agent, Pod, World};
use serde_json::json;

/// What is there in one round, and goes in the next: a subnet, a pool cut from it that lacks everything, an application,
/// and a pool that was deleted while it is in use.
struct Scene {
    number: u32,
    web: Pod,
    user: Pod,
}

impl Scene {
    fn set(world: &World, agent: &Agent, round: u32) -> Self {
        let number = round + 20;
        let cidr = format!("10.{number}.0.0/24");
        let ips = |net: u32, part: &str| part.replace('N', &format!("10.{number}.{net}"));
        let subnet = json!({"subnet": cidr, "ips": [ips(0, "N.30-N.49"), ips(0, "N.10-N.29")]});
        apply(world, "SpiderSubnet", &format!("s{number}"), &subnet);
        let bare = json!({"subnet": cidr, "ips": [ips(0, "N.11"), ips(0, "N.10")]});
        apply(world, "SpiderIPPool", &format!("p{number}"), &bare);
        let going = format!("going{number}");
        let spec = json!({"subnet": format!("10.{number}.1.0/24"), "ips": [ips(1, "N.10")]});
        let guarded = json!({"apiVersion": "spiderpool.spidernet.io/v2beta1", "kind": "SpiderIPPool",
            "metadata": {"name": going, "finalizers": [FINALIZER]}, "spec": spec});
        world.apply(&guarded.to_string());
        scale(world, "Deployment", &format!("w{number}"), 1, &of_subnet(&format!("s{number}"), "3"));
        let web = world.pod("n1", &format!("web{number}"), &of_pool(&format!("p{number}")));
        let user = world.pod("n1", &format!("user{number}"), &of_pool(&going));
        for pod in [&web, &user] {
            until("the pool to be known", || (agent.add(pod, &pod.name).code == 0).then_some(()));
        }
        world.plane.kubectl_ok(&["delete", "spiderippool", &going, "--wait=false"]).unwrap();
        Self { number, web, user }
    }

    /// Nobody tells the controller, which does not run: that an address is free one has to find out, the other came back.
    fn end(self, world: &World, agent: &Agent) {
        let number = self.number;
        agent.del(&self.user, &self.user.name).silent();
        let (web, user) = (format!("pod/web{number}"), format!("pod/user{number}"));
        let (app, pool, subnet) =
            (format!("deployment/w{number}"), format!("spiderippool/p{number}"), format!("spidersubnet/s{number}"));
        let line = ["delete", &web, &user, &app, &pool, &subnet, "--wait=false", "--force", "--grace-period=0"];
        world.plane.kubectl_ok(&line).unwrap();
    }

    /// Everything that is to be there, and nothing else is: of the last round all is gone.
    fn wanted(&self, world: &World) -> Picture {
        let number = self.number;
        let name = |what: &str| format!("{what}{number}");
        let (s, p, going, app) = (name("s"), name("p"), name("going"), name("w"));
        let auto = auto_pool(world, &app);
        let uid = world.field(&format!("spidersubnet/{s}"), ".metadata.uid");
        let (cidr, owner) = (format!("10-{number}-0-0-24"), Some((s.as_str(), uid.as_str())));
        let (first, used) = (format!("10.{number}.0.10"), format!("10.{number}.1.10"));
        let (own, cut) = (format!("{first}-10.{number}.0.11"), format!("10.{number}.0.12-10.{number}.0.14"));
        let controlled = json!({&p: {"ips": [own]}, &auto: {"ips": [cut], "application": application(&app)}});
        // Who is on its way out gets nothing more but a status.
        let mut leaving = pool("", None, (&used, 1), json!({&used: record(&self.user)}));
        (leaving["labels"], leaving["version"], leaving["going"]) = (json!({}), json!(null), json!(true));
        let whole = format!("{first}-10.{number}.0.49");
        [
            (format!("ss/{s}"), subnet(&cidr, (&whole, 40), 5, controlled)),
            (format!("sp/{p}"), pool(&cidr, owner, (&own, 2), json!({&first: record(&self.web)}))),
            (format!("sp/{auto}"), pool(&cidr, owner, (&cut, 3), json!(null))),
            (format!("sp/{going}"), leaving),
            told(&self.web, &first, &p),
            told(&self.user, &used, &going),
        ]
        .into()
    }
}

#[test]
fn a_controller_that_dies_at_any_write_to_spiderpools_kinds_is_followed_by_one_that_goes_on() {
    let Some(world) = start() else { return };
    let (proxy, agent) = (proxy(&world), world.agent("n1"));
    let (mut last, mut rounds): (Option<Scene>, _) = (None, 0..);
    let mut run = |at| {
        let scene = Scene::set(&world, &agent, rounds.next().unwrap());
        if let Some(last) = last.take() {
            last.end(&world, &agent);
        }
        let wanted = scene.wanted(&world);
        last = Some(scene);
        work_off((&world, &proxy), &SOON, at, || differences(&picture(&world), &wanted))
    };
    // The first has nothing to end yet.
    run(None);
    let (writes, _) = run(None);
    assert!(writes >= 15, "{writes}");
    let all = deaths(writes, 3);
    let died = all.iter().filter(|at| run(Some(**at)).1).count();
    // Two changes of an object may be told in one write, so there is not always a last one to die at.
    assert!(died * 4 >= all.len() * 3, "died {died} times of {}", all.len());
    world.check();
    eprintln!("{writes} writes, died {died} times of {}", all.len());
}
