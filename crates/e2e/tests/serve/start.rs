//! Starting with nothing, and starting where someone is already.

use berth_e2e::{Daemon, Home, run};
use serde_json::{Value, json};
use std::process::Command;

const POOL: &str =
    "{apiVersion: berth.io/v1alpha1, kind: IPPool, metadata: {name: mine}, spec: {ranges: [10.5.0.0/24]}}";

fn pools(daemon: &Daemon) -> Vec<Value> {
    let answer = daemon.http.get("/v1alpha1/objects/ippools").ok();
    answer["items"].as_array().unwrap().iter().map(|pool| pool["metadata"]["name"].clone()).collect()
}

/// Starts a daemon that must not start, and returns what it says.
fn refused(command: &mut Command) -> String {
    let output = run(command);
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success(), "{said}");
    said
}

#[test]
fn with_no_configuration_it_offers_a_pool_and_three_commands() {
    let home = Home::new();
    let daemon = home.start();
    let server = format!("--server http://{}", daemon.http.address);
    for command in ["get pools", "allocate --holder my-first", "status"] {
        assert!(daemon.log().contains(&format!("\n  berth {server} {command}\n")), "{}", daemon.log());
    }
    assert_eq!(pools(&daemon), ["example"]);
    assert!(home.add("c1")[0].starts_with("10.77.0."), "the example pool works");
}

#[test]
fn the_three_commands_work_as_printed() {
    let home = Home::new();
    let daemon = home.start();
    let log = daemon.log();
    let commands: Vec<&str> = log.lines().filter_map(|line| line.strip_prefix("  berth ")).collect();
    assert_eq!(commands.len(), 3, "{log}");
    for command in commands {
        let said = berth_e2e::succeed(Command::new(berth_e2e::binaries::berth()).args(command.split(' ')));
        assert!(!said.is_empty(), "berth {command} printed nothing");
    }
    assert_eq!(daemon.holders("Active"), ["my-first"]);
}

#[test]
fn the_example_steps_aside_for_the_first_real_pool() {
    let home = Home::new();
    let daemon = home.start();
    assert_eq!(daemon.http.apply(POOL).actions(), "created mine");
    assert_eq!(pools(&daemon), ["mine"]);
    assert!(home.add("c1")[0].starts_with("10.5.0."));
    daemon.stop();
    let daemon = home.start();
    assert_eq!(pools(&daemon), ["mine"], "and does not come back");
    assert!(!daemon.log().contains("Nothing is configured"), "{}", daemon.log());
}

#[test]
fn an_example_in_use_stays() {
    let home = Home::new();
    let daemon = home.start();
    let before = home.add("c1");
    assert_eq!(daemon.http.apply(POOL).actions(), "created mine");
    assert_eq!(pools(&daemon), ["example", "mine"]);
    assert_eq!(home.add("c1"), before, "the container keeps its address");
    daemon.check();
}

#[test]
fn an_example_that_the_user_has_taken_over_stays() {
    let home = Home::new();
    let daemon = home.start();
    let own = POOL.replace("mine", "example").replace("10.5", "10.6");
    assert_eq!(daemon.http.apply(&own).actions(), "configured example");
    assert_eq!(daemon.http.apply(POOL).actions(), "created mine");
    assert_eq!(pools(&daemon), ["example", "mine"]);
}

#[test]
fn two_daemons_on_one_state_are_refused_by_process_id() {
    let home = Home::new();
    let first = home.start();
    let said = refused(&mut home.command_with("--socket", home.path("run/other.sock").to_str().unwrap()));
    assert!(said.contains(&first.pid().to_string()), "{said}");
    assert!(said.contains(home.path("state").to_str().unwrap()), "{said}");
    assert_eq!(home.add("c1").len(), 1, "the first is not disturbed");
}

#[test]
fn two_daemons_on_one_socket_are_refused() {
    let home = Home::new();
    let _first = home.start();
    let said = refused(&mut home.command_with("--state-dir", home.path("other").to_str().unwrap()));
    assert!(said.contains(home.socket().to_str().unwrap()) && said.contains("--socket"), "{said}");
    assert_eq!(home.add("c1").len(), 1, "the first is not disturbed");
}

#[test]
fn two_daemons_on_one_port_are_refused_and_leave_no_socket() {
    let (home, other) = (Home::new(), Home::new());
    let first = home.start();
    let said = refused(&mut other.command_with("--listen", &first.http.address.to_string()));
    assert!(said.contains(&first.http.address.to_string()) && said.contains("--listen"), "{said}");
    assert!(!other.socket().exists());
}

#[test]
fn a_socket_that_nobody_listens_on_is_no_obstacle() {
    let home = Home::new();
    home.start().kill();
    assert!(home.socket().exists(), "a killed daemon leaves its socket");
    let daemon = home.start();
    assert_eq!(home.add("c1").len(), 1);
    drop(daemon);
}

#[test]
fn a_journal_that_is_not_one_is_refused_and_left_alone() {
    let home = Home::new();
    std::fs::create_dir(home.path("state")).unwrap();
    let journal = home.path("state/state.journal");
    std::fs::write(&journal, "this is somebody's diary, and long enough to be mistaken for a journal").unwrap();
    let said = refused(&mut home.command());
    assert!(said.contains("journal"), "{said}");
    assert!(std::fs::read_to_string(&journal).unwrap().starts_with("this is somebody's diary"));
}

#[test]
fn the_log_is_json_when_asked_for() {
    let home = Home::new();
    let daemon = home.start();
    let ready = &daemon.logged("ready")[0];
    assert_eq!(ready["level"], "INFO");
    assert_eq!(ready["socket"], json!(home.socket()));
    assert!(ready["timestamp"].is_string());
}
