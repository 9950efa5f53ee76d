//! Who may use the socket, and what it says to those who speak nonsense.

use berth_e2e::needs::{Need, UTIL_LINUX, met};
use berth_e2e::{Home, Ran, binaries, run};
use berth_wire::protocol::{Op, Request, Response, StatusRequest, read_frame, write_frame};
use serde_json::json;
use std::fs::{self, Permissions};
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Command;

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o7777
}

fn chmod(path: &Path, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

#[test]
fn directory_socket_and_state_are_for_the_owner_alone() {
    let home = Home::new();
    let _daemon = home.start();
    assert_eq!(mode(&home.path("run")), 0o700);
    assert_eq!(mode(&home.socket()), 0o600);
    assert_eq!(mode(&home.path("state")), 0o700);
    for file in fs::read_dir(home.path("state")).unwrap() {
        let path = file.unwrap().path();
        assert_eq!(mode(&path) & 0o077, 0, "{} is open to others", path.display());
    }
}

/// An ADD by user 1000, who has a copy of the plugin.
fn add_as_a_user(home: &Home) -> Ran {
    let (plugin, config) = (home.path("berth-cni"), home.path("config.json"));
    fs::copy(binaries::berth_cni(), &plugin).unwrap();
    fs::write(&config, home.config("1.0.0", &json!({})).to_string()).unwrap();
    for (path, mode) in [(home.path(""), 0o755), (plugin.clone(), 0o755), (config.clone(), 0o644)] {
        chmod(&path, mode);
    }
    let mut command = Command::new("setpriv");
    command.args(["--reuid=1000", "--regid=1000", "--clear-groups", "sh", "-c", "exec \"$0\" < \"$1\""]);
    command.args([&plugin, &config]).env("CNI_COMMAND", "ADD").env("CNI_CONTAINERID", "forged");
    command.env("CNI_NETNS", "/run/netns/none").env("CNI_IFNAME", "eth0").env("CNI_PATH", "/nowhere");
    let output = run(&mut command);
    let text = |bytes| String::from_utf8(bytes).unwrap();
    Ran { code: output.status.code().unwrap(), stdout: text(output.stdout), stderr: text(output.stderr) }
}

#[test]
fn another_user_is_refused_by_the_directory_and_by_the_daemon() {
    if !met(&[Need::Root, UTIL_LINUX]) {
        return;
    }
    let home = Home::new();
    let daemon = home.start();
    let said = add_as_a_user(&home).failed(11);
    assert!(said.contains("only root may use the socket"), "{said}");
    // Someone has opened the doors; the daemon still looks who is there.
    chmod(&home.path("run"), 0o755);
    chmod(&home.socket(), 0o666);
    let said = add_as_a_user(&home).failed(4);
    assert!(said.contains("user 1000 may not use this socket"), "{said}");
    assert!(daemon.held("Active").is_empty());
}

fn connect(home: &Home) -> UnixStream {
    let stream = UnixStream::connect(home.socket()).unwrap();
    stream.set_read_timeout(Some(std::time::Duration::from_secs(20))).unwrap();
    stream
}

fn refusal(response: Response) -> (u32, String) {
    match response {
        Response::Error(error) => (error.code, error.msg),
        other => unreachable!("{other:?}"),
    }
}

#[test]
fn nonsense_is_answered_and_ends_the_connection() {
    let home = Home::new();
    let _daemon = home.start();
    let frame = |body: &str| [&u32::try_from(body.len()).unwrap().to_le_bytes(), body.as_bytes()].concat();
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    for bytes in [frame("{}"), frame("not json"), frame(&deep), u32::MAX.to_le_bytes().to_vec()] {
        let mut stream = connect(&home);
        stream.write_all(&bytes).unwrap();
        let (code, msg) = refusal(read_frame(&mut stream).unwrap());
        assert_eq!(code, 6, "{msg}");
        assert!(read_frame::<Response>(&mut stream).is_err(), "hung up on");
    }
    assert_eq!(home.add("c1").len(), 1, "and the next one is served");
}

#[test]
fn another_version_of_the_protocol_is_refused_with_a_hint() {
    let home = Home::new();
    let _daemon = home.start();
    let mut stream = connect(&home);
    let request = Request { v: 99, ..Request::new(1, Op::Status(StatusRequest::default())) };
    write_frame(&mut stream, &request).unwrap();
    let (code, msg) = refusal(read_frame(&mut stream).unwrap());
    assert_eq!(code, 1);
    assert!(msg.contains("version 99"), "{msg}");
}

#[test]
fn clients_that_dawdle_hold_nobody_up() {
    let home = Home::new();
    let daemon = home.start();
    // More than there are threads at first; each has sent half a frame.
    let dawdlers: Vec<UnixStream> = (0..40)
        .map(|_| {
            let mut stream = connect(&home);
            stream.write_all(&[200, 0]).unwrap();
            stream
        })
        .collect();
    for n in 0..10 {
        assert_eq!(home.add(&format!("c{n}")).len(), 1);
    }
    assert_eq!(daemon.held("Active").len(), 10);
    drop(dawdlers);
}
