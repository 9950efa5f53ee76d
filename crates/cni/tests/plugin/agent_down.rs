//! The daemon is down, dies, or comes back at the worst moment.

use crate::harness::{Host, Plugin, answer, serve};
use berth_wire::cni::AddResult;
use berth_wire::protocol::{Attachment, Op, Response};
use std::os::unix::net::UnixListener;
use std::time::Duration;

fn del(container: &str) -> Op {
    Op::Del(Attachment { network: "net1".into(), container: container.into(), ifname: "eth0".into() })
}

#[test]
fn add_says_try_again_and_how() {
    let host = Host::new();
    let config = host.config("1.0.0", r#","waitSeconds":0"#, "");
    for stale in [false, true] {
        if stale {
            drop(UnixListener::bind(host.socket()).unwrap());
        }
        let (msg, details) = Plugin::new("ADD").run(&config).failed(11);
        assert!(msg.contains(host.socket().to_str().unwrap()), "{msg}");
        assert!(details.contains("berth serve") && details.contains("systemctl start berth"), "{details}");
    }
    assert!(host.queued().is_empty(), "an ADD that failed must not happen later");
}

#[test]
fn add_waits_for_a_daemon_that_is_restarted() {
    for stale in [false, true] {
        let host = Host::new();
        if stale {
            drop(UnixListener::bind(host.socket()).unwrap());
        }
        let config = host.config("1.0.0", r#","waitSeconds":20"#, "");
        let plugin = std::thread::spawn(move || Plugin::new("ADD").run(config));
        std::thread::sleep(Duration::from_millis(300));
        let _ = std::fs::remove_file(host.socket());
        let daemon = host.daemon(vec![Some(Response::Ok(AddResult::default()))]);
        let ran = plugin.join().unwrap();
        assert_eq!(ran.code, 0, "{}", ran.stdout);
        daemon.join().unwrap();
    }
}

/// It was stopped with the request in hand; the next one is asked the same.
#[test]
fn add_asks_again_if_the_daemon_hangs_up() {
    let host = Host::new();
    let daemon = host.daemon(vec![None, None, Some(Response::Ok(AddResult::default()))]);
    let ran = Plugin::new("ADD").run(host.config("1.0.0", r#","waitSeconds":20"#, ""));
    assert_eq!(ran.code, 0, "{}", ran.stdout);
    let requests = daemon.join().unwrap();
    assert!(requests.iter().all(|request| *request == requests[0]), "the same request with the same stamp");
}

#[test]
fn the_other_verbs_fail_in_their_own_way() {
    let host = Host::new();
    let config = host.config("1.1.0", "", r#","prevResult":{"ips":[]},"cni.dev/attachments":[]"#);
    Plugin::new("CHECK").run(&config).failed(11);
    Plugin::new("GC").run(&config).failed(11);
    let (_, details) = Plugin::new("STATUS").run(&config).failed(50);
    assert!(details.contains("berth serve"), "{details}");
    assert!(host.queued().is_empty());
}

#[test]
fn a_daemon_that_hangs_up_is_down() {
    let host = Host::new();
    let daemon = host.daemon(vec![None]);
    let (msg, _) = Plugin::new("ADD").run(host.config("1.0.0", r#","waitSeconds":0"#, "")).failed(11);
    assert!(msg.contains("without an answer"), "{msg}");
    daemon.join().unwrap();
}

#[test]
fn del_is_queued_in_order() {
    let host = Host::new();
    let config = host.config("1.0.0", "", "");
    for container in ["a", "b", "a"] {
        let ran = Plugin::new("DEL").env("CNI_CONTAINERID", container).run(&config);
        ran.silent();
        assert!(ran.stderr.contains("queued"), "{}", ran.stderr);
    }
    let queued = host.queued();
    assert!(queued.is_sorted_by_key(|request| request.stamp));
    let ops: Vec<Op> = queued.into_iter().map(|request| request.op).collect();
    assert_eq!(ops, [del("a"), del("b"), del("a")]);
}

#[test]
fn the_queue_makes_the_directory_of_a_daemon_that_never_ran() {
    let host = Host::new();
    let config = host.config("1.0.0", "", "").replace("berth.sock", "run/berth/berth.sock");
    Plugin::new("DEL").run(config).silent();
    assert_eq!(berth_wire::queue::list(&host.path("run/berth/queue")).unwrap().len(), 1);
}

#[test]
fn del_that_cannot_be_queued_is_not_lost_in_silence() {
    let host = Host::new();
    std::fs::write(host.path("queue"), "in the way").unwrap();
    let (msg, details) = Plugin::new("DEL").run(host.config("1.0.0", "", "")).failed(5);
    assert!(msg.contains("cannot queue DEL") && msg.contains("berth.sock"), "{msg}");
    assert!(details.contains("berth serve"), "{details}");
}

/// The daemon hangs up on the first request, as if it died, and is back for the second.
#[test]
fn del_reaches_a_daemon_that_came_back_in_between() {
    let host = Host::new();
    let daemon = host.daemon(vec![None, Some(Response::Done)]);
    Plugin::new("DEL").run(host.config("1.0.0", "", "")).silent();
    let requests = daemon.join().unwrap();
    assert_eq!(requests[0], requests[1], "the same request with the same stamp");
    assert!(host.queued().is_empty(), "what got through does not wait");
}

#[test]
fn del_stays_queued_if_the_daemon_that_came_back_cannot_do_it() {
    let host = Host::new();
    let error = berth_wire::cni::Error::new(11, "starting");
    let daemon = host.daemon(vec![None, Some(Response::Error(error))]);
    Plugin::new("DEL").run(host.config("1.0.0", "", "")).silent();
    daemon.join().unwrap();
    assert_eq!(host.queued().len(), 1);
}

/// Its disk is full, or too many want the same: neither is for the container to wait for.
#[test]
fn del_is_queued_if_the_daemon_cannot_do_it_now() {
    for code in [5, 11] {
        let host = Host::new();
        let error = || Some(Response::Error(berth_wire::cni::Error::new(code, "no space left on device")));
        let daemon = host.daemon(vec![error(), error()]);
        let ran = Plugin::new("DEL").run(host.config("1.0.0", "", ""));
        ran.silent();
        assert!(ran.stderr.contains("no space left on device; DEL of c1 is queued in"), "{}", ran.stderr);
        let requests = daemon.join().unwrap();
        assert_eq!(requests[0], requests[1]);
        assert_eq!(host.queued(), requests[..1]);
    }
}

#[test]
fn del_is_not_queued_if_the_daemon_can_do_it_after_all() {
    let host = Host::new();
    let error = berth_wire::cni::Error::new(11, "busy");
    let daemon = host.daemon(vec![Some(Response::Error(error)), Some(Response::Done)]);
    let ran = Plugin::new("DEL").run(host.config("1.0.0", "", ""));
    ran.silent();
    assert_eq!(ran.stderr, "");
    daemon.join().unwrap();
    assert!(host.queued().is_empty());
}

#[test]
fn del_that_can_be_neither_done_nor_queued_fails_with_both_reasons() {
    let host = Host::new();
    std::fs::write(host.path("queue"), "in the way").unwrap();
    let error = berth_wire::cni::Error::new(5, "no space left on device").hint("make room");
    let daemon = host.daemon(vec![Some(Response::Error(error))]);
    let (msg, details) = Plugin::new("DEL").run(host.config("1.0.0", "", "")).failed(5);
    assert!(msg.contains("cannot queue DEL") && msg.contains("no space left on device"), "{msg}");
    assert_eq!(details, "make room");
    daemon.join().unwrap();
}

/// A daemon that listens before it drains misses no DEL, whenever it starts.
#[test]
fn no_del_falls_between_queue_and_socket() {
    for round in 0..20 {
        let host = Host::new();
        let config = host.config("1.0.0", "", "");
        let plugin = std::thread::spawn(move || Plugin::new("DEL").run(config).silent());
        std::thread::sleep(Duration::from_micros(150 * round));
        let listener = UnixListener::bind(host.socket()).unwrap();
        listener.set_nonblocking(true).unwrap();
        let drained = host.queued().len();
        let mut served = 0;
        while !plugin.is_finished() {
            match listener.accept() {
                Ok((stream, _)) => {
                    answer(stream, Some(Response::Done));
                    served += 1;
                }
                Err(_) => std::thread::sleep(Duration::from_micros(50)),
            }
        }
        plugin.join().unwrap();
        assert!(drained + served > 0, "round {round}: neither drained nor asked");
    }
}

#[test]
fn an_answer_that_makes_no_sense_is_no_answer() {
    let host = Host::new();
    let listener = UnixListener::bind(host.socket()).unwrap();
    let daemon = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let _: berth_wire::protocol::Request = berth_wire::protocol::read_frame(&mut stream).unwrap();
        berth_wire::protocol::write_frame(&mut stream, &"what?").unwrap();
        listener
    });
    let config = host.config("1.0.0", "", "");
    let (msg, details) = Plugin::new("ADD").run(&config).failed(11);
    assert!(msg.contains("makes no sense") && details.contains("same release"), "{msg} {details}");
    let daemon = serve(daemon.join().unwrap(), vec![Some(Response::Done)]);
    Plugin::new("DEL").run(&config).silent();
    daemon.join().unwrap();
}
